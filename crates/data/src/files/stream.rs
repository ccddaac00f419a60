//! Opens a file as a stream of bytes: gzip and zstd are told by their magic numbers, not by the name.
//!
//! A pipe can be read once and only forward. What needs random access is copied out of it to a temporary file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gradus_core::limits::{FREE_EXPANSION, Limit};
use gradus_remote::Opened as Source;

use super::shards::InputFile;
use crate::{Error, Result};

/// Counts the bytes read from disk, for progress bars.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Decompressed bytes, within the limits on how much compressed ones may become.
struct Expanded<R> {
    decoder: R,
    expanded: u64,
    /// All bytes read from disk, and those before this file.
    count: Arc<AtomicU64>,
    before: u64,
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.expanded += read as u64;
        if self.expanded > FREE_EXPANSION {
            let compressed = self.count.load(Ordering::Relaxed) - self.before;
            let most = compressed.saturating_mul(Limit::Expansion.value());
            for (limit, most) in
                [(Limit::Expansion, most), (Limit::ExpandedBytes, Limit::ExpandedBytes.value())]
            {
                if self.expanded > most {
                    let message = format!("the compressed data expands to {}", limit.exceeded());
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
                }
            }
        }
        Ok(read)
    }
}

/// What a file's first bytes say it is.
pub(crate) enum Opened {
    /// Text, decompressed on the fly.
    Text(Box<dyn BufRead + Send>),
    /// A Parquet file, which needs random access.
    Parquet(File),
    /// A zip archive, which needs random access.
    Zip(File),
}

/// A file's bytes as they are.
pub(crate) fn bytes(input: &InputFile) -> Result<Box<dyn Read + Send>> {
    let opened = match &input.remote {
        Some(remote) => gradus_remote::open(remote)?,
        None => Source::Kept(File::open(&input.path).map_err(|source| Error::io(&*input.path, source))?),
    };
    Ok(match opened {
        Source::Stream(input) => input,
        Source::Kept(file) => Box::new(file),
    })
}

/// Opens a file (`-` is standard input), counting bytes into `count`.
pub(crate) fn open(input: &InputFile, count: Arc<AtomicU64>) -> Result<Opened> {
    let path = &*input.path;
    let before = count.load(Ordering::Relaxed);
    let failed = |source| Error::io(path, source);
    let opened = match &input.remote {
        Some(remote) => gradus_remote::open(remote)?,
        None if path == Path::new("-") => Source::Stream(Box::new(io::stdin())),
        None => Source::Kept(File::open(path).map_err(failed)?),
    };
    let (mut input, file): (Box<dyn Read + Send>, Option<File>) = match opened {
        Source::Stream(input) => (input, None),
        Source::Kept(file) => {
            let is_file = file.metadata().map_err(failed)?.is_file();
            let again = is_file.then(|| file.try_clone()).transpose().map_err(failed)?;
            (Box::new(file), again)
        }
    };
    let mut magic = [0; 4];
    let length = read_up_to(&mut input, &mut magic).map_err(failed)?;
    let whole = Counted { inner: Cursor::new(magic[..length].to_vec()).chain(input), count: count.clone() };
    match &magic {
        b"PAR1" => return at_random(whole, file).map(Opened::Parquet).map_err(failed),
        b"PK\x03\x04" => return at_random(whole, file).map(Opened::Zip).map_err(failed),
        _ => {}
    }
    let decoder: Box<dyn Read + Send> = if magic.starts_with(&[0x1f, 0x8b]) {
        let decoder = flate2::read::MultiGzDecoder::new(whole);
        Box::new(Expanded { decoder, expanded: 0, count, before })
    } else if magic == [0x28, 0xb5, 0x2f, 0xfd] {
        let decoder = zstd::Decoder::new(whole).map_err(failed)?;
        Box::new(Expanded { decoder, expanded: 0, count, before })
    } else {
        Box::new(whole)
    };
    Ok(Opened::Text(Box::new(BufReader::with_capacity(256 << 10, decoder))))
}

/// The file from its start; of a pipe, a copy on disk that nobody else sees.
fn at_random(mut whole: impl Read, file: Option<File>) -> io::Result<File> {
    let mut file = match file {
        Some(file) => file,
        None => {
            let mut copy = tempfile::tempfile()?;
            io::copy(&mut whole, &mut copy)?;
            copy
        }
    };
    file.rewind()?;
    Ok(file)
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
