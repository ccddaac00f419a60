//! `manifest.json`: what a pool was made with, how much is in it, and a checksum of every file.
//!
//! ```json
//! {"gradus_pool":1,"encoder":"all-minilm-l6-v2","fingerprint":"…","dimension":384,"kept":128,"pca":true,
//!  "guard":{"threshold":0.8,"num_perm":128,"shingle":3},
//!  "counts":{"questions":7473,"solutions":7473,"steps":26000,"step_texts":25000,"guard_keys":194298},
//!  "files":{"questions":{"name":"questions.f32","bytes":3826176,"blake3":"…"}, …},"checksum":"…"}
//! ```
//!
//! The file is replaced whole, by a rename, after every file that it names has been written. A pool may come from anywhere:
//! its manifest names exactly the files that this program writes, all of one generation, and numbers within limits.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_data::dedup;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Version of the folder's format.
pub(crate) const VERSION: u32 = 1;
pub(crate) const NAME: &str = "manifest.json";
/// Bytes that a manifest has at most; ours have two thousand.
const LIMIT: u64 = 1 << 20;
/// Dimensions that a vector has at most.
const MAX_DIMENSION: usize = 1 << 20;
/// Keys of the leak guard that there are at most: some for each of four billion questions.
const MAX_GUARD_KEYS: usize = 1 << 40;
/// The first generation's files have no number in their names.
const FIRST: u32 = 1;

/// The files of a pool: what they hold, and both parts of their names.
const FILES: [(&str, &str, &str); 8] = [
    ("questions", "questions", "f32"),
    ("graph", "questions", "graph"),
    ("steps", "steps", "f32"),
    ("pca", "pca", "f32"),
    ("texts", "texts", "utf8"),
    ("offsets", "texts", "u64"),
    ("layout", "layout", "u32"),
    ("guard", "guard", "u64"),
];

/// The name of the file that holds `what`: `steps.f32`, and from the second generation on `steps.2.f32`. None for what no
/// file holds.
pub(crate) fn file_name(what: &str, generation: u32) -> Option<String> {
    let (_, stem, kind) = FILES.iter().find(|(known, ..)| *known == what)?;
    Some(match generation {
        FIRST => format!("{stem}.{kind}"),
        generation => format!("{stem}.{generation}.{kind}"),
    })
}

/// The generation of a pool's file by its name; none for a name that no file of a pool has.
pub(crate) fn generation_of(name: &str) -> Option<u32> {
    let number = name.split('.').nth(1).and_then(|number| number.parse().ok());
    let generation = number.unwrap_or(FIRST);
    FILES.iter().any(|(what, ..)| file_name(what, generation).as_deref() == Some(name)).then_some(generation)
}

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
        let text = gradus_durable::read_plain(&path, LIMIT).map_err(|error| match error.is_missing() {
            true => Error::pool(folder, format!("is no pool: there is no {NAME} in it")),
            false => error.into(),
        })?;
        Self::parse(&text, &path)
    }

    /// Reads a manifest from where it was found.
    pub(crate) fn parse(text: &[u8], path: &Path) -> Result<Self> {
        // The version comes first: another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            gradus_pool: u32,
        }
        let damaged = |error| Error::pool(path, format!("is damaged or no pool's manifest: {error}"));
        let Version { gradus_pool: version } = gradus_core::json::from_slice(text).map_err(damaged)?;
        if version != VERSION {
            let message = format!("version {version} is not supported: this program reads version {VERSION}");
            return Err(Error::pool(path, message));
        }
        let manifest: Self = gradus_core::json::from_slice(text).map_err(damaged)?;
        if manifest.sum() != manifest.checksum {
            return Err(Error::pool(path, "is damaged: its checksum does not match; build the pool again"));
        }
        manifest.check().map_err(|message| Error::pool(path, message))?;
        Ok(manifest)
    }

    /// Refuses what this program does not write. A checksum says only that nothing was changed by accident.
    fn check(&self) -> std::result::Result<(), String> {
        let generation = self.generation();
        for (what, entry) in &self.files {
            if file_name(what, generation).as_ref() != Some(&entry.name) {
                let name = &entry.name;
                return Err(format!("names {name:?} as the file for {what:?}, which no pool has"));
            }
        }
        let Counts { questions, solutions, steps, step_texts, guard_keys } = self.counts;
        let counted =
            [questions, solutions, steps, step_texts].into_iter().all(|count| count < u32::MAX as usize);
        if !counted || guard_keys > MAX_GUARD_KEYS {
            return Err("counts more than a pool can hold".to_owned());
        }
        let kept = if self.pca { 1..=self.dimension } else { self.dimension..=self.dimension };
        if !(1..=MAX_DIMENSION).contains(&self.dimension) || !kept.contains(&self.kept) {
            let (kept, dimension) = (self.kept, self.dimension);
            return Err(format!("has vectors of {kept} of {dimension} dimensions, which no encoder gives"));
        }
        self.guard.check().map_err(|fault| format!("has a leak guard whose {fault}"))
    }

    /// The number in the files' names.
    pub(crate) fn generation(&self) -> u32 {
        self.files.get("questions").and_then(|entry| generation_of(&entry.name)).unwrap_or(FIRST)
    }

    /// Replaces the folder's manifest.
    pub(crate) fn write(self, folder: &Path) -> Result<()> {
        Ok(gradus_durable::replace_plain_file(&folder.join(NAME), self.sealed().as_bytes())?)
    }

    /// Its text, with its checksum.
    pub(crate) fn sealed(mut self) -> String {
        self.checksum = self.sum();
        let mut text = serde_json::to_string_pretty(&self).expect("a manifest is plain data");
        text.push('\n');
        text
    }

    fn sum(&self) -> String {
        let bare = Self { checksum: String::new(), ..self.clone() };
        let text = serde_json::to_string(&bare).expect("a manifest is plain data");
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}
