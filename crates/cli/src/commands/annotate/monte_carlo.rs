//! `gradus annotate monte-carlo`: labels by whether completions from a step reach the right answer.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_annotate::monte_carlo as by_sampling;
use gradus_annotate::prompt::Template;
use gradus_backend::GeneratorSettings;
use gradus_core::contracts::{CallError, Sampling};
use gradus_core::{Problem, Solution};

use super::labeling::{Labeling, LabelingArgs};
use crate::arguments::JsonOption;
use crate::arguments::values::{at_least_one, count_u32, temperature};
use crate::exit::{Status, Usage};
use crate::job::TaskSource;

/// Monte Carlo label types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LabelKind {
    /// Correct or incorrect
    Hard,
    /// Also the share of correct completions
    Soft,
}

/// Order in which steps are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SearchKind {
    /// From the first step to the first incorrect one
    Linear,
    /// Binary search; assumes that all steps after an incorrect one are incorrect
    Binary,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate monte-carlo sampled.jsonl -o mc.jsonl --samples 8\n  \
gradus annotate monte-carlo sampled.jsonl -o mc.jsonl --labels soft --endpoint http://localhost:8000\n\n\
Sampling of a step stops as soon as its hard label is decided, and at the first incorrect step.")]
pub(crate) struct MonteCarloArgs {
    #[command(flatten)]
    labeling: LabelingArgs,
    /// Completions per step
    #[arg(short = 'k', long, default_value_t = 8, value_name = "K", value_parser = count_u32)]
    samples: u32,
    /// Number of correct completions above which a step is correct
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = count_u32)]
    threshold: u32,
    /// Label type
    #[arg(long, value_enum, default_value = "hard")]
    labels: LabelKind,
    /// Order in which steps are sampled
    #[arg(long, value_enum, default_value = "linear")]
    search: SearchKind,
    /// Sample all completions even after the hard label is decided
    #[arg(long)]
    no_early_stop: bool,
    /// Maximum tokens per completion
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = at_least_one)]
    max_tokens: usize,
    /// Sampling temperature
    #[arg(short, long, default_value_t = 0.8, value_parser = temperature)]
    temperature: f32,
    /// Prompt template file (variable: problem; default: built in)
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// With --endpoint, prompt template file that asks the server in words to continue a solution (variables: problem,
    /// solution_prefix; default: built in, for servers that cannot continue a turn)
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    continue_prompt: Option<PathBuf>,
    #[command(flatten)]
    pub(super) generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &MonteCarloArgs, source: TaskSource<'_>) -> Result<Status> {
    let config = by_sampling::MonteCarloConfig {
        samples: args.samples,
        threshold: args.threshold,
        labels: match args.labels {
            LabelKind::Hard => by_sampling::Labels::Hard,
            LabelKind::Soft => by_sampling::Labels::Soft,
        },
        search: match args.search {
            SearchKind::Linear => by_sampling::Search::Linear,
            SearchKind::Binary => by_sampling::Search::Binary,
        },
        early_stop: !args.no_early_stop,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, ..Sampling::default() },
        seed: args.labeling.run.seed,
        ..by_sampling::MonteCarloConfig::default()
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    let solve = args.prompt.as_deref().map_or_else(|| Ok(Template::solve()), Template::read)?;
    let go_on = args.continue_prompt.as_deref().map_or_else(|| Ok(Template::go_on()), Template::read)?;
    let mut ready = Labeling::open(&args.labeling, &args.generator, solve, go_on, source)?;
    // A prompt of one's own is there to be used.
    if args.continue_prompt.is_none() {
        ready.generator.find_continuation(args.print.json)?;
    }
    let each = async |problem: &Problem, solution: &Solution| {
        let generator = &ready.generator;
        let ask = generator.ask(problem).map_err(|error| CallError::Invalid(format!("{error:#}")))?;
        let model = &generator.model;
        let completer = by_sampling::Completer { model, name: &model.name, ask: ask.as_ref() };
        by_sampling::annotate(completer, problem, solution, &config).await
    };
    ready.run("annotate monte-carlo", &config, &each, args.print.json)
}
