//! `gradus train sft | prm | orm | orpo | grpo`: runs a recipe.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use gradus_train::run::Recipe;
use gradus_train::{TrainingEnd, TrainingStart};
use serde::Serialize;

use super::display::Display;
use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::job;
use crate::output::local_folder;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};

/// The end of the help of an objective's command.
pub(super) fn examples(objective: &str) -> String {
    let command = format!("gradus train {objective} recipes/tiny/{objective}.toml");
    format!(
        "Examples:\n  {command} -o runs/first\n  {command} -o runs/second --set lora.rank=8 --set seed=1\n\n\
         Rerun an interrupted command to resume it."
    )
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Recipe file (TOML; see recipes/)
    recipe: PathBuf,
    /// Override a recipe setting, such as lora.rank=16; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Run folder for metrics, checkpoints and the result (default: runs/ and the recipe's name)
    #[arg(short, long, value_name = "FOLDER", value_parser = local_folder)]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct TrainSummary {
    objective: &'static str,
    run: String,
    examples: usize,
    held_out: usize,
    left_out: std::collections::BTreeMap<String, u64>,
    parameters: usize,
    steps: u64,
    complete: bool,
    /// The step whose parameters the result has.
    best_step: u64,
    result: Option<String>,
    /// The last evaluation.
    evaluation: std::collections::BTreeMap<String, f64>,
    seconds: f64,
}

pub(super) fn run(objective: &'static str, args: &TrainArgs) -> Result<Status> {
    let recipe = Recipe::read(&args.recipe, &args.sets)?;
    if recipe.objective() != objective {
        bail!(
            "{}: the recipe's objective is `{}`: run gradus train {} with it",
            args.recipe.display(),
            recipe.objective(),
            recipe.objective()
        );
    }
    let folder = args.output.clone().unwrap_or_else(|| default_folder(&args.recipe));
    job::registered(&format!("train {objective}"), Some(&folder), || train(objective, args, &recipe, &folder))
}

fn train(objective: &'static str, args: &TrainArgs, recipe: &Recipe, folder: &Path) -> Result<Status> {
    let mut display = Display::new(folder);
    let started = std::time::Instant::now();
    let program = std::env::args_os().take(1).map(|program| program.to_string_lossy().into_owned());
    let command = program.chain(job::command_line()?).collect();
    let end = gradus_train::train(recipe, folder, command, &mut display)?;
    let seconds = started.elapsed().as_secs_f64();
    let (start, evaluation) = display.finish();
    report(objective, folder, args, &end, start, &evaluation, seconds)
}

fn report(
    objective: &'static str,
    folder: &Path,
    args: &TrainArgs,
    end: &TrainingEnd,
    start: Option<TrainingStart>,
    evaluation: &[(&'static str, f64)],
    seconds: f64,
) -> Result<Status> {
    let Some(start) = start else { bail!("the run ended before its first step") };
    let report = TrainSummary {
        objective,
        examples: start.examples,
        held_out: start.held_out,
        left_out: start.left_out.iter().map(|(reason, count)| (reason.to_owned(), count)).collect(),
        parameters: start.parameters,
        steps: end.step,
        complete: end.complete,
        best_step: end.best,
        result: end.result.as_ref().map(|result| result.display().to_string()),
        evaluation: evaluation.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        seconds,
        run: folder.display().to_string(),
    };
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
    } else if let Some(result) = &report.result {
        let numbers: Vec<String> =
            evaluation.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let numbers = if numbers.is_empty() { String::new() } else { format!(": {}", numbers.join(", ")) };
        printer.line(format!("{} done{numbers}", counted(report.steps, "step")))?;
        printer.line(format!("result: {result}"))?;
    } else {
        printer.line(format!(
            "Stopped ({}/{} done). Rerun to resume",
            grouped(report.steps),
            counted(start.steps, "step")
        ))?;
    }
    Ok(if end.complete { Status::Done } else { Status::Interrupted })
}

/// `recipes/tiny/prm.toml` → `runs/tiny-prm`.
fn default_folder(recipe: &Path) -> PathBuf {
    let part = |path: Option<&std::ffi::OsStr>| path.map(|name| name.to_string_lossy().into_owned());
    let name = part(recipe.file_stem()).unwrap_or_else(|| "run".to_owned());
    let kind = part(recipe.parent().and_then(Path::file_name)).filter(|kind| !kind.is_empty());
    Path::new("runs").join(kind.map_or_else(|| name.clone(), |kind| format!("{kind}-{name}")))
}
