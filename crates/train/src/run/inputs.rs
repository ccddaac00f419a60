//! Inputs of a run by content: sizes and BLAKE3 hashes of files and folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::recipe::Recipe;
use crate::data::SolvePrompt;
use crate::error::io;
use crate::{Error, Result};

/// A file or folder that a run reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunInput {
    /// Its role: `train`, `eval`, `profile`, `adapter` and the like.
    pub(crate) role: String,
    /// Path as the recipe has it.
    pub(crate) path: PathBuf,
    /// Absolute path when the run was started.
    pub(crate) found: PathBuf,
    /// Size in bytes, of all files in it.
    pub(crate) bytes: u64,
    /// BLAKE3 hash of the file; for a folder, of its files' names and hashes.
    pub(crate) blake3: String,
}

impl RunInput {
    /// Reads an input through and takes its hash.
    pub(crate) fn new(role: &str, path: &Path) -> Result<Self> {
        let found = fs::canonicalize(path).map_err(io(path))?;
        if found.to_str().is_none() {
            let message = "its path is not valid UTF-8, and a run keeps it as text: rename it";
            return Err(Error::run(&found, message));
        }
        let (bytes, blake3) = hash(&found)?;
        Ok(Self {
            role: role.to_owned(),
            path: path.to_owned(),
            found,
            bytes,
            blake3: blake3.to_hex().to_string(),
        })
    }

    /// What a recipe names: its data, its adapter, and its profile and prompt if those are files.
    pub(crate) fn of(recipe: &Recipe) -> Result<Vec<Self>> {
        let data = &recipe.data;
        let train = data.train.iter().map(|path| ("train", path.as_path()));
        let eval = data.eval.iter().map(|path| ("eval", path.as_path()));
        let adapter = recipe.model.adapter.iter().map(|path| ("adapter", path.as_path()));
        let profile = recipe.objective.reward_model().map(|(profile, _)| Path::new(profile));
        let profile = profile.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
        let profile = profile.into_iter().map(|path| ("profile", path));
        let prompt = recipe.objective.prompt().filter(|prompt| SolvePrompt::is_file(prompt));
        let prompt = prompt.into_iter().map(|path| ("prompt", Path::new(path)));
        train
            .chain(eval)
            .chain(adapter)
            .chain(profile)
            .chain(prompt)
            .map(|(role, path)| Self::new(role, path))
            .collect()
    }

    /// Refuses an input whose content has changed.
    pub(super) fn check(&self) -> Result<()> {
        let (bytes, blake3) = hash(&self.found)?;
        if blake3.to_hex().as_str() == self.blake3 {
            return Ok(());
        }
        let sizes = if bytes == self.bytes {
            String::new()
        } else {
            format!(" ({} bytes then, {bytes} now)", self.bytes)
        };
        Err(Error::run(
            &self.found,
            format!(
                "this input ({}) has changed since the run began{sizes}: put it back, or start a new run",
                self.role
            ),
        ))
    }
}

/// Size and hash of a file or, in the order of names, of all files in a folder.
fn hash(path: &Path) -> Result<(u64, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    if !path.is_dir() {
        if path.exists() && !path.is_file() {
            return Err(Error::run(
                path,
                "is a pipe or a device: a run needs files, which it can read again",
            ));
        }
        let file = File::open(path).map_err(io(path))?;
        hasher.update_reader(file).map_err(io(path))?;
        return Ok((hasher.count(), hasher.finalize()));
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(io(path))? {
        names.push(entry.map_err(io(path))?.file_name());
    }
    names.sort();
    let mut total = 0;
    for name in names {
        let (bytes, inner) = hash(&path.join(&name))?;
        total += bytes;
        // A name cannot hold a zero byte, so names and hashes cannot be taken for each other.
        hasher.update(name.as_encoded_bytes()).update(&[0]).update(inner.as_bytes());
    }
    Ok((total, hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_changes_with_its_files() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.jsonl"), "one").unwrap();
        fs::write(root.path().join("b.jsonl"), "two").unwrap();
        let input = RunInput::new("train", root.path()).unwrap();
        assert_eq!(input.bytes, 6);
        input.check().unwrap();
        fs::rename(root.path().join("b.jsonl"), root.path().join("c.jsonl")).unwrap();
        assert!(input.check().is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_text_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(std::ffi::OsStr::from_bytes(b"a\xff.jsonl"));
        fs::write(&path, "one").unwrap();
        let said = RunInput::new("train", &path).unwrap_err().to_string();
        assert!(said.contains("not valid UTF-8"), "{said}");
    }

    #[test]
    fn a_recipe_names_its_inputs() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.jsonl", "e.jsonl", "p.toml"] {
            fs::write(root.path().join(name), name).unwrap();
        }
        let at = |name: &str| toml::Value::from(root.path().join(name).display().to_string());
        let (train, eval, profile) = (at("a.jsonl"), at("e.jsonl"), at("p.toml"));
        let text = format!(
            "objective = 'prm'\nmodel.base = 'tiny'\ndata = {{ train = [{train}], eval = [{eval}] }}\n\
             optimizer.learning_rate = 1\nsteps.total = 1\nprm.profile = {profile}"
        );
        let recipe = Recipe::parse(&text, "recipe.toml", &[]).unwrap();
        let roles: Vec<String> = RunInput::of(&recipe).unwrap().into_iter().map(|input| input.role).collect();
        assert_eq!(roles, ["train", "eval", "profile"]);
        let built_in = Recipe::parse(&text, "recipe.toml", &["prm.profile=plain".to_owned()]).unwrap();
        assert_eq!(RunInput::of(&built_in).unwrap().len(), 2);
    }

    #[test]
    fn a_file_has_the_hash_that_b3sum_gives() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("empty");
        fs::write(&path, "").unwrap();
        let hash = RunInput::new("eval", &path).unwrap().blake3;
        assert_eq!(hash, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    }
}
