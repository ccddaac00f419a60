//! What has been found so far, beside the output that is not finished yet.
//!
//! `gradus score -o OUT` appends each solution's scores to `OUT.journal` as soon as they are known, and `gradus solve`
//! each problem's outcome, so a run that is killed costs only what was in flight. Entries are found by a hash of
//! everything that determines them; a last line that was cut off is ignored. The journal is removed when the output is
//! whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gradus_core::contracts::ScoreRequest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: String,
    found: T,
}

/// The journal of an output, or nothing for a run without one.
pub(crate) struct Journal<T = Vec<f64>> {
    known: HashMap<String, T>,
    file: Option<(PathBuf, File)>,
}

/// A hash of `parts`, which determine what is to be found.
pub(crate) fn hash(parts: &impl Serialize) -> String {
    let text = serde_json::to_string(parts);
    blake3::hash(text.unwrap_or_default().as_bytes()).to_hex()[..32].to_owned()
}

/// A hash of what determines a solution's scores.
pub(crate) fn key(name: &str, request: &ScoreRequest) -> String {
    hash(&(name, &request.problem, &request.steps, &request.references, &request.step_references))
}

impl<T: Clone + Serialize + DeserializeOwned> Journal<T> {
    /// Opens the journal of `output`, with what an earlier run left in it.
    pub(crate) fn open(output: Option<&Path>) -> Result<Self> {
        let Some(output) = output.filter(|output| *output != Path::new("-")) else {
            return Ok(Self { known: HashMap::new(), file: None });
        };
        let mut name = output.as_os_str().to_owned();
        name.push(".journal");
        let path = PathBuf::from(name);
        let mut known = HashMap::new();
        let mut torn = false;
        if let Ok(text) = std::fs::read_to_string(&path) {
            let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry<T>>(line).ok());
            known.extend(entries.map(|entry| (entry.key, entry.found)));
            torn = !text.is_empty() && !text.ends_with('\n');
        }
        let file = File::options().create(true).append(true).open(&path);
        let mut file = file.with_context(|| path.display().to_string())?;
        if torn {
            file.write_all(b"\n")?;
        }
        Ok(Self { known, file: Some((path, file)) })
    }

    /// What an earlier run found.
    pub(crate) fn find(&self, key: &str) -> Option<T> {
        self.known.get(key).cloned()
    }

    /// Keeps what was found.
    pub(crate) fn add(&mut self, key: String, found: &T) -> Result<()> {
        if let Some((path, file)) = &mut self.file {
            let mut line = serde_json::to_string(&Entry { key, found })?;
            line.push('\n');
            file.write_all(line.as_bytes()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// The output is whole: nothing needs to be remembered.
    pub(crate) fn remove(self) -> Result<()> {
        match self.file {
            Some((path, _)) => std::fs::remove_file(&path).with_context(|| path.display().to_string()),
            None => Ok(()),
        }
    }
}
