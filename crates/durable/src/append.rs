//! A file that grows: what was appended survives a kill at once, and a loss of power after a second.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::lock::lock_file;
use crate::{Error, Result};

/// How long appended bytes may wait until they are synced to disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A file that is appended to.
///
/// ```
/// use gradus_durable::AppendFile;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("vectors");
/// AppendFile::open(&path)?.append(b"one")?;
/// AppendFile::open(&path)?.append(b" two")?;
/// assert_eq!(std::fs::read(&path)?, b"one two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AppendFile {
    path: PathBuf,
    file: File,
    synced: Instant,
}

impl AppendFile {
    /// Opens the file, or makes an empty one, and the folder that it lies in, for one process at a time; see
    /// [`lock_file`]. A symbolic link is refused.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), file: lock_file(path)?, synced: Instant::now() })
    }

    /// Adds bytes at the end. Each call is one write, so that a kill leaves a part of the last one at most.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::at(&self.path))?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.file.sync_data().map_err(Error::at(&self.path))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Syncs to disk what was appended.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::at(&self.path))?;
        self.synced = Instant::now();
        Ok(())
    }

    /// Cuts the file to so many bytes.
    pub fn cut(&mut self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(Error::at(&self.path))
    }

    /// Removes the file.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(Error::at(&self.path))
    }
}
