//! Events in their order, one JSON object a line as in a [`Journal`](crate::Journal), for what cannot be computed again.
//!
//! An event is numbered, and synced to disk before [`EventLog::add`] returns. One process writes at a time. A damaged line
//! costs that event, is counted whenever the log is read, and stays as it is. A line that a kill cut off at the end was never
//! acknowledged: it is cut off.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{Entries, entries, line};
use crate::{AppendFile, Result, read_plain};

/// A log that this process writes.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: AppendFile,
    bytes: u64,
    next: u64,
}

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvents<T> {
    /// The events with their numbers, in order.
    pub events: Vec<(u64, T)>,
    /// Lines that are damaged: their events are lost.
    pub damaged: usize,
}

impl EventLog {
    /// Opens or makes the log at `path` for this process alone, with what is in it. One that another process has open is
    /// [`Error::is_in_use`](crate::Error::is_in_use).
    ///
    /// ```
    /// use gradus_durable::EventLog;
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("events");
    /// let (mut log, _) = EventLog::open::<String>(&path)?;
    /// assert_eq!((log.add("a", &"first")?, log.add("b", &"second")?), (1, 2));
    /// assert_eq!(EventLog::read::<String>(&path)?.events, [(1, "first".to_owned()), (2, "second".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, LoggedEvents<T>)> {
        let mut file = AppendFile::open(path)?;
        let bytes = read_plain(path, u64::MAX)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let cut_off = &bytes[whole..];
        let is_whole = entries::<serde_json::Value>(cut_off).known.len() == 1;
        let mut length = bytes.len() as u64;
        if is_whole {
            file.append(b"\n")?;
            length += 1;
        } else if !cut_off.is_empty() {
            length = whole as u64;
            file.cut(length)?;
        }
        let found = logged(&bytes);
        let next = found.events.last().map_or(1, |(number, _)| number + 1);
        Ok((Self { path: path.to_owned(), file, bytes: length, next }, found))
    }

    /// What a log holds, without opening it: also while another process writes it. One that is not there holds nothing.
    pub fn read<T: DeserializeOwned>(path: &Path) -> Result<LoggedEvents<T>> {
        match read_plain(path, u64::MAX) {
            Ok(bytes) => Ok(logged(&bytes)),
            Err(error) if error.is_missing() => Ok(logged(&[])),
            Err(error) => Err(error),
        }
    }

    /// Adds an event and returns its number. It is on disk then; an event that could not be written is not there at all.
    /// `about` is for people who read the file.
    pub fn add(&mut self, about: &str, event: &impl Serialize) -> Result<u64> {
        let line = line(&format!("{:012}", self.next), about, event);
        if let Err(error) = self.file.append(&line).and_then(|()| self.file.sync()) {
            // What is left of it would be taken for damage, or for an event that nobody was told of.
            let _ = self.file.cut(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn logged<T: DeserializeOwned>(bytes: &[u8]) -> LoggedEvents<T> {
    let Entries { known, damaged, .. } = entries(bytes);
    let mut events: Vec<(u64, T)> =
        known.into_iter().filter_map(|(key, event)| Some((key.parse().ok()?, event))).collect();
    events.sort_by_key(|(number, _)| *number);
    LoggedEvents { events, damaged: damaged.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a kill in any byte of a write: what was acknowledged is there, and what is added then as well.
    #[test]
    fn a_kill_loses_nothing_that_was_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let (mut log, _) = EventLog::open::<u64>(&path).unwrap();
        let ends: Vec<usize> = (10..14)
            .map(|event| {
                log.add("é", &event).unwrap();
                std::fs::read(&path).unwrap().len()
            })
            .collect();
        assert!(EventLog::open::<u64>(&path).unwrap_err().is_in_use());
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        for kill in 0..=whole.len() {
            std::fs::write(&path, &whole[..kill]).unwrap();
            let (mut log, found) = EventLog::open::<u64>(&path).unwrap();
            let acknowledged = ends.iter().filter(|end| **end <= kill).count();
            assert!(found.events.len() >= acknowledged && found.damaged == 0, "killed at {kill}");
            let number = log.add("é", &99).unwrap();
            assert_eq!(number, found.events.len() as u64 + 1);
            drop(log);
            let again = EventLog::read::<u64>(&path).unwrap();
            assert_eq!((again.events.len(), again.damaged), (number as usize, 0), "killed at {kill}");
        }
    }

    #[test]
    fn a_damaged_line_costs_its_event_and_is_told_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let (mut log, _) = EventLog::open::<u64>(&path).unwrap();
        for event in 10..13 {
            log.add("a", &event).unwrap();
        }
        drop(log);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        for _ in 0..2 {
            let (_, found) = EventLog::open::<u64>(&path).unwrap();
            assert_eq!(found, LoggedEvents { events: vec![(1, 10), (3, 12)], damaged: 1 });
        }
        assert_eq!(EventLog::read::<u64>(&folder.path().join("none")).unwrap().events, []);
    }
}
