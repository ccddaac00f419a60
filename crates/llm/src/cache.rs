//! Answers on disk, so that a request that was answered once is not paid for again.
//!
//! They lie in one SQLite file, `FOLDER/answers.sqlite`, under the blake3 hash of their request: its path, its body with
//! sorted keys (the model, the seed and everything else included), and the server's address only where the request names
//! no model. Any number of processes of one machine may share it. When it has reached its size limit, the least recently
//! used answers are removed. No header or key is kept.
//!
//! - `database`: the file, its tables, and how an answer is found, kept and removed
//! - `packed`: an answer as it is kept, compressed and with a checksum
//! - `reader` and `writer`: the threads that own the connections
//! - `old_layout`: takes over the files of earlier versions, one for each answer

mod database;
mod old_layout;
mod packed;
mod reader;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_core::contracts::CallError;
use rusqlite::Connection;
use serde_json::Value;

use crate::{Error, Result};
use database::Opened;
use reader::Readers;
use writer::Writer;

/// The blake3 hash of a request.
type Key = [u8; 32];

/// A folder of answers. Clones are the same cache.
///
/// ```
/// use gradus_llm::{Cache, Endpoint, Http};
/// let folder = tempfile::tempdir().unwrap();
/// let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "qwen")).unwrap();
/// let http = http.with_cache(Cache::open(folder.path(), None).unwrap());
/// assert_eq!(http.counters().cached, 0);
/// ```
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    /// They end first: the last connection that closes must be one that may write, as it empties SQLite's log.
    readers: Readers,
    /// Why nothing can be kept, where that is so.
    writer: std::result::Result<Writer, String>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.inner.folder).finish()
    }
}

/// The cache entry of one request.
pub(crate) struct Entry {
    cache: Cache,
    key: Key,
}

impl Cache {
    /// Bytes of a cache where nobody says otherwise: 10 GiB.
    pub const DEFAULT_SIZE: u64 = 10 << 30;

    /// The cache in `folder`, which is made if it is not there. Beyond `limit` bytes the least recently used answers are
    /// removed. The limit stays with the folder: without one, that of the last call that gave one holds, so that a command
    /// without the option does not remove what another was told to keep. A folder that cannot be written still answers
    /// what it has.
    pub fn open(folder: &Path, limit: Option<u64>) -> Result<Self> {
        let refuse = |source| Error::Cache { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(refuse)?;
        std::fs::read_dir(folder).map_err(refuse)?;
        let path = folder.join("answers.sqlite");
        let refuse = |why: String| Error::CacheFile { path: path.clone(), why };
        let Opened { access, writer } = database::open(&path).map_err(refuse)?;
        let writer = match writer {
            Ok(mut connection) => {
                let prepare = |connection: &mut Connection| {
                    if let Some(limit) = limit {
                        database::set_limit(connection, limit)?;
                    }
                    old_layout::take_over(connection, folder)
                };
                prepare(&mut connection).map_err(|error| refuse(error.to_string()))?;
                Ok(Writer::start(connection, &path).map_err(|error| refuse(error.to_string()))?)
            }
            Err(why) => Err(why),
        };
        let used = writer.as_ref().ok().and_then(Writer::orders);
        let readers = Readers::start(&path, access, used).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { inner: Arc::new(Inner { folder: folder.to_owned(), readers, writer }) })
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
        Entry { cache: self.clone(), key: hasher.finalize().into() }
    }
}

impl Entry {
    /// The answer, if a whole one is there.
    pub(crate) async fn get(&self) -> Option<Vec<u8>> {
        self.cache.inner.readers.get(self.key).await
    }

    /// Keeps an answer. Once this returns, the end of this process does not lose it.
    pub(crate) async fn put(&self, answer: Vec<u8>) -> std::result::Result<(), CallError> {
        let inner = &self.cache.inner;
        let written = match &inner.writer {
            Ok(writer) => writer.put(self.key, answer).await,
            Err(why) => Err(why.clone()),
        };
        written.map_err(|why| {
            let folder = inner.folder.display();
            CallError::Failed(format!(
                "the answer cannot be kept in the cache's folder {folder}: {why}; make room or make it writable, or \
                 work without a cache"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_the_request_and_not_its_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), None).unwrap();
        let key = |path: &str, address: &str, body: &str| cache.entry(path, address, body.as_bytes()).key;
        let one = key("/v1/x", "", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#);
        assert_eq!(one, key("/v1/x", "", r#"{"a":{"c":2,"b":1},"model":"m"}"#));
        for other in [
            key("/v1/y", "", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#),
            key("/v1/x", "http://a/v1", r#"{"model": "m", "a": {"b": 1, "c": 2}}"#),
            key("/v1/x", "", r#"{"model": "n", "a": {"b": 1, "c": 2}}"#),
            key("/v1/x", "", r#"{"model": "m", "a": {"b": 1, "c": 3}}"#),
        ] {
            assert_ne!(one, other);
        }
    }
}
