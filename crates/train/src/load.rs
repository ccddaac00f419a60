//! Loading the base of a run: `[model]` of a recipe, and the trainable model made from it.

use std::path::PathBuf;

use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Place, Precision, models};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) precision: Option<MatmulPrecision>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// Precision of matrix products, as in `gradus score --precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MatmulPrecision {
    /// 32 bits.
    F32,
    /// Three bf16 products of split factors: nearly as exact as 32 bits, on matrix units.
    Bf16x3,
    /// bfloat16 with 32-bit accumulation.
    Bf16,
}

/// Loads the base model and adds its trainable parameters.
pub(crate) fn load(config: &ModelConfig, tuning: &Tuning, seed: u64) -> Result<TrainableModel> {
    let place = place(&config.device);
    let precision = match config.precision {
        Some(MatmulPrecision::F32) => Precision::F32,
        Some(MatmulPrecision::Bf16) => Precision::Bf16,
        Some(MatmulPrecision::Bf16x3) | None => Precision::Bf16x3,
    };
    let on_cpu = place == Place::Cpu;
    let options = LoadOptions {
        place,
        // On a GPU activations are bf16 unless f32 is asked for.
        precision: if on_cpu { Some(precision) } else { config.precision.map(|_| precision) },
        dequantise: Some(!config.quantized),
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

/// The device that a recipe names; what it may be was checked with the recipe.
fn place(device: &str) -> Place {
    match device.split_once(':') {
        None if device == "cpu" => Place::Cpu,
        None => Place::Cuda(0),
        Some((_, number)) => Place::Cuda(number.parse().unwrap_or(0)),
    }
}
