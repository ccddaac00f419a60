//! Opens a file as a stream of bytes: gzip and zstd are told by their magic numbers, not by the name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// What a file's first bytes say it is.
pub(crate) enum Opened {
    /// Text, decompressed on the fly.
    Text(Box<dyn BufRead + Send>),
    /// A Parquet file, which needs random access.
    Parquet(File),
    /// A zip archive, which needs random access.
    Zip(File),
}

/// Opens `path` (`-` is standard input), counting bytes into `count`.
pub(crate) fn open(path: &Path, count: Arc<AtomicU64>) -> Result<Opened> {
    if path == Path::new("-") {
        return text(Box::new(Counted { inner: io::stdin(), count }), path).map(Opened::Text);
    }
    let mut file = File::open(path).map_err(|source| Error::io(path, source))?;
    let mut magic = [0; 4];
    read_up_to(&mut file, &mut magic).map_err(|source| Error::io(path, source))?;
    io::Seek::rewind(&mut file).map_err(|source| Error::io(path, source))?;
    match &magic {
        b"PAR1" => return Ok(Opened::Parquet(file)),
        b"PK\x03\x04" => return Ok(Opened::Zip(file)),
        _ => {}
    }
    text(Box::new(Counted { inner: file, count }), path).map(Opened::Text)
}

fn text(mut input: Box<dyn Read + Send>, path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let mut magic = [0; 4];
    let length = read_up_to(&mut input, &mut magic).map_err(|source| Error::io(path, source))?;
    let whole = Cursor::new(magic[..length].to_vec()).chain(input);
    let decoded: Box<dyn Read + Send> = if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if magic == [0x28, 0xb5, 0x2f, 0xfd] {
        Box::new(zstd::Decoder::new(whole).map_err(|source| Error::io(path, source))?)
    } else {
        Box::new(whole)
    };
    Ok(Box::new(BufReader::with_capacity(256 << 10, decoded)))
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
