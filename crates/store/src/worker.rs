//! A worker: a process on a machine, so that the leases of a dead one can be given to others at once.

use std::fmt;

/// A worker's name: machine, process, and when that process began (numbers of processes are used again).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    host: String,
    process: u32,
    began: String,
}

impl Worker {
    /// This process.
    pub fn this() -> Self {
        let process = std::process::id();
        Self { host: host(), process, began: began(process).unwrap_or_else(|| "unknown".to_owned()) }
    }

    /// Whether the worker of that name is known to be gone: it was a process of this machine that is no more.
    pub(crate) fn is_gone(name: &str) -> bool {
        Self::is_alive(name) == Some(false)
    }

    /// Whether the worker of that name is a process of this machine that runs; none where that cannot be told. Elsewhere
    /// nothing tells which processes there are: the lease must run out.
    pub(crate) fn is_alive(name: &str) -> Option<bool> {
        let Self { host: of, process, began: then } = Self::parse(name)?;
        let can_tell = cfg!(target_os = "linux") && then != "unknown" && of == host();
        can_tell.then(|| began(process).is_some_and(|now| now == then))
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.rsplitn(3, ':');
        let (began, process, host) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { host: host.to_owned(), process: process.parse().ok()?, began: began.to_owned() })
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.process, self.began)
    }
}

/// The machine since it was last started: after that no process of before is left.
fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!("{}/{}", read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"))
}

/// When a process began, in the machine's own count; none where there is no such process, or nobody knows.
fn began(process: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    if is_dead { None } else { fields.get(19).map(|began| (*began).to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_surely_gone_is_gone() {
        let this = Worker::this();
        assert_eq!(Worker::parse(&this.to_string()), Some(this.clone()));
        assert!(!Worker::is_gone(&this.to_string()));
        let earlier = Worker { began: "1".to_owned(), ..this.clone() };
        assert_eq!(Worker::is_gone(&earlier.to_string()), cfg!(target_os = "linux"));
        let elsewhere = Worker { host: "other".to_owned(), ..earlier };
        assert!(!Worker::is_gone(&elsewhere.to_string()));
        assert!(!Worker::is_gone("no worker"));
    }
}
