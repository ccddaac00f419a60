//! Reading and writing dataset files: any container, one record in memory at a time.
//!
//! ```no_run
//! use gradus_data::files;
//! for item in files::open(&["data.jsonl.gz".into()], None)? {
//!     let item = item?;
//!     println!("{} has {} solutions", item.record.problem.id, item.record.solutions.len());
//! }
//! # Ok::<(), gradus_data::Error>(())
//! ```

mod json;
mod parquet;
mod shards;
mod sink;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::readers::Format;
use crate::{Error, Result, SourceLocation};
use gradus_core::{Fault, Record};
pub use sink::{Sink, Target};

/// One record as read, with where it stood and what was odd about it.
#[derive(Debug, Clone)]
pub struct Item {
    /// The record.
    pub record: Record,
    /// Where it starts.
    pub place: SourceLocation,
    /// The format it was read as.
    pub format: Format,
    /// What the source says that cannot be right, such as an error index past the last step. The record is usable
    /// without it, and nothing was guessed in its place.
    pub issues: Vec<Fault>,
}

/// Opens `paths`: files, folders of shards, or `-`. Without a `format`, each file's first record decides.
///
/// The iterator goes on after a bad record ([`Error::is_record`]) and moves to the next file after a broken one.
pub fn open(paths: &[PathBuf], format: Option<Format>) -> Result<Records> {
    let files = shards::expand(paths)?;
    let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
    Ok(Records { files: files.into_iter(), format, current: None, read: Arc::default(), bytes })
}

/// Iterates over the records of several files.
pub struct Records {
    files: std::vec::IntoIter<PathBuf>,
    format: Option<Format>,
    current: Option<OpenFile>,
    read: Arc<AtomicU64>,
    bytes: u64,
}

struct OpenFile {
    path: Arc<Path>,
    format: Option<Format>,
    source: Source,
}

/// The rows of one file, by its container.
enum Source {
    Json(json::JsonRecords),
    Parquet(parquet::ParquetRows),
}

/// The rows of one file as they stand there, with the line each starts on.
pub type Rows = Box<dyn Iterator<Item = Result<(u64, Value)>> + Send>;

/// Opens one file of any container without converting its rows.
pub fn rows(path: &Path) -> Result<Rows> {
    Ok(match open_source(&path.into(), Arc::default())? {
        Source::Json(rows) => Box::new(rows),
        Source::Parquet(rows) => Box::new(rows),
    })
}

fn open_source(path: &Arc<Path>, count: Arc<AtomicU64>) -> Result<Source> {
    Ok(match stream::open(path, count)? {
        stream::Opened::Text(input) => Source::Json(json::JsonRecords::open(input, path.clone())?),
        stream::Opened::Parquet(file) => Source::Parquet(parquet::ParquetRows::open(file, path.clone())?),
    })
}

impl Records {
    /// Bytes read from disk so far, and in all: what a progress bar needs.
    pub fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed).min(self.bytes), self.bytes)
    }

    fn open_next(&self, path: PathBuf) -> Result<OpenFile> {
        let path: Arc<Path> = path.into();
        let source = open_source(&path, self.read.clone())?;
        Ok(OpenFile { path, format: self.format, source })
    }
}

impl OpenFile {
    fn next_item(&mut self) -> Option<Result<Item>> {
        let row = match &mut self.source {
            Source::Parquet(rows) => rows.next()?,
            Source::Json(rows) => {
                let line = match rows.next_record()? {
                    Ok(line) => line,
                    Err(error) => return Some(Err(error)),
                };
                // Our own format needs no detour over a tree. What is wrong with a record is told by the detour.
                if self.format == Some(Format::Gradus)
                    && let Ok(record) = serde_json::from_slice::<Record>(rows.bytes())
                    && record.validate().is_ok()
                {
                    let place = SourceLocation { path: self.path.clone(), line };
                    return Some(Ok(Item { record, place, format: Format::Gradus, issues: Vec::new() }));
                }
                rows.value(line)
            }
        };
        Some(row.and_then(|(line, value)| self.convert(line, value)))
    }

    fn convert(&mut self, line: u64, value: Value) -> Result<Item> {
        let place = SourceLocation { path: self.path.clone(), line };
        let Value::Object(fields) = value else {
            let fault = Fault::new("", "expected a record (a JSON object)");
            return Err(Error::Record { place, fault });
        };
        let format = match self.format.or_else(|| Format::detect(&fields)) {
            Some(format) => format,
            None => {
                let found = fields.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                let known = Format::ALL.map(Format::name).join(", ");
                return Err(Error::UnknownFormat { place, found, known });
            }
        };
        self.format = Some(format);
        match format.read(fields) {
            Ok(parsed) => Ok(Item { record: parsed.record, place, format, issues: parsed.issues }),
            Err(fault) => Err(Error::Record { place, fault }),
        }
    }
}

impl Iterator for Records {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(file) = &mut self.current else {
                let path = self.files.next()?;
                match self.open_next(path) {
                    Ok(file) => self.current = Some(file),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match file.next_item() {
                None => self.current = None,
                Some(item) => {
                    if matches!(&item, Err(error) if !error.is_record()) {
                        self.current = None;
                    }
                    return Some(item);
                }
            }
        }
    }
}
