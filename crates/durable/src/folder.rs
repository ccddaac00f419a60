//! A folder that replaces another when all of it is on disk.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::unfinished::{InUse, UNFINISHED, folder_of, sync_folder};
use crate::{Error, Result};

/// Makes a folder in one piece, from what `fill` puts into it, and returns what `fill` returns. An earlier folder of that
/// name is moved away first and removed last; a stop between the two renames leaves it under a temporary name.
pub fn replace_folder<T, E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let temporary = temporary_in(folder_of(path)).map_err(Error::at(path))?;
    let in_use = InUse::new(temporary.path());
    let filled = fill(temporary.path())?;
    move_folder(temporary.path(), path)?;
    drop(in_use);
    // It has another name now.
    let _ = temporary.keep();
    Ok(filled)
}

/// Puts a finished folder in the place of another, synced to disk. For a folder that was filled under a temporary name
/// of the caller's, who locks it.
pub fn move_folder(from: &Path, to: &Path) -> Result<()> {
    sync_tree(from).map_err(Error::at(from))?;
    let parent = folder_of(to);
    if to.symlink_metadata().is_ok() {
        let old = temporary_in(parent).map_err(Error::at(to))?;
        let aside = old.path().join("old");
        fs::rename(to, &aside).map_err(Error::at(to))?;
        if let Err(error) = fs::rename(from, to) {
            // The old one is better than none.
            if fs::rename(&aside, to).is_err() {
                let kept = old.keep().join("old");
                let message = format!("{error}; what was there before is in {}", kept.display());
                return Err(Error::at(to)(std::io::Error::new(error.kind(), message)));
            }
            return Err(Error::at(to)(error));
        }
    } else {
        fs::rename(from, to).map_err(Error::at(to))?;
    }
    sync_folder(parent).map_err(Error::at(to))
}

/// Removes a folder so that no half of it is ever found under its name.
pub fn remove_folder(path: &Path) -> Result<()> {
    let old = temporary_in(folder_of(path)).map_err(Error::at(path))?;
    fs::rename(path, old.path().join("old")).map_err(Error::at(path))?;
    old.close().map_err(Error::at(path))
}

/// Temporary folders of the tempfile crate are private; ours get the permissions that a plain `mkdir` would give them.
fn temporary_in(parent: &Path) -> std::io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    builder.tempdir_in(parent)
}

fn sync_tree(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_whole_or_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("adapter");
        let fill = |text: &'static str| {
            move |folder: &Path| crate::replace_file(&folder.join("weights"), text.as_bytes())
        };
        replace_folder(&path, fill("old")).unwrap();
        let failed = replace_folder(&path, |folder| {
            fill("half")(folder)?;
            crate::replace_file(&folder.join("no such folder/x"), b"")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "old");
        replace_folder(&path, fill("new")).unwrap();
        assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), "new");
        let left = || -> Vec<_> {
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(left(), ["adapter"]);
        remove_folder(&path).unwrap();
        assert!(left().is_empty() && remove_folder(&path).is_err() && left().is_empty());
    }
}
