//! Pages that a browser opens by itself, without the key that scripts send: a ticket lets it open one page once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ApiError;
use crate::guard::new_id;

/// How long a ticket is good.
const LIFETIME: Duration = Duration::from_secs(60);
/// Bytes of a path at most.
const MAX_PATH: usize = 1 << 10;
/// Tickets at a time.
const MAX_TICKETS: usize = 1 << 10;

/// Tickets that nobody has used yet, each with its path.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (String, Instant)>>);

impl Tickets {
    /// A ticket for a path.
    pub(crate) fn issue(&self, path: &str) -> Result<String, ApiError> {
        if path.len() > MAX_PATH {
            return Err(ApiError::invalid(format!("`path` has more than {MAX_PATH} bytes")));
        }
        let ticket = new_id("ticket");
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, (_, issued)| issued.elapsed() < LIFETIME);
        if tickets.len() >= MAX_TICKETS {
            let message = format!("{MAX_TICKETS} tickets are waiting to be used: try again later");
            return Err(ApiError::busy(message, LIFETIME.as_secs()));
        }
        tickets.insert(ticket.clone(), (path.to_owned(), Instant::now()));
        Ok(ticket)
    }

    /// Whether a query has a ticket for a path, which is used up.
    pub(crate) fn redeem(&self, path: &str, query: Option<&str>) -> bool {
        let Some(ticket) = query.and_then(|query| query.strip_prefix("ticket=")) else { return false };
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets
            .remove(ticket)
            .is_some_and(|(good_for, issued)| good_for == path && issued.elapsed() < LIFETIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_its_page_once() {
        let tickets = Tickets::default();
        let query = |ticket: &str| Some(format!("ticket={ticket}"));
        let issue = || query(&tickets.issue("/watch/run/1").unwrap());
        let (one, two) = (issue(), issue());
        assert!(tickets.redeem("/watch/run/1", one.as_deref()));
        assert!(!tickets.redeem("/watch/run/1", one.as_deref()));
        assert!(!tickets.redeem("/watch/run/2", two.as_deref()));
        assert!(!tickets.redeem("/watch/run/1", two.as_deref()), "tried at another page, it is used up");
        assert!(!tickets.redeem("/watch/run/1", None) && !tickets.redeem("/watch/run/1", Some("ticket=")));
    }

    #[test]
    fn what_waits_to_be_used_is_bounded() {
        let tickets = Tickets::default();
        assert!(tickets.issue(&"x".repeat(MAX_PATH + 1)).unwrap_err().message.contains("1024 bytes"));
        let first = tickets.issue("/watch/run/1").unwrap();
        (1..MAX_TICKETS).for_each(|_| drop(tickets.issue("/watch/run/1").unwrap()));
        assert_eq!(tickets.issue("/watch/run/1").unwrap_err().retry_after, Some(60));
        assert!(tickets.redeem("/watch/run/1", Some(&format!("ticket={first}"))));
        tickets.issue("/watch/run/1").unwrap();
    }
}
