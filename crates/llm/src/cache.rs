//! Answers on disk, so that a request that was answered once is never paid for again.
//!
//! An entry is `FOLDER/ab/ab12….answer`, named by the blake3 hash of the request: its path, its body with sorted keys (the
//! model, the seed and everything else included), and the server's address only where the request names no model. Inside:
//!
//! ```text
//! gradus-answer 1 9f86d081…        the blake3 hash of the entry's name and the rest of the file
//! {"choices": [{"index": 0, …
//! ```
//!
//! A file whose hash is wrong is told, counts as absent and is written anew. Files appear under their name at once and whole, so
//! any number of processes may share a folder. Nothing is ever thrown away, and no header or key is kept.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_core::contracts::CallError;
use gradus_durable::PendingFile;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{Error, Result};

const MARK: &str = "gradus-answer 1 ";
/// Files that are read or written at once; each takes a thread, and a thousand requests may come together.
const AT_ONCE: usize = 16;

/// A folder of answers. Clones are the same cache.
///
/// ```
/// use gradus_llm::{Cache, Endpoint, Http};
/// let folder = tempfile::tempdir().unwrap();
/// let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "qwen")).unwrap();
/// let http = http.with_cache(Cache::open(folder.path()).unwrap());
/// assert_eq!(http.counters().cached, 0);
/// ```
#[derive(Clone)]
pub struct Cache {
    folder: Arc<PathBuf>,
    turns: Arc<Semaphore>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.folder).finish()
    }
}

/// The cache entry of one request.
pub(crate) struct Entry {
    cache: Cache,
    name: String,
}

impl Cache {
    /// The cache in `folder`, which is made if it is not there.
    pub fn open(folder: &Path) -> Result<Self> {
        let refuse = |source| Error::Cache { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(refuse)?;
        std::fs::read_dir(folder).map_err(refuse)?;
        Ok(Self { folder: Arc::new(folder.to_owned()), turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    pub(crate) fn entry(&self, path: &str, address: &str, body: &[u8]) -> Entry {
        let mut hasher = blake3::Hasher::new();
        let body = match serde_json::from_slice::<Value>(body) {
            Ok(mut value) => {
                value.sort_all_objects();
                value.to_string().into_bytes()
            }
            Err(_) => body.to_vec(),
        };
        for part in [path.as_bytes(), address.as_bytes(), &body] {
            // The length keeps one part's end from being another's beginning.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Entry { cache: self.clone(), name: hasher.finalize().to_string() }
    }
}

impl Entry {
    /// The answer, if a whole one is there.
    pub(crate) async fn get(&self) -> Option<Vec<u8>> {
        let (path, name) = (self.path(), self.name.clone());
        let read = self.in_thread(move || {
            let bytes = std::fs::read(&path)?;
            let answer = unpack(&name, &bytes);
            if answer.is_none() {
                gradus_durable::report_damage(&path, "damaged; its request is sent again");
            }
            Ok(answer)
        });
        read.await.ok().flatten()
    }

    /// Keeps an answer.
    pub(crate) async fn put(&self, answer: Vec<u8>) -> std::result::Result<(), CallError> {
        let (path, name) = (self.path(), self.name.clone());
        let write = self.in_thread(move || write(&path, &pack(&name, &answer)));
        write.await.map_err(|error| {
            let folder = self.cache.folder.display();
            CallError::Failed(format!(
                "the answer cannot be kept in the cache's folder {folder}: {error}; make room or make it writable, or \
                 work without a cache"
            ))
        })
    }

    async fn in_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.cache.turns.clone().acquire_owned().await.map_err(io::Error::other)?;
        let work = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(turn);
            outcome
        });
        work.await.map_err(io::Error::other)?
    }

    fn path(&self) -> PathBuf {
        self.cache.folder.join(&self.name[..2]).join(format!("{}.answer", self.name))
    }
}

fn checksum(name: &str, answer: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(name.as_bytes()).update(answer).finalize()
}

fn pack(name: &str, answer: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{MARK}{}\n", checksum(name, answer)).into_bytes();
    bytes.extend_from_slice(answer);
    bytes
}

fn unpack(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(MARK.as_bytes())?;
    let (hash, answer) = rest.split_at_checked(64)?;
    let answer = answer.strip_prefix(b"\n")?;
    let whole = blake3::Hash::from_hex(hash).ok()? == checksum(name, answer);
    whole.then(|| answer.to_vec())
}

/// Writes an entry whole. It is not synced: it has a checksum, and a lost one is asked for again.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let write = || {
        let mut pending = PendingFile::create(path)?;
        let written = pending.write_all(bytes);
        written.map_err(|source| gradus_durable::Error { path: path.to_owned(), source })?;
        pending.commit_unsynced()
    };
    write().map_err(|error| error.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_the_request_and_not_its_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let name = |path: &str, address: &str, body: &str| cache.entry(path, address, body.as_bytes()).name;
        let one = name("/v1/x", "", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#);
        assert_eq!(one, name("/v1/x", "", r#"{"a":{"c":2,"b":1},"model":"m"}"#));
        for other in [
            name("/v1/y", "", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#),
            name("/v1/x", "http://a/v1", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#),
            name("/v1/x", "", r#"{"model": "n", "a": {"b": 1, "c": 2}}"#),
            name("/v1/x", "", r#"{"model": "m", "a": {"b": 1, "c": 3}}"#),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn damage_anywhere_is_found() {
        let whole = pack("name", b"{\"answer\": 42}");
        assert_eq!(unpack("name", &whole).unwrap(), b"{\"answer\": 42}");
        assert_eq!(unpack("other", &whole), None);
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            assert_eq!(unpack("name", &damaged), None, "byte {place}");
            assert_eq!(unpack("name", &whole[..place]), None, "cut at {place}");
        }
    }
}
