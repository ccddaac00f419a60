//! Takes over the files of earlier versions: `FOLDER/ab/ab12….answer`, named by the key, one for each answer. Inside:
//!
//! ```text
//! gradus-answer 1 9f86d081…        the blake3 hash of the key in hexadecimal and the rest of the file
//! {"choices": [{"index": 0, …
//! ```
//!
//! Files go when their answers are on disk, so a kill loses nothing and the next start goes on. Whatever else is in the
//! folder stays; no symbolic link is followed.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gradus_core::count::{counted, grouped};
use gradus_core::limits::Limit;
use rusqlite::Connection;

use super::Key;
use super::database;
use super::packed::{Packed, Packer};

const MARK: &str = "gradus-answer 1 ";
/// Answers, and bytes of them, that share a transaction at most.
const TOGETHER: usize = 512;
const BYTES_TOGETHER: usize = 8 << 20;

/// Puts the answers of the old files into the database and removes the files.
pub(super) fn take_over(connection: &mut Connection, folder: &Path) -> rusqlite::Result<()> {
    let folders = folders(folder);
    if folders.is_empty() {
        return Ok(());
    }
    let mut files: Vec<(SystemTime, Key)> =
        folders.iter().flat_map(|(path, name)| answers(path, name)).collect();
    // The oldest first: the order is that of their use from now on.
    files.sort_unstable();
    let mut moved = Moved::default();
    // A removed file does not come back after a power cut, so its answer must be on disk by then.
    connection.pragma_update(None, "synchronous", "FULL")?;
    for (_, key) in files {
        moved.add(folder, key);
        if moved.files.len() >= TOGETHER || moved.bytes >= BYTES_TOGETHER {
            moved.flush(connection)?;
        }
    }
    moved.flush(connection)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    for (path, _) in folders {
        // One that holds anything else stays.
        let _ = fs::remove_dir(path);
    }
    moved.report(folder);
    Ok(())
}

/// The sub-folders named by two hexadecimal digits.
fn folders(folder: &Path) -> Vec<(PathBuf, String)> {
    let is_ours = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(is_ours);
    let named = entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)));
    named.filter(|(_, name)| name.len() == 2 && is_hexadecimal(name)).collect()
}

/// When each answer in a sub-folder was written, and its key.
fn answers(path: &Path, start: &str) -> Vec<(SystemTime, Key)> {
    let read = |entry: DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let name =
            name.strip_suffix(".answer").filter(|name| name.starts_with(start) && is_hexadecimal(name))?;
        let key = *blake3::Hash::from_hex(name).ok()?.as_bytes();
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), key))
    };
    fs::read_dir(path).into_iter().flatten().flatten().filter_map(read).collect()
}

/// Digits as blake3 writes them, in lower case.
fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What was taken over so far.
#[derive(Default)]
struct Moved {
    packer: Packer,
    /// Answers that are not yet in the database, and their bytes.
    rows: Vec<(Key, Packed)>,
    bytes: usize,
    /// Files to remove once these are.
    files: Vec<PathBuf>,
    whole: usize,
    damaged: usize,
}

impl Moved {
    fn add(&mut self, folder: &Path, key: Key) {
        let name = blake3::Hash::from_bytes(key).to_hex();
        let path = folder.join(&name[..2]).join(format!("{name}.answer"));
        let limit = Limit::AnswerBytes.value().saturating_add(MARK.len() as u64 + 65);
        // What cannot be read stays: another time it may.
        let Ok(bytes) = gradus_durable::read_plain(&path, limit) else { return };
        match unpack(&name, &bytes) {
            Some(answer) => {
                let packed = self.packer.pack(&key, answer.to_vec());
                self.bytes += packed.bytes.len();
                self.whole += 1;
                self.rows.push((key, packed));
            }
            None => self.damaged += 1,
        }
        self.files.push(path);
    }

    fn flush(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = database::begin(connection)?;
        for (key, packed) in self.rows.drain(..) {
            // What another process has kept meanwhile is newer.
            if !database::has(&transaction, &key)? {
                database::write(&transaction, &key, &packed)?;
            }
        }
        transaction.commit()?;
        self.bytes = 0;
        for path in self.files.drain(..) {
            // One that cannot be removed is taken over again.
            let _ = gradus_durable::remove_plain(&path);
        }
        Ok(())
    }

    fn report(&self, folder: &Path) {
        if self.whole + self.damaged == 0 {
            return;
        }
        let mut what =
            format!("{} moved from files of their own into answers.sqlite", counted(self.whole, "response"));
        if self.damaged > 0 {
            what += &format!("; {} damaged, their requests are sent again", grouped(self.damaged));
        }
        gradus_durable::report_change(folder, &what);
    }
}

fn unpack<'a>(name: &str, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let rest = bytes.strip_prefix(MARK.as_bytes())?;
    let (hash, answer) = rest.split_at_checked(64)?;
    let answer = answer.strip_prefix(b"\n")?;
    let checksum = blake3::Hasher::new().update(name.as_bytes()).update(answer).finalize();
    (blake3::Hash::from_hex(hash).ok()? == checksum).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::super::Cache;
    use super::*;

    /// Writes an answer as earlier versions did.
    fn write(folder: &Path, key: Key, answer: &[u8]) -> PathBuf {
        let name = blake3::Hash::from_bytes(key).to_hex();
        let checksum = blake3::Hasher::new().update(name.as_bytes()).update(answer).finalize();
        let path = folder.join(&name[..2]).join(format!("{name}.answer"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, [format!("{MARK}{checksum}\n").as_bytes(), answer].concat()).unwrap();
        path
    }

    #[tokio::test]
    async fn old_files_are_taken_over_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), None).unwrap();
        let entries =
            |cache: &Cache| [0, 1, 2, 3].map(|number| cache.entry(&format!("/v1/{number}"), "", b"{}"));
        let keys = entries(&cache).map(|entry| entry.key);
        // The program was killed between keeping an answer and removing its file.
        entries(&cache)[0].put(b"answer 0".to_vec()).await.unwrap();
        drop(cache);
        let mut files = [0, 1, 2]
            .map(|number| write(folder.path(), keys[number], format!("answer {number}").as_bytes()))
            .to_vec();
        files.push(write(folder.path(), keys[3], b"answer 3"));
        let mut damaged = fs::read(&files[3]).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&files[3], damaged).unwrap();

        for _ in 0..2 {
            let cache = Cache::open(folder.path(), None).unwrap();
            for (number, entry) in entries(&cache).iter().enumerate() {
                let expected = (number < 3).then(|| format!("answer {number}").into_bytes());
                assert_eq!(entry.get().await, expected, "{number}");
            }
            assert!(files.iter().all(|file| !file.exists() && !file.parent().unwrap().exists()));
        }
    }

    #[test]
    fn many_old_files_take_several_transactions() {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<Key> =
            (0..TOGETHER + 10).map(|number| *blake3::hash(&number.to_le_bytes()).as_bytes()).collect();
        for key in &keys {
            write(folder.path(), *key, key);
        }
        drop(Cache::open(folder.path(), None).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let database = Connection::open(folder.path().join("answers.sqlite")).unwrap();
        assert!(keys.iter().all(|key| database::has(&database, key).unwrap()));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_else_is_touched_and_no_link_is_followed() {
        use std::os::unix::fs::symlink;
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let key = |start: u8| [start; 32];
        // A linked folder, a linked file, a file in the wrong folder, other names, and no folder at all.
        let real = write(outside.path(), key(0xaa), b"outside");
        symlink(outside.path().join("aa"), folder.path().join("aa")).unwrap();
        let linked = folder.path().join("bb").join(format!("{}.answer", "bb".repeat(32)));
        fs::create_dir(folder.path().join("bb")).unwrap();
        symlink(&real, &linked).unwrap();
        let mut stays = vec![real, linked];
        for name in [
            &format!("cc/{}.answer", "dd".repeat(32)),
            &format!("cc/{}.answer", "CC".repeat(32)),
            &format!("cc/{}.answer", "cc".repeat(31)),
            "cc/notes.txt",
            "CC/x.answer",
            "ccc/x.answer",
            "ee",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "something").unwrap();
            stays.push(path);
        }
        let taken = write(folder.path(), key(0xcc), b"inside");
        drop(Cache::open(folder.path(), None).unwrap());
        assert!(!taken.exists());
        for path in stays {
            assert!(path.symlink_metadata().is_ok(), "{}", path.display());
        }
    }
}
