//! What has been found so far, one JSON object a line, so that work that is killed costs only what was in flight.
//!
//! ```json
//! {"key": "5f0c…", "id": "gsm8k-12", "found": [0.91, 0.34]}
//! ```
//!
//! Entries are found by a key, a hash of everything that determines them; the id is for people who read the file. A line
//! that was cut off is no entry, and the next one starts on a line of its own. A killed process loses nothing that was
//! added; a machine that loses power loses at most what was added in the last second.

use std::collections::HashMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{AppendFile, Error, Result, read_plain};

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: String,
    id: String,
    found: T,
}

/// A journal of things of one kind.
///
/// ```
/// use gradus_durable::{Journal, journal_key};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("scores.journal");
/// let key = journal_key(&("model", "What is 2 + 3?"));
/// Journal::open(&path)?.add(&key, "p1", &vec![0.9])?;
/// let again: Journal<Vec<f64>> = Journal::open(&path)?;
/// assert_eq!(again.find(&key), Some(vec![0.9]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Journal<T> {
    known: HashMap<String, T>,
    file: Option<AppendFile>,
}

/// A hash of `parts`, which determine what is to be found.
pub fn journal_key(parts: &impl Serialize) -> String {
    let text = serde_json::to_string(parts).expect("what determines a result can be written as JSON");
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

impl<T: Clone + Serialize + DeserializeOwned> Journal<T> {
    /// Opens or makes the journal at `path`, with what earlier work left in it.
    pub fn open(path: &Path) -> Result<Self> {
        // First, since it refuses what is no file: a pipe would be waited for.
        let mut file = AppendFile::open(path)?;
        let text = match std::fs::read(path) {
            // A line may be torn inside of a character.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::at(path)(error)),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            file.append(b"\n")?;
        }
        Ok(Self { known: entries(&text), file: Some(file) })
    }

    /// A journal that remembers nothing.
    pub fn none() -> Self {
        Self { known: HashMap::new(), file: None }
    }

    /// Knows the entries of another journal, too, without copying them.
    pub fn also(&mut self, path: &Path) -> Result<()> {
        let bytes = read_plain(path, u64::MAX)?;
        self.known.extend(entries(&String::from_utf8_lossy(&bytes)));
        Ok(())
    }

    /// What was found under this key.
    pub fn find(&self, key: &str) -> Option<T> {
        self.known.get(key).cloned()
    }

    /// Keeps what was found.
    pub fn add(&mut self, key: &str, id: &str, found: &T) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let entry = Entry { key: key.to_owned(), id: id.to_owned(), found };
        let line = serde_json::to_string(&entry).expect("what is found serializes to JSON");
        file.append((line + "\n").as_bytes())
    }

    /// Nothing needs to be remembered any more.
    pub fn remove(self) -> Result<()> {
        self.file.map_or(Ok(()), AppendFile::remove)
    }
}

fn entries<T: DeserializeOwned>(text: &str) -> HashMap<String, T> {
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry<T>>(line).ok());
    entries.map(|entry| (entry.key, entry.found)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.add("a", "1", &1).unwrap();
        journal.add("b", "2", &2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let mut journal: Journal<u64> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(1), None));
        journal.add("b", "√2", &3).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let inside = whole.iter().rposition(|byte| *byte == 0x88).unwrap();
        std::fs::write(&path, &whole[..inside]).unwrap();
        let mut journal: Journal<u64> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(1), None));
        journal.add("b", "2", &3).unwrap();
        let mut other: Journal<u64> = Journal::none();
        other.also(&path).unwrap();
        assert_eq!(other.find("b"), Some(3));
        Journal::<u64>::open(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }
}
