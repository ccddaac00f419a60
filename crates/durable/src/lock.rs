//! One writer at a time. The system releases a lock when its process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::plain::open_with;
use crate::unfinished::make_folder_of;
use crate::{Error, Result};

/// How often, and how long apart, a lock is asked for. A program that is just being started from the one that holds it
/// has a copy of it until it has replaced itself.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Opens a file to read and append to, or makes an empty one, and locks it for this process until the handle is closed.
/// One that another process holds is [`Error::is_in_use`].
pub fn lock_file(path: &Path) -> Result<File> {
    make_folder_of(path)?;
    for attempt in 1..=ATTEMPTS {
        let file = open_with(File::options().create(true).read(true).append(true), path)?;
        match file.try_lock() {
            // Its last holder may have removed it after it was opened here: then nobody else would find this lock.
            Ok(()) if is_at(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(error)) => return Err(Error::at(path)(error)),
        }
    }
    let message = "is in use by another process: wait until it has finished, or stop it";
    Err(Error::at(path)(io::Error::new(io::ErrorKind::ResourceBusy, message)))
}

/// Whether this is the file that `path` names now.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        match (file.metadata(), path.symlink_metadata()) {
            (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppendFile;

    #[test]
    fn the_second_is_refused_until_the_first_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/vectors");
        let mut first = AppendFile::open(&path).unwrap();
        first.append(b"one").unwrap();
        let refused = AppendFile::open(&path).unwrap_err();
        assert!(refused.is_in_use() && refused.to_string().contains("vectors: is in use by another process"));
        drop(first);
        let second = AppendFile::open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        // One that waits for a file that is then removed makes a new one.
        let waiting = {
            let path = path.clone();
            std::thread::spawn(move || lock_file(&path))
        };
        std::thread::sleep(Duration::from_millis(60));
        second.remove().unwrap();
        let third = waiting.join().unwrap().unwrap();
        assert!(path.exists() && lock_file(&path).unwrap_err().is_in_use());
        drop(third);
    }
}
