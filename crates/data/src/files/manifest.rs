//! An output in shards: what they are called, and a manifest that lists those that are whole.
//!
//! Shards of `labels.jsonl.zst` are `labels-00000-of-00050.jsonl.zst` and so on, as on the Hugging Face hub, and their
//! manifest is `labels.manifest.json`:
//!
//! ```json
//! {"gradus_shards": 1, "job": "9f86…", "shard_size": 100000, "complete": false,
//!  "shards": [{"file": "labels-00000-of-00050.jsonl.zst", "records": 100000, "bytes": 8123456, "blake3": "ab12…"}]}
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gradus_remote::{Address, Expected, Found, Version};
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

    /// The files in the folder of the shards, by name.
    pub fn existing(&self) -> Result<HashMap<String, Existing>> {
        let mut found = HashMap::new();
        if let Some(address) = Address::of(&self.folder) {
            // A folder of an object store is there as soon as something is in it.
            let listed = match gradus_remote::find(&Address::parse(&format!("{address}/")).unwrap_or(address))
            {
                Ok(Found::Folder(files)) => files,
                Ok(Found::File(file)) => vec![file],
                Err(gradus_remote::Error::Missing(_)) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            for file in listed {
                if let Some(version) = file.version {
                    let existing = Existing::Elsewhere { bytes: file.size.unwrap_or_default(), version };
                    found.insert(file.address.file_name().to_owned(), existing);
                }
            }
            return Ok(found);
        }
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        for entry in std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))? {
            let entry = entry.map_err(|source| Error::io(folder, source))?;
            found.insert(entry.file_name().to_string_lossy().into_owned(), Existing::Here(entry.path()));
        }
        Ok(found)
    }

    /// A file that is called like a shard of this output, but is none of these.
    pub fn stale(&self, existing: &HashMap<String, Existing>) -> Option<PathBuf> {
        for name in existing.keys() {
            let of_this = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('-'));
            let Some((number, rest)) = of_this.and_then(|rest| rest.split_once("-of-")) else { continue };
            let (count, _) = rest.split_once('.').unwrap_or((rest, ""));
            let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(number) || !digits(count) {
                continue;
            }
            let number = number.parse().unwrap_or(usize::MAX);
            let is_known = number < self.count && self.path(number).file_name() == Some(name.as_ref());
            if !is_known {
                return Some(self.folder.join(name));
            }
        }
        None
    }
}

/// A file in the folder of shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// On this machine.
    Here(PathBuf),
    /// In an object store.
    Elsewhere {
        /// Its size.
        bytes: u64,
        /// What its store calls it.
        version: Version,
    },
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
    /// What is at its address, where it is elsewhere.
    #[serde(skip)]
    there: Option<Version>,
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
    /// What the store that it was sent to calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ShardEntry {
    /// The entry of the shard `file` whose bytes are at `path`.
    pub fn of(path: &Path, file: String, records: u64, failed: usize) -> Result<Self> {
        let failing = |source| Error::io(path, source);
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&File::open(path).map_err(failing)?).map_err(failing)?;
        let (bytes, blake3) = (hasher.count(), hasher.finalize().to_string());
        Ok(Self { file, records, bytes, blake3, failed, version: None })
    }

    /// Whether a file is this shard.
    fn is(&self, existing: &Existing) -> bool {
        match existing {
            Existing::Here(path) => Self::of(path, self.file.clone(), self.records, self.failed)
                .is_ok_and(|found| (found.bytes, found.blake3) == (self.bytes, self.blake3.clone())),
            Existing::Elsewhere { bytes, version } => {
                *bytes == self.bytes
                    && version.etag.is_some()
                    && self.version.as_ref().is_some_and(|v| v.etag == version.etag)
            }
        }
    }
}

impl ShardManifest {
    /// A manifest without shards.
    pub fn new(job: &str, shard_size: usize) -> Self {
        let job = job.to_owned();
        Self { gradus_shards: VERSION, job, shard_size, complete: false, shards: Vec::new(), there: None }
    }

    /// The manifest in a file; none where there is no file.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let (bytes, version) = match Address::of(path) {
            Some(address) => match gradus_remote::read(&address, LARGEST)? {
                Some((bytes, file)) => (bytes, file.version),
                None => return Ok(None),
            },
            None if !path.exists() => return Ok(None),
            None => (gradus_durable::read_plain(path, LARGEST)?, None),
        };
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(manifest) if manifest.gradus_shards == VERSION => {
                Ok(Some(Self { there: version, ..manifest }))
            }
            _ => {
                let message = "is no list of shards of this version: move it away".to_owned();
                Err(Error::Output { path: path.to_owned(), message })
            }
        }
    }

    /// Writes it, whole or not at all; elsewhere, only over what was read or written last.
    pub fn write(&mut self, path: &Path) -> Result<()> {
        let failing = |source| Error::io(path, source);
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failing(error.into()))?;
        text.push('\n');
        let Some(address) = Address::of(path) else {
            return Ok(gradus_durable::replace_file(path, text.as_bytes())?);
        };
        let mut file = tempfile::NamedTempFile::new().map_err(failing)?;
        file.write_all(text.as_bytes()).map_err(failing)?;
        let expected = self.there.clone().map_or(Expected::Nothing, Expected::Version);
        self.there = gradus_remote::put(&address, file.path(), &expected)?;
        Ok(())
    }

    /// Adds a shard, or replaces the one of the same name.
    pub fn add(&mut self, entry: ShardEntry) {
        self.shards.retain(|known| known.file != entry.file);
        self.shards.push(entry);
        self.shards.sort_by(|one, other| one.file.cmp(&other.file));
    }

    /// Whether a shard is listed, with nothing left out, and its file has the bytes that are listed.
    pub fn intact(&self, names: &ShardNames, number: usize, existing: &HashMap<String, Existing>) -> bool {
        let path = names.path(number);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(listed) = self.shards.iter().find(|known| known.file == name) else { return false };
        listed.failed == 0 && existing.get(&name).is_some_and(|existing| listed.is(existing))
    }
}
