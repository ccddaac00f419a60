//! What a killed process left behind, and how the next writer of the same target tells that nobody needs it.
//!
//! A temporary name is [`UNFINISHED`], the target's name, `-` and six random characters. Its writer holds a lock on it,
//! which the system releases when the process ends, however it ends. The next writer of the target removes those
//! temporary neighbors that it can lock; what a live process writes, it cannot. On systems and file systems without such
//! locks nothing is removed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::unfinished::{UNFINISHED, folder_of};

/// Random characters at the end of a temporary name.
pub(crate) const RANDOM: usize = 6;
/// Characters of the target's name in a temporary one: names may have 255 bytes.
const NAMED: usize = 48;
/// What [`crate::move_folder`] calls the folder that it moves away.
pub(crate) const OLD: &str = "old";

/// Each folder that this process has written to, with the temporary names that were in it before. A cache writes
/// thousands of files into one folder, which is listed once.
static FOUND: Mutex<Option<HashMap<PathBuf, Vec<PathBuf>>>> = Mutex::new(None);

/// How temporary names for `target` begin.
pub(crate) fn prefix(target: &Path) -> String {
    let name: String = target.file_name().unwrap_or_default().to_string_lossy().chars().take(NAMED).collect();
    format!("{UNFINISHED}{name}-")
}

/// Holds a temporary file or folder as long as the handle is open. True when it is still there: another writer may have
/// taken it for a leftover before it was locked.
pub(crate) fn hold(handle: &File, path: &Path) -> bool {
    if !cfg!(unix) {
        return true;
    }
    // A file system without locks protects nothing and removes nothing.
    handle.lock().is_err() || path.symlink_metadata().is_ok()
}

/// Removes what dead processes left beside `target` while they wrote it.
pub(crate) fn remove_leftovers(target: &Path) {
    if !cfg!(unix) {
        return;
    }
    let prefix = prefix(target);
    for path in take_found(folder_of(target), &prefix) {
        // The lock is held until the leftover is gone. A pipe would be waited for, and a link is not ours.
        let is_ours = path.symlink_metadata().is_ok_and(|about| about.is_dir() || about.is_file());
        let Some(handle) = is_ours.then(|| File::open(&path).ok()).flatten() else { continue };
        if handle.try_lock().is_err() || is_only_copy(&path, target) {
            continue;
        }
        // What cannot be removed does no harm.
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
}

/// A stop between the two renames of a replaced folder leaves the old one under a temporary name and nothing under its
/// own.
fn is_only_copy(path: &Path, target: &Path) -> bool {
    target.symlink_metadata().is_err() && path.join(OLD).symlink_metadata().is_ok()
}

/// The temporary names with this prefix that were in the folder when this process first wrote to it.
fn take_found(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.get_or_insert_default();
    let names = match found.get_mut(folder) {
        Some(names) => names,
        None => found.entry(folder.to_owned()).or_insert(temporaries(folder).unwrap_or_default()),
    };
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(prefix).is_some_and(|random| random.len() == RANDOM && !random.contains('-'))
    };
    names.extract_if(.., |path| is_ours(path)).collect()
}

fn temporaries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| crate::is_unfinished(path)).collect())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{PendingFile, replace_file, replace_folder};

    /// What a killed writer of `target` leaves behind.
    fn leftover(target: &Path) -> PathBuf {
        folder_of(target).join(format!("{}a1B2c3", prefix(target)))
    }

    #[test]
    fn the_next_writer_removes_what_a_dead_one_left() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("scores.jsonl");
        fs::write(leftover(&target), "half").unwrap();
        let other = leftover(&folder.path().join("other.jsonl"));
        fs::write(&other, "half").unwrap();
        replace_file(&target, b"whole").unwrap();
        assert!(!leftover(&target).exists(), "nobody holds it");
        assert!(other.exists(), "another target's");
        let adapter = folder.path().join("sub/adapter");
        fs::create_dir_all(leftover(&adapter).join("deep")).unwrap();
        replace_folder(&adapter, |_| Ok::<_, crate::Error>(())).unwrap();
        assert_eq!(fs::read_dir(adapter.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_live_writer_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("scores.jsonl");
        let live = leftover(&target);
        let held = File::create(&live).unwrap();
        assert!(hold(&held, &live));
        replace_file(&target, b"whole").unwrap();
        assert!(live.exists());
    }

    #[test]
    fn the_only_copy_of_a_folder_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("adapter");
        fs::create_dir_all(leftover(&target).join(OLD)).unwrap();
        replace_folder(&target, |_| Ok::<_, crate::Error>(())).unwrap();
        assert!(leftover(&target).join(OLD).exists());
    }

    #[test]
    fn long_and_similar_names_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["a", "a-b"].map(|name| folder.path().join(name));
        fs::write(leftover(&two), "half").unwrap();
        replace_file(&one, b"whole").unwrap();
        assert!(leftover(&two).exists());
        let long = folder.path().join("é".repeat(120));
        PendingFile::create(&long).unwrap().commit().unwrap();
        assert!(long.exists());
    }
}
