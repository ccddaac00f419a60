//! Endpoints that are listed in a file, which is read again while requests are sent.
//!
//! ```text
//! # one address per line
//! http://10.0.0.1:8000
//! http://10.0.0.2:8000
//! ```

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gradus_core::count::counted;

use crate::balancer::Balancer;
use crate::{Endpoint, Error, Result};

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(2);
/// A file that is larger is no list of addresses.
const LARGEST: u64 = 1 << 20;

/// Addresses that stay, and files of addresses that come and go.
pub struct Roster {
    /// Addresses that stay.
    pub addresses: Vec<String>,
    /// Files with an address on each line.
    pub files: Vec<PathBuf>,
    endpoint: Box<dyn Fn(&str) -> Endpoint + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    /// What the files said last, or why they said nothing.
    last: std::result::Result<Vec<String>, String>,
}

impl Roster {
    /// A roster whose endpoints are made from their addresses by `endpoint`.
    pub fn new(
        addresses: Vec<String>,
        files: Vec<PathBuf>,
        endpoint: impl Fn(&str) -> Endpoint + Send + Sync + 'static,
    ) -> Self {
        let state = State { looked: Instant::now(), last: Ok(Vec::new()) };
        Self { addresses, files, endpoint: Box::new(endpoint), state: Mutex::new(state) }
    }

    /// The endpoints that it lists now.
    pub(crate) fn read(&self) -> Result<Vec<Endpoint>> {
        let addresses = self.listed().map_err(Error::Roster)?;
        if addresses.is_empty() {
            return Err(Error::NoEndpoint);
        }
        let endpoints = self.endpoints(&addresses);
        self.lock().last = Ok(addresses);
        Ok(endpoints)
    }

    /// Looks at the files, if it is time, and gives `balancer` the endpoints that they list now. Returns when to look again.
    /// Files that cannot be read, or list nothing, leave everything as it is.
    pub(crate) fn look(&self, balancer: &Balancer) -> Duration {
        let mut state = self.lock();
        if state.looked.elapsed() < EVERY {
            return EVERY - state.looked.elapsed();
        }
        state.looked = Instant::now();
        let found = self.listed().and_then(|addresses| match addresses.is_empty() {
            true => Err("lists no address: the servers stay as they were".to_owned()),
            false => Ok(addresses),
        });
        if found == state.last {
            return EVERY;
        }
        let changed = match &found {
            Ok(addresses) => match balancer.replace(&self.endpoints(addresses)) {
                Ok((came, went)) => {
                    format!("{} came, {} went", counted(came, "server"), counted(went, "server"))
                }
                Err(error) => error.to_string(),
            },
            Err(message) => message.clone(),
        };
        state.last = found;
        if let Some(file) = self.files.first() {
            gradus_durable::report_change(file, &changed);
        }
        EVERY
    }

    fn endpoints(&self, addresses: &[String]) -> Vec<Endpoint> {
        addresses.iter().map(|address| (self.endpoint)(address)).collect()
    }

    /// All addresses, each once.
    fn listed(&self) -> std::result::Result<Vec<String>, String> {
        let mut found = self.addresses.clone();
        for file in &self.files {
            let bytes = gradus_durable::read_plain(file, LARGEST).map_err(|error| error.to_string())?;
            for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                let line = line.split('#').next().unwrap_or_default().trim();
                if line.is_empty() {
                    continue;
                }
                if !(line.starts_with("http://") || line.starts_with("https://")) {
                    let place = format!("{}:{}", file.display(), number + 1);
                    return Err(format!(
                        "{place}: expected the address of a server, such as http://10.0.0.1:8000"
                    ));
                }
                if !found.iter().any(|known| known == line) {
                    found.push(line.to_owned());
                }
            }
        }
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.txt");
        let roster = Roster::new(vec!["http://a".into()], vec![file.clone()], |url| Endpoint::new(url, "m"));
        assert!(roster.read().unwrap_err().to_string().contains("servers.txt"));
        std::fs::write(&file, "# two\nhttp://b  # second\n\nhttp://a\n").unwrap();
        let urls =
            |roster: &Roster| roster.read().unwrap().into_iter().map(|one| one.base_url).collect::<Vec<_>>();
        assert_eq!(urls(&roster), ["http://a", "http://b"]);
        std::fs::write(&file, "10.0.0.1").unwrap();
        let error = roster.read().unwrap_err().to_string();
        assert!(error.contains("servers.txt:1: expected the address of a server"), "{error}");
    }
}
