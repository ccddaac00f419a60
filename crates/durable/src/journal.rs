//! What has been found so far, one JSON object a line, so that work that is killed costs only what was in flight.
//!
//! ```json
//! {"key":"5f0c…","id":"gsm8k-12","found":[0.91,0.34],"check":"9a1be0…"}
//! ```
//!
//! Entries are found by a key, a hash of everything that determines them; the id is for people who read the file. `check`
//! is a hash of all before it on its line; lines of older versions have none and are believed. A damaged line costs
//! itself only: it is skipped, told (see [`crate::on_damage`]) and overwritten with blanks, so that it is told once. A
//! line that a kill cut off at the end is no damage. Where the end of a line is damaged, the next line is still found. A
//! killed process loses nothing that was added; a machine that loses power loses at most what was added in the last
//! second.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::damage::report_damaged;
use crate::{AppendFile, Error, Result, read_plain};

/// How every line begins.
const START: &[u8] = b"{\"key\":\"";
/// What stands between an entry and its hash, and after it.
const CHECK: &[u8] = b",\"check\":\"";
const END: &[u8] = b"\"}";
/// Characters of the hash.
const HASH: usize = 16;

#[derive(Serialize)]
struct NewEntry<'a, T> {
    key: &'a str,
    id: &'a str,
    found: &'a T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<T> {
    key: String,
    #[serde(rename = "id")]
    _id: String,
    found: T,
}

impl<T> Entry<T> {
    fn into_pair(self) -> (String, T) {
        (self.key, self.found)
    }
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

/// A hash of many parts, one after another, for a [`journal_key`] of more than memory holds.
#[derive(Debug, Default, Clone)]
pub struct ContentHash {
    hasher: blake3::Hasher,
    /// The part that was added last, as JSON.
    line: Vec<u8>,
}

impl ContentHash {
    /// Adds a part.
    pub fn add(&mut self, part: &impl Serialize) {
        self.line.clear();
        serde_json::to_writer(&mut self.line, part).expect("what determines a result can be written as JSON");
        // JSON has no line break inside: it keeps one part's end from being another's beginning.
        self.line.push(b'\n');
        self.hasher.update(&self.line);
    }

    /// The hash of all parts.
    pub fn finish(&self) -> String {
        self.hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The hash of one part, to tell it from others.
    pub fn of(part: &impl Serialize) -> [u8; 16] {
        let mut hash = Self::default();
        hash.add(part);
        std::array::from_fn(|byte| hash.hasher.finalize().as_bytes()[byte])
    }
}

impl<T: Clone + Serialize + DeserializeOwned> Journal<T> {
    /// Opens or makes the journal at `path` for this process alone, with what earlier work left in it. One that another
    /// process has open is [`Error::is_in_use`].
    pub fn open(path: &Path) -> Result<Self> {
        // First, since it refuses what is no file: a pipe would be waited for, and a link written through.
        let mut file = AppendFile::open(path)?;
        let bytes = read_plain(path, u64::MAX)?;
        let Entries { known, damaged, harmless } = entries(&bytes);
        report_damaged(path, damaged.len(), "line");
        blank(path, damaged.iter().chain(&harmless)).map_err(Error::at(path))?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            file.append(b"\n")?;
        }
        Ok(Self { known, file: Some(file) })
    }

    /// A journal that remembers nothing.
    pub fn none() -> Self {
        Self { known: HashMap::new(), file: None }
    }

    /// Knows the entries of another journal, too, without copying them. That file stays as it is.
    pub fn also(&mut self, path: &Path) -> Result<()> {
        let bytes = read_plain(path, u64::MAX)?;
        let Entries { known, damaged, .. } = entries(&bytes);
        report_damaged(path, damaged.len(), "line");
        self.known.extend(known);
        Ok(())
    }

    /// What was found under this key.
    pub fn find(&self, key: &str) -> Option<T> {
        self.known.get(key).cloned()
    }

    /// Keeps what was found.
    pub fn add(&mut self, key: &str, id: &str, found: &T) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let line = line(key, id, found);
        file.append(&line)
    }

    /// Nothing needs to be remembered any more.
    pub fn remove(self) -> Result<()> {
        self.file.map_or(Ok(()), AppendFile::remove)
    }
}

/// An entry as a line.
pub(crate) fn line(key: &str, id: &str, found: &impl Serialize) -> Vec<u8> {
    let mut line =
        serde_json::to_vec(&NewEntry { key, id, found }).expect("what is found serializes to JSON");
    line.pop();
    let hash = hash(&line);
    line.extend_from_slice(CHECK);
    line.extend_from_slice(hash.as_bytes());
    line.extend_from_slice(END);
    line.push(b'\n');
    line
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..HASH].to_owned()
}

/// What a journal's bytes hold, and where they are damaged.
pub(crate) struct Entries<T> {
    pub(crate) known: HashMap<String, T>,
    pub(crate) damaged: Vec<Range<usize>>,
    /// A last line that a kill cut off, and line breaks whose lines are whole.
    harmless: Vec<Range<usize>>,
}

pub(crate) fn entries<T: DeserializeOwned>(bytes: &[u8]) -> Entries<T> {
    let mut read = Entries { known: HashMap::new(), damaged: Vec::new(), harmless: Vec::new() };
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let is_cut_off = content.len() == line.len();
        let whole = entry(content);
        if whole.is_none() && !content.trim_ascii().is_empty() {
            // Where a line break is damaged, two lines are one.
            let next = next_line(content).and_then(|at| Some((at, entry(&content[at..])?)));
            let first = next.as_ref().and_then(|(at, _)| entry(&content[..at - 1]));
            let end = start + next.as_ref().map_or(content.len(), |(at, _)| *at);
            if first.is_some() {
                read.harmless.push(end - 1..end);
            } else if is_cut_off && next.is_none() {
                read.harmless.push(start..end);
            } else {
                match read.damaged.last_mut() {
                    // The damaged byte may be a line break now: the rest belongs to the same line.
                    Some(before) if before.end + 1 == start && !content.starts_with(START) => {
                        before.end = end;
                    }
                    _ => read.damaged.push(start..end),
                }
            }
            read.known.extend(first.into_iter().chain(next.map(|(_, entry)| entry)).map(Entry::into_pair));
        }
        read.known.extend(whole.map(Entry::into_pair));
        start += line.len();
    }
    read
}

/// The entry of a line, where it is whole.
fn entry<T: DeserializeOwned>(line: &[u8]) -> Option<Entry<T>> {
    let line = line.trim_ascii();
    let content = line.len().checked_sub(CHECK.len() + HASH + END.len()).map(|at| line.split_at(at));
    let checked = content.and_then(|(content, check)| Some((content, check.strip_prefix(CHECK)?)));
    let Some((content, check)) = checked else { return serde_json::from_slice(line).ok() };
    let is_whole = check.strip_suffix(END)? == hash(content).as_bytes();
    is_whole.then(|| serde_json::from_slice(&[content, b"}"].concat()).ok())?
}

/// Where another line begins inside of this one.
fn next_line(line: &[u8]) -> Option<usize> {
    line.windows(START.len()).skip(1).rposition(|window| window == START).map(|at| at + 1)
}

/// Overwrites parts of a file with blanks, each ended by a line break.
fn blank<'a>(path: &Path, parts: impl Iterator<Item = &'a Range<usize>>) -> std::io::Result<()> {
    let mut file = None;
    for part in parts {
        let file = match &mut file {
            Some(file) => file,
            None => file.insert(File::options().write(true).open(path)?),
        };
        file.seek(SeekFrom::Start(part.start as u64))?;
        let mut blanks = vec![b' '; part.len()];
        blanks[part.len() - 1] = b'\n';
        file.write_all(&blanks)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).unwrap().lines().filter(|line| !line.trim().is_empty()).count()
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.add("a", "1", &1).unwrap();
        journal.add("b", "2", &2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        drop(journal);
        let mut journal: Journal<u64> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(1), None));
        journal.add("b", "√2", &3).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let inside = whole.iter().rposition(|byte| *byte == 0x88).unwrap();
        std::fs::write(&path, &whole[..inside]).unwrap();
        drop(journal);
        let mut journal: Journal<u64> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(1), None));
        journal.add("b", "2", &3).unwrap();
        let mut other: Journal<u64> = Journal::none();
        other.also(&path).unwrap();
        assert_eq!(other.find("b"), Some(3));
        assert_eq!(lines(&path), 2);
        assert!(Journal::<u64>::open(&path).err().unwrap().is_in_use(), "one process writes");
        drop(journal);
        Journal::<u64>::open(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    /// Whatever byte is damaged: nothing wrong is believed, one line is lost at most, and what is added again is there
    /// once.
    #[test]
    fn a_damaged_byte_costs_its_line_and_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let values = [("a", 0.5), ("b", 0.25), ("c", 0.125)];
        for (key, value) in values {
            journal.add(key, "é", &vec![value, 1.0]).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            for flip in [0x01, 0x20, 0x80, whole[place] ^ b'\n', whole[place] ^ b'"'] {
                let mut damaged = whole.clone();
                damaged[place] ^= flip;
                std::fs::write(&path, &damaged).unwrap();
                let bytes = entries::<Vec<f64>>(&damaged);
                let told = bytes.damaged.len() + bytes.harmless.len();
                let mut journal: Journal<Vec<f64>> = Journal::open(&path).unwrap();
                let lost: Vec<_> = values
                    .iter()
                    .filter(|(key, value)| journal.find(key) != Some(vec![*value, 1.0]))
                    .collect();
                assert!(lost.iter().all(|(key, _)| journal.find(key).is_none()), "byte {place} ^ {flip}");
                assert!(lost.len() <= 1 && bytes.damaged.len() <= 1, "byte {place} ^ {flip} costs {lost:?}");
                assert!(flip == 0 || told > 0 || lost.is_empty(), "byte {place} ^ {flip} is not told");
                for (key, value) in lost {
                    journal.add(key, "é", &vec![*value, 1.0]).unwrap();
                }
                let again = std::fs::read(&path).unwrap();
                let bytes = entries::<Vec<f64>>(&again);
                assert_eq!((bytes.known.len(), bytes.damaged.len()), (3, 0), "byte {place} ^ {flip}");
                assert!(bytes.harmless.is_empty() && lines(&path) == 3, "byte {place} ^ {flip}");
            }
        }
    }

    #[test]
    fn lines_of_older_versions_are_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.jsonl");
        std::fs::write(
            &path,
            "{\"key\": \"a\", \"id\": \"1\", \"found\": 1}\n{\"key\":\"b\",\"id\":\"2\",\"found\":2}\n",
        )
        .unwrap();
        let journal: Journal<u64> = Journal::open(&path).unwrap();
        assert_eq!((journal.find("a"), journal.find("b")), (Some(1), Some(2)));
    }
}
