//! Turns the paths and addresses a user names into the files to read: a folder stands for its data files, sorted by path.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use gradus_remote::{Address, Found, RemoteFile};

use super::manifest::{self, ShardManifest};
use crate::{Error, Result};

/// Files beside the shards of a Hugging Face dataset that hold no records. Our own manifests hold none, either.
const NOT_DATA: [&str; 3] = ["dataset_info.json", "dataset_infos.json", "state.json"];

/// A file to read.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    /// Its path, or its address without what is secret in it.
    pub(crate) path: Arc<Path>,
    /// Where it is, if not on this machine.
    pub(crate) remote: Option<RemoteFile>,
}

impl InputFile {
    /// A file of this machine, or `-`.
    fn local(path: &Path) -> Self {
        Self { path: path.into(), remote: None }
    }

    fn remote(file: RemoteFile) -> Self {
        Self { path: PathBuf::from(file.address.to_string()).into(), remote: Some(file) }
    }

    /// Its size, where it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.remote {
            Some(remote) => remote.size,
            None => self.path.metadata().ok().map(|about| about.len()),
        }
    }
}

/// The files behind `paths`, folders expanded.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<InputFile>> {
    let mut files = Vec::new();
    for path in paths {
        if let Some(address) = Address::of(path) {
            files.extend(expand_address(&address)?);
        } else if path.is_dir() {
            let mut found = Vec::new();
            collect(path, &mut found, &mut HashSet::new())?;
            if found.is_empty() {
                return Err(Error::NoFiles { path: path.clone() });
            }
            found.sort();
            files.extend(found.iter().map(|path| InputFile::local(path)));
        } else {
            files.push(InputFile::local(path));
        }
    }
    Ok(files)
}

fn expand_address(address: &Address) -> Result<Vec<InputFile>> {
    let found = match gradus_remote::find(address)? {
        Found::File(file) => return Ok(vec![InputFile::remote(file)]),
        Found::Folder(files) => files,
    };
    let mut files = Vec::new();
    for file in found {
        let name = file.address.file_name();
        if name.ends_with(manifest::ENDING) {
            let path = PathBuf::from(file.address.to_string());
            if let Ok(Some(manifest)) = ShardManifest::read(&path) {
                check_complete(&manifest, path)?;
            }
        } else if is_data(name) && !name.starts_with('.') {
            files.push(InputFile::remote(file));
        }
    }
    match files.is_empty() {
        true => Err(Error::NoFiles { path: PathBuf::from(address.to_string()) }),
        false => Ok(files),
    }
}

/// Adds the data files below a folder. Each folder is looked into once: links may lead in circles.
fn collect(folder: &Path, files: &mut Vec<PathBuf>, seen: &mut HashSet<PathBuf>) -> Result<()> {
    let failed = |source| Error::io(folder, source);
    if !seen.insert(fs::canonicalize(folder).map_err(failed)?) {
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, files, seen)?;
        } else if is_data(&name) {
            // A pipe would be waited for.
            if path.exists() && !path.is_file() {
                return Err(Error::io(
                    &path,
                    io::Error::other("not a plain file, as all data in a folder must be"),
                ));
            }
            files.push(path);
        } else if name.ends_with(manifest::ENDING)
            && let Ok(Some(manifest)) = ShardManifest::read(&path)
        {
            check_complete(&manifest, path)?;
        }
    }
    Ok(())
}

/// Refuses half an output, which would be taken for a whole one.
fn check_complete(manifest: &ShardManifest, path: PathBuf) -> Result<()> {
    match manifest.complete {
        true => Ok(()),
        false => Err(Error::Unfinished { manifest: path, there: manifest.shards.len() }),
    }
}

fn is_data(name: &str) -> bool {
    let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    !NOT_DATA.contains(&name)
        && !name.ends_with(manifest::ENDING)
        && [".json", ".jsonl", ".ndjson", ".parquet"].iter().any(|end| stem.ends_with(end))
}
