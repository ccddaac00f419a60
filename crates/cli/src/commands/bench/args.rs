//! Arguments that all benchmarks share: the judge that is measured, and the run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_backend::{Augmentation, LocalSettings, ScorerSettings};

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::decision::DecisionOptions;
use crate::arguments::protocol::ProtocolOptions;
use crate::arguments::values::count_or_none;
use crate::exit::Usage;
use crate::output::local_folder;

/// The judge to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Judge")]
pub(in crate::commands) struct JudgeOptions {
    /// Prompt the model for a verdict by a --protocol instead of step scores; with --endpoint, the same as --api chat
    #[arg(long, conflicts_with_all = ["profile", "scores", "pool"])]
    pub(in crate::commands::bench) critic: bool,
    #[command(flatten)]
    pub(in crate::commands::bench) protocol: ProtocolOptions,
    /// Use the scores of this name in the data instead of a model
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "profile", "endpoint", "pool", "adapter", "precision", "dequantize", "keep_quantized"])]
    pub(in crate::commands::bench) scores: Option<String>,
    #[command(flatten)]
    pub(in crate::commands::bench) decision: DecisionOptions,
    /// Name of the judge in the report (default: model and profile)
    #[arg(long)]
    pub(in crate::commands::bench) name: Option<String>,
    #[command(flatten)]
    pub(in crate::commands::bench) augmentation: Augmentation,
    #[command(flatten)]
    pub(in crate::commands::bench) scorer: ScorerSettings,
}

impl JudgeOptions {
    /// Whether a judge is named or described, where the data has judgments of its own. Options of a model that nothing
    /// asks for are refused.
    pub(in crate::commands::bench) fn is_named(&self) -> Result<bool> {
        let ScorerSettings { model, profile, endpoints, local, .. } = &self.scorer;
        let named = model.is_some() || !endpoints.endpoint.is_empty() || self.scores.is_some() || self.critic;
        let described = profile.is_some() || local.adapter.is_some() || self.augmentation.pool.is_some();
        if !(named || described) && *local != LocalSettings::default() {
            bail!(Usage(
                "--device, --precision, --dequantize, --keep-quantized and --max-batch-tokens apply to a model: name it \
                 with --model"
                    .to_owned()
            ));
        }
        if !(named || described) {
            self.decision.refuse("no judge with scores is named")?;
        }
        Ok(named || described)
    }
}

/// Options of every benchmark.
#[derive(Debug, Args)]
#[command(mut_arg("model", |arg| arg.help("Model name, folder (of an adapter, too) or .gguf file (default: gradus-prm; with \
--adapter, its base; with --critic, --profile or --pool, smollm2-135m); with --endpoint, the model's name on the server")))]
#[command(
    after_help = "Examples:\n  gradus bench processbench gsm8k.json math.json --model ./Qwen2.5-Math-PRM-7B --device cuda\n  \
gradus bench processbench scored.jsonl --scores my-prm --threshold 0.3\n  \
gradus bench best-of-n gsm8k_n32.jsonl.gz                  # all score columns of the file\n  \
gradus bench prmbench prmbench.jsonl --endpoint http://localhost:8000 --model my-prm\n  \
gradus bench processbench math.json --critic --protocol processbench --votes 8 --endpoint http://localhost:8000\n\n\
A run is a folder with report.html, report.json, lm-eval.json (as lm-evaluation-harness writes results) and every answer; rerun an interrupted command to resume it."
)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(in crate::commands::bench) input: DatasetInput,
    /// Run folder (default: runs/ and the names of benchmark and judge)
    #[arg(short, long, value_name = "FOLDER", value_parser = local_folder)]
    pub(in crate::commands::bench) output: Option<PathBuf>,
    /// Reuse the judgments of this run of the same judge; repeatable
    #[arg(long, alias = "answers", value_name = "RUN")]
    pub(in crate::commands::bench) reuse: Vec<PathBuf>,
    /// Process at most N problems per subset
    #[arg(long, value_name = "N")]
    pub(in crate::commands::bench) limit: Option<usize>,
    /// Bootstrap resamples
    #[arg(long, default_value_t = 1000, value_parser = count_or_none)]
    pub(in crate::commands::bench) resamples: usize,
    /// Random seed of the bootstrap
    #[arg(long, default_value_t = 0)]
    pub(in crate::commands::bench) seed: u64,
    #[command(flatten)]
    pub(in crate::commands::bench) judge: JudgeOptions,
    #[command(flatten)]
    pub(in crate::commands::bench) print: JsonOption,
}
