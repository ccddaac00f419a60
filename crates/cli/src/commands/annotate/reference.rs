//! `gradus annotate reference`: labels by comparing steps with a reference solution.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::prompt::Template;
use gradus_annotate::reference as by_reference;
use gradus_annotate::reference::{Guide, ReferenceAnnotator};
use gradus_backend::GeneratorSettings;
use gradus_core::contracts::Sampling;
use gradus_core::{Problem, Solution};

use super::labeling::{Labeling, LabelingArgs, refuse_continuation};
use crate::arguments::JsonOption;
use crate::arguments::values::{at_least_one, count_or_none, temperature};
use crate::exit::{Status, Usage};
use crate::job::TaskSource;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate reference sampled.jsonl -o spare.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-72B-Instruct\n\n\
Problems need a reference solution. Instructions and exemplars depend on the problem's domain: math, qa or spatial."
)]
pub(crate) struct ReferenceArgs {
    #[command(flatten)]
    labeling: LabelingArgs,
    /// Few-shot exemplars per prompt
    #[arg(long = "shots", default_value_t = 5, value_name = "N", value_parser = count_or_none)]
    shots: usize,
    /// Maximum retries after an invalid response
    #[arg(long, alias = "attempts", default_value_t = 2, value_name = "N", value_parser = count_or_none)]
    response_retries: usize,
    /// Maximum tokens per completion
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = at_least_one)]
    max_tokens: usize,
    /// Sampling temperature
    #[arg(short, long, default_value_t = 0.0, value_parser = temperature)]
    temperature: f32,
    /// Do not request structured output (JSON schema); responses are validated either way
    #[arg(long, alias = "unstructured")]
    no_structured_output: bool,
    /// System prompt file (default: built in)
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// Domain instructions and exemplars (TOML; default: built in)
    #[arg(long, value_name = "FILE")]
    exemplars: Option<PathBuf>,
    #[command(flatten)]
    pub(super) generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &ReferenceArgs, source: TaskSource<'_>) -> Result<Status> {
    let config = by_reference::ReferenceConfig {
        exemplars: args.shots,
        retries: args.response_retries,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, ..Sampling::default() },
        structured: !args.no_structured_output,
        seed: args.labeling.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    refuse_continuation(&args.generator)?;
    if args.generator.system.is_some() {
        bail!(Usage("--system does not apply here: use --prompt to replace the system prompt".to_owned()));
    }
    let mut guide = Guide::built_in();
    if let Some(path) = &args.prompt {
        guide = guide.with_system(path)?;
    }
    if let Some(path) = &args.exemplars {
        guide = guide.with_exemplars(path)?;
    }
    let ready =
        Labeling::open(&args.labeling, &args.generator, Template::solve(), Template::go_on(), source)?;
    let annotator = ReferenceAnnotator {
        model: &ready.generator.model,
        name: &ready.generator.model.name,
        guide: &guide,
    };
    let each = async |problem: &Problem, solution: &Solution| {
        by_reference::annotate(annotator, problem, solution, &config).await
    };
    ready.run("annotate reference", &(&config, guide.text()), &each, args.print.json)
}
