//! Which files make a model, and whether a folder holds a whole one.
//!
//! A folder in the hub's layout is whole when it has `config.json` and every weight file: `model.safetensors`, or all
//! that `model.safetensors.index.json` names. An adapter has `adapter_config.json` and `adapter_model.safetensors`. A
//! GGUF file is whole by itself. Pickles (`pytorch_model.bin`) run code when they are read, so they are never read.
//!
//! A folder may come from anywhere, so nothing in it may lead out of it. The hub's cache is made of links: they lead to the
//! `blobs` of the same model and nowhere else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gradus_durable::is_plain_name;
use serde_json::Value;

use super::ModelPath;
use super::name::{is_gguf, is_relative};
use crate::{Error, Result};

pub(super) const CONFIG: &str = "config.json";
pub(super) const ADAPTER_CONFIG: &str = "adapter_config.json";
pub(super) const ADAPTER: &str = "adapter_model.safetensors";
pub(super) const WEIGHTS: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The note beside a pulled model; see `record.rs`.
pub(super) const RECORD_FILE: &str = "model.json";

/// What a model may need beside its weights.
const BESIDE: [&str; 22] = [
    CONFIG,
    ADAPTER_CONFIG,
    "gradus.json",
    "profile.toml",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "README.md",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
];

/// True for a file that goes with the weights: configuration, tokenizer, license, and the parts of a sentence encoder,
/// which have folders of their own such as `1_Pooling`.
pub(super) fn goes_with_weights(path: &str) -> bool {
    match path.split_once('/') {
        None => BESIDE.contains(&path),
        Some((part, file)) => {
            part.starts_with(|c: char| c.is_ascii_digit()) && [CONFIG, WEIGHTS].contains(&file)
        }
    }
}

/// Whether a folder holds an adapter, and no model that it could stand on.
pub(crate) fn is_adapter(folder: &Path) -> bool {
    folder.join(ADAPTER_CONFIG).is_file() && !folder.join(CONFIG).is_file()
}

/// The model in a folder; `file` picks one of several GGUF files. A folder that leads out of itself is refused.
pub(super) fn look(folder: &Path, file: Option<&str>) -> Result<ModelPath> {
    let found = model_in(folder, file)?;
    match &found {
        ModelPath::Folder(folder) => check_files(folder)?,
        ModelPath::Gguf(path) => Limits::of(folder)?.check(path)?,
    }
    Ok(found)
}

fn model_in(folder: &Path, file: Option<&str>) -> Result<ModelPath> {
    if let Some(file) = file {
        let path = folder.join(file);
        return if path.is_file() {
            Ok(ModelPath::Gguf(path))
        } else {
            Err(Error::model(folder, format!("it has no file {file}")))
        };
    }
    let names = names(folder)?;
    let has = |name: &str| names.contains(name) && folder.join(name).is_file();
    if is_adapter(folder) {
        return match has(ADAPTER) {
            true => Ok(ModelPath::Folder(folder.to_owned())),
            false => Err(Error::model(folder, format!("it has {ADAPTER_CONFIG} but no {ADAPTER}"))),
        };
    }
    if has(INDEX) {
        let missing: Vec<_> = shards(&folder.join(INDEX))?.into_iter().filter(|shard| !has(shard)).collect();
        if !missing.is_empty() {
            return Err(Error::model(folder, format!("{INDEX} names {}, missing here", missing.join(", "))));
        }
    }
    let safetensors = names.iter().any(|name| name.ends_with(".safetensors") && has(name));
    if safetensors {
        return match has(CONFIG) {
            true => Ok(ModelPath::Folder(folder.to_owned())),
            false => Err(Error::model(folder, format!("it has safetensors but no {CONFIG}"))),
        };
    }
    let ggufs = ggufs(folder);
    match ggufs.as_slice() {
        [one] => Ok(ModelPath::Gguf(folder.join(one))),
        [] if names.iter().any(|name| name.ends_with(".bin") || name.ends_with(".pt")) => Err(Error::model(
            folder,
            "its weights are pickles, which are not read: convert them to safetensors",
        )),
        [] => Err(Error::model(
            folder,
            format!("it holds no model: no {CONFIG} with safetensors, no {ADAPTER_CONFIG}, no .gguf file"),
        )),
        several => Err(Error::model(
            folder,
            format!("it holds several .gguf files: pick one of {} as NAME:FILE", several.join(", ")),
        )),
    }
}

/// The `.gguf` files of a folder.
pub(super) fn ggufs(folder: &Path) -> Vec<String> {
    let names = names(folder).unwrap_or_default();
    names.into_iter().filter(|name| is_gguf(name) && folder.join(name).is_file()).collect()
}

/// True where a tokenizer lies beside the weights, or none is needed: an adapter uses that of its base.
pub(super) fn has_tokenizer(folder: &Path) -> bool {
    let names = [ADAPTER_CONFIG, "tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json"];
    names.iter().any(|name| folder.join(name).is_file())
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io(folder, error))?;
        names.insert(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Refuses a model's folder in which a link leads out of it, or something is neither a file nor a folder: a pipe would be
/// waited for without end.
pub fn check_files(folder: &Path) -> Result<()> {
    let limits = Limits::of(folder)?;
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for name in names(&folder)? {
            let path = folder.join(name);
            match path.symlink_metadata() {
                Ok(about) if about.is_dir() && depth < DEPTH => open.push((path, depth + 1)),
                Ok(about) if about.is_dir() => {}
                _ => limits.check(&path)?,
            }
        }
    }
    Ok(())
}

/// Folders inside of folders that belong to a model.
const DEPTH: usize = 4;

/// Where the files of a model's folder may lie.
struct Limits {
    folder: PathBuf,
    /// In the hub's cache, `models--org--name/blobs` beside `models--org--name/snapshots/COMMIT`.
    blobs: Option<PathBuf>,
}

impl Limits {
    fn of(folder: &Path) -> Result<Self> {
        let folder = folder.canonicalize().map_err(|error| Error::io(folder, error))?;
        let snapshots = folder.parent().filter(|parent| parent.ends_with("snapshots"));
        let blobs = snapshots.and_then(|snapshots| Some(snapshots.parent()?.join("blobs")));
        Ok(Self { folder, blobs })
    }

    /// Refuses what is no file, and a link that leads elsewhere. One that leads nowhere is a file that is missing.
    fn check(&self, path: &Path) -> Result<()> {
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        let inside = real.starts_with(&self.folder)
            || self.blobs.as_ref().is_some_and(|blobs| real.starts_with(blobs));
        if !inside {
            let message = "is a link that leads out of the model's folder: put the file itself there";
            return Err(Error::model(path, message));
        }
        if !real.is_file() {
            return Err(Error::model(path, "is a pipe, a device or a link to a folder: expected a file"));
        }
        Ok(())
    }
}

/// The weight files that an index names, each once: plain names, since they lie beside it.
pub(crate) fn shards(index: &Path) -> Result<BTreeSet<String>> {
    let value = read_json(index)?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::model(index, "field `weight_map` is missing or not an object"))?;
    map.values()
        .map(|shard| match shard.as_str() {
            Some(name) if is_plain_name(name) && is_relative(name) => Ok(name.to_owned()),
            _ => Err(Error::model(index, format!("field `weight_map`: {shard} is not a file name"))),
        })
        .collect()
}

pub(super) fn read_json(path: &Path) -> Result<Value> {
    let text = crate::small_file::read_json(path)?;
    serde_json::from_slice(&text).map_err(|error| Error::model(path, format!("not JSON: {error}")))
}

/// The files of a folder and of its subfolders with their sizes, by path with `/` between the parts. Links are followed,
/// since the hub's cache is made of them; hidden files and our own record are left out.
pub(super) fn files(folder: &Path) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, String)> = vec![(folder.to_owned(), String::new())];
    while let Some((path, prefix)) = open.pop() {
        for name in names(&path)? {
            let inner = path.join(&name);
            let Ok(about) = std::fs::metadata(&inner) else { continue };
            if name.starts_with('.') || (prefix.is_empty() && name == RECORD_FILE) {
                continue;
            }
            if about.is_file() {
                found.push((format!("{prefix}{name}"), about.len()));
            } else if about.is_dir() && prefix.split('/').count() < 4 {
                open.push((inner, format!("{prefix}{name}/")));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    fn said(files: &[(&str, &str)], file: Option<&str>) -> String {
        let folder = folder(files);
        match look(folder.path(), file) {
            Ok(ModelPath::Folder(path)) => {
                assert_eq!(path, folder.path());
                "folder".into()
            }
            Ok(ModelPath::Gguf(path)) => path.file_name().unwrap().to_string_lossy().into_owned(),
            Err(error) => error.to_string().split_once(": ").unwrap().1.to_owned(),
        }
    }

    #[test]
    fn whole_models() {
        assert_eq!(said(&[("config.json", "{}"), ("model.safetensors", "")], None), "folder");
        assert_eq!(said(&[("adapter_config.json", "{}"), ("adapter_model.safetensors", "")], None), "folder");
        assert_eq!(said(&[("x.Q4_1.gguf", "")], None), "x.Q4_1.gguf");
        assert_eq!(said(&[("a.gguf", ""), ("b.gguf", "")], Some("b.gguf")), "b.gguf");
        let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "1.safetensors"}}"#;
        let sharded = [
            ("config.json", "{}"),
            (INDEX, index),
            ("1.safetensors", ""),
            ("2.safetensors", ""),
            ("x.gguf", ""),
        ];
        assert_eq!(said(&sharded, None), "folder");
    }

    #[test]
    fn parts_of_models() {
        let none =
            "it holds no model: no config.json with safetensors, no adapter_config.json, no .gguf file";
        assert_eq!(said(&[], None), none);
        assert_eq!(said(&[("config.json", "{}"), ("tokenizer.json", "{}")], None), none);
        assert_eq!(said(&[("model.safetensors", "")], None), "it has safetensors but no config.json");
        let adapter = said(&[("adapter_config.json", "{}")], None);
        assert_eq!(adapter, "it has adapter_config.json but no adapter_model.safetensors");
        let several = said(&[("a.gguf", ""), ("b.gguf", "")], None);
        assert_eq!(several, "it holds several .gguf files: pick one of a.gguf, b.gguf as NAME:FILE");
        assert_eq!(said(&[("a.gguf", "")], Some("b.gguf")), "it has no file b.gguf");
        let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#;
        let half = said(&[("config.json", "{}"), (INDEX, index), ("1.safetensors", "")], None);
        assert_eq!(half, "model.safetensors.index.json names 2.safetensors, missing here");
        let pickles = said(&[("config.json", "{}"), ("pytorch_model.bin", "")], None);
        assert!(pickles.contains("pickles"), "{pickles}");
    }

    #[test]
    fn an_index_leads_nowhere_else() {
        for name in
            ["../../secret.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\nb", "a\\u0000b"]
        {
            let index = format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#);
            assert!(said(&[("config.json", "{}"), (INDEX, &index)], None).contains("is not a file name"));
        }
        assert!(said(&[("config.json", "{}"), (INDEX, "[")], None).contains("not JSON"));
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_same_model_only() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (repo, model) =
            (root.path().join("models--a--b"), root.path().join("models--a--b/snapshots/abc"));
        std::fs::create_dir_all(&model).unwrap();
        std::fs::create_dir(repo.join("blobs")).unwrap();
        std::fs::write(repo.join("blobs/1"), "{}").unwrap();
        std::fs::write(root.path().join("secret"), "{}").unwrap();
        symlink("../../blobs/1", model.join("config.json")).unwrap();
        symlink("../../blobs/1", model.join("model.safetensors")).unwrap();
        symlink("config.json", model.join("tokenizer.json")).unwrap();
        symlink("../../blobs/none", model.join("vocab.txt")).unwrap();
        look(&model, None).unwrap();
        let refused = |name: &str, make: &dyn Fn(&Path)| {
            let path = model.join(name);
            make(&path);
            let message = look(&model, None).unwrap_err().to_string();
            assert!(message.contains(name) && check_files(&model).is_err(), "{message}");
            std::fs::remove_file(path).unwrap();
            message
        };
        let out = |target: &'static str| move |path: &Path| symlink(target, path).unwrap();
        assert!(refused("merges.txt", &out("../../../secret")).contains("leads out of the model's folder"));
        assert!(refused("vocab.json", &out("/etc/hostname")).contains("leads out of the model's folder"));
        assert!(refused("1_Pooling", &out("/")).contains("leads out of the model's folder"));
        assert!(refused("2_Dense", &out(".")).contains("a link to a folder"));
        let pipe = |path: &Path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        assert!(refused("sentence_bert_config.json", &pipe).contains("is a pipe"));
        std::fs::create_dir(model.join("1_Pooling")).unwrap();
        assert!(refused("1_Pooling/config.json", &out("../../../../secret")).contains("leads out"));
        symlink("../../../secret", model.join("x.gguf")).unwrap();
        assert!(look(&model, Some("x.gguf")).unwrap_err().to_string().contains("leads out"));
    }

    #[test]
    fn what_goes_with_weights() {
        assert!(goes_with_weights("tokenizer.json") && goes_with_weights("1_Pooling/config.json"));
        assert!(!goes_with_weights("onnx/model.safetensors") && !goes_with_weights("pytorch_model.bin"));
    }
}
