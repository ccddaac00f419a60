//! Pages that a browser opens by itself, without the key that scripts send: a ticket lets it open one page once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::guard::new_id;

/// How long a ticket is good.
const LIFETIME: Duration = Duration::from_secs(60);

/// Tickets that nobody has used yet, each with its path.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (String, Instant)>>);

impl Tickets {
    /// A ticket for a path.
    pub(crate) fn issue(&self, path: &str) -> String {
        let ticket = new_id("ticket");
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, (_, issued)| issued.elapsed() < LIFETIME);
        tickets.insert(ticket.clone(), (path.to_owned(), Instant::now()));
        ticket
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
        let (one, two) = (query(&tickets.issue("/watch/run/1")), query(&tickets.issue("/watch/run/1")));
        assert!(tickets.redeem("/watch/run/1", one.as_deref()));
        assert!(!tickets.redeem("/watch/run/1", one.as_deref()));
        assert!(!tickets.redeem("/watch/run/2", two.as_deref()));
        assert!(!tickets.redeem("/watch/run/1", two.as_deref()), "tried at another page, it is used up");
        assert!(!tickets.redeem("/watch/run/1", None) && !tickets.redeem("/watch/run/1", Some("ticket=")));
    }
}
