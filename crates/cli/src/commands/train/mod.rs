//! `gradus train`: runs recipes, builds critics' data, draws curves.

mod critic_data;
mod display;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use gradus_train::run::{Recipe, metrics};
use gradus_train::{TrainingEnd, TrainingStart, curves};
use serde::Serialize;

use super::Status;
use crate::args::train::{Plot, Train, TrainCommand};
use crate::printer::{self, Printer, counted};
use display::Display;

#[derive(Debug, Serialize)]
struct Report {
    objective: &'static str,
    run: PathBuf,
    examples: usize,
    held_out: usize,
    left_out: std::collections::BTreeMap<String, u64>,
    parameters: usize,
    steps: u64,
    complete: bool,
    /// The step whose parameters the result has.
    best_step: u64,
    result: Option<PathBuf>,
    /// The last evaluation.
    evaluation: std::collections::BTreeMap<String, f64>,
    seconds: f64,
}

pub(super) fn run(command: &TrainCommand) -> Result<Status> {
    match command {
        TrainCommand::Sft(args) => train("sft", args),
        TrainCommand::Prm(args) => train("prm", args),
        TrainCommand::Orm(args) => train("orm", args),
        TrainCommand::Orpo(args) => train("orpo", args),
        TrainCommand::Grpo(args) => train("grpo", args),
        TrainCommand::CriticData(args) => critic_data::run(args),
        TrainCommand::Plot(args) => draw(args),
    }
}

fn train(objective: &'static str, args: &Train) -> Result<Status> {
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
    let mut display = Display::new(&folder);
    let started = std::time::Instant::now();
    let command = std::env::args().collect();
    let end = gradus_train::train(&recipe, &folder, command, &mut display)?;
    let seconds = started.elapsed().as_secs_f64();
    let (start, evaluation) = display.finish();
    report(objective, folder, args, &end, start, &evaluation, seconds)
}

fn report(
    objective: &'static str,
    folder: PathBuf,
    args: &Train,
    end: &TrainingEnd,
    start: Option<TrainingStart>,
    evaluation: &[(&'static str, f64)],
    seconds: f64,
) -> Result<Status> {
    let Some(start) = start else { bail!("the run ended before it began") };
    let report = Report {
        objective,
        examples: start.examples,
        held_out: start.held_out,
        left_out: start.left_out.iter().map(|(reason, count)| (reason.to_owned(), count)).collect(),
        parameters: start.parameters,
        steps: end.step,
        complete: end.complete,
        best_step: end.best,
        result: end.result.clone(),
        evaluation: evaluation.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        seconds,
        run: folder,
    };
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
    } else if let Some(result) = &report.result {
        let numbers: Vec<String> =
            evaluation.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let numbers = if numbers.is_empty() { String::new() } else { format!(": {}", numbers.join(", ")) };
        printer.line(format!("{} done{numbers}", counted(report.steps, "step")))?;
        printer.line(format!("the result is in {}", result.display()))?;
    } else {
        printer.line(format!(
            "stopped after {} of {}: give the same command again to go on",
            counted(report.steps, "step"),
            printer::count(start.steps)
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

fn draw(args: &Plot) -> Result<Status> {
    let mut runs = Vec::new();
    for run in &args.runs {
        let path = run.join("metrics.jsonl");
        let lines = metrics::read(&path)?;
        if lines.is_empty() {
            bail!("{}: there are no metrics yet", path.display());
        }
        let name = run
            .file_name()
            .map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned());
        runs.push(curves::RunCurves { name, lines });
    }
    let output = args.output.clone().unwrap_or_else(|| args.runs[0].join("curves.html"));
    std::fs::write(&output, curves::page(&runs)).with_context(|| output.display().to_string())?;
    Printer::new(None).line(format!("written to {}", output.display()))?;
    Ok(Status::Done)
}
