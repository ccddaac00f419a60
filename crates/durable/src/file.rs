//! A file that replaces another when all of it is on disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::leftover::{RANDOM, hold, prefix, remove_leftovers};
use crate::unfinished::{InUse, folder_of, make_folder_of, sync_folder};
use crate::{Error, Result};

/// Writes a file in one piece. A device or a pipe, such as `/dev/stdout`, is written to as it is: nothing can take its
/// place.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_file_with(path, |output| output.write_all(bytes))
}

/// Writes a file in one piece, in a folder that came from elsewhere: where `path` is a symbolic link, a pipe or a device,
/// the file takes its place and nothing is written to it.
pub fn replace_plain_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let pending = PendingFile::create_plain(path)?;
    fill(pending.file(), |output| output.write_all(bytes)).map_err(Error::at(path))?;
    pending.commit()
}

/// As [`replace_file`], from what `write` puts into the file.
fn replace_file_with(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> Result<()> {
    if path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        let file = File::options().write(true).open(path).map_err(Error::at(path))?;
        return fill(&file, write).map_err(Error::at(path));
    }
    let pending = PendingFile::create(path)?;
    fill(pending.file(), write).map_err(Error::at(path))?;
    pending.commit()
}

fn fill(file: &File, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(256 << 10, file);
    write(&mut output)?;
    output.flush()
}

/// Gives a finished file its name, synced to disk. For a file that is filled over several runs, such as a download: its
/// temporary name is the caller's, who locks it.
pub fn move_file(from: &Path, to: &Path) -> Result<()> {
    File::open(from).and_then(|file| file.sync_all()).map_err(Error::at(from))?;
    std::fs::rename(from, to).and_then(|()| sync_folder(folder_of(to))).map_err(Error::at(to))
}

/// A file being written under a temporary name. Dropped without [`PendingFile::commit`], it leaves nothing behind.
pub struct PendingFile {
    temporary: NamedTempFile,
    in_use: InUse,
    destination: PathBuf,
}

impl PendingFile {
    /// Begins a file, in a folder that is made where it is missing. Where `path` is a symbolic link, what it leads to is
    /// replaced, or made where it is missing, and the link stays.
    pub fn create(path: &Path) -> Result<Self> {
        Self::create_plain(&path.canonicalize().unwrap_or_else(|_| led_to(path)))
    }

    /// As [`PendingFile::create`], in a folder that came from elsewhere: a symbolic link is replaced, not followed.
    pub fn create_plain(path: &Path) -> Result<Self> {
        let destination = path.to_owned();
        make_folder_of(&destination)?;
        remove_leftovers(&destination);
        loop {
            let temporary = temporary_for(&destination).map_err(Error::at(path))?;
            if hold(temporary.as_file(), temporary.path()) {
                let in_use = InUse::new(temporary.path());
                return Ok(Self { temporary, in_use, destination });
            }
        }
    }

    /// What to write into.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Where it is now, under its temporary name.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts the file in its place, synced to disk.
    pub fn commit(self) -> Result<()> {
        self.temporary.as_file().sync_all().map_err(Error::at(&self.destination))?;
        let destination = self.put_in_place()?;
        sync_folder(folder_of(&destination)).map_err(Error::at(&destination))
    }

    /// Puts the file in its place and leaves it to the system when it reaches the disk. For files that carry a checksum
    /// and can be made again, such as the entries of a cache.
    pub fn commit_unsynced(self) -> Result<()> {
        self.put_in_place().map(drop)
    }

    fn put_in_place(self) -> Result<PathBuf> {
        let Self { temporary, in_use, destination } = self;
        if cfg!(unix)
            && let Ok(existing) = destination.symlink_metadata()
            && existing.is_file()
        {
            let kept = temporary.as_file().set_permissions(existing.permissions());
            kept.map_err(Error::at(&destination))?;
        }
        drop(in_use);
        match temporary.persist(&destination) {
            Ok(_) => Ok(destination),
            Err(error) => Err(Error::at(&destination)(error.error)),
        }
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.as_file_mut().flush()
    }
}

/// What a path leads to that leads to nothing yet: itself, or the end of its symbolic links. A loop has none.
fn led_to(path: &Path) -> PathBuf {
    let mut end = path.to_owned();
    // Linux follows as many.
    for _ in 0..40 {
        let Ok(next) = end.read_link() else { return end };
        end = folder_of(&end).join(next);
    }
    path.to_owned()
}

/// Temporary files of the tempfile crate are private; ours get the permissions that a plain `create` would give them.
fn temporary_for(destination: &Path) -> io::Result<NamedTempFile> {
    let prefix = prefix(destination);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(destination))
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
        let plain = folder.path().join("plain");
        std::fs::write(&plain, b"").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&plain));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_stays_and_leads_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (link, first) = (folder.path().join("link"), folder.path().join("first"));
        std::os::unix::fs::symlink("first", &link).unwrap();
        std::os::unix::fs::symlink("deep/real", &first).unwrap();
        replace_file(&link, b"new").unwrap();
        assert!(link.is_symlink() && first.is_symlink());
        assert_eq!(std::fs::read(folder.path().join("deep/real")).unwrap(), b"new");
        // Links that lead to each other lead nowhere: the file takes the place of the one that was named.
        let loops = ["a", "b"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("b", &loops[0]).unwrap();
        std::os::unix::fs::symlink("a", &loops[1]).unwrap();
        replace_file(&loops[0], b"new").unwrap();
        assert!(!loops[0].is_symlink() && loops[1].is_symlink());
    }

    #[test]
    fn a_file_that_is_moved_or_not_synced_is_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (part, path) = (folder.path().join("x.part"), folder.path().join("x"));
        std::fs::write(&part, b"1").unwrap();
        move_file(&part, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
        let mut pending = PendingFile::create(&path).unwrap();
        pending.write_all(b"2").unwrap();
        pending.commit_unsynced().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn a_missing_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep/x");
        replace_file(&path, b"1").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
        let inside_a_file = replace_file(&path.join("y"), b"2").unwrap_err().to_string();
        assert!(inside_a_file.ends_with("deep/x: is a file, not a folder"), "{inside_a_file}");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to() {
        replace_file(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }
}
