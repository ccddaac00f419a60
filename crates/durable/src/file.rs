//! A file that replaces another when all of it is on disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::unfinished::{InUse, UNFINISHED, folder_of, sync_folder};
use crate::{Error, Result};

/// Writes a file in one piece.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_file_with(path, |output| output.write_all(bytes))
}

/// Writes a file in one piece, from what `write` puts into it.
pub fn replace_file_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    let pending = PendingFile::create(path)?;
    let mut output = BufWriter::with_capacity(256 << 10, pending.file());
    write(&mut output).and_then(|()| output.flush()).map_err(Error::at(path))?;
    drop(output);
    pending.commit()
}

/// A file being written under a temporary name. Dropped without [`PendingFile::commit`], it leaves nothing behind.
pub struct PendingFile {
    temporary: NamedTempFile,
    in_use: InUse,
    destination: PathBuf,
}

impl PendingFile {
    /// Begins a file. Where `path` is a symbolic link, what it leads to is replaced and the link stays.
    pub fn create(path: &Path) -> Result<Self> {
        let destination = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder_of(&destination));
        let temporary = temporary.map_err(Error::at(path))?;
        let in_use = InUse::new(temporary.path());
        Ok(Self { temporary, in_use, destination })
    }

    /// What to write into.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Puts the file in its place, synced to disk.
    pub fn commit(self) -> Result<()> {
        let Self { temporary, in_use, destination } = self;
        let at = || Error::at(&destination);
        give_permissions(&temporary, &destination).map_err(at())?;
        temporary.as_file().sync_all().map_err(at())?;
        drop(in_use);
        temporary.persist(&destination).map_err(|error| at()(error.error))?;
        sync_folder(folder_of(&destination)).map_err(at())
    }
}

/// Temporary files are private; the finished file gets the permissions of the one that it replaces, or those that a
/// plain `create` would have given it.
#[cfg(unix)]
fn give_permissions(temporary: &NamedTempFile, destination: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = destination.metadata().map_or(0o644, |existing| existing.permissions().mode());
    temporary.as_file().set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn give_permissions(_: &NamedTempFile, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_fails_or_is_dropped_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        replace_file(&path, b"old").unwrap();
        let failed = replace_file_with(&path, |output| {
            output.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().ends_with("a.npy: the disk is full"));
        drop(PendingFile::create(&path).unwrap());
        assert_eq!(
            (std::fs::read(&path).unwrap(), names(folder.path())),
            (b"old".to_vec(), vec!["a.npy".to_owned()])
        );
    }

    #[test]
    fn two_writers_of_like_names_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] =
            ["a.npy", "a.jsonl"].map(|name| PendingFile::create(&folder.path().join(name)).unwrap());
        one.file().write_all(b"1").unwrap();
        two.file().write_all(b"2").unwrap();
        one.commit().unwrap();
        two.commit().unwrap();
        assert_eq!(names(folder.path()), ["a.jsonl", "a.npy"]);
        assert_eq!(std::fs::read(folder.path().join("a.npy")).unwrap(), b"1");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("real"), folder.path().join("link"));
        replace_file(&path, b"old").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
