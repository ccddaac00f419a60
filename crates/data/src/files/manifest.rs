//! An output in shards: what they are called, and a manifest that lists those that are whole.
//!
//! Shards of `labels.jsonl.zst` are `labels-00000-of-00050.jsonl.zst` and so on, as on the Hugging Face hub, and their
//! manifest is `labels.manifest.json`:
//!
//! ```json
//! {"gradus_shards": 1, "job": "9f86…", "shard_size": 100000, "complete": false,
//!  "shards": [{"file": "labels-00000-of-00050.jsonl.zst", "records": 100000, "bytes": 8123456, "blake3": "ab12…"}]}
//! ```

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gradus_durable::PendingFile;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Version of the manifest.
const VERSION: u32 = 1;
/// How the name of a manifest ends.
pub(crate) const ENDING: &str = ".manifest.json";
/// A manifest that is larger was not written by this program.
const LARGEST: u64 = 256 << 20;

/// What the shards of an output are called.
///
/// ```
/// use gradus_data::files::manifest::ShardNames;
/// let names = ShardNames::new("out/labels.v2.parquet".as_ref(), 12);
/// assert_eq!(names.path(3).to_str(), Some("out/labels.v2-00003-of-00012.parquet"));
/// assert_eq!(names.manifest().to_str(), Some("out/labels.v2.manifest.json"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardNames {
    folder: PathBuf,
    stem: String,
    /// With its dot.
    extension: String,
    count: usize,
}

impl ShardNames {
    /// The names of `count` shards of `output`; an output without a known extension is `.jsonl.zst`.
    pub fn new(output: &Path, count: usize) -> Self {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        let known = [".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv"];
        let stem = known.iter().find_map(|end| plain.strip_suffix(end)).filter(|stem| !stem.is_empty());
        let (stem, extension) = match stem {
            Some(stem) => (stem.to_owned(), name[stem.len()..].to_owned()),
            None => (name, ".jsonl.zst".to_owned()),
        };
        Self { folder: output.parent().unwrap_or(Path::new("")).to_owned(), stem, extension, count }
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A shard.
    pub fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}-{number:05}-of-{:05}{}", self.stem, self.count, self.extension))
    }

    /// The manifest.
    pub fn manifest(&self) -> PathBuf {
        self.folder.join(format!("{}{ENDING}", self.stem))
    }

    /// A file that is called like a shard of this output, but is none of these.
    pub fn stale(&self) -> Result<Option<PathBuf>> {
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        for entry in std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))? {
            let entry = entry.map_err(|source| Error::io(folder, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let of_this = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('-'));
            let Some((number, rest)) = of_this.and_then(|rest| rest.split_once("-of-")) else { continue };
            let (count, _) = rest.split_once('.').unwrap_or((rest, ""));
            let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(number) || !digits(count) {
                continue;
            }
            let number = number.parse().unwrap_or(usize::MAX);
            let is_known = number < self.count && self.path(number).file_name() == Some(&entry.file_name());
            if !is_known {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    }
}

/// The shards of an output that are whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardManifest {
    gradus_shards: u32,
    /// The fingerprint of the work that writes them.
    pub job: String,
    /// Records per shard that were asked for.
    pub shard_size: usize,
    /// Whether all of them are there.
    pub complete: bool,
    /// The shards, in their order.
    pub shards: Vec<ShardEntry>,
}

/// A shard that is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// The name of its file.
    pub file: String,
    /// Its records.
    pub records: u64,
    /// Its size.
    pub bytes: u64,
    /// The hash of its bytes.
    pub blake3: String,
    /// Tasks of it that failed and were left out; the next run tries them again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ShardEntry {
    /// The entry of a shard that has just been written.
    pub fn of(path: &Path, records: u64, failed: usize) -> Result<Self> {
        let failing = |source| Error::io(path, source);
        let mut hasher = blake3::Hasher::new();
        let file = File::open(path).map_err(failing)?;
        hasher.update_reader(&file).map_err(failing)?;
        Ok(Self {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            records,
            bytes: hasher.count(),
            blake3: hasher.finalize().to_string(),
            failed,
        })
    }
}

impl ShardManifest {
    /// A manifest without shards.
    pub fn new(job: &str, shard_size: usize) -> Self {
        let job = job.to_owned();
        Self { gradus_shards: VERSION, job, shard_size, complete: false, shards: Vec::new() }
    }

    /// The manifest in a file; none where there is no file.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let bytes = gradus_durable::read_plain(path, LARGEST)?;
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(manifest) if manifest.gradus_shards == VERSION => Ok(Some(manifest)),
            _ => {
                let message = "is no list of shards of this version: move it away".to_owned();
                Err(Error::Output { path: path.to_owned(), message })
            }
        }
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failing = |source| Error::io(path, source);
        let text = serde_json::to_string_pretty(self).map_err(|error| failing(error.into()))?;
        let pending = PendingFile::create(path)?;
        pending
            .file()
            .write_all(text.as_bytes())
            .and_then(|()| pending.file().write_all(b"\n"))
            .map_err(failing)?;
        Ok(pending.commit()?)
    }

    /// Adds a shard, or replaces the one of the same name.
    pub fn add(&mut self, entry: ShardEntry) {
        self.shards.retain(|known| known.file != entry.file);
        self.shards.push(entry);
        self.shards.sort_by(|one, other| one.file.cmp(&other.file));
    }

    /// Whether a shard is listed, with nothing left out, and its file has the bytes that are listed.
    pub fn intact(&self, names: &ShardNames, number: usize) -> bool {
        let path = names.path(number);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(listed) = self.shards.iter().find(|known| known.file == name) else { return false };
        listed.failed == 0 && ShardEntry::of(&path, listed.records, 0).is_ok_and(|found| found == *listed)
    }
}
