//! Answers that have been paid for, one a line, found again by a key.
//!
//! A line that was cut off when the program was killed is no answer; the next one starts on a line of its own.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

#[derive(Serialize, Deserialize)]
struct Line<T> {
    key: String,
    id: String,
    #[serde(flatten)]
    value: T,
}

/// A file of answers.
pub(crate) struct Journal<T> {
    path: PathBuf,
    file: File,
    known: HashMap<String, T>,
}

impl<T: Serialize + DeserializeOwned + Clone> Journal<T> {
    /// Opens or makes the file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let known = answers(&text);
        let torn = !text.is_empty() && !text.ends_with('\n');
        let mut file = File::options().create(true).append(true).open(path).map_err(Error::io(path))?;
        if torn {
            file.write_all(b"\n").map_err(Error::io(path))?;
        }
        Ok(Self { path: path.to_owned(), file, known })
    }

    /// Knows the answers of another file, too, without copying them.
    pub(crate) fn also(&mut self, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        self.known.extend(answers(&text));
        Ok(())
    }

    /// The answer of this key.
    pub(crate) fn find(&self, key: &str) -> Option<T> {
        self.known.get(key).cloned()
    }

    /// Keeps an answer; `id` is for readers of the file.
    pub(crate) fn add(&mut self, key: &str, id: &str, value: &T) -> Result<()> {
        let line = Line { key: key.to_owned(), id: id.to_owned(), value: value.clone() };
        let mut text =
            serde_json::to_string(&line).map_err(|error| Error::run(&self.path, error.to_string()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::io(&self.path))
    }
}

fn answers<T: DeserializeOwned>(text: &str) -> HashMap<String, T> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line<T>>(line).ok());
    lines.map(|line| (line.key, line.value)).collect()
}

/// A hash of everything that an answer depends on.
pub(crate) fn key(seen: &impl Serialize) -> String {
    let text = serde_json::to_string(seen).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.jsonl");
        let value = |number: u64| BTreeMap::from([("value".to_owned(), number)]);
        let mut journal = Journal::open(&path).unwrap();
        journal.add("a", "1", &value(1)).unwrap();
        journal.add("b", "2", &value(2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let mut journal: Journal<BTreeMap<String, u64>> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(value(1)), None));
        journal.add("b", "2", &value(3)).unwrap();
        let journal: Journal<BTreeMap<String, u64>> = Journal::open(&path).unwrap();
        assert_eq!(journal.find("b"), Some(value(3)));
    }
}
