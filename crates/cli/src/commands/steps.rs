//! `gradus steps`: splits a text, or every solution of a dataset, into steps.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use gradus_core::steps::{SplitConfig, Strategy, split};
use gradus_data::files::{ReadOptions, Sink, Target};
use gradus_data::readers::{FieldMap, Format};
use serde::Serialize;
use serde_json::json;

use crate::arguments::JsonOption;
use crate::arguments::dataset::{OnError, format_name};
use crate::arguments::values::strategy;
use crate::exit::{Status, Usage};
use crate::input;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(super) struct StepsArgs {
    /// Text file, or - for standard input; with --data, datasets
    #[arg(value_name = "INPUT", default_value = "-")]
    inputs: Vec<PathBuf>,
    /// Splitting strategy: auto, blank_lines, numbered, step_markers, lines or sentences
    #[arg(long, default_value = "auto", value_parser = strategy)]
    strategy: Strategy,
    /// Split all solutions of datasets that have text but no steps
    #[arg(long, requires = "output")]
    data: bool,
    /// With --data, input format (default: detected from the first record)
    #[arg(long, value_name = "FORMAT", value_parser = format_name, requires = "data")]
    from: Option<Format>,
    /// With --data, what the fields of model outputs are, such as problem=question,solution=output.text (default: by their
    /// names)
    #[arg(long, value_name = "ROLE=FIELD,...", requires = "data", conflicts_with = "from")]
    map: Option<FieldMap>,
    /// With --data, how to handle invalid records
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    on_error: OnError,
    /// With --data, split solutions that already have steps again and drop their labels and scores
    #[arg(long, alias = "recut", requires = "data")]
    resplit: bool,
    /// With --data, output file (Gradus format)
    #[arg(short, long, value_name = "FILE", requires = "data")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &StepsArgs) -> Result<Status> {
    let config = SplitConfig { strategy: args.strategy, ..SplitConfig::default() };
    match &args.output {
        Some(output) => dataset(args, output, &config),
        None => text(args, &config),
    }
}

fn text(args: &StepsArgs, config: &SplitConfig) -> Result<Status> {
    let [path] = args.inputs.as_slice() else {
        return Err(Usage("expected one text file (use --data for datasets)".to_owned()).into());
    };
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    let cut = split(&text, config);
    let printer = Printer::new(None);
    if args.print.json {
        let steps: Vec<&str> = cut.steps().collect();
        printer.json(&json!({"strategy": cut.strategy().name(), "steps": steps}))?;
        return Ok(Status::Done);
    }
    for (index, step) in cut.steps().enumerate() {
        printer.line(format!("[{index}] {step}"))?;
    }
    Ok(Status::Done)
}

#[derive(Debug, Default, Serialize)]
struct StepsSummary {
    solutions: u64,
    cut: u64,
    /// Steps of the solutions that were cut.
    steps: u64,
    /// Left as they were: they have steps already.
    had_steps: u64,
    /// Left as they were: they have no text.
    no_text: u64,
    /// Annotations and score columns that no longer fit and were dropped (`--resplit`).
    dropped_annotations: u64,
    dropped_scores: u64,
    /// Invalid records.
    skipped: u64,
}

fn dataset(args: &StepsArgs, output: &Path, config: &SplitConfig) -> Result<Status> {
    let mut sink = Sink::create(Target::new(output))?;
    let mut report = StepsSummary::default();
    let options = ReadOptions { format: args.from, map: args.map.clone(), ..ReadOptions::default() };
    let tally = input::read(&args.inputs, options, args.on_error, &mut |item| {
        let mut record = item.record;
        for solution in &mut record.solutions {
            report.solutions += 1;
            if !solution.steps.is_empty() && !args.resplit {
                report.had_steps += 1;
                continue;
            }
            let text = solution.full_text();
            if text.trim().is_empty() {
                report.no_text += 1;
                continue;
            }
            report.dropped_annotations += solution.annotations.drain(..).count() as u64;
            report.dropped_scores += std::mem::take(&mut solution.scores).len() as u64;
            solution.steps = split(&text, config).steps().map(str::to_owned).collect();
            solution.text = Some(text);
            report.cut += 1;
            report.steps += solution.steps.len() as u64;
        }
        sink.push(&record)?;
        Ok(())
    })?;
    sink.finish()?;
    report.skipped = tally.skipped;
    let printer = Printer::new(Some(output));
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} of {} split into {} ({} already split, {} without text), {}",
        grouped(report.cut),
        counted(report.solutions, "solution"),
        counted(report.steps, "step"),
        grouped(report.had_steps),
        grouped(report.no_text),
        printer::written_to(output)
    ))?;
    if report.dropped_annotations + report.dropped_scores > 0 {
        printer.line(format!(
            "{} and {} of the previous steps dropped",
            counted(report.dropped_annotations, "annotation"),
            counted(report.dropped_scores, "score column")
        ))?;
    }
    printer.skipped(report.skipped)?;
    Ok(Status::Done)
}
