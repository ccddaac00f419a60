//! `gradus synth`: synthetic problems with labeled solutions.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::FirstError;
use gradus_data::files::{Sink, Target};
use gradus_synth::{ErrorKind, Family, Style, SynthConfig, generate};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::values::{count_or_none, named};
use crate::exit::{Status, Usage};
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(super) struct SynthArgs {
    /// Output file (Gradus format), or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Number of problems
    #[arg(short = 'n', long, default_value_t = 100)]
    problems: usize,
    /// Solutions per problem
    #[arg(long, default_value_t = 4, value_parser = count_or_none)]
    solutions: usize,
    /// Share of solutions with an error
    #[arg(long, alias = "wrong", default_value_t = 0.5, value_name = "SHARE")]
    error_rate: f64,
    /// Share of errors that propagate to later steps
    #[arg(long, default_value_t = 0.7, value_name = "SHARE")]
    propagate: f64,
    /// Difficulty range, within 1-5
    #[arg(long, default_value = "1-5", value_name = "MIN-MAX", value_parser = difficulty)]
    difficulty: (u8, u8),
    /// Problem families, comma-separated: shopping, expression, travel, linear, percent, average, geometry, ages,
    /// sequence, sharing, lookup, grid (default: all)
    #[arg(long, value_delimiter = ',', value_parser = family)]
    families: Vec<Family>,
    /// Solution styles, comma-separated: equations, prose, enumeration (default: all)
    #[arg(long, value_delimiter = ',', value_parser = style)]
    styles: Vec<Style>,
    /// Error kinds, comma-separated: arithmetic_slip, wrong_operator, misread_given, wrong_operand, skipped_step,
    /// sign_unit, contradiction (default: all)
    #[arg(long, value_delimiter = ',', value_parser = error_kind)]
    errors: Vec<ErrorKind>,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

fn family(name: &str) -> Result<Family, String> {
    named(name, Family::ALL, Family::name)
}

fn style(name: &str) -> Result<Style, String> {
    named(name, Style::ALL, Style::name)
}

fn error_kind(name: &str) -> Result<ErrorKind, String> {
    named(name, ErrorKind::ALL, ErrorKind::name)
}

fn difficulty(text: &str) -> Result<(u8, u8), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) => Ok((low, high)),
        _ => Err(format!("`{text}` is not a range such as 1-5")),
    }
}

#[derive(Debug, Default, Serialize)]
struct SynthSummary {
    problems: u64,
    solutions: u64,
    steps: u64,
    /// Solutions with an error in them.
    erroneous: u64,
}

fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all.to_vec() } else { chosen.to_vec() }
}

pub(super) fn run(args: &SynthArgs) -> Result<Status> {
    let config = SynthConfig {
        seed: args.seed,
        problems: args.problems,
        solutions_per_problem: args.solutions,
        wrong_share: args.error_rate,
        families: or_all(&args.families, Family::ALL),
        styles: or_all(&args.styles, Style::ALL),
        errors: or_all(&args.errors, ErrorKind::ALL),
        difficulty: args.difficulty,
        propagate: args.propagate,
    };
    config.check().map_err(|fault| Usage(format!("--{} {}", option_of(&fault.field), fault.message)))?;
    let mut sink = Sink::create(Target::new(&args.output))?;
    let mut progress = Progress::new(args.problems as u64, false);
    let mut report = SynthSummary::default();
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
            grouped(report.erroneous),
            counted(report.steps, "step"),
            printer::written_to(&args.output)
        ))?;
    }
    Ok(Status::Done)
}

/// The option that sets a field of [`SynthConfig`].
fn option_of(field: &str) -> &str {
    match field {
        "wrong_share" => "error-rate",
        other => other,
    }
}
