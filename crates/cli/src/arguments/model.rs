//! How a local model is loaded and run.

use std::path::PathBuf;

use clap::Args;
use gradus_engine::{Device, Precision};

use crate::arguments::values::at_least_one;

/// Which model runs, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelOptions {
    /// LoRA adapter folder (PEFT layout) to apply to the model
    #[arg(long, value_name = "FOLDER")]
    pub(crate) adapter: Option<PathBuf>,
    /// Device: cpu, cuda, cuda:N or metal
    #[arg(long, default_value = "cpu")]
    pub(crate) device: Device,
    /// Matrix multiplication precision: f32, bf16x3 or bf16 (default: bf16x3 for f32 and f16 weights, else bf16)
    #[arg(long)]
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
