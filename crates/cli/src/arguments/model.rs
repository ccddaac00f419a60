//! How a local model is loaded and run.

use std::path::PathBuf;

use clap::Args;
use gradus_engine::{Place, Precision};

use crate::arguments::values::at_least_one;

/// Which model runs, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelOptions {
    /// LoRA adapter folder (PEFT layout) to apply to the model
    #[arg(long, value_name = "FOLDER")]
    pub(crate) adapter: Option<PathBuf>,
    /// Device: cpu, cuda, cuda:N or metal
    #[arg(long, default_value = "cpu", value_parser = place)]
    pub(crate) device: Place,
    /// Matrix multiplication precision: f32, bf16x3 or bf16 (default: bf16x3 for f32 and f16 weights, else bf16)
    #[arg(long, value_parser = precision)]
    pub(crate) precision: Option<Precision>,
    /// Dequantize quantized weights at load time (default: on GPUs only)
    #[arg(long, alias = "dequantise")]
    pub(crate) dequantize: bool,
    /// Keep quantized weights quantized on GPUs
    #[arg(long, alias = "keep-quantised", conflicts_with = "dequantize")]
    pub(crate) keep_quantized: bool,
    /// Maximum tokens per forward pass
    #[arg(long, alias = "token-budget", default_value_t = 4096, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) max_batch_tokens: usize,
}

fn place(text: &str) -> Result<Place, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(Place::Cpu),
        None if text == "cuda" => Ok(Place::Cuda(0)),
        None if text == "metal" => Ok(Place::Metal),
        Some(("cuda", number)) => {
            number.parse().map(Place::Cuda).map_err(|_| format!("`{number}` is not a GPU index"))
        }
        _ => Err(format!("`{text}` is not one of cpu, cuda, cuda:N, metal")),
    }
}

fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "f32" => Ok(Precision::F32),
        "bf16x3" => Ok(Precision::Bf16x3),
        "bf16" => Ok(Precision::Bf16),
        _ => Err(format!("`{text}` is not one of f32, bf16x3, bf16")),
    }
}
