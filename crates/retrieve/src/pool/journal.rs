//! Vectors that have been paid for: a file beside the pool that is being built, `POOL.embedded`.
//!
//! A header names the dimension and the encoder, and stands there twice, each time with 8 bytes of BLAKE3; then come
//! records of one size: the text's key, the encoder's vector, 8 bytes of BLAKE3 over both. A record that was cut off at
//! the end is dropped. A damaged one is told, replaced by one that belongs to no text, and its text is embedded again;
//! those after it stay. Whole batches are appended; nothing else is rewritten. Files of older versions have one header
//! without a hash.
//!
//! The file is locked while it is open: it belongs to one build at a time, and so does the pool that it lies beside.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gradus_durable::{AppendFile, report_damage, report_damaged};

use crate::embed::Key;
use crate::error::{Error, Result};
use crate::pool::files;

const MAGIC: &[u8; 8] = b"gradusE2";
const OLD_MAGIC: &[u8; 8] = b"gradusE1";
/// Magic number, dimension, encoder.
const OLD_HEADER: usize = 8 + 8 + 16;
const CHECK: usize = 8;
/// The old one and its hash.
const COPY: usize = OLD_HEADER + CHECK;
const HEADER: usize = 2 * COPY;
/// The key of no text.
const NO_TEXT: Key = [0; 16];

pub(crate) struct Journal {
    path: PathBuf,
    file: AppendFile,
    encoder: Key,
    dimension: usize,
    /// Bytes before the first record.
    header: usize,
    /// Records in the file, those of no text included.
    records: usize,
    known: HashMap<Key, usize>,
}

impl Journal {
    /// Opens or makes the file, for this process alone. Vectors of another encoder are refused, not overwritten.
    pub(crate) fn open(path: &Path, encoder: &str) -> Result<Self> {
        let file = AppendFile::open(path)?;
        let encoder = crate::embed::key(encoder);
        let mut header = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEADER as u64).read_to_end(&mut header));
        read.map_err(Error::io(path))?;
        let known = HashMap::new();
        let mut journal =
            Self { path: path.to_owned(), file, encoder, dimension: 0, header: HEADER, records: 0, known };
        let copies =
            [header.get(..COPY), header.get(COPY..HEADER)].map(|copy| copy.filter(|copy| is_whole(copy)));
        let old = header.get(..OLD_HEADER).filter(|header| header.starts_with(OLD_MAGIC));
        let found = match (copies[0].or(copies[1]), old) {
            (Some(copy), _) => copy,
            (None, Some(old)) => {
                journal.header = OLD_HEADER;
                old
            }
            (None, None) if header.len() < HEADER && is_begun(&header) => {
                journal.file.cut(0)?;
                return Ok(journal);
            }
            (None, None) => return Err(another(path)),
        };
        if found[16..OLD_HEADER] != encoder {
            return Err(another(path));
        }
        journal.dimension = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes")) as usize;
        if journal.header == HEADER && copies.contains(&None) {
            // A kill leaves half of a header, damage a wrong one: either is mended by the other.
            journal.overwrite(0, &found.repeat(2))?;
        }
        journal.load()?;
        Ok(journal)
    }

    /// Dimensions of the vectors; 0 before the first.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// The keys of its texts.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.known.keys()
    }

    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.known.contains_key(key)
    }

    /// Keeps a batch.
    pub(crate) fn add(&mut self, keys: &[Key], vectors: &[f32], dimension: usize) -> Result<()> {
        let mut bytes = Vec::with_capacity(HEADER + keys.len() * (dimension * 4 + 24));
        if self.dimension == 0 {
            let start = [MAGIC.as_slice(), &(dimension as u64).to_le_bytes(), &self.encoder].concat();
            bytes = with_check(start).repeat(2);
            self.dimension = dimension;
        }
        if dimension != self.dimension {
            let expected = self.dimension;
            let message =
                format!("has vectors of {expected} dimensions, but the encoder now gives {dimension}");
            return Err(Error::pool(&self.path, message));
        }
        for (key, vector) in keys.iter().zip(vectors.chunks_exact(dimension)) {
            bytes.extend(record(key, vector));
            self.known.insert(*key, self.records);
            self.records += 1;
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

    /// Bytes of a record.
    fn record(&self) -> usize {
        self.dimension.saturating_mul(4).saturating_add(size_of::<Key>() + CHECK)
    }

    /// Reads the records, drops one that was cut off, and makes damaged ones harmless.
    fn load(&mut self) -> Result<()> {
        let bytes = files::map(&self.path)?;
        let size = self.record();
        let mut damaged = Vec::new();
        for (index, bytes) in bytes[self.header..].chunks_exact(size).enumerate() {
            self.records += 1;
            if is_sound(bytes) {
                self.known.insert(Key::try_from(&bytes[..16]).expect("sixteen bytes"), index);
            } else {
                damaged.push(index);
            }
        }
        let has_more = bytes.len() > self.header;
        drop(bytes);
        if self.known.is_empty() && self.header == OLD_HEADER {
            // An old header has no hash: the dimension may be wrong.
            if has_more {
                report_damage(&self.path, "damaged; all of its texts are embedded again");
            }
            (self.dimension, self.header, self.records) = (0, HEADER, 0);
            return Ok(self.file.cut(0)?);
        }
        report_damaged(&self.path, damaged.len(), "vector");
        for index in damaged {
            let of_no_text = record(&NO_TEXT, &vec![0.0; self.dimension]);
            self.overwrite(self.header + index * size, &of_no_text)?;
        }
        Ok(self.file.cut((self.header + self.records * size) as u64)?)
    }

    fn overwrite(&self, at: usize, bytes: &[u8]) -> Result<()> {
        let write = || {
            let mut file = File::options().write(true).open(&self.path)?;
            file.seek(SeekFrom::Start(at as u64))?;
            file.write_all(bytes)
        };
        write().map_err(Error::io(&self.path))
    }
}

fn another(path: &Path) -> Error {
    Error::pool(path, "holds vectors of another encoder, or none: remove it to start afresh")
}

fn with_check(mut bytes: Vec<u8>) -> Vec<u8> {
    let check = blake3::hash(&bytes);
    bytes.extend_from_slice(&check.as_bytes()[..CHECK]);
    bytes
}

fn is_sound(bytes: &[u8]) -> bool {
    let (content, check) = bytes.split_at(bytes.len() - CHECK);
    blake3::hash(content).as_bytes()[..CHECK] == *check
}

/// Whether a header is whole, with a dimension that vectors can have.
fn is_whole(header: &[u8]) -> bool {
    header.starts_with(MAGIC) && is_sound(header) && header[8..16] != [0; 8]
}

/// Whether a kill may have cut off a header here.
fn is_begun(header: &[u8]) -> bool {
    [MAGIC, OLD_MAGIC].iter().any(|magic| header.starts_with(*magic) || magic.starts_with(header))
}

fn record(key: &Key, vector: &[f32]) -> Vec<u8> {
    let values = vector.iter().flat_map(|value| value.to_le_bytes());
    with_check(key.iter().copied().chain(values).collect())
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
        let start = self.journal.header + self.journal.known[key] * self.journal.record();
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

    fn keys() -> Vec<Key> {
        ["a", "b", "c"].map(crate::embed::key).to_vec()
    }

    const VALUES: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

    fn all(journal: &Journal) -> Vec<f32> {
        let mut values = Vec::new();
        keys().iter().for_each(|key| journal.vectors().unwrap().copy(key, &mut values).unwrap());
        values
    }

    #[test]
    fn a_torn_record_costs_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys = keys();
        Journal::open(&path, "e").unwrap().add(&keys, &VALUES, 2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let mut journal = Journal::open(&path, "e").unwrap();
        assert!(journal.knows(&keys[1]) && !journal.knows(&keys[2]));
        journal.add(&keys[2..], &[7.0, 8.0], 2).unwrap();
        drop(journal);
        let journal = Journal::open(&path, "e").unwrap();
        assert_eq!(all(&journal), [1.0, 2.0, 3.0, 4.0, 7.0, 8.0]);
        drop(journal);
        assert!(Journal::open(&path, "other").err().unwrap().to_string().contains("another encoder"));
        std::fs::write(&path, &whole[..HEADER - 1]).unwrap();
        let mut journal = Journal::open(&path, "e").unwrap();
        journal.add(&keys, &VALUES, 2).unwrap();
        drop(journal);
        assert_eq!(all(&Journal::open(&path, "e").unwrap()), VALUES);
    }

    /// Two builds appended to one file, and each took the other's vectors for its own.
    #[test]
    fn one_process_writes_and_records_of_others_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys = keys();
        let mut journal = Journal::open(&path, "e").unwrap();
        journal.add(&keys[..1], &VALUES[..2], 2).unwrap();
        let refused = Journal::open(&path, "e").err().unwrap().to_string();
        assert!(refused.contains("is in use by another process"), "{refused}");
        // Without locks: someone else's record comes first.
        let other = std::fs::read(&path).unwrap()[HEADER..].to_vec();
        File::options().append(true).open(&path).unwrap().write_all(&other).unwrap();
        journal.add(&keys[1..2], &VALUES[2..4], 2).unwrap();
        let mixed = journal.vectors().unwrap().copy(&keys[1], &mut Vec::new()).unwrap_err().to_string();
        assert!(mixed.ends_with("was written to by another process: remove it to start afresh"), "{mixed}");
    }

    /// Whatever byte is damaged, at most its record is embedded again, and the next run finds everything.
    #[test]
    fn a_damaged_byte_costs_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys = keys();
        Journal::open(&path, "e").unwrap().add(&keys, &VALUES, 2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            for flip in [1, 2, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] ^= flip;
                std::fs::write(&path, damaged).unwrap();
                let mut journal = Journal::open(&path, "e").unwrap();
                let lost: Vec<usize> = (0..3).filter(|index| !journal.knows(&keys[*index])).collect();
                let expected = if place < HEADER { vec![] } else { vec![(place - HEADER) / 32] };
                assert_eq!(lost, expected, "byte {place}");
                for index in lost {
                    journal.add(&keys[index..=index], &VALUES[2 * index..2 * index + 2], 2).unwrap();
                }
                drop(journal);
                let length = path.metadata().unwrap().len();
                let journal = Journal::open(&path, "e").unwrap();
                assert_eq!(all(&journal), VALUES, "byte {place}");
                assert_eq!(path.metadata().unwrap().len(), length, "byte {place}");
            }
        }
    }

    /// Files of older versions are read, and a damaged dimension starts afresh once, not at every run.
    #[test]
    fn an_old_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.embedded");
        let keys = keys();
        let mut old = [OLD_MAGIC.as_slice(), &2_u64.to_le_bytes(), &crate::embed::key("e")].concat();
        keys.iter().zip(VALUES.chunks(2)).for_each(|(key, vector)| old.extend(record(key, vector)));
        std::fs::write(&path, &old).unwrap();
        assert_eq!(all(&Journal::open(&path, "e").unwrap()), VALUES);
        for dimension in [0, 3, 255] {
            let mut damaged = old.clone();
            damaged[8] = dimension;
            std::fs::write(&path, damaged).unwrap();
            let mut journal = Journal::open(&path, "e").unwrap();
            journal.add(&keys, &VALUES, 2).unwrap();
            drop(journal);
            assert_eq!(all(&Journal::open(&path, "e").unwrap()), VALUES, "dimension {dimension}");
        }
    }
}
