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

mod archive;
mod csv;
mod draws;
mod filters;
mod json;
pub mod manifest;
mod parquet;
mod shards;
mod sink;
mod stream;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::readers::{FieldMap, Format, Parsed, suggested_map, unpack};
use crate::{Error, Result, SourceLocation};
use draws::Draws;
use filters::{FilteredRow, FilteredSamples};
use gradus_core::limits::Limit;
use gradus_core::{Fault, Metadata, Record};
use memchr::memchr_iter;
use shards::InputFile;
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
    /// How a field was read that could have been read otherwise; see [`Parsed::note`].
    pub note: Option<String>,
}

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format; without one, each file's first record decides.
    pub format: Option<Format>,
    /// What the fields of rows are, which are then read as model outputs.
    pub map: Option<FieldMap>,
    /// The problem that the files solve: each file is plain text, a solution.
    pub problem: Option<String>,
    /// Takes a field `solution` that may be a reference or generated as a generated one.
    pub prefer_solutions: bool,
}

/// Opens `paths`: files, folders of shards, addresses such as `s3://bucket/key`, or `-`. Without a `format`, each file's first record decides.
///
/// The iterator goes on after a bad record ([`Error::is_record`]) and moves to the next file after a broken one.
pub fn open(paths: &[PathBuf], format: Option<Format>) -> Result<Records> {
    open_with(paths, ReadOptions { format, ..ReadOptions::default() })
}

/// Opens `paths` as `options` say.
pub fn open_with(paths: &[PathBuf], options: ReadOptions) -> Result<Records> {
    let files = shards::expand(paths)?;
    let bytes = files.iter().filter_map(InputFile::size).sum();
    let (read, draws) = (Arc::default(), Draws::default());
    Ok(Records { files: files.into_iter(), options, current: None, draws, read, bytes })
}

/// Iterates over the records of several files.
pub struct Records {
    files: std::vec::IntoIter<InputFile>,
    options: ReadOptions,
    current: Option<OpenFile>,
    draws: Draws,
    read: Arc<AtomicU64>,
    bytes: u64,
}

struct OpenFile {
    path: Arc<Path>,
    format: Option<Format>,
    map: Option<FieldMap>,
    prefer_solutions: bool,
    source: Source,
    /// Rows of an object that holds several.
    samples: std::collections::VecDeque<Value>,
    /// Samples of a log with filters, which are handed out at its end.
    filtered: FilteredSamples,
    /// What is left of them once the file is at its end.
    samples_left: Option<std::vec::IntoIter<Result<Item>>>,
}

/// The rows of one file, by its container.
enum Source {
    Json(json::JsonRecords),
    Other(Rows),
}

/// The rows of one file as they stand there, with the line each starts on.
pub type Rows = Box<dyn Iterator<Item = Result<(u64, Value)>> + Send>;

/// Opens one file of any container without converting its rows.
pub fn rows(path: &Path) -> Result<Rows> {
    let mut files = shards::expand(&[path.to_owned()])?;
    let file = match files.len() {
        1 => files.remove(0),
        _ => {
            return Err(Error::Output {
                path: path.to_owned(),
                message: "is a folder: name one file".to_owned(),
            });
        }
    };
    Ok(match open_source(&file, Arc::default())? {
        Source::Json(rows) => Box::new(rows),
        Source::Other(rows) => rows,
    })
}

/// The files behind `paths` and the BLAKE3 of their bytes; standard input is left out.
pub fn digests(paths: &[PathBuf]) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for file in shards::expand(paths)?.iter().filter(|file| &*file.path != Path::new("-")) {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(stream::bytes(file)?).map_err(|source| Error::io(&*file.path, source))?;
        found.push((file.path.to_path_buf(), hasher.finalize().to_string()));
    }
    Ok(found)
}

/// How much of a file its container is guessed from.
const SNIFF_BYTES: u64 = 16 << 10;

fn open_source(file: &InputFile, count: Arc<AtomicU64>) -> Result<Source> {
    let path = &file.path;
    let mut input = match stream::open(file, count)? {
        stream::Opened::Text(input) => input,
        stream::Opened::Parquet(file) => {
            return Ok(Source::Other(Box::new(parquet::ParquetRows::open(file, path.clone())?)));
        }
        stream::Opened::Zip(file) => {
            return Ok(Source::Other(Box::new(archive::ArchivedSamples::open(file, path.clone())?)));
        }
    };
    let (head, line) = read_head(&mut input);
    if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") {
        let message = "the text is UTF-16, not UTF-8: convert the file to UTF-8".to_owned();
        return Err(Error::Broken { place: SourceLocation { path: path.clone(), line }, message });
    }
    let separator = csv::separator(path, &head);
    let line_end = csv::line_end(&head);
    let is_prose = separator.is_none() && is_prose(&head);
    let input = Box::new(Cursor::new(head).chain(input));
    if is_prose {
        let message = "is neither JSON, CSV nor Parquet: a plain-text solution needs --problem TEXT";
        let place = SourceLocation { path: path.clone(), line };
        return Err(Error::Broken { place, message: message.to_owned() });
    }
    Ok(match separator {
        Some(separator) => {
            Source::Other(Box::new(csv::CsvRows::open(input, path.clone(), separator, line_end, line)?))
        }
        None => Source::Json(json::JsonRecords::open(input, path.clone(), line)?),
    })
}

/// The beginning of a text, from its first line that is not blank, and the number of that line. A byte order mark is left
/// out.
fn read_head(input: &mut impl BufRead) -> (Vec<u8>, u64) {
    let (mut line, mut at_start) = (1, true);
    loop {
        let mut head = Vec::new();
        // What cannot be read here cannot be read later, where it is told.
        let read = input.take(SNIFF_BYTES).read_to_end(&mut head);
        if at_start && head.starts_with(b"\xEF\xBB\xBF") {
            head.drain(..3);
        }
        at_start = false;
        let blank = head.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_end = read.map_or(true, |read| (read as u64) < SNIFF_BYTES);
        let is_blank = blank == head.len() && !is_end;
        // The first line keeps its indent, which may be an empty cell.
        let skipped = if is_blank {
            blank
        } else {
            head[..blank].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)
        };
        line += memchr_iter(b'\n', &head[..skipped]).count() as u64;
        if !is_blank {
            head.drain(..skipped);
            return (head, line);
        }
    }
}

/// True for text without a line that begins like JSON.
fn is_prose(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start);
    !head.trim_ascii().is_empty() && lines.all(|line| !matches!(line.first(), Some(b'{' | b'[')))
}

/// A file of plain text as one row: a solution to `problem`.
fn open_text(file: &InputFile, count: Arc<AtomicU64>, problem: &str) -> Result<Source> {
    let path = &file.path;
    let place = SourceLocation { path: path.clone(), line: 1 };
    let stream::Opened::Text(input) = stream::open(file, count)? else {
        let message = "with --problem every input is a plain-text solution".to_owned();
        return Err(Error::Broken { place, message });
    };
    let most = Limit::RecordBytes.value();
    let mut text = String::new();
    let read = input.take(most + 1).read_to_string(&mut text);
    if text.len() as u64 > most {
        let message = format!("the text has {}", Limit::RecordBytes.exceeded());
        return Err(Error::Broken { place, message });
    }
    read.map_err(|source| match source.kind() {
        std::io::ErrorKind::InvalidData => Error::Broken {
            place,
            message: "the text is not valid UTF-8: convert the file to UTF-8".to_owned(),
        },
        _ => Error::io(&**path, source),
    })?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(Error::Empty { path: path.to_path_buf() });
    }
    let row = serde_json::json!({"problem": problem, "response": text});
    Ok(Source::Other(Box::new(std::iter::once(Ok((1, row))))))
}

impl Records {
    /// Bytes read from disk so far, and in all: what a progress bar needs.
    pub fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed).min(self.bytes), self.bytes)
    }

    /// Leaves out files of this machine that are those of an earlier path or have its bytes, and says which of which.
    pub fn leave_out_copies(&mut self) -> Vec<(Arc<Path>, Arc<Path>)> {
        let (mut kept, mut copies): (Vec<InputFile>, Vec<_>) = Default::default();
        for file in std::mem::take(&mut self.files) {
            match kept.iter().find(|earlier| is_copy(earlier, &file)) {
                Some(earlier) => copies.push((file.path, earlier.path.clone())),
                None => kept.push(file),
            }
        }
        self.bytes = kept.iter().filter_map(InputFile::size).sum();
        self.files = kept.into_iter();
        copies
    }

    fn open_next(&self, file: &InputFile) -> Result<OpenFile> {
        let ReadOptions { format, map, problem, prefer_solutions } = &self.options;
        let source = match problem {
            Some(problem) => open_text(file, self.read.clone(), problem)?,
            None => open_source(file, self.read.clone())?,
        };
        let format = match map {
            Some(_) => Some(Format::Outputs),
            None => *format,
        };
        Ok(OpenFile {
            path: file.path.clone(),
            format,
            map: map.clone(),
            prefer_solutions: *prefer_solutions,
            source,
            samples: Default::default(),
            filtered: FilteredSamples::default(),
            samples_left: None,
        })
    }
}

/// Whether two files have the same bytes; what cannot be read is no copy, and is told when it is opened.
fn is_copy(first: &InputFile, second: &InputFile) -> bool {
    let is_file = |file: &InputFile| file.remote.is_none() && file.path.is_file();
    is_file(first)
        && is_file(second)
        && first.size() == second.size()
        && have_same_bytes(&first.path, &second.path).unwrap_or(false)
}

fn have_same_bytes(first: &Path, second: &Path) -> io::Result<bool> {
    if first.canonicalize()? == second.canonicalize()? {
        return Ok(true);
    }
    let (mut first, mut second) = (BufReader::new(File::open(first)?), BufReader::new(File::open(second)?));
    loop {
        let (one, other) = (first.fill_buf()?, second.fill_buf()?);
        let length = one.len().min(other.len());
        if length == 0 || one[..length] != other[..length] {
            return Ok(one.is_empty() && other.is_empty());
        }
        first.consume(length);
        second.consume(length);
    }
}

impl OpenFile {
    fn next_item(&mut self) -> Option<Result<Item>> {
        loop {
            if let Some(left) = &mut self.samples_left {
                return left.next();
            }
            match self.read_item() {
                Some((None, item)) if self.filtered.is_empty() => return Some(item),
                Some((row, item)) => self.filtered.add(row, item),
                None => self.samples_left = Some(std::mem::take(&mut self.filtered).finish()),
            }
        }
    }

    /// What the next row is, and under which filter it stands.
    fn read_item(&mut self) -> Option<(Option<FilteredRow>, Result<Item>)> {
        loop {
            let row = match self.samples.pop_front() {
                Some(sample) => Ok((1, sample)),
                None => match &mut self.source {
                    Source::Other(rows) => rows.next()?,
                    Source::Json(rows) => {
                        let line = match rows.next_record()? {
                            Ok(line) => line,
                            Err(error) => return Some((None, Err(error))),
                        };
                        // Our own format needs no detour over a tree. What is wrong with a record is told by the detour.
                        if self.format == Some(Format::Gradus)
                            && let Ok(record) = serde_json::from_slice::<Record>(rows.bytes())
                            && record.validate().is_ok()
                        {
                            return Some((None, Ok(self.item(line, Format::Gradus, record.into()))));
                        }
                        rows.value(line)
                    }
                },
            };
            let (line, mut fields) = match row.and_then(|(line, value)| self.fields(line, value)) {
                Ok(found) => found,
                Err(error) => return Some((None, Err(error))),
            };
            if let Some(samples) = unpack(&mut fields) {
                self.samples = samples.into();
                continue;
            }
            return Some((FilteredRow::of(&fields), self.convert(line, fields)));
        }
    }

    fn place(&self, line: u64) -> SourceLocation {
        SourceLocation { path: self.path.clone(), line }
    }

    fn fields(&self, line: u64, value: Value) -> Result<(u64, Metadata)> {
        match value {
            Value::Object(fields) => Ok((line, fields)),
            _ => {
                let fault = Fault::new("", "expected a record (a JSON object)");
                Err(Error::Record { place: self.place(line), fault })
            }
        }
    }

    fn convert(&mut self, line: u64, fields: Metadata) -> Result<Item> {
        let Some(format) = self.format.or_else(|| self.detect(&fields)) else {
            let found = fields.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            let map = suggested_map(&fields);
            return Err(Error::UnknownFormat { place: self.place(line), found, map });
        };
        self.format = Some(format);
        let parsed = match (&self.map, format) {
            (Some(map), _) => Format::read_mapped(fields, map),
            (None, format) => format.read(fields),
        };
        match parsed {
            Ok(parsed) => Ok(self.item(line, format, parsed)),
            Err(fault) => Err(Error::Record { place: self.place(line), fault }),
        }
    }

    fn detect(&self, fields: &Metadata) -> Option<Format> {
        let format = Format::detect(fields)?;
        let is_ambiguous = matches!(format, Format::Math | Format::Problems)
            && fields.get("solution").is_some_and(Value::is_string);
        Some(if is_ambiguous && self.prefer_solutions { Format::Outputs } else { format })
    }

    fn item(&self, line: u64, format: Format, parsed: Parsed) -> Item {
        let Parsed { record, issues, note } = parsed;
        Item { record, place: self.place(line), format, issues, note }
    }
}

impl Iterator for Records {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(file) = &mut self.current else {
                let file = self.files.next()?;
                self.draws.begin_file();
                match self.open_next(&file) {
                    Ok(file) => self.current = Some(file),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match file.next_item() {
                None => self.current = None,
                Some(mut item) => {
                    if let Ok(item) = &mut item
                        && item.format == Format::Outputs
                    {
                        self.draws.tell_apart(&mut item.record);
                    }
                    if matches!(&item, Err(error) if !error.is_record()) {
                        self.current = None;
                    }
                    return Some(item);
                }
            }
        }
    }
}
