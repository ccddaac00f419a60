//! Records on disk instead of in memory: written once, one after another, and then read in any order.
//!
//! The file has no name, so that nothing is left of it when the process ends, however it ends. Records are JSON lines in
//! compressed blocks; what is kept in memory is where each block is and the blocks that were read last.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gradus_core::Record;

use crate::{Error, Result};

/// Bytes of records from which a block is written.
const BLOCK: usize = 256 << 10;
/// Blocks that stay in memory: several places of the file may be read in turn.
const RECENT: usize = 16;
/// Fast rather than small: the file lives as long as its process.
const LEVEL: i32 = 1;

/// A spool that is being written.
pub struct SpoolWriter {
    folder: PathBuf,
    file: BufWriter<File>,
    blocks: Vec<Block>,
    /// Records of the block that is not written yet.
    lines: Vec<u8>,
    /// Where its first record stands among all.
    first: usize,
    records: usize,
    written: u64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    first: usize,
    offset: u64,
    compressed: usize,
    bytes: usize,
}

impl SpoolWriter {
    /// Begins a spool on the disk of `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|source| Error::io(folder, source))?;
        Ok(Self {
            folder: folder.to_owned(),
            file: BufWriter::with_capacity(BLOCK, file),
            blocks: Vec::new(),
            lines: Vec::with_capacity(2 * BLOCK),
            first: 0,
            records: 0,
            written: 0,
        })
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record) -> Result<()> {
        let failed = |source| Error::io(&self.folder, source);
        serde_json::to_writer(&mut self.lines, record).map_err(|error| failed(error.into()))?;
        self.lines.push(b'\n');
        self.records += 1;
        if self.lines.len() >= BLOCK { self.write_block() } else { Ok(()) }
    }

    /// Ends the writing.
    pub fn finish(mut self) -> Result<Spool> {
        self.write_block()?;
        let failed = |source| Error::io(&self.folder, source);
        self.file.flush().map_err(failed)?;
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        let reader = Mutex::new(Reader { file, recent: VecDeque::new() });
        Ok(Spool { folder: self.folder, blocks: self.blocks, records: self.records, reader })
    }

    fn write_block(&mut self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let failed = |source| Error::io(&self.folder, source);
        let packed = zstd::bulk::compress(&self.lines, LEVEL).map_err(failed)?;
        self.file.write_all(&packed).map_err(failed)?;
        let (compressed, bytes) = (packed.len(), self.lines.len());
        self.blocks.push(Block { first: self.first, offset: self.written, compressed, bytes });
        self.written += compressed as u64;
        self.first = self.records;
        self.lines.clear();
        Ok(())
    }
}

/// Records on disk.
///
/// ```
/// use gradus_core::{Problem, Record};
/// use gradus_data::spool::SpoolWriter;
/// let folder = tempfile::tempdir().unwrap();
/// let mut writer = SpoolWriter::create(folder.path()).unwrap();
/// for number in 0..3 {
///     let problem = Problem { id: number.to_string(), text: "Why?".into(), ..Problem::default() };
///     writer.push(&Record::new(problem, Vec::new())).unwrap();
/// }
/// let spool = writer.finish().unwrap();
/// assert_eq!((spool.len(), spool.get(1).unwrap().problem.id), (3, "1".to_owned()));
/// ```
pub struct Spool {
    folder: PathBuf,
    blocks: Vec<Block>,
    records: usize,
    reader: Mutex<Reader>,
}

struct Reader {
    file: File,
    /// Blocks by number, the one that was read last at the end.
    recent: VecDeque<(usize, Arc<Lines>)>,
}

struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Spool {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The record at `index`.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    pub fn get(&self, index: usize) -> Result<Record> {
        assert!(index < self.records, "record {index} of {}", self.records);
        let failed = |source| Error::io(&self.folder, source);
        let number = self.blocks.partition_point(|block| block.first <= index) - 1;
        let block = self.blocks[number];
        let lines = self.lines(number).map_err(failed)?;
        let line = index - block.first;
        let begin = line.checked_sub(1).map_or(0, |before| lines.ends[before]);
        serde_json::from_slice(&lines.bytes[begin..lines.ends[line]]).map_err(|error| failed(error.into()))
    }

    #[cfg(test)]
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn lines(&self, number: usize) -> io::Result<Arc<Lines>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = reader.recent.iter().position(|(known, _)| *known == number) {
            let found = reader.recent.remove(at).expect("it was found there");
            let lines = found.1.clone();
            reader.recent.push_back(found);
            return Ok(lines);
        }
        let block = self.blocks[number];
        let mut packed = vec![0; block.compressed];
        reader.file.seek(SeekFrom::Start(block.offset))?;
        reader.file.read_exact(&mut packed)?;
        let bytes = zstd::bulk::decompress(&packed, block.bytes)?;
        let ends = memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1).collect();
        let lines = Arc::new(Lines { bytes, ends });
        if reader.recent.len() == RECENT {
            reader.recent.pop_front();
        }
        reader.recent.push_back((number, lines.clone()));
        Ok(lines)
    }
}
