//! `manifest.json`: what a pool was made with, how much is in it, and a checksum of every file.
//!
//! ```json
//! {"gradus_pool":1,"encoder":"all-minilm-l6-v2","fingerprint":"…","dimension":384,"kept":128,"pca":true,
//!  "guard":{"threshold":0.8,"num_perm":128,"shingle":3},
//!  "counts":{"questions":7473,"solutions":7473,"steps":26000,"step_texts":25000,"guard_keys":194298},
//!  "files":{"questions":{"name":"questions.f32","bytes":3826176,"blake3":"…"}, …},"checksum":"…"}
//! ```
//!
//! The file is replaced whole, by a rename, after every file that it names has been written.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_data::dedup;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Version of the folder's format.
pub(crate) const VERSION: u32 = 1;
pub(crate) const NAME: &str = "manifest.json";

/// The manifest of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolManifest {
    /// The format's version.
    pub gradus_pool: u32,
    /// Name of the encoder.
    pub encoder: String,
    /// Tells the encoder's weights from others'.
    pub fingerprint: String,
    /// Dimensions of the encoder's vectors.
    pub dimension: usize,
    /// Dimensions of the pool's vectors.
    pub kept: usize,
    /// Whether components were fitted; else vectors are the encoder's own.
    pub pca: bool,
    /// Settings of the leak guard's keys.
    pub guard: dedup::DedupConfig,
    /// Contents of the pool.
    pub counts: Counts,
    /// The files by what they hold.
    pub files: BTreeMap<String, Entry>,
    /// BLAKE3 of this file with an empty checksum.
    pub checksum: String,
}

/// Counts of what a pool holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Distinct questions.
    pub questions: usize,
    /// Labeled solutions.
    pub solutions: usize,
    /// Labeled steps.
    pub steps: usize,
    /// Distinct step texts: the rows of `steps.f32`.
    pub step_texts: usize,
    /// Keys of the leak guard.
    pub guard_keys: usize,
}

/// A file of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// File name in the folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the contents.
    pub blake3: String,
}

impl PoolManifest {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::pool(folder, format!("is no pool: there is no {NAME} in it")));
            }
            Err(error) => return Err(Error::io(&path)(error)),
        };
        // The version comes first: another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            gradus_pool: u32,
        }
        let damaged = |error| Error::pool(&path, format!("is damaged or no pool's manifest: {error}"));
        let Version { gradus_pool: version } = gradus_core::json::from_slice(&text).map_err(damaged)?;
        if version != VERSION {
            let message = format!("version {version} is not supported: this program reads version {VERSION}");
            return Err(Error::pool(&path, message));
        }
        let manifest: Self = gradus_core::json::from_slice(&text).map_err(damaged)?;
        if manifest.sum() != manifest.checksum {
            return Err(Error::pool(&path, "is damaged: its checksum does not match; build the pool again"));
        }
        let guard = manifest.guard.check();
        guard.map_err(|fault| Error::pool(&path, format!("`guard`: {fault}; build the pool again")))?;
        Ok(manifest)
    }

    /// Replaces the folder's manifest.
    pub(crate) fn write(mut self, folder: &Path) -> Result<()> {
        self.checksum = self.sum();
        let mut text = serde_json::to_string_pretty(&self).expect("a manifest is plain data");
        text.push('\n');
        Ok(gradus_durable::replace_file(&folder.join(NAME), text.as_bytes())?)
    }

    fn sum(&self) -> String {
        let bare = Self { checksum: String::new(), ..self.clone() };
        let text = serde_json::to_string(&bare).expect("a manifest is plain data");
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}
