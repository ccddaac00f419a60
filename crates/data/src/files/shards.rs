//! Turns the paths a user names into the files to read: a folder stands for its data files, sorted by path.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest;
use crate::{Error, Result};

/// Files beside the shards of a Hugging Face dataset that hold no records. Our own manifests hold none, either.
const NOT_DATA: [&str; 3] = ["dataset_info.json", "dataset_infos.json", "state.json"];

/// The files behind `paths`, folders expanded.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        collect(path, &mut files)?;
        if files.len() == before {
            return Err(Error::NoFiles { path: path.clone() });
        }
        files[before..].sort();
    }
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    for entry in entries {
        let path = entry.map_err(|source| Error::io(folder, source))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if is_data(&name) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_data(name: &str) -> bool {
    let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    !NOT_DATA.contains(&name)
        && !name.ends_with(manifest::ENDING)
        && [".json", ".jsonl", ".ndjson", ".parquet"].iter().any(|end| stem.ends_with(end))
}
