//! `gradus annotate judge`: labels by asking a model where the first error is.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_annotate::judge as by_judge;
use gradus_annotate::prompt::Template;
use gradus_backend::GeneratorSettings;
use gradus_core::contracts::Sampling;
use gradus_core::{Problem, Solution};

use super::labeling::{Labeling, LabelingArgs, refuse_continuation};
use crate::arguments::JsonOption;
use crate::arguments::values::at_least_one;
use crate::exit::{Status, Usage};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate judge sampled.jsonl -o judged.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-72B-Instruct\n  \
gradus annotate judge sampled.jsonl -o judged.jsonl --votes 8 --temperature 0.7"
)]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    labeling: LabelingArgs,
    /// Judgments per solution; the majority verdict counts
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one)]
    votes: usize,
    /// Maximum tokens per completion
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = at_least_one)]
    max_tokens: usize,
    /// Sampling temperature (default: 0, or 0.7 with several votes)
    #[arg(short, long)]
    temperature: Option<f32>,
    /// Prompt template file (variables: problem, tagged; default: built in)
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    #[command(flatten)]
    generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &JudgeArgs) -> Result<Status> {
    let temperature = args.temperature.unwrap_or(if args.votes > 1 { 0.7 } else { 0.0 });
    let config = by_judge::JudgeConfig {
        votes: args.votes,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature, ..Sampling::default() },
        seed: args.labeling.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    refuse_continuation(&args.generator)?;
    let template = args.prompt.as_deref().map_or_else(|| Ok(Template::judge()), Template::read)?;
    by_judge::check_template(&template)?;
    let ready = Labeling::open(&args.labeling, &args.generator, Template::solve(), Template::go_on())?;
    let judge = by_judge::Judge {
        model: &ready.generator.model,
        name: &ready.generator.model.name,
        template: &template,
        system: args.generator.system.as_deref(),
    };
    let each = async |problem: &Problem, solution: &Solution| {
        by_judge::annotate(judge, problem, solution, &config).await
    };
    ready.run("annotate judge", &(&config, template.text()), &each, args.print.json)
}
