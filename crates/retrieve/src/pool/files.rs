//! The files of a pool: written with a checksum, mapped, and read as tables of numbers. Everything is little-endian.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gradus_durable::{PendingFile, open_plain};
use memmap2::Mmap;

use super::manifest::Entry;
use crate::error::{Error, Result};

#[cfg(target_endian = "big")]
compile_error!("a pool's numbers are little-endian and read in place");

/// `POOL.embedded` for `POOL`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Maps a regular file that may be empty.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = open_plain(path)?;
    // SAFETY: the map is read-only. A file that someone shortens while it is in use faults, as for every program that
    // maps files; a pool's files are replaced, never changed.
    #[allow(unsafe_code)]
    unsafe { Mmap::map(&file) }.map_err(Error::io(path))
}

/// Writes a file and sums it up.
pub(crate) struct Writer {
    path: PathBuf,
    name: String,
    file: BufWriter<PendingFile>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Writer {
    pub(crate) fn new(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(name);
        let file = BufWriter::with_capacity(1 << 20, PendingFile::create_plain(&path)?);
        Ok(Self { path, name: name.to_owned(), file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(Error::io(&self.path))
    }

    pub(crate) fn numbers<T: bytemuck::NoUninit>(&mut self, numbers: &[T]) -> Result<()> {
        self.write(bytemuck::cast_slice(numbers))
    }

    pub(crate) fn finish(self) -> Result<Entry> {
        let file = self.file.into_inner().map_err(|error| Error::io(&self.path)(error.into_error()))?;
        file.commit()?;
        Ok(Entry { name: self.name, bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() })
    }
}

/// Sums up a file that was written otherwise.
pub(crate) fn entry(folder: &Path, name: &str) -> Result<Entry> {
    let map = map(&folder.join(name))?;
    let blake3 = blake3::hash(&map).to_hex().to_string();
    Ok(Entry { name: name.to_owned(), bytes: map.len() as u64, blake3 })
}

/// A mapped file with its name.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) path: PathBuf,
    map: Mmap,
}

impl Mapped {
    /// Maps a file that must have `bytes` bytes. The manifest has been checked, so its name is a plain one.
    pub(crate) fn open(folder: &Path, entry: &Entry, bytes: u64) -> Result<Self> {
        let path = folder.join(&entry.name);
        let map = map(&path).map_err(|error| match error {
            Error::Io(error) if error.is_missing() => Error::pool(&path, "is missing; build the pool again"),
            other => other,
        })?;
        let found = map.len() as u64;
        if found != bytes || entry.bytes != bytes {
            let message = format!(
                "has {found} bytes instead of {bytes}: it was cut off or replaced; build the pool again"
            );
            return Err(Error::pool(&path, message));
        }
        Ok(Self { path, map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The whole file as numbers. Maps begin at a page, so every type is aligned.
    pub(crate) fn numbers<T: bytemuck::AnyBitPattern>(&self) -> &[T] {
        bytemuck::cast_slice(&self.map)
    }

    pub(crate) fn into_map(self) -> Mmap {
        self.map
    }

    pub(crate) fn verify(&self, entry: &Entry) -> Result<()> {
        if blake3::hash(&self.map).to_hex().as_str() != entry.blake3 {
            return Err(Error::pool(
                &self.path,
                "is damaged: its checksum does not match; build the pool again",
            ));
        }
        Ok(())
    }
}
