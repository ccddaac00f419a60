//! The Hugging Face hub: datasets by address, and repositories of any kind in its cache.
//!
//! An address is written as Python's file system writes it, or with the revision at its end:
//!
//! ```text
//! hf://datasets/OWNER/NAME                      all data files
//! hf://datasets/OWNER/NAME/data/train.jsonl     one file
//! hf://datasets/OWNER/NAME@v1.0/data            the data files of a folder, at a tag
//! hf://datasets/OWNER/NAME@~parquet             the hub's own conversion to Parquet
//! ```

mod cache;
mod client;
mod push;

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Address, Error, Events, Found, RemoteFile, Result, Version, glob};
pub use cache::{Fetch, FileSum, name_commit, repo_folder, snapshot};
pub use client::{Client, Remote};
pub use push::{Commit, Pushed, Upload, push};

/// Where the hub is, who asks it, and where its files are kept.
#[derive(Clone)]
pub struct Hub {
    /// The hub's cache: `$HF_HUB_CACHE`, `$HF_HOME/hub` or `~/.cache/huggingface/hub`.
    pub cache: PathBuf,
    /// The hub's address: `$HF_ENDPOINT` or the public hub.
    pub endpoint: String,
    /// The hub's token: `$HF_TOKEN` or the file `$HF_HOME/token`.
    pub token: Option<String>,
    /// True when `$HF_HUB_OFFLINE` forbids the hub.
    pub offline: bool,
}

impl Hub {
    /// The hub that the environment asks for.
    pub fn from_env() -> Result<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let home = match (set("HF_HOME"), env::home_dir().filter(|home| !home.as_os_str().is_empty())) {
            (Some(home), _) => home.into(),
            (None, Some(user)) => user.join(".cache/huggingface"),
            (None, None) => return Err(Error::Remote("no home folder is known: set HF_HOME".to_owned())),
        };
        let cache = set("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let text =
            |name: &str| env::var(name).ok().map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let token = text("HF_TOKEN").or_else(|| {
            let token = fs::read_to_string(home.join("token")).ok()?.trim().to_owned();
            (!token.is_empty()).then_some(token)
        });
        let offline = text("HF_HUB_OFFLINE")
            .is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str()));
        Ok(Self {
            cache: std::path::absolute(&cache).map_err(|error| Error::local(cache, error))?,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token,
            offline,
        })
    }
}

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A model.
    Model,
    /// A dataset.
    Dataset,
}

impl Kind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }

    /// What comes before the name of a repository in an address.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Model => "",
            Self::Dataset => "datasets/",
        }
    }
}

/// A repository of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// What it holds.
    pub kind: Kind,
    /// `owner/name`.
    pub id: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

/// An address of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAddress {
    /// `owner/name`; empty where the address has none.
    id: String,
    revision: Option<String>,
    /// The file, a folder or nothing.
    pub(crate) path: String,
    /// The address as it was given, where it is none.
    wrong: Option<String>,
}

impl HubAddress {
    /// Reads what follows `hf://`.
    pub(crate) fn parse(rest: &str) -> Self {
        let wrong = Self {
            id: String::new(),
            revision: None,
            path: String::new(),
            wrong: Some(format!("hf://{rest}")),
        };
        let Some(rest) = rest.strip_prefix("datasets/") else { return wrong };
        let mut parts = rest.splitn(2, '/');
        let (Some(owner), Some(rest)) = (parts.next(), parts.next()) else { return wrong };
        let at = rest.find(['/', '@']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(at);
        let (revision, path) = match rest.strip_prefix('@') {
            Some(rest) => {
                let parts = if rest.starts_with("refs/") { 3 } else { 1 };
                let end = rest.match_indices('/').nth(parts - 1).map_or(rest.len(), |(at, _)| at);
                (Some(&rest[..end]), rest[end..].trim_start_matches('/'))
            }
            None => match rest.trim_start_matches('/').split_once('@') {
                Some((path, revision)) => (Some(revision), path),
                None => (None, rest.trim_start_matches('/')),
            },
        };
        let revision = revision.map(|revision| match revision {
            "~parquet" => "refs/convert/parquet".to_owned(),
            revision => revision.replace("%2F", "/"),
        });
        let path = path.trim_end_matches('/').to_owned();
        let id = format!("{owner}/{name}");
        let is_plain = |text: &str| !text.contains([' ', '?', '#', '%', '\\']) && is_relative(text);
        let valid = is_plain(&id)
            && revision.as_deref().is_none_or(is_plain)
            && (path.is_empty() || is_relative(&path));
        if valid { Self { id, revision, path, wrong: None } } else { wrong }
    }

    /// The dataset.
    pub(crate) fn repository(&self) -> Repository {
        let revision = self.revision.clone().unwrap_or_else(|| "main".to_owned());
        Repository { kind: Kind::Dataset, id: self.id.clone(), revision }
    }

    fn checked(&self) -> Result<()> {
        match &self.wrong {
            None => Ok(()),
            Some(text) => Err(Error::new(
                text,
                "is no address of a dataset: write hf://datasets/OWNER/NAME, with /FILE or @REVISION after it",
            )),
        }
    }

    fn at(&self, commit: &str, path: &str) -> Self {
        Self { revision: Some(commit.to_owned()), path: path.to_owned(), ..self.clone() }
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(wrong) = &self.wrong {
            return f.write_str(wrong);
        }
        write!(f, "hf://datasets/{}", self.id)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

/// A relative path that leads nowhere but down.
pub fn is_relative(path: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.len() <= 255
            && !part.contains(['\\', '\0'])
            && !part.contains(char::is_control)
    };
    path.len() <= 2_000 && path.split('/').all(is_part)
}

/// The repository to send files to, and the path in it, from an address.
pub fn destination(address: &Address) -> Result<(Repository, String)> {
    let Address::Hub(place) = address else {
        return Err(Error::new(address, "is no address of the hub"));
    };
    place.checked()?;
    Ok((place.repository(), place.path.clone()))
}

/// Runs blocking requests where no other runtime is in the way.
fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::Remote("a request ended in a bug of Gradus".to_owned())))
}

/// The file, or the files of a folder or of the whole dataset, at the commit that the revision is now.
pub(crate) fn find(place: &HubAddress) -> Result<Found> {
    place.checked()?;
    let (commit, files) = files(place)?;
    let path = place.path.as_str();
    let remote = |(name, size): &(String, Option<u64>)| RemoteFile {
        address: Address::Hub(place.at(&commit, name)),
        size: *size,
        version: None,
    };
    if let Some(file) = files.iter().find(|(name, _)| name == path) {
        return Ok(Found::File(remote(file)));
    }
    let is_chosen = |name: &str| match glob::is_pattern(path) {
        true => glob::matches(path, name),
        false => path.is_empty() || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')),
    };
    let found: Vec<_> = files.iter().filter(|(name, _)| is_chosen(name)).map(remote).collect();
    if found.is_empty() {
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let listing = match names.len() {
            0 => "nothing".to_owned(),
            1..=12 => names.join(", "),
            more => format!("{} and {} more", names[..12].join(", "), more - 12),
        };
        return Err(Error::new(place, format!("the dataset has no such file; it has {listing}")));
    }
    Ok(Found::Folder(found))
}

type Names = Vec<(String, Option<u64>)>;

/// The commit of a revision and its files, from the hub, or from its cache where the hub must not be asked.
fn files(place: &HubAddress) -> Result<(String, Names)> {
    let (hub, repo) = (Hub::from_env()?, place.repository());
    let mut names = Names::new();
    if hub.offline {
        let folder = snapshot(&hub, &repo).ok_or_else(|| {
            Error::new(place, "HF_HUB_OFFLINE is set, and the dataset is not in the hub's cache")
        })?;
        let commit = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        walk(&folder, "", &mut names)?;
        names.sort();
        return Ok((commit, names));
    }
    let about = apart(|| client::Client::new(&hub)?.describe(&repo, &repo.revision))?;
    let commit = about.get("sha").and_then(Value::as_str).filter(|commit| is_relative(commit));
    let commit = commit.ok_or_else(|| Error::new(place, "the hub gives no commit of it"))?.to_owned();
    for file in about["siblings"].as_array().into_iter().flatten() {
        if let Some(name) = file["rfilename"].as_str().filter(|name| is_relative(name)) {
            names.push((name.to_owned(), file["size"].as_u64()));
        }
    }
    names.sort();
    name_commit(&hub, &repo, &commit)?;
    Ok((commit, names))
}

fn walk(folder: &Path, before: &str, names: &mut Names) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| Error::local(folder, error))? {
        let path = entry.map_err(|error| Error::local(folder, error))?.path();
        let name = format!("{before}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            walk(&path, &format!("{name}/"), names)?;
        } else {
            names.push((name, path.metadata().ok().map(|about| about.len())));
        }
    }
    Ok(())
}

/// The file, where there is one.
pub(crate) fn look(place: &HubAddress) -> Result<Option<RemoteFile>> {
    place.checked()?;
    if place.path.is_empty() || glob::is_pattern(&place.path) {
        return Err(Error::new(place, "names no file: write hf://datasets/OWNER/NAME/FILE"));
    }
    let (hub, repo) = (Hub::from_env()?, place.repository());
    apart(|| {
        let client = client::Client::new(&hub)?;
        let Some(commit) = push::commit_of(&client, &repo)? else { return Ok(None) };
        push::file_of(&client, &repo, &commit, &place.path)
            .map(|etag| etag.map(|etag| Version { etag: Some(etag), generation: None }))
            .map(|version| {
                version.map(|version| RemoteFile {
                    address: Address::Hub(place.at(&commit, &place.path)),
                    size: None,
                    version: Some(version),
                })
            })
    })
}

/// The file in the hub's cache, fetched where it is not there, and checked.
pub(crate) fn open(place: &HubAddress) -> Result<File> {
    let (hub, repo) = (Hub::from_env()?, place.repository());
    let commit = repo.revision.clone();
    let link = repo_folder(&hub, &repo).join("snapshots").join(&commit).join(&place.path);
    apart(|| {
        if !hub.offline {
            let client = client::Client::new(&hub)?;
            let mut listener = |_: crate::Event<'_>| ();
            let fetch = Fetch { hub: &hub, client: &client, repo: &repo, commit: &commit, force: false };
            fetch.file(&place.path, &mut Events::new(&mut listener))?;
        }
        File::open(&link).map_err(|error| Error::local(&link, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, id, revision, path) in [
            ("datasets/o/n", "o/n", None, ""),
            ("datasets/o/n/a.jsonl", "o/n", None, "a.jsonl"),
            ("datasets/o/n/d/a b.jsonl@v1", "o/n", Some("v1"), "d/a b.jsonl"),
            ("datasets/o/n@v1/d/a.jsonl", "o/n", Some("v1"), "d/a.jsonl"),
            (
                "datasets/o/n@refs/convert/parquet/default/train",
                "o/n",
                Some("refs/convert/parquet"),
                "default/train",
            ),
            ("datasets/o/n@refs%2Fpr%2F1", "o/n", Some("refs/pr/1"), ""),
            ("datasets/o/n@~parquet", "o/n", Some("refs/convert/parquet"), ""),
        ] {
            let found = HubAddress::parse(text);
            assert_eq!(
                (found.id.as_str(), found.revision.as_deref(), found.path.as_str(), found.wrong.as_deref()),
                (id, revision, path, None),
                "{text}"
            );
        }
        for text in
            ["o/n", "datasets/o", "datasets/../n", "datasets/o/n/../x", "datasets/o/n@..", "spaces/o/n"]
        {
            let error = HubAddress::parse(text).checked().unwrap_err().to_string();
            assert!(error.starts_with(&format!("hf://{text}: is no address of a dataset")), "{error}");
        }
    }
}
