//! What a model's files say about it: shape, size, storage, license. Only heads are read, never weights.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::list::kind;
use super::store::Store;
use super::{ModelPath, TrainedModel, folder};
use crate::gguf::Gguf;
use crate::{Error, Result};

/// What is known about a model. Nothing stands where the files do not say.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    /// The name that was asked for.
    pub name: String,
    /// The folder or the GGUF file.
    pub path: PathBuf,
    /// `safetensors`, `adapter` or `gguf`.
    pub kind: &'static str,
    /// The class that the configuration names, or GGUF's name of the architecture.
    pub architecture: Option<String>,
    /// Transformer layers.
    pub layers: Option<u64>,
    /// Width of the residual stream.
    pub hidden_size: Option<u64>,
    /// Attention heads.
    pub heads: Option<u64>,
    /// Key and value heads, where they are fewer.
    pub kv_heads: Option<u64>,
    /// Vocabulary size.
    pub vocabulary: Option<u64>,
    /// Context length in tokens.
    pub context: Option<u64>,
    /// Data types of the weights, the commonest first, with shares where there are several.
    pub dtype: Option<String>,
    /// Number of parameters.
    pub parameters: Option<u64>,
    /// The model that an adapter belongs to.
    pub base_model: Option<String>,
    /// What `gradus train` wrote about it: base, profile and head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<TrainedModel>,
    /// The license, as the source spells it.
    pub license: Option<String>,
    /// Where it was pulled from.
    pub source: Option<String>,
    /// The wheel's version or the hub's commit.
    pub version: Option<String>,
    /// When it was pulled, in UTC.
    pub pulled: Option<String>,
    /// The files with their sizes in bytes.
    pub files: Vec<(String, u64)>,
}

/// Finds a model and reads the heads of its files.
pub fn show(store: &Store, name: &str) -> Result<Facts> {
    let (path, record) = super::find(store, name)?;
    let mut facts = match &path {
        ModelPath::Folder(folder) => of_folder(folder)?,
        ModelPath::Gguf(file) => of_gguf(file)?,
    };
    facts.name = name.to_owned();
    facts.kind = kind(&path);
    facts.path = path.as_path().to_owned();
    if let Some(record) = record {
        facts.license = record.license.or(facts.license);
        facts.source = Some(record.source);
        facts.version = Some(record.version);
        facts.pulled = Some(record.pulled);
    }
    Ok(facts)
}

fn of_folder(folder: &Path) -> Result<Facts> {
    let mut facts =
        Facts { files: folder::files(folder)?, license: card_license(folder), ..Facts::default() };
    let config_path = folder.join(folder::CONFIG);
    if config_path.is_file() {
        let config = folder::read_json(&config_path)?;
        // Models that also see keep their language part's numbers one level down.
        let number = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| config[name].as_u64().or_else(|| config["text_config"][name].as_u64()))
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        facts.architecture = text(&config["architectures"][0]).or_else(|| text(&config["model_type"]));
        facts.layers = number(&["num_hidden_layers", "n_layer", "num_layers"]);
        facts.hidden_size = number(&["hidden_size", "n_embd", "d_model"]);
        facts.heads = number(&["num_attention_heads", "n_head", "num_heads"]);
        facts.kv_heads = number(&["num_key_value_heads"]).filter(|heads| Some(*heads) != facts.heads);
        facts.vocabulary = number(&["vocab_size"]);
        facts.context = number(&["max_position_embeddings", "n_positions", "n_ctx"]);
    }
    let adapter_path = folder.join(folder::ADAPTER_CONFIG);
    if adapter_path.is_file() {
        let adapter = folder::read_json(&adapter_path)?;
        facts.base_model = adapter["base_model_name_or_path"].as_str().map(str::to_owned);
        if let (None, Some(kind)) = (&facts.architecture, adapter["peft_type"].as_str()) {
            let rank = adapter["r"].as_u64().map_or_else(String::new, |rank| format!(" of rank {rank}"));
            facts.architecture = Some(format!("{kind}{rank}"));
        }
    }
    facts.trained = TrainedModel::read(folder)?;
    let mut parameters = BTreeMap::new();
    for (file, _) in facts.files.iter().filter(|(file, _)| file.ends_with(".safetensors")) {
        for (dtype, count) in of_safetensors(&folder.join(file))? {
            *parameters.entry(dtype).or_insert(0_u64) += count;
        }
    }
    // Position ids and masks are stored too, but nobody trained them.
    parameters.retain(|dtype, _| dtype != "I64" && dtype != "BOOL");
    storage(&mut facts, parameters.iter().map(|(dtype, count)| (dtype.as_str(), *count)));
    Ok(facts)
}

fn of_gguf(path: &Path) -> Result<Facts> {
    let head = Gguf::open(path)?;
    let architecture = head.find::<&str>("general.architecture")?.map(str::to_owned);
    let own = |key: &str| {
        let name = format!("{}.{key}", architecture.as_deref().unwrap_or_default());
        head.find::<u64>(&name).ok().flatten()
    };
    let tokens = head.metadata.get("tokenizer.ggml.tokens").and_then(|value| match value {
        crate::gguf::Value::Array(tokens) => Some(tokens.len() as u64),
        _ => None,
    });
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in head.tensors.values() {
        *by_kind.entry(format!("{:?}", tensor.kind)).or_default() +=
            tensor.shape.iter().product::<usize>() as u64;
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let size = std::fs::metadata(path).map_err(|error| Error::io(path, error))?.len();
    let mut facts = Facts {
        layers: own("block_count"),
        hidden_size: own("embedding_length"),
        heads: own("attention.head_count"),
        kv_heads: own("attention.head_count_kv").filter(|heads| Some(*heads) != own("attention.head_count")),
        vocabulary: own("vocab_size").or(tokens),
        context: own("context_length"),
        license: head.find::<&str>("general.license").ok().flatten().map(str::to_owned),
        files: vec![(file, size)],
        ..Facts::default()
    };
    facts.architecture = architecture;
    storage(&mut facts, by_kind.iter().map(|(kind, count)| (kind.as_str(), *count)));
    Ok(facts)
}

fn storage<'a>(facts: &mut Facts, by_dtype: impl Iterator<Item = (&'a str, u64)>) {
    let mut by_dtype: Vec<_> = by_dtype.filter(|(_, count)| *count > 0).collect();
    by_dtype.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = by_dtype.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    if total == 0 {
        return;
    }
    facts.parameters = Some(total);
    let share = |count: u64| 100.0 * count as f64 / total as f64;
    by_dtype.retain(|(_, count)| share(*count) >= 0.5);
    facts.dtype = Some(match by_dtype.as_slice() {
        [(dtype, _)] => (*dtype).to_owned(),
        several => {
            let parts: Vec<_> =
                several.iter().map(|(dtype, count)| format!("{dtype} {:.0} %", share(*count))).collect();
            parts.join(", ")
        }
    });
}

/// The format's own limit on the size of the head.
const SAFETENSORS_HEAD: u64 = 100_000_000;

/// Numbers in a safetensors file by their type. Its head is JSON of `{name: {dtype, shape, data_offsets}}` behind its
/// length in 8 bytes.
fn of_safetensors(path: &Path) -> Result<BTreeMap<String, u64>> {
    let broken =
        |message: String| Error::model(path, format!("not a safetensors file that can be read: {message}"));
    let io = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| broken(format!("{size} bytes are too few")))?;
    let length = u64::from_le_bytes(length);
    if length > SAFETENSORS_HEAD || length > size - 8 {
        return Err(broken(format!("its head has {length} bytes and the file {size}")));
    }
    let mut head = vec![0; length as usize];
    file.read_exact(&mut head).map_err(io)?;
    let head: serde_json::Map<String, Value> = gradus_core::json::from_slice(&head)
        .map_err(|error| broken(format!("its head is not JSON: {error}")))?;
    let mut counts = BTreeMap::new();
    for (_, tensor) in head.iter().filter(|(name, _)| *name != "__metadata__") {
        let shape = tensor["shape"].as_array().into_iter().flatten().map(|size| size.as_u64().unwrap_or(0));
        let count = shape.fold(1_u64, u64::saturating_mul);
        let sum = counts.entry(tensor["dtype"].as_str().unwrap_or("unknown").to_owned()).or_insert(0_u64);
        *sum = sum.saturating_add(count);
    }
    Ok(counts)
}

/// The license in the front matter of a model card: `license: apache-2.0` between two lines of `---`.
fn card_license(folder: &Path) -> Option<String> {
    let card = std::fs::read_to_string(folder.join("README.md")).ok()?;
    let matter = card.strip_prefix("---")?.split("\n---").next()?;
    let value =
        matter.lines().find_map(|line| line.strip_prefix("license:"))?.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safetensors(head: &str) -> Vec<u8> {
        [&(head.len() as u64).to_le_bytes()[..], head.as_bytes()].concat()
    }

    #[test]
    fn a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
        file(
            "config.json",
            br#"{"architectures": ["BertModel"], "num_hidden_layers": 6, "hidden_size": 384, "vocab_size": 30522,
                "num_attention_heads": 12, "max_position_embeddings": 512}"#,
        );
        file("README.md", b"---\ntags: [x]\nlicense: apache-2.0\n---\n# Title\nlicense: other\n");
        let head = r#"{"__metadata__": {"format": "pt"}, "ids": {"dtype": "I64", "shape": [1, 512]},
            "a": {"dtype": "F32", "shape": [30, 40]}, "b": {"dtype": "BF16", "shape": [400]}}"#;
        file("model.safetensors", &safetensors(head));
        let store = Store::in_folder(folder.path());
        let facts = show(&store, folder.path().to_str().unwrap()).unwrap();
        assert_eq!(facts.architecture.as_deref(), Some("BertModel"));
        assert_eq!((facts.layers, facts.hidden_size, facts.heads), (Some(6), Some(384), Some(12)));
        assert_eq!((facts.vocabulary, facts.context, facts.kv_heads), (Some(30522), Some(512), None));
        assert_eq!((facts.parameters, facts.dtype.as_deref()), (Some(1600), Some("F32 75 %, BF16 25 %")));
        assert_eq!((facts.license.as_deref(), facts.kind), (Some("apache-2.0"), "safetensors"));
        assert_eq!(facts.files.len(), 3);
    }

    #[test]
    fn an_adapter() {
        let folder = tempfile::tempdir().unwrap();
        let config = r#"{"peft_type": "LORA", "r": 16, "base_model_name_or_path": "org/base"}"#;
        std::fs::write(folder.path().join("adapter_config.json"), config).unwrap();
        let head = r#"{"a": {"dtype": "F16", "shape": [2, 3]}}"#;
        std::fs::write(folder.path().join("adapter_model.safetensors"), safetensors(head)).unwrap();
        let facts = of_folder(folder.path()).unwrap();
        assert_eq!(facts.architecture.as_deref(), Some("LORA of rank 16"));
        assert_eq!((facts.base_model.as_deref(), facts.parameters), (Some("org/base"), Some(6)));
        assert_eq!(facts.trained, None);
        let mut trained = TrainedModel::new("prm", "org/base");
        trained.profile = Some("gradus".to_owned());
        trained.clone().write(folder.path()).unwrap();
        assert_eq!(of_folder(folder.path()).unwrap().trained, Some(trained));
    }

    #[test]
    fn a_gguf_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/gguf/llama-q4_1.gguf");
        let facts = of_gguf(&path).unwrap();
        assert_eq!((facts.architecture.as_deref(), facts.layers), (Some("llama"), Some(2)));
        assert!(facts.vocabulary >= Some(296) && facts.parameters > Some(10_000), "{facts:?}");
        assert!(facts.dtype.as_deref().unwrap().starts_with("Q4_1"), "{facts:?}");
    }

    #[test]
    fn damaged_safetensors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let long = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        for content in [&b""[..], b"1234567", b"\x05\0\0\0\0\0\0\0[1]", &long, &safetensors("{\"a\":")] {
            std::fs::write(&path, content).unwrap();
            let error = of_safetensors(&path).unwrap_err().to_string();
            assert!(error.contains("not a safetensors file that can be read"), "{error}");
        }
    }
}
