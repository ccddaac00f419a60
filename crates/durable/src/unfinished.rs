//! Temporary names: how they begin, and which of them this process has not finished yet.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// How names of unfinished files and folders begin; the target's name follows, then random characters.
pub(crate) const UNFINISHED: &str = ".gradus-unfinished-";

static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// True for a name that an interrupted write may have left behind.
///
/// ```
/// assert!(gradus_durable::is_unfinished(std::path::Path::new("runs/.gradus-unfinished-a1B2c3")));
/// ```
pub fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
}

/// Removes what this process has not finished. For a program that is about to end without dropping it, as on Ctrl-C.
pub fn remove_unfinished() {
    for path in OPEN.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // It may have been finished or removed in this very moment.
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
}

/// A temporary name while it is in use.
pub(crate) struct InUse(PathBuf);

impl InUse {
    pub(crate) fn new(path: &Path) -> Self {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|open| *open != self.0);
    }
}

/// The folder in which a path's temporary neighbor is made.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the folder in which a path lies, where it is missing.
pub(crate) fn make_folder_of(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    if folder.is_dir() {
        return Ok(());
    }
    if folder.exists() {
        let source = io::Error::new(io::ErrorKind::NotADirectory, "is a file, not a folder");
        return Err(Error::at(folder)(source));
    }
    std::fs::create_dir_all(folder).map_err(Error::at(folder))
}

/// Makes a rename in this folder last: on Unix a folder is synced like a file. A folder that may be written but not
/// read, or whose file system does not sync folders, is left to the system: the rename has been made.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match std::fs::File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if SYNC_REFUSED.contains(&error.kind()) => Ok(()),
        done => done,
    }
}

const SYNC_REFUSED: [io::ErrorKind; 3] =
    [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported];
