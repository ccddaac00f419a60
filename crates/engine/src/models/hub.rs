//! The Hugging Face hub: which files of a repository make the model. How they are fetched and kept is
//! [`gradus_remote::hub`].

use std::fs;
use std::path::PathBuf;

use gradus_remote::hub::{self, Client, Fetch, FileSum, Kind, Repository};
use serde_json::Value;

use super::Events;
use super::folder::{self, ADAPTER, ADAPTER_CONFIG, CONFIG, INDEX, WEIGHTS, goes_with_weights};
use super::name::{HubName, is_gguf, is_relative};
use super::store::Store;
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
    hub::snapshot(&store.hub, &repository(name))
}

fn repository(name: &HubName) -> Repository {
    Repository { kind: Kind::Model, id: name.id.clone(), revision: name.revision().to_owned() }
}

/// The ids of all models in the hub's cache.
pub(super) fn ids(store: &Store) -> Vec<String> {
    let Ok(entries) = fs::read_dir(&store.hub.cache) else { return Vec::new() };
    let id = |name: &str| Some(name.strip_prefix("models--")?.replacen("--", "/", 1));
    let mut ids: Vec<_> =
        entries.flatten().filter_map(|entry| id(&entry.file_name().to_string_lossy())).collect();
    ids.sort();
    ids
}

/// Fetches what is missing of a model, and checks all of it. With `force` the files come anew.
pub(super) fn fetch(store: &Store, name: &HubName, force: bool, events: &mut Events<'_>) -> Result<Fetched> {
    if store.hub.offline {
        return Err(Error::Fetch("HF_HUB_OFFLINE is set, so the hub is not asked".to_owned()));
    }
    let (client, repo) = (Client::new(&store.hub)?, repository(name));
    events.begin(format!("asking for {name}"), None);
    let about = client.describe(&repo, name.revision())?;
    let commit = about.get("sha").and_then(Value::as_str).filter(|commit| is_relative(commit));
    let commit = commit
        .ok_or_else(|| Error::Fetch(format!("{} gives no commit of {}", store.hub.endpoint, name.id)))?
        .to_owned();
    let names: Vec<&str> = about["siblings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|file| file["rfilename"].as_str())
        .filter(|file| is_relative(file))
        .collect();

    let download = Fetch { hub: &store.hub, client: &client, repo: &repo, commit: &commit, force };
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
    hub::name_commit(&store.hub, &repo, &commit)?;
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
