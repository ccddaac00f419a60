//! A fully fine-tuned model as a Hugging Face folder: configuration, tokenizer and all weights.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use gradus_engine::config::RopeScaling;
use gradus_engine::models::{self, ModelPath};

use crate::error::io;
use crate::trainable::TrainableModel;
use crate::{Error, Result};

/// Writes the model into `folder`, which must exist. Files beside the base's weights are copied as they are; for a
/// base without them (a GGUF file) they are written from what the engine knows.
pub(crate) fn save(folder: &Path, trainable: &TrainableModel, base: &str) -> Result<()> {
    let decoder = trainable.model.decoder()?;
    match models::resolve(base)? {
        ModelPath::Folder(from) => {
            for entry in fs::read_dir(&from).map_err(io(&from))? {
                let path = entry.map_err(io(&from))?.path();
                let weights = path.extension().is_some_and(|kind| kind == "safetensors" || kind == "bin");
                let index = path.to_string_lossy().ends_with(".index.json");
                if path.is_file() && !weights && !index {
                    let copy = folder.join(path.file_name().unwrap_or_default());
                    fs::copy(&path, &copy).map_err(io(&copy))?;
                }
            }
        }
        ModelPath::Gguf(path) => {
            if decoder.config.rope.scaling != RopeScaling::None {
                let message = "its RoPE scaling cannot be written into a config.json: train from the Hugging Face folder";
                return Err(Error::run(path, message));
            }
            let json = serde_json::to_string_pretty(&decoder.config.to_json()).expect("a shape is JSON");
            let config = folder.join("config.json");
            gradus_durable::replace_file(&config, (json + "\n").as_bytes())?;
            trainable.model.tokenizer().save(folder)?;
        }
    }
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    for parameter in trainable.parameters.iter() {
        let name = &parameter.name;
        let outside =
            name.starts_with("lm_head.") || trainable.head_names().iter().any(|head| name.starts_with(head));
        let name = if outside { name.clone() } else { format!("model.{name}") };
        tensors.insert(name, parameter.value.to_device(&Device::Cpu)?);
    }
    candle_core::safetensors::save(&tensors, folder.join("model.safetensors"))?;
    Ok(())
}
