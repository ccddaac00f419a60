//! Adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors`, as Hugging Face PEFT, vLLM and this
//! engine load them.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use crate::lora::{AdapterDtype, LoraConfig};
use crate::trainable::TrainableModel;
use crate::{Error, Result};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Writes the trained parameters into `folder`, which must exist; `base` is the model they belong to.
pub(crate) fn save(folder: &Path, trainable: &TrainableModel, lora: &LoraConfig, base: &str) -> Result<()> {
    let heads: Vec<&str> = trainable.head_names();
    // Only the head that transformers' own token classifiers have; PEFT takes other models as they are.
    let task = match heads[..] {
        [] => Some("CAUSAL_LM"),
        ["score"] => Some("TOKEN_CLS"),
        _ => None,
    };
    let saved = (!heads.is_empty()).then(|| vec![heads[0].split('.').next().unwrap_or(heads[0])]);
    let config = json!({
        "peft_type": "LORA",
        "task_type": task,
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "use_rslora": lora.rslora,
        "target_modules": lora.modules(),
        "modules_to_save": saved,
        "bias": "none",
        "fan_in_fan_out": false,
        "init_lora_weights": true,
        "inference_mode": true,
        "layers_to_transform": null,
    });
    let path = folder.join(CONFIG);
    let text = serde_json::to_string_pretty(&config).expect("a JSON value can be written");
    gradus_durable::replace_file(&path, (text + "\n").as_bytes())?;
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    for parameter in trainable.parameters.iter() {
        let value = parameter.value.to_device(&Device::Cpu)?;
        let value = match lora.stored {
            AdapterDtype::F32 => value,
            AdapterDtype::Bf16 => value.to_dtype(DType::BF16)?,
        };
        tensors.insert(peft_name(&parameter.name), value);
    }
    let path = folder.join(WEIGHTS);
    candle_core::safetensors::save(&tensors, &path)?;
    Ok(())
}

/// Starts from an adapter instead of a random initialization: it must have the same tensors, in the same shapes.
pub(crate) fn restore(folder: &Path, trainable: &mut TrainableModel) -> Result<()> {
    let path = folder.join(WEIGHTS);
    if !path.exists() {
        return Err(Error::run(folder, format!("no {WEIGHTS} here: expected an adapter in PEFT's layout")));
    }
    gradus_engine::models::check_files(folder)?;
    let mut tensors = candle_core::safetensors::load(&path, &Device::Cpu)?;
    for parameter in trainable.parameters.iter_mut() {
        let name = peft_name(&parameter.name);
        let Some(tensor) = tensors.remove(&name) else {
            return Err(Error::run(
                &path,
                format!("tensor `{name}` is missing: is `lora.targets` the same?"),
            ));
        };
        if tensor.shape() != parameter.value.shape() {
            let message = format!(
                "tensor `{name}` has shape {:?}, and the recipe makes it {:?}: is `lora.rank` the same?",
                tensor.dims(),
                parameter.value.dims()
            );
            return Err(Error::run(&path, message));
        }
        let tensor = tensor.to_dtype(parameter.value.dtype())?;
        parameter.value = tensor.to_device(parameter.value.device())?;
    }
    if let Some(name) = tensors.keys().min() {
        let message = format!("tensor `{name}` ({} in all) is not trained by this recipe", tensors.len());
        return Err(Error::run(&path, message));
    }
    trainable.refresh()
}

/// `layers.0.self_attn.q_proj.lora_A.weight` → `base_model.model.model.layers.0…`; a head has no inner `model.`.
fn peft_name(name: &str) -> String {
    let backbone = name.starts_with("layers.");
    format!("base_model.model.{}{name}", if backbone { "model." } else { "" })
}
