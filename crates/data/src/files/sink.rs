//! Writes records to a file in one piece: into a temporary file beside it, renamed when all is well.
//!
//! The name decides the container: `.json` is an array, `.parquet` is Parquet, `.csv` and `.tsv` are tables, anything
//! else is JSONL; `.gz` and `.zst` compress. `-` is JSONL on standard output. A file for an address such as
//! `s3://bucket/key` is sent there when it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use gradus_durable::PendingFile;
use gradus_remote::{Address, Expected, Version};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::csv::CsvSink;
use super::manifest::ShardEntry;
use super::parquet::ParquetSink;
use crate::readers::{own_columns, own_example};
use crate::{Error, Result};

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output, as JSONL.
    Stdout,
    /// A file, replaced when everything has been written.
    File(PathBuf),
    /// A file elsewhere, sent when everything has been written.
    Remote(Address),
}

impl Target {
    /// `-` is standard output.
    pub fn new(path: &Path) -> Self {
        match Address::of(path) {
            _ if path == Path::new("-") => Self::Stdout,
            Some(address) => Self::Remote(address),
            None => Self::File(path.to_path_buf()),
        }
    }

    /// What errors call it.
    fn path(&self) -> PathBuf {
        match self {
            Self::Stdout => PathBuf::from("standard output"),
            Self::File(path) => path.clone(),
            Self::Remote(address) => PathBuf::from(address.to_string()),
        }
    }
}

enum Compressed<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.write(bytes),
            Self::Gzip(inner) => inner.write(bytes),
            Self::Zstd(inner) => inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(inner) => inner.flush(),
            Self::Gzip(inner) => inner.flush(),
            Self::Zstd(inner) => inner.flush(),
        }
    }
}

impl<W: Write> Compressed<W> {
    fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(inner) => Ok(inner),
            Self::Gzip(inner) => inner.finish(),
            Self::Zstd(inner) => inner.finish(),
        }
    }
}

type FileOutput = Compressed<BufWriter<File>>;

enum Form {
    Lines(Box<dyn Write + Send>),
    FileLines(Box<FileOutput>),
    Array(Box<FileOutput>),
    Parquet(Box<ParquetSink<BufWriter<File>>>),
    Table(Box<CsvSink<FileOutput>>),
}

/// An output file being written. Dropped without [`Sink::finish`], it leaves nothing behind.
pub struct Sink {
    target: Target,
    form: Form,
    place: Place,
    rows: u64,
}

/// What puts the file in its place.
enum Place {
    /// Nothing: it is standard output or a device.
    There,
    Here(PendingFile),
    Elsewhere(Outgoing),
}

/// A file that is sent when it is whole.
struct Outgoing {
    address: Address,
    /// What was there when the output was begun.
    expected: Expected,
    file: NamedTempFile,
}

impl Outgoing {
    fn begin(address: &Address) -> Result<Self> {
        let expected = Expected::now(address)?;
        let folder = std::env::temp_dir();
        let ending = format!("-{}", address.file_name());
        let file = tempfile::Builder::new().prefix("gradus-").suffix(&ending).tempfile_in(&folder);
        let file = file.map_err(|source| Error::io(folder, source))?;
        Ok(Self { address: address.clone(), expected, file })
    }

    /// Sends the file. One that cannot be sent is kept.
    fn send(self) -> Result<Option<Version>> {
        let Self { address, expected, file } = self;
        match gradus_remote::put(&address, file.path(), &expected) {
            Ok(version) => Ok(version),
            Err(error) => {
                let path = file.path().to_owned();
                let (_, kept) = file.keep().map_err(|failed| Error::io(path, failed.error))?;
                Err(Error::NotSent { error, kept })
            }
        }
    }
}

impl Sink {
    /// Begins an output.
    pub fn create(target: Target) -> Result<Self> {
        let shown = target.path();
        let failed = |source| Error::io(&shown, source);
        let (file, place) = match &target {
            Target::Stdout => {
                let form = Form::Lines(Box::new(BufWriter::new(io::stdout())));
                return Ok(Self { target, form, place: Place::There, rows: 0 });
            }
            Target::Remote(address) => {
                let outgoing = Outgoing::begin(address)?;
                (outgoing.file.reopen().map_err(failed)?, Place::Elsewhere(outgoing))
            }
            Target::File(path) if path.is_dir() => {
                let message = "is a folder: name a file to write".to_owned();
                return Err(Error::Output { path: path.clone(), message });
            }
            // A device or pipe, such as /dev/null or a shell's >(…): there is nothing to put in its place.
            Target::File(path) if path.exists() && !path.is_file() => {
                (File::options().write(true).open(path).map_err(failed)?, Place::There)
            }
            Target::File(path) => {
                let pending = PendingFile::create(path)?;
                (pending.file().try_clone().map_err(failed)?, Place::Here(pending))
            }
        };
        let form = form_for(&shown, BufWriter::with_capacity(256 << 10, file))?;
        Ok(Self { target, form, place, rows: 0 })
    }

    /// Adds one record.
    pub fn push(&mut self, row: &impl Serialize) -> Result<()> {
        let first = self.rows == 0;
        self.rows += 1;
        let done = match &mut self.form {
            Form::Lines(output) => write_line(output, row),
            Form::FileLines(output) => write_line(output, row),
            Form::Array(output) => output
                .write_all(if first { b"[\n" } else { b",\n" })
                .and_then(|()| serde_json::to_writer(output, row).map_err(Into::into)),
            Form::Parquet(_) | Form::Table(_) => {
                let row = serde_json::to_value(row);
                let mut row = row.map_err(|error| Error::io(self.target.path(), error.into()))?;
                let pushed = match &mut self.form {
                    Form::Table(output) => output.push(row),
                    Form::Parquet(output) => {
                        if own_columns(&mut row) && first {
                            output.expect(own_example());
                        }
                        output.push(row)
                    }
                    _ => unreachable!("matched above"),
                };
                return pushed.map_err(|message| self.failed(message));
            }
        };
        done.map_err(|source| Error::io(self.target.path(), source))
    }

    /// Completes the output and puts it in place. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64> {
        let place = self.complete()?;
        match place {
            Place::There => {}
            Place::Here(pending) => pending.commit()?,
            Place::Elsewhere(outgoing) => drop(outgoing.send()?),
        }
        Ok(self.rows)
    }

    /// Completes a shard and puts it in place. Returns its entry in the manifest.
    pub fn finish_shard(mut self, failed: usize) -> Result<ShardEntry> {
        let path = self.target.path();
        let no_shard =
            || Error::Output { path: path.clone(), message: "cannot be a shard: name a file".to_owned() };
        let name = match &self.target {
            Target::Remote(address) => address.file_name().to_owned(),
            _ => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let place = self.complete()?;
        let entry = |file: &Path| ShardEntry::of(file, name.clone(), self.rows, failed);
        match place {
            Place::There => Err(no_shard()),
            Place::Here(pending) => {
                let entry = entry(pending.path())?;
                pending.commit()?;
                Ok(entry)
            }
            Place::Elsewhere(outgoing) => {
                let entry = entry(outgoing.file.path())?;
                Ok(ShardEntry { version: outgoing.send()?, ..entry })
            }
        }
    }

    /// Writes what is left of the file, and gives what puts it in its place.
    fn complete(&mut self) -> Result<Place> {
        let path = self.target.path();
        let failed = |source| Error::io(&path, source);
        let form = std::mem::replace(&mut self.form, Form::Lines(Box::new(io::sink())));
        match form {
            Form::Lines(mut output) => output.flush().map_err(failed)?,
            Form::FileLines(output) => {
                output.finish().and_then(|mut inner| inner.flush()).map_err(failed)?;
            }
            Form::Array(mut output) => {
                output.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" }).map_err(failed)?;
                output.finish().and_then(|mut inner| inner.flush()).map_err(failed)?;
            }
            Form::Parquet(output) => {
                let mut inner =
                    output.finish().map_err(|message| Error::Output { path: path.clone(), message })?;
                inner.flush().map_err(failed)?;
            }
            Form::Table(output) => {
                let inner =
                    output.finish().map_err(|message| Error::Output { path: path.clone(), message })?;
                inner.finish().and_then(|mut inner| inner.flush()).map_err(failed)?;
            }
        }
        Ok(std::mem::replace(&mut self.place, Place::There))
    }

    fn failed(&self, message: String) -> Error {
        Error::Output { path: self.target.path(), message }
    }
}

/// Extensions of containers that are not written: JSON lines under such a name would mislead.
const OTHER_CONTAINERS: [&str; 14] =
    ["xlsx", "xls", "ods", "arrow", "feather", "ipc", "avro", "orc", "bz2", "xz", "lz4", "zip", "tar", "pkl"];

fn form_for(path: &Path, output: BufWriter<File>) -> Result<Form> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let (stem, compressed) = if let Some(stem) = name.strip_suffix(".gz") {
        (stem.to_owned(), Compressed::Gzip(GzEncoder::new(output, flate2::Compression::default())))
    } else if let Some(stem) = name.strip_suffix(".zst") {
        // Without a checksum, damage could go unseen.
        let encoder = zstd::Encoder::new(output, 3)
            .and_then(|mut encoder| encoder.include_checksum(true).map(|()| encoder))
            .map_err(|source| Error::io(path, source))?;
        (stem.to_owned(), Compressed::Zstd(encoder))
    } else {
        (name.clone(), Compressed::Plain(output))
    };
    Ok(match (stem.rsplit('.').next(), compressed) {
        (Some("parquet"), Compressed::Plain(output)) => Form::Parquet(Box::new(ParquetSink::new(output))),
        (Some("parquet"), _) => {
            let message = "Parquet files are compressed inside: leave out .gz or .zst".to_owned();
            return Err(Error::Output { path: path.to_path_buf(), message });
        }
        (Some(other), _) if OTHER_CONTAINERS.contains(&other) => {
            let message = format!(
                ".{other} files are not written: name it .jsonl, .json, .csv, .tsv or .parquet; .gz or .zst after it compress \
                 all but Parquet"
            );
            return Err(Error::Output { path: path.to_path_buf(), message });
        }
        (Some("json"), compressed) => Form::Array(Box::new(compressed)),
        (Some("csv"), compressed) => Form::Table(Box::new(CsvSink::new(compressed, b','))),
        (Some("tsv"), compressed) => Form::Table(Box::new(CsvSink::new(compressed, b'\t'))),
        (_, compressed) => Form::FileLines(Box::new(compressed)),
    })
}

fn write_line(output: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, row)?;
    output.write_all(b"\n")
}
