//! `gradus annotate judge`: labels by asking a model where the first error is.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_annotate::judge as by_judge;
use gradus_annotate::prompt::Template;
use gradus_backend::GeneratorSettings;
use gradus_core::{Problem, Solution};

use super::labeling::{Labeling, LabelingArgs, refuse_continuation};
use crate::arguments::JsonOption;
use crate::arguments::protocol::{JudgeProtocol, ProtocolOptions};
use crate::exit::{Status, Usage};
use crate::job::TaskSource;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate judge sampled.jsonl -o judged.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-72B-Instruct\n  \
gradus annotate judge sampled.jsonl -o judged.jsonl --protocol qwen --votes 8"
)]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    labeling: LabelingArgs,
    #[command(flatten)]
    judging: ProtocolOptions,
    /// Prompt template file in place of the protocol's own (variables: problem, tagged, steps)
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    #[command(flatten)]
    pub(super) generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &JudgeArgs, source: TaskSource<'_>) -> Result<Status> {
    let (mut protocol, mut config) = args.judging.open(JudgeProtocol::Gradus);
    config.seed = args.labeling.run.seed;
    config.check().map_err(|error| Usage(error.to_string()))?;
    refuse_continuation(&args.generator)?;
    if let Some(path) = &args.prompt {
        protocol = protocol.with_prompt(path)?;
    }
    let ready =
        Labeling::open(&args.labeling, &args.generator, Template::solve(), Template::go_on(), source)?;
    let model = &ready.generator.model;
    // Labels by another protocol are those of another annotator.
    let name = match protocol.name {
        "gradus" => model.name.clone(),
        other => format!("{}/{other}", model.name),
    };
    let judge =
        by_judge::Judge { model, name: &name, protocol: &protocol, system: args.generator.system.as_deref() };
    let each = async |problem: &Problem, solution: &Solution| {
        by_judge::annotate(judge, problem, solution, &config).await
    };
    ready.run("annotate judge", &(protocol.name, &config, protocol.text()), &each, args.print.json)
}
