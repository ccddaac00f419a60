//! Files and folders that are either there as a whole or not at all, whenever the process or the machine stops.
//!
//! Everything is written under a temporary name beside its place, flushed to the disk and renamed. What a killed
//! process leaves behind begins with [`UNFINISHED`] and is removed by the next one that holds the run's lock.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::Result;
use crate::error::io;

/// How names of unfinished files and folders begin.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// Writes a file as a whole.
pub(super) fn file(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = parent(path);
    let mut temporary = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent).map_err(io(path))?;
    temporary.write_all(bytes).map_err(io(path))?;
    temporary.as_file().sync_all().map_err(io(path))?;
    // Temporary files are private to their owner; a run's files are like any other file of the user's.
    open_up(temporary.path(), 0o644)?;
    temporary.persist(path).map_err(|error| io(path)(error.error))?;
    sync(parent)
}

/// Writes a folder as a whole: `fill` writes into a temporary one, which then takes the place of any former one.
/// Returns what `fill` returns.
pub(super) fn folder<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let parent = parent(path);
    let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent).map_err(io(path))?;
    let filled = fill(temporary.path())?;
    for entry in fs::read_dir(temporary.path()).map_err(io(path))? {
        sync(&entry.map_err(io(path))?.path())?;
    }
    open_up(temporary.path(), 0o755)?;
    sync(temporary.path())?;
    // A folder cannot be renamed over another one: the former steps aside first. Killed in between, the run has
    // neither, and goes back to the checkpoint before.
    let former = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent).map_err(io(path))?;
    if path.exists() {
        fs::rename(path, former.path().join("former")).map_err(io(path))?;
    }
    let temporary = temporary.keep();
    fs::rename(&temporary, path).map_err(io(path))?;
    sync(parent)?;
    drop(former);
    Ok(filled)
}

/// Removes what killed processes left unfinished in a folder, and says how many there were.
pub(super) fn clean(folder: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let entry = entry.map_err(io(folder))?;
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        let path = entry.path();
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.map_err(io(&path))?;
        removed += 1;
    }
    Ok(removed)
}

/// Flushes a file, or a folder's list of names, to the disk.
pub(super) fn sync(path: &Path) -> Result<()> {
    // Elsewhere folders cannot be opened, and renames are kept by the file system itself.
    if path.is_file() || cfg!(unix) {
        File::open(path).and_then(|file| file.sync_all()).map_err(io(path))?;
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn open_up(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io(path))
}

#[cfg(not(unix))]
fn open_up(_path: &Path, _mode: u32) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_folder_that_fails_leaves_the_former_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("adapter");
        let put = |text: &'static str| move |at: &Path| fs::write(at.join("a"), text).map_err(io(at));
        folder(&path, put("one")).unwrap();
        folder(&path, put("two")).unwrap();
        let failed = folder(&path, |at| put("three")(at).and(Err::<(), _>(Error::run(at, "no"))));
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "two");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".unfinished-abc/deep")).unwrap();
        fs::write(root.path().join(".unfinished-file"), "x").unwrap();
        file(&root.path().join("kept"), b"y").unwrap();
        assert_eq!(clean(root.path()).unwrap(), 2);
        assert_eq!(fs::read(root.path().join("kept")).unwrap(), b"y");
    }
}
