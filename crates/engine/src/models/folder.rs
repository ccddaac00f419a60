//! Which files make a model, and whether a folder holds a whole one.
//!
//! A folder in the hub's layout is whole when it has `config.json` and every weight file: `model.safetensors`, or all
//! that `model.safetensors.index.json` names. An adapter has `adapter_config.json` and `adapter_model.safetensors`. A
//! GGUF file is whole by itself. Pickles (`pytorch_model.bin`) run code when they are read, so they are never read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

/// The model in a folder; `file` picks one of several GGUF files.
pub(super) fn look(folder: &Path, file: Option<&str>) -> Result<ModelPath> {
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

/// The weight files that an index names, each once.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>> {
    let value = read_json(index)?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::model(index, "field `weight_map` is missing or not an object"))?;
    map.values()
        .map(|shard| match shard.as_str() {
            Some(name) if is_relative(name) => Ok(name.to_owned()),
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
        let index = r#"{"weight_map": {"a": "../../secret.safetensors"}}"#;
        assert!(said(&[("config.json", "{}"), (INDEX, index)], None).contains("is not a file name"));
        assert!(said(&[("config.json", "{}"), (INDEX, "[")], None).contains("not JSON"));
    }

    #[test]
    fn what_goes_with_weights() {
        assert!(goes_with_weights("tokenizer.json") && goes_with_weights("1_Pooling/config.json"));
        assert!(!goes_with_weights("onnx/model.safetensors") && !goes_with_weights("pytorch_model.bin"));
    }
}
