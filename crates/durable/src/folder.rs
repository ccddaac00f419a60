//! A folder that replaces another when all of it is on disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::leftover::{OLD, RANDOM, hold, prefix, remove_leftovers};
use crate::unfinished::{InUse, folder_of, make_folder_of, sync_folder};
use crate::{Error, Result};

/// Makes a folder in one piece, from what `fill` puts into it, and returns what `fill` returns. An earlier folder of that
/// name is moved away first and removed last; a stop between the two renames leaves it under a temporary name. Where
/// `path` is a symbolic link, the folder that it leads to is replaced and the link stays.
pub fn replace_folder<T, E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let destination = destination_of(path)?;
    make_folder_of(&destination)?;
    remove_leftovers(&destination);
    let (temporary, held) = temporary_for(&destination).map_err(Error::at(path))?;
    let in_use = InUse::new(temporary.path());
    let filled = fill(temporary.path())?;
    move_folder(temporary.path(), &destination)?;
    drop((in_use, held));
    // It has another name now.
    let _ = temporary.keep();
    Ok(filled)
}

/// Puts a finished folder in the place of another, synced to disk. For a folder that was filled under a temporary name
/// of the caller's, who locks it. Where `to` is a symbolic link, the folder that it leads to is replaced and the link
/// stays; `from` must then lie on the file system of that folder.
pub fn move_folder(from: &Path, to: &Path) -> Result<()> {
    let to = &destination_of(to)?;
    sync_tree(from).map_err(Error::at(from))?;
    let parent = folder_of(to);
    if to.symlink_metadata().is_ok() {
        let (old, _held) = temporary_for(to).map_err(Error::at(to))?;
        let aside = old.path().join(OLD);
        fs::rename(to, &aside).map_err(Error::at(to))?;
        if let Err(error) = fs::rename(from, to) {
            // The old one is better than none.
            if fs::rename(&aside, to).is_err() {
                let kept = old.keep().join(OLD);
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

/// What is replaced: the folder that a symbolic link leads to. A link that leads nowhere is refused.
fn destination_of(path: &Path) -> Result<PathBuf> {
    match path.symlink_metadata() {
        Ok(about) if about.is_symlink() => path.canonicalize().map_err(Error::at(path)),
        _ => Ok(path.to_owned()),
    }
}

/// Removes a folder so that no half of it is ever found under its name; of a symbolic link, the link.
pub fn remove_folder(path: &Path) -> Result<()> {
    let (old, _held) = temporary_for(path).map_err(Error::at(path))?;
    fs::rename(path, old.path().join(OLD)).map_err(Error::at(path))?;
    old.close().map_err(Error::at(path))
}

/// A temporary folder beside `destination`, and the handle that holds it where folders can be opened. Temporary folders
/// of the tempfile crate are private; ours get the permissions that a plain `mkdir` would give them.
fn temporary_for(destination: &Path) -> std::io::Result<(TempDir, Option<File>)> {
    let prefix = prefix(destination);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    loop {
        let folder = builder.tempdir_in(folder_of(destination))?;
        let handle = File::open(folder.path()).ok();
        if handle.as_ref().is_none_or(|handle| hold(handle, folder.path())) {
            return Ok((folder, handle));
        }
    }
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
            crate::replace_file(&folder.join("weights/x"), b"")
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

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_folder_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("disk/adapter"), root.path().join("adapter"));
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("weights"), "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace_folder(&link, |folder| crate::replace_file(&folder.join("weights"), b"new")).unwrap();
        let weights = || fs::read_to_string(real.join("weights")).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(weights(), "new");
        let part = root.path().join("part");
        fs::create_dir(&part).unwrap();
        fs::write(part.join("weights"), "newer").unwrap();
        move_folder(&part, &link).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(weights(), "newer");
        assert_eq!(fs::read_dir(root.path().join("disk")).unwrap().count(), 1);
        fs::remove_dir_all(&real).unwrap();
        let refused = replace_folder(&link, |_| Ok::<_, Error>(())).unwrap_err().to_string();
        assert!(refused.ends_with("adapter: No such file or directory"), "{refused}");
    }
}
