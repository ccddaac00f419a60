//! Loading the base of a run: `[model]` of a recipe, and the trainable model made from it.

use std::path::PathBuf;

use gradus_engine::models::ModelPath;
use gradus_engine::{Device, LoadOptions, Model, Precision, models};
use serde::{Deserialize, Serialize};

use crate::trainable::{TrainableModel, TrainableOptions, Tuning};
use crate::{Error, Result};

/// Memory for activations; beyond it, layers are recomputed in the backward pass.
const ACTIVATION_BYTES_ON_CPU: usize = 4 << 30;
const ACTIVATION_BYTES_ON_GPU: usize = 16 << 30;

/// `[model]`: the base model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelConfig {
    /// A model's name, folder or .gguf file, as `gradus models` finds it.
    pub(crate) base: String,
    /// `cpu`, `cuda` or `cuda:1`. Default `cpu`.
    #[serde(default = "cpu")]
    pub(crate) device: String,
    /// An adapter folder (PEFT layout) to start from. Default none: a new adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) adapter: Option<PathBuf>,
    /// Keep the base quantized, as in QLoRA. Default false.
    #[serde(default)]
    pub(crate) quantized: bool,
    /// Precision of matrix products. Default bf16x3 on a CPU, bf16 on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "gradus_engine::precision")]
    pub(crate) precision: Option<Precision>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// Loads the base model and adds its trainable parameters, for their names, shapes and first values only: on the CPU,
/// and with a GGUF file's weights as the file has them.
pub(crate) fn load_untrained(config: &ModelConfig, tuning: &Tuning, seed: u64) -> Result<TrainableModel> {
    let path = models::resolve(&config.base)?;
    let precision = config.precision.unwrap_or(Precision::Bf16x3);
    let frozen = *tuning != Tuning::Full;
    let options = LoadOptions {
        device: Device::Cpu,
        precision: Some(precision),
        dequantize: Some(!frozen),
        adapter: None,
    };
    let model = Model::load(&path, &options)?;
    let tuning = tuning.clone();
    TrainableModel::new(
        model,
        TrainableOptions { tuning, precision, quantized: frozen, activation_bytes: 0, seed },
    )
}

/// Loads the base model and adds its trainable parameters.
pub(crate) fn load(config: &ModelConfig, tuning: &Tuning, seed: u64) -> Result<TrainableModel> {
    let device: Device = config.device.parse().map_err(Error::Model)?;
    let precision = config.precision.unwrap_or(Precision::Bf16x3);
    let on_cpu = device == Device::Cpu;
    let options = LoadOptions {
        device,
        // On a GPU activations are bf16 unless f32 is asked for.
        precision: if on_cpu { Some(precision) } else { config.precision },
        dequantize: Some(!config.quantized),
        adapter: None,
    };
    let path = models::resolve(&config.base)?;
    if config.quantized && matches!(path, ModelPath::Folder(_)) {
        let message = "`quantized = true` in [model] has no effect: the base is not a GGUF file";
        return Err(Error::Model(message.to_owned()));
    }
    let model = Model::load(&path, &options)?;
    let options = TrainableOptions {
        tuning: tuning.clone(),
        precision,
        quantized: config.quantized,
        activation_bytes: if on_cpu { ACTIVATION_BYTES_ON_CPU } else { ACTIVATION_BYTES_ON_GPU },
        seed,
    };
    TrainableModel::new(model, options)
}
