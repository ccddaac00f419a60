//! The Hugging Face hub: which files of a repository make the model, and its cache on disk.
//!
//! The cache is the one that Python's `huggingface_hub` keeps, so a model that either has fetched is there for both:
//!
//! ```text
//! models--org--name/refs/main             the commit
//! models--org--name/blobs/ETAG            a file's content
//! models--org--name/snapshots/COMMIT/     links to blobs, under the files' names
//! ```
//!
//! The name of a large file's blob is its sha256, and the content is compared with it. Small files are named by a Git
//! hash; of those only the size is compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Events;
use super::alias::FileSum;
use super::fetch::Client;
use super::folder::{self, ADAPTER, ADAPTER_CONFIG, CONFIG, INDEX, WEIGHTS, goes_with_weights};
use super::name::{HubName, is_gguf, is_relative};
use super::store::Store;
use super::sum;
use crate::{Error, Result};

/// A model in the hub's cache.
pub(super) struct Fetched {
    pub(super) folder: PathBuf,
    pub(super) commit: String,
    pub(super) license: Option<String>,
    pub(super) files: Vec<FileSum>,
}

/// The folder of a model in the hub's cache, if it is there, whole or not.
pub(super) fn snapshot(store: &Store, name: &HubName) -> Option<PathBuf> {
    let folder = repo_folder(store, &name.id);
    let commit = fs::read_to_string(folder.join("refs").join(name.revision()));
    let commit = commit.map_or_else(|_| name.revision().to_owned(), |commit| commit.trim().to_owned());
    let snapshot = folder.join("snapshots").join(&commit);
    (is_relative(&commit) && snapshot.is_dir()).then_some(snapshot)
}

fn repo_folder(store: &Store, id: &str) -> PathBuf {
    store.hub_cache.join(format!("models--{id}").replace('/', "--"))
}

/// Writes which commit a revision is. A revision may contain slashes and so be in folders.
fn name_commit(store: &Store, name: &HubName, commit: &str) -> Result<()> {
    let path = repo_folder(store, &name.id).join("refs").join(name.revision());
    fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(|error| Error::io(&path, error))?;
    Ok(gradus_durable::replace_file(&path, commit.trim().as_bytes())?)
}

/// The ids of all models in the hub's cache.
pub(super) fn ids(store: &Store) -> Vec<String> {
    let Ok(entries) = fs::read_dir(&store.hub_cache) else { return Vec::new() };
    let id = |name: &str| Some(name.strip_prefix("models--")?.replacen("--", "/", 1));
    let mut ids: Vec<_> =
        entries.flatten().filter_map(|entry| id(&entry.file_name().to_string_lossy())).collect();
    ids.sort();
    ids
}

/// Fetches what is missing of a model, and checks all of it. With `force` the files come anew.
pub(super) fn fetch(store: &Store, name: &HubName, force: bool, events: &mut Events<'_>) -> Result<Fetched> {
    if store.offline {
        return Err(Error::Fetch("HF_HUB_OFFLINE is set, so the hub is not asked".to_owned()));
    }
    let client = Client::new(store)?;
    events.begin(format!("asking for {name}"), None);
    let about = client.describe(&name.id, name.revision())?;
    let commit = about.get("sha").and_then(Value::as_str).filter(|commit| is_relative(commit));
    let commit = commit
        .ok_or_else(|| Error::Fetch(format!("{} gives no commit of {}", store.endpoint, name.id)))?
        .to_owned();
    let names: Vec<&str> = about["siblings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|file| file["rfilename"].as_str())
        .filter(|file| is_relative(file))
        .collect();

    let download = Download { store, client: &client, name, commit: &commit, force };
    let mut files = Vec::new();
    let mut wanted = choose(name, &names)?;
    if let Some(place) = wanted.iter().position(|file| file == INDEX) {
        let index = wanted.remove(place);
        files.push(download.file(&index, events)?);
        wanted.splice(0..0, folder::shards(&download.snapshot().join(index))?);
    }
    for file in wanted {
        files.push(download.file(&file, events)?);
    }
    files.sort_by(|a, b| a.file.cmp(&b.file));
    name_commit(store, name, &commit)?;
    let license = about["cardData"]["license"].as_str().map(str::to_owned);
    Ok(Fetched { folder: download.snapshot(), commit, license, files })
}

/// The files to fetch: those of the weights first and `config.json` last, so that a cut never looks like a whole model.
fn choose(name: &HubName, names: &[&str]) -> Result<Vec<String>> {
    let refuse = |message: String| Err(Error::Fetch(message));
    if let Some(file) = &name.file {
        return match names.contains(&file.as_str()) {
            true => Ok(vec![file.clone()]),
            false => refuse(format!("the hub has no file {file} in it; there are {}", listing(names))),
        };
    }
    let at_top = |ending: &str| -> Vec<&str> {
        names.iter().copied().filter(|file| !file.contains('/') && file.ends_with(ending)).collect()
    };
    let mut chosen: Vec<&str> = match () {
        () if names.contains(&INDEX) => vec![INDEX],
        // Some repositories have the same weights again under another name, such as consolidated.safetensors.
        () if names.contains(&WEIGHTS) => vec![WEIGHTS],
        () if names.contains(&ADAPTER) => vec![ADAPTER],
        () => at_top(".safetensors"),
    };
    if chosen.is_empty() {
        let ggufs: Vec<_> = names.iter().copied().filter(|file| is_gguf(file)).collect();
        return match ggufs.as_slice() {
            [one] => Ok(vec![(*one).to_owned()]),
            [] => refuse(format!(
                "the hub has neither safetensors nor .gguf files of it, only {}",
                listing(names)
            )),
            several => {
                refuse(format!("it has several .gguf files, pick one with --file: {}", listing(several)))
            }
        };
    }
    if !names.contains(&CONFIG) && !names.contains(&ADAPTER_CONFIG) {
        return refuse(format!(
            "the hub has safetensors of it but no {CONFIG}, so nobody can tell what it is"
        ));
    }
    chosen.extend(names.iter().copied().filter(|file| goes_with_weights(file) && *file != CONFIG));
    chosen.extend(names.iter().copied().filter(|file| *file == CONFIG));
    Ok(chosen.into_iter().map(str::to_owned).collect())
}

/// At most twenty names.
fn listing(names: &[&str]) -> String {
    match names.len() {
        0 => "nothing".to_owned(),
        1..=20 => names.join(", "),
        more => format!("{} and {} more", names[..20].join(", "), more - 20),
    }
}

struct Download<'a> {
    store: &'a Store,
    client: &'a Client,
    name: &'a HubName,
    commit: &'a str,
    force: bool,
}

impl Download<'_> {
    fn snapshot(&self) -> PathBuf {
        repo_folder(self.store, &self.name.id).join("snapshots").join(self.commit)
    }

    /// Brings one file into the cache unless it is there, and sums it up.
    fn file(&self, file: &str, events: &mut Events<'_>) -> Result<FileSum> {
        let link = self.snapshot().join(file);
        // What is here and in order is not fetched; what is damaged is.
        if link.is_file()
            && !self.force
            && let Ok(here) = self.sum(file, &link, None, events)
        {
            return Ok(here);
        }
        let remote = self.client.about(&self.name.id, self.commit, file)?;
        let blob = repo_folder(self.store, &self.name.id).join("blobs").join(&remote.etag);
        let in_order = |path: &Path| fs::metadata(path).is_ok_and(|about| about.len() == remote.size);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::io(path, error)
        };
        for folder in [blob.parent(), link.parent()].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(io(folder))?;
        }
        let expected = sum::is_sha256(&remote.etag).then_some(remote.etag.as_str());
        let here = (in_order(&blob) && !self.force).then(|| self.sum(file, &blob, expected, events));
        let done = if let Some(Ok(here)) = here {
            here
        } else {
            let lock_path = blob.with_extension("lock");
            let lock = File::create(&lock_path).map_err(io(&lock_path))?;
            if lock.try_lock().is_err() {
                return Err(Error::Fetch(format!("another program is downloading {file} right now")));
            }
            let part = blob.with_extension("part");
            events.begin(format!("{} {file}", self.name.id), Some(remote.size));
            self.client.download((&self.name.id, self.commit, file), remote.size, &part, events)?;
            let done = self.sum(file, &part, expected, events).inspect_err(|_| {
                // The part is wrong from end to end, so there is nothing to resume.
                let _ = fs::remove_file(&part);
            })?;
            gradus_durable::move_file(&part, &blob)?;
            let _ = fs::remove_file(lock_path);
            done
        };
        let _ = fs::remove_file(&link);
        point(&link, file, &remote.etag, &blob).map_err(io(&link))?;
        Ok(done)
    }

    fn sum(
        &self,
        file: &str,
        path: &Path,
        expected: Option<&str>,
        events: &mut Events<'_>,
    ) -> Result<FileSum> {
        let size = fs::metadata(path).map_err(|error| Error::io(path, error))?.len();
        events.begin(format!("checking {file}"), Some(size));
        let found = sum::sha256(path, events)?;
        // A file of the cache is a link to the blob with its sum as the name.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let blob = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let expected = expected.or_else(|| sum::is_sha256(&blob).then_some(blob.as_str()));
        if let Some(expected) = expected {
            sum::check(path, file, expected, &found)?;
        }
        Ok(FileSum { file: file.to_owned(), size, sha256: found })
    }
}

/// Makes the file of a snapshot: a relative link to its blob, as Python makes it.
#[cfg(unix)]
fn point(link: &Path, file: &str, etag: &str, _blob: &Path) -> std::io::Result<()> {
    let up = "../".repeat(2 + file.matches('/').count());
    std::os::unix::fs::symlink(format!("{up}blobs/{etag}"), link)
}

/// Links need a privilege on some systems; a copy does not.
#[cfg(not(unix))]
fn point(link: &Path, _file: &str, _etag: &str, blob: &Path) -> std::io::Result<()> {
    fs::copy(blob, link).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str, names: &[&str]) -> String {
        let (id, file) = text.split_once(':').map_or((text, None), |(id, file)| (id, Some(file)));
        match choose(&HubName::parse(id, file).unwrap(), names) {
            Ok(files) => files.join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_are_chosen() {
        let usual = ["README.md", "config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json"];
        assert_eq!(chosen("a/b", &usual), "model.safetensors README.md tokenizer.json config.json");
        let twice = ["config.json", "consolidated.safetensors", INDEX, "model-1.safetensors"];
        assert_eq!(chosen("a/b", &twice), "model.safetensors.index.json config.json");
        let adapter = ["adapter_config.json", "adapter_model.safetensors"];
        assert_eq!(chosen("a/b", &adapter), "adapter_model.safetensors adapter_config.json");
        let encoder = ["1_Pooling/config.json", "config.json", "model.safetensors", "onnx/model.onnx"];
        assert_eq!(chosen("a/b", &encoder), "model.safetensors 1_Pooling/config.json config.json");
        assert_eq!(chosen("a/b", &["x.gguf", "README.md"]), "x.gguf");
        assert_eq!(chosen("a/b:y.gguf", &["x.gguf", "y.gguf"]), "y.gguf");
    }

    #[test]
    fn nothing_to_choose() {
        assert_eq!(
            chosen("a/b", &["x.gguf", "y.gguf"]),
            "it has several .gguf files, pick one with --file: x.gguf, y.gguf"
        );
        let pickle = "the hub has neither safetensors nor .gguf files of it, only pytorch_model.bin";
        assert_eq!(chosen("a/b", &["pytorch_model.bin"]), pickle);
        assert!(chosen("a/b", &["model.safetensors"]).contains("no config.json"));
        let missing = "the hub has no file z.gguf in it; there are x.gguf";
        assert_eq!(chosen("a/b:z.gguf", &["x.gguf"]), missing);
    }
}
