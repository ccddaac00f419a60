//! Critics for TRL: prompts with what their reward needs, and how TRL names the loss.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::tensors;
use crate::Result;
use crate::critic::{self, CriticExample};
use crate::error::io;
use crate::losses::{GrpoConfig, LengthWeight};
use crate::run::order::Order;

/// `loss` of `config.json`.
pub(super) fn loss(config: &GrpoConfig) -> Value {
    let loss_type = match config.length {
        LengthWeight::PerSample => "grpo",
        LengthWeight::Constant => "dr_grpo",
        LengthWeight::PerToken => "dapo",
    };
    json!({
        "kind": "critiques",
        "group": config.group,
        "temperature": config.temperature,
        "max_new_tokens": config.max_new_tokens,
        "clip_low": config.clip_low,
        "clip_high": config.clip_high,
        "kl": config.kl,
        "advantage_std": config.advantage_std,
        "loss_type": loss_type,
        "perplexity_aware": config.perplexity_aware,
        "class_level": config.class_level,
        "inner_epochs": config.inner_epochs,
    })
}

/// Writes prompts and the order of the training set.
pub(super) fn write(
    folder: &Path,
    train: &[CriticExample],
    held_out: &[CriticExample],
    order: &Order,
) -> Result<()> {
    write_prompts(&folder.join("train.jsonl"), train)?;
    if !held_out.is_empty() {
        write_prompts(&folder.join("eval.jsonl"), held_out)?;
    }
    tensors::write_order(&folder.join("order.safetensors"), order)
}

fn write_prompts(path: &Path, examples: &[CriticExample]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).map_err(io(path))?);
    for example in examples {
        let row = json!({
            "id": example.solution_id,
            "prompt": critic::prompt(&example.problem, &example.steps),
            "steps": example.steps,
            "truth": example.truth,
            "perplexity": example.perplexity,
        });
        writeln!(file, "{row}").map_err(io(path))?;
    }
    file.flush().map_err(io(path))
}
