//! The folders in which models lie, and how a pulled one gets there whole.
//!
//! ```text
//! $GRADUS_HOME/models/NAME/model.json    a pulled model and the note about it
//! $GRADUS_HOME/models/.partial-NAME/     a pull that has not finished: never read, removed by the next pull
//! $GRADUS_HOME/downloads/                wheels of interrupted pulls
//! $HF_HOME/hub/models--org--name/        the hub's cache, shared with Python
//! ```

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use gradus_remote::hub::Hub;

use super::record::Record;
use crate::{Error, Result};

/// Where models are kept and fetched from.
#[derive(Clone)]
pub struct Store {
    /// Our own folder: `$GRADUS_HOME`, `$XDG_DATA_HOME/gradus` or `~/.local/share/gradus`.
    pub home: PathBuf,
    /// The Hugging Face hub, and its cache.
    pub hub: Hub,
}

impl Store {
    /// The store that the environment asks for.
    pub fn from_env() -> Result<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let user = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let under_home = |inner: &str, variable: &str| match &user {
            Some(user) => Ok(user.join(inner)),
            None => Err(Error::request(format!("no home folder is known: set {variable}"))),
        };
        let home = match (set("GRADUS_HOME"), set("XDG_DATA_HOME")) {
            (Some(home), _) => home.into(),
            (None, Some(data)) => Path::new(&data).join("gradus"),
            (None, None) => under_home(".local/share/gradus", "GRADUS_HOME")?,
        };
        Ok(Self { home: absolute(home)?, hub: Hub::from_env()? })
    }

    pub(super) fn models(&self) -> PathBuf {
        self.home.join("models")
    }

    pub(super) fn downloads(&self) -> PathBuf {
        self.home.join("downloads")
    }

    /// The folder and the note of the model that was pulled as `folder`.
    pub(super) fn record(&self, folder: &str) -> Result<Option<(PathBuf, Record)>> {
        let path = self.models().join(folder);
        Ok(Record::read(&path)?.map(|record| (record.at.clone().unwrap_or(path), record)))
    }

    /// Every pulled model: its files' folder and its note.
    pub(super) fn records(&self) -> Result<Vec<(PathBuf, Record)>> {
        let folder = self.models();
        let mut found = Vec::new();
        if !folder.is_dir() {
            return Ok(found);
        }
        for entry in fs::read_dir(&folder).map_err(|error| Error::io(&folder, error))? {
            let name = entry.map_err(|error| Error::io(&folder, error))?.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with('.') {
                found.extend(self.record(&name)?);
            }
        }
        found.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        Ok(found)
    }

    /// Begins a pull into the folder of that name.
    pub(super) fn stage(&self, folder: &str) -> Result<Stage> {
        let models = self.models();
        fs::create_dir_all(&models).map_err(|error| Error::io(&models, error))?;
        let lock_path = models.join(format!(".lock-{folder}"));
        let lock = File::create(&lock_path).map_err(|error| Error::io(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message =
                    format!("another gradus is pulling {folder} right now: wait until it has finished");
                return Err(Error::Fetch(message));
            }
            Err(TryLockError::Error(error)) => return Err(Error::io(lock_path, error)),
        }
        let stage = Stage {
            folder: models.join(format!(".partial-{folder}")),
            target: models.join(folder),
            _lock: lock,
        };
        // Nobody else has the lock, so these are what a killed pull left behind. Version 0.1 kept the former model beside
        // it while it was replaced.
        remove(&models.join(format!(".old-{folder}")))?;
        stage.clear()?;
        Ok(stage)
    }

    /// Removes what was pulled as `folder`.
    pub(super) fn remove(&self, folder: &str) -> Result<()> {
        let stage = self.stage(folder)?;
        Ok(gradus_durable::remove_folder(&stage.target)?)
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf> {
    std::path::absolute(&path).map_err(|error| Error::io(path, error))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(folder, error)),
        _ => Ok(()),
    }
}

/// A pull under way. Dropped, it leaves nothing behind.
pub(super) struct Stage {
    /// The folder to fill.
    pub(super) folder: PathBuf,
    target: PathBuf,
    _lock: File,
}

impl Stage {
    /// Empties the folder for the next attempt.
    pub(super) fn clear(&self) -> Result<()> {
        remove(&self.folder)?;
        fs::create_dir(&self.folder).map_err(|error| Error::io(&self.folder, error))
    }

    /// Puts the folder in its place, in one step.
    pub(super) fn finish(self) -> Result<PathBuf> {
        gradus_durable::move_folder(&self.folder, &self.target)?;
        Ok(self.target.clone())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
impl Store {
    /// A store in a folder of its own, with a hub that nobody answers for.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            home: folder.join("gradus"),
            hub: Hub {
                cache: folder.join("hf/hub"),
                endpoint: "http://127.0.0.1:9".to_owned(),
                token: None,
                offline: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_becomes_the_model_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::in_folder(folder.path());
        let stage = store.stage("tiny").unwrap();
        fs::write(stage.folder.join("a"), "1").unwrap();
        assert!(store.stage("tiny").err().unwrap().to_string().contains("another gradus"));
        drop(stage);
        assert!(!store.models().join("tiny").exists() && !store.models().join(".partial-tiny").exists());

        for content in ["2", "3"] {
            // What a killed pull leaves behind is not taken over.
            fs::create_dir_all(store.models().join(".partial-tiny")).unwrap();
            fs::write(store.models().join(".partial-tiny/leftover"), "").unwrap();
            let stage = store.stage("tiny").unwrap();
            fs::write(stage.folder.join("a"), content).unwrap();
            let target = stage.finish().unwrap();
            assert_eq!(fs::read_to_string(target.join("a")).unwrap(), content);
            assert_eq!(fs::read_dir(target).unwrap().count(), 1);
        }
        assert!(store.records().unwrap().is_empty(), "a folder without a note is no model");
        store.remove("tiny").unwrap();
        assert!(!store.models().join("tiny").exists() && store.remove("tiny").is_err());
    }
}
