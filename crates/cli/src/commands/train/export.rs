//! `gradus train export`: a recipe for a trainer elsewhere, which writes its result in our format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_core::count::{counted, grouped};
use gradus_train::ExportTarget;
use gradus_train::run::Recipe;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::output::local_folder;
use crate::terminal::printer::Printer;

pub(super) const EXAMPLES: &str = "Examples:
  gradus train export recipes/tiny/prm.toml --to torch -o exported
  accelerate launch --multi_gpu --num_processes 8 exported/train.py --output run
  gradus score solutions.jsonl --model run/adapter";

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Recipe file (TOML; see recipes/)
    recipe: PathBuf,
    /// Override a recipe setting, such as lora.rank=16; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The framework that trains
    #[arg(long, value_enum, value_name = "TARGET")]
    to: TargetArg,
    /// Output folder: new, empty, or an earlier export, which is replaced
    #[arg(short, long, value_name = "FOLDER", value_parser = local_folder)]
    output: PathBuf,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TargetArg {
    /// PyTorch: transformers, PEFT and accelerate; TRL for critics
    Torch,
}

#[derive(Debug, Serialize)]
struct ExportReport {
    objective: &'static str,
    folder: String,
    examples: usize,
    held_out: usize,
    left_out: BTreeMap<String, u64>,
    parameters: usize,
    steps: u64,
}

pub(super) fn run(args: &ExportArgs) -> Result<Status> {
    let recipe = Recipe::read(&args.recipe, &args.sets)?;
    let target = match args.to {
        TargetArg::Torch => ExportTarget::Torch,
    };
    let exported = gradus_train::export(&recipe, target, &args.output)?;
    let report = ExportReport {
        objective: recipe.objective(),
        folder: args.output.display().to_string(),
        examples: exported.examples,
        held_out: exported.held_out,
        left_out: exported.left_out.iter().map(|(reason, count)| (reason.to_owned(), count)).collect(),
        parameters: exported.parameters,
        steps: exported.steps,
    };
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{}, {}, {}, {}",
        counted(report.examples, "training example"),
        counted(report.held_out, "evaluation example"),
        counted(report.parameters, "trainable parameter"),
        counted(report.steps, "step"),
    ))?;
    for (reason, number) in &report.left_out {
        printer.line(format!("omitted: {} × {reason}", grouped(*number)))?;
    }
    printer.line(format!("written to {}: README.md has the commands", report.folder))?;
    Ok(Status::Done)
}
