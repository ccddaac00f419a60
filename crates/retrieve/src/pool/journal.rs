//! Vectors that have been paid for: a file beside the pool that is being built, `POOL.embedded`.
//!
//! A header names the encoder and the dimension; then come records of one size: the text's key, the encoder's vector,
//! 8 bytes of BLAKE3 over both. A record that was cut off or garbled is dropped with all that follows it, and its texts
//! are embedded again. Whole batches are appended; nothing is rewritten. The file is locked while it is open: it belongs
//! to one build at a time, and so does the pool that it lies beside.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gradus_durable::AppendFile;

use crate::embed::Key;
use crate::error::{Error, Result};
use crate::pool::files;
use crate::pool::manifest::MAX_DIMENSION;

const MAGIC: &[u8; 8] = b"gradusE1";
const HEADER: usize = 8 + 8 + 16;
const CHECK: usize = 8;

pub(crate) struct Journal {
    path: PathBuf,
    file: AppendFile,
    encoder: Key,
    dimension: usize,
    known: HashMap<Key, usize>,
}

impl Journal {
    /// Opens or makes the file, for this process alone. Vectors of another encoder are refused, not overwritten.
    pub(crate) fn open(path: &Path, encoder: &str) -> Result<Self> {
        let file = AppendFile::open_locked(path)?;
        let encoder = crate::embed::key(encoder);
        let bytes = files::map(path)?;
        let header = bytes[..bytes.len().min(HEADER)].to_vec();
        drop(bytes);
        let mut journal = Self { path: path.to_owned(), file, encoder, dimension: 0, known: HashMap::new() };
        if header.len() < HEADER {
            journal.file.cut(0)?;
            return Ok(journal);
        }
        if !header.starts_with(MAGIC) || header[16..] != encoder {
            let message = "holds vectors of another encoder, or none: remove it to start afresh";
            return Err(Error::pool(path, message));
        }
        journal.dimension = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes")) as usize;
        if journal.dimension > MAX_DIMENSION {
            return Err(Error::pool(path, "is damaged: remove it to start afresh"));
        }
        let sound = journal.load()?;
        journal.file.cut((HEADER + sound * journal.record()) as u64)?;
        Ok(journal)
    }

    /// Dimensions of the vectors; 0 before the first.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.known.contains_key(key)
    }

    /// Keeps a batch.
    pub(crate) fn add(&mut self, keys: &[Key], vectors: &[f32], dimension: usize) -> Result<()> {
        let mut bytes = Vec::with_capacity(HEADER + keys.len() * (dimension * 4 + 24));
        if self.dimension == 0 {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&(dimension as u64).to_le_bytes());
            bytes.extend_from_slice(&self.encoder);
            self.dimension = dimension;
        }
        if dimension != self.dimension {
            let expected = self.dimension;
            let message =
                format!("has vectors of {expected} dimensions, but the encoder now gives {dimension}");
            return Err(Error::pool(&self.path, message));
        }
        for (key, vector) in keys.iter().zip(vectors.chunks_exact(dimension)) {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            vector.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            let check = blake3::hash(&bytes[start..]);
            bytes.extend_from_slice(&check.as_bytes()[..CHECK]);
            self.known.insert(*key, self.known.len());
        }
        Ok(self.file.append(&bytes)?)
    }

    /// All vectors, mapped.
    pub(crate) fn vectors(&self) -> Result<Vectors<'_>> {
        Ok(Vectors { journal: self, bytes: files::map(&self.path)? })
    }

    /// Removes the file: its vectors are in the pool.
    pub(crate) fn remove(self) -> Result<()> {
        Ok(self.file.remove()?)
    }

    fn record(&self) -> usize {
        size_of::<Key>() + self.dimension * 4 + CHECK
    }

    /// Reads the records and says how many are sound.
    fn load(&mut self) -> Result<usize> {
        if self.dimension == 0 {
            return Ok(0);
        }
        let bytes = files::map(&self.path)?;
        let record = self.record();
        let sound = bytes[HEADER..].chunks_exact(record).take_while(|bytes| {
            let (content, check) = bytes.split_at(record - CHECK);
            blake3::hash(content).as_bytes()[..CHECK] == *check
        });
        let keys = sound.map(|bytes| Key::try_from(&bytes[..16]).expect("sixteen bytes"));
        let keys: Vec<Key> = keys.collect();
        self.known = keys.iter().enumerate().map(|(index, key)| (*key, index)).collect();
        Ok(keys.len())
    }
}

/// The journal's vectors by key.
pub(crate) struct Vectors<'a> {
    journal: &'a Journal,
    bytes: memmap2::Mmap,
}

impl Vectors<'_> {
    /// Appends a text's vector to `values`. A record that is not this text's says that someone else has written to the
    /// file, on a file system without locks.
    ///
    /// # Panics
    /// When the text was not embedded.
    pub(crate) fn copy(&self, key: &Key, values: &mut Vec<f32>) -> Result<()> {
        let start = HEADER + self.journal.known[key] * self.journal.record();
        let end = start + size_of::<Key>() + self.journal.dimension * 4;
        let record = self.bytes.get(start..end).filter(|record| record.starts_with(key));
        let Some(record) = record else {
            let message = "was written to by another process: remove it to start afresh";
            return Err(Error::pool(&self.journal.path, message));
        };
        values.extend(record[size_of::<Key>()..].as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_or_garbled_record_costs_itself_and_what_follows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys: Vec<Key> = ["a", "b", "c"].map(crate::embed::key).to_vec();
        let mut journal = Journal::open(&path, "e").unwrap();
        journal.add(&keys, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        drop(journal);
        let mut journal = Journal::open(&path, "e").unwrap();
        assert!(journal.knows(&keys[1]) && !journal.knows(&keys[2]));
        journal.add(&keys[2..], &[7.0, 8.0], 2).unwrap();
        drop(journal);
        let journal = Journal::open(&path, "e").unwrap();
        let mut values = Vec::new();
        keys.iter().for_each(|key| journal.vectors().unwrap().copy(key, &mut values).unwrap());
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 7.0, 8.0]);
        let mut garbled = whole;
        drop(journal);
        garbled[HEADER + 32 + 17] ^= 1;
        std::fs::write(&path, garbled).unwrap();
        let journal = Journal::open(&path, "e").unwrap();
        assert_eq!(keys.iter().map(|key| journal.knows(key)).collect::<Vec<_>>(), [true, false, false]);
        drop(journal);
        assert!(Journal::open(&path, "other").err().unwrap().to_string().contains("another encoder"));
    }

    /// Two builds appended to one file, and each took the other's vectors for its own.
    #[test]
    fn one_process_writes_and_records_of_others_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys: Vec<Key> = ["a", "b"].map(crate::embed::key).to_vec();
        let mut journal = Journal::open(&path, "e").unwrap();
        journal.add(&keys[..1], &[1.0, 2.0], 2).unwrap();
        let refused = Journal::open(&path, "e").err().unwrap().to_string();
        assert!(refused.contains("is in use by another process"), "{refused}");
        // Without locks: someone else's record comes first.
        let record = std::fs::read(&path).unwrap()[HEADER..].to_vec();
        let mut other = AppendFile::open(&path).unwrap();
        other.append(&record).unwrap();
        journal.add(&keys[1..], &[3.0, 4.0], 2).unwrap();
        let mixed = journal.vectors().unwrap().copy(&keys[1], &mut Vec::new()).unwrap_err().to_string();
        assert!(mixed.ends_with("was written to by another process: remove it to start afresh"), "{mixed}");
    }
}
