//! `gradus steps`: cuts a text, or every solution of a dataset, into steps.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use gradus_core::steps::{Config, split};
use gradus_data::files::{Sink, Target};
use serde::Serialize;
use serde_json::json;

use super::{Status, Usage};
use crate::args::Steps;
use crate::input;
use crate::printer::{self, Printer, counted};

pub(super) fn run(args: &Steps) -> Result<Status> {
    let config = Config { strategy: args.strategy, ..Config::default() };
    match &args.output {
        Some(output) => dataset(args, output, &config),
        None => text(args, &config),
    }
}

fn text(args: &Steps, config: &Config) -> Result<Status> {
    let [path] = args.inputs.as_slice() else {
        return Err(Usage("name one text file (or use --data for datasets)".to_owned()).into());
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
struct Report {
    solutions: u64,
    cut: u64,
    /// Steps of the solutions that were cut.
    steps: u64,
    /// Left as they were: they have steps already.
    had_steps: u64,
    /// Left as they were: they have no text.
    no_text: u64,
    /// Annotations and score columns that no longer fit and were dropped (`--recut`).
    dropped_annotations: u64,
    dropped_scores: u64,
    /// Records that could not be read.
    skipped: u64,
}

fn dataset(args: &Steps, output: &Path, config: &Config) -> Result<Status> {
    let mut sink = Sink::create(Target::new(output))?;
    let mut report = Report::default();
    let tally = input::read(&args.inputs, args.from, args.on_error, &mut |item| {
        let mut record = item.record;
        for solution in &mut record.solutions {
            report.solutions += 1;
            if !solution.steps.is_empty() && !args.recut {
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
        "{} of {} cut into {} ({} had steps, {} had no text) {}",
        printer::count(report.cut),
        counted(report.solutions, "solution"),
        counted(report.steps, "step"),
        printer::count(report.had_steps),
        printer::count(report.no_text),
        printer::written_to(output)
    ))?;
    if report.dropped_annotations + report.dropped_scores > 0 {
        printer.line(format!(
            "{} and {} of the old steps dropped",
            counted(report.dropped_annotations, "annotation"),
            counted(report.dropped_scores, "score column")
        ))?;
    }
    if report.skipped > 0 {
        printer.line(format!("{} skipped: could not be read", counted(report.skipped, "record")))?;
    }
    Ok(Status::Done)
}
