//! The folder of an export: its scripts, and which folders may be replaced by one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::io;
use crate::run::Recipe;
use crate::{Error, Result};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../../../assets/export/torch/", $name))
    };
}

/// What an export may have in it.
const NAMES: [&str; 15] = [
    "README.md",
    "train.py",
    "requirements.txt",
    "fsdp.yaml",
    "deepspeed.yaml",
    "deepspeed.json",
    "config.json",
    "recipe.toml",
    "train.safetensors",
    "eval.safetensors",
    "train.jsonl",
    "eval.jsonl",
    "order.safetensors",
    "start",
    "tokenizer",
];

/// Refuses a folder with anything in it but an earlier export.
pub(super) fn refuse_foreign(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(io(folder))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let refused = |why: String| Error::run(folder, format!("this folder {why}: choose another folder"));
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(refused(format!("is not empty and has `{name}`, which is not part of an export")));
    }
    if !names.is_empty() && !is_export(folder) {
        return Err(refused("is not empty and holds no export".to_owned()));
    }
    Ok(())
}

fn is_export(folder: &Path) -> bool {
    let config = fs::read(folder.join("config.json")).ok();
    let config: Option<Value> = config.and_then(|text| serde_json::from_slice(&text).ok());
    config.is_some_and(|config| config["export"] == "torch")
}

/// The script, how to run it, and configurations beside it.
pub(super) fn write_scripts(folder: &Path, recipe: &Recipe) -> Result<()> {
    let (train, requirements, readme) = match recipe.objective.samples() {
        true => (script!("train_critic.py"), script!("requirements_critic.txt"), script!("README_critic.md")),
        false => (script!("train.py"), script!("requirements.txt"), script!("README.md")),
    };
    let readme = readme
        .replace("OBJECTIVE", recipe.objective.name())
        .replace("RESULT", crate::trained::folder_name(recipe));
    write_text(folder, "train.py", train)?;
    write_text(folder, "requirements.txt", requirements)?;
    write_text(folder, "README.md", &readme)?;
    write_text(folder, "fsdp.yaml", script!("fsdp.yaml"))?;
    write_text(folder, "deepspeed.yaml", script!("deepspeed.yaml"))?;
    let clip = recipe.optimizer.clip.to_string();
    write_text(folder, "deepspeed.json", &script!("deepspeed.json").replace("CLIP", &clip))
}

pub(super) fn write_text(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(io(&path))
}

pub(super) fn write_json(folder: &Path, name: &str, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("a JSON value can be written");
    write_text(folder, name, &(text + "\n"))
}

/// Creates a folder and returns its path.
pub(super) fn create(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir(&path).map_err(io(&path))?;
    Ok(path)
}
