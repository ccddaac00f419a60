//! `gradus synth`: writes the synthetic world.

use anyhow::Result;
use gradus_core::FirstError;
use gradus_data::files::{Sink, Target};
use gradus_synth::{Config, ErrorKind, Family, Style, generate};
use serde::Serialize;

use super::{Status, Usage};
use crate::args::Synth;
use crate::printer::{self, Printer, counted};
use crate::progress::Progress;

#[derive(Debug, Default, Serialize)]
struct Report {
    problems: u64,
    solutions: u64,
    steps: u64,
    /// Solutions with an error in them.
    erroneous: u64,
}

fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all.to_vec() } else { chosen.to_vec() }
}

pub(super) fn run(args: &Synth) -> Result<Status> {
    let config = Config {
        seed: args.seed,
        problems: args.problems,
        solutions_per_problem: args.solutions,
        wrong_share: args.wrong,
        families: or_all(&args.families, Family::ALL),
        styles: or_all(&args.styles, Style::ALL),
        errors: or_all(&args.errors, ErrorKind::ALL),
        difficulty: args.difficulty,
        propagate: args.propagate,
    };
    config.check().map_err(|fault| Usage(format!("--{} {}", option_of(&fault.field), fault.message)))?;
    let mut sink = Sink::create(Target::new(&args.output))?;
    let mut progress = Progress::new(args.problems as u64, false);
    let mut report = Report::default();
    for record in generate(&config) {
        sink.push(&record)?;
        report.problems += 1;
        for solution in &record.solutions {
            report.solutions += 1;
            report.steps += solution.steps.len() as u64;
            let wrong = |first: FirstError| matches!(first, FirstError::At(_));
            report.erroneous += u64::from(solution.annotations.iter().any(|a| wrong(a.first_error)));
        }
        progress.at(report.problems, report.problems);
    }
    drop(progress);
    sink.finish()?;
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(&report)?;
    } else {
        printer.line(format!(
            "{}, {} ({} with an error), {} {}",
            counted(report.problems, "problem"),
            counted(report.solutions, "solution"),
            printer::count(report.erroneous),
            counted(report.steps, "step"),
            printer::written_to(&args.output)
        ))?;
    }
    Ok(Status::Done)
}

/// The option that sets a field of [`Config`].
fn option_of(field: &str) -> &str {
    match field {
        "wrong_share" => "wrong",
        other => other,
    }
}
