//! `gradus data corrupt`: wrong solutions with known first errors from correct ones.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_core::{Problem, Record, Solution};
use gradus_data::corrupt::{Kind, Layout, right, right_part, wrong};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::values::{count_or_none, named};
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus data corrupt gsm8k-train.jsonl math-train.jsonl --copies 2 -o corrupted.jsonl\n  \
gradus data corrupt gsm8k-train.jsonl --layouts 2 -o corrupted.jsonl    # references also in the layout of model output\n  \
gradus data corrupt prm800k.jsonl --solutions -o corrupted.jsonl        # labeled solutions\n\n\
Each problem with a reference solution gives a record with that solution and corrupted copies, labeled up to the first \
error. The same problem and seed give the same errors."
)]
pub(crate) struct CorruptArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Maximum corrupted copies per correct solution
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = count_or_none)]
    copies: usize,
    /// Additional layouts per reference solution, formatted like model output
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = count_or_none)]
    layouts: usize,
    /// Corrupt the correct steps of labeled solutions instead of reference solutions
    #[arg(long, conflicts_with = "layouts")]
    solutions: bool,
    /// Error kinds, comma-separated: number, propagated, operator, premise, unit, opposite, contradiction (default:
    /// all)
    #[arg(long, value_delimiter = ',', value_parser = corruption)]
    kinds: Vec<Kind>,
    /// Omit uncorrupted solutions
    #[arg(long)]
    only_wrong: bool,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

fn corruption(name: &str) -> Result<Kind, String> {
    named(name, &Kind::ALL, Kind::name)
}

#[derive(Debug, Default, Serialize)]
struct CorruptSummary {
    /// Problems that were written.
    problems: u64,
    /// Problems without a reference solution, or with `--solutions` without any solution.
    without_material: u64,
    /// Problems omitted because no step can be corrupted.
    unchanged: u64,
    /// Solutions that have no labels, or are wrong from their first step on: no wrong copies are made of them.
    without_right_steps: u64,
    /// Correct solutions with fewer corrupted copies than requested.
    short: u64,
    /// Solutions that were written as they are.
    kept: u64,
    wrong: u64,
    by_kind: BTreeMap<String, u64>,
    skipped: u64,
}

pub(super) fn run(args: &CorruptArgs) -> Result<Status> {
    let mut report = CorruptSummary::default();
    let mut sink = Sink::create(Target::new(&args.output))?;
    let tally = input::for_each(&args.input, Need::Records, |item| {
        let Record { problem, solutions, .. } = item.record;
        let made = if args.solutions {
            (!solutions.is_empty()).then(|| from_solutions(args, &problem, solutions, &mut report))
        } else {
            right(&problem).map(|reference| from_reference(args, &problem, &reference, &mut report))
        };
        match made {
            None => report.without_material += 1,
            Some(made) if made.is_empty() => report.unchanged += 1,
            Some(made) => {
                report.problems += 1;
                sink.push(&Record::new(problem, made))?;
            }
        }
        Ok(())
    })?;
    report.skipped = tally.skipped;
    if report.kept + report.wrong == 0 {
        bail!("no problem in the input has a {} that can be corrupted", material(args));
    }
    sink.finish()?;
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} and {} for {} {}",
        counted(report.kept, "original solution"),
        counted(report.wrong, "corrupted solution"),
        counted(report.problems, "problem"),
        printer::written_to(&args.output)
    ))?;
    for (kind, count) in &report.by_kind {
        printer.line(format!("{:>8}  {kind}", grouped(*count)))?;
    }
    printer.counts(&[
        (report.without_material, "problem", &format!("without a {}, omitted", material(args))),
        (report.unchanged, "problem", "omitted: no step can be corrupted"),
        (report.without_right_steps, "solution", "unlabeled or wrong from the first step: no copies"),
        (report.short, "solution", "with fewer copies than requested: no other step can be corrupted"),
        (report.skipped, "record", "skipped (invalid)"),
    ])?;
    Ok(Status::Done)
}

fn material(args: &CorruptArgs) -> &'static str {
    if args.solutions { "solution" } else { "reference solution" }
}

/// The reference as it is and in other layouts, each with its wrong copies.
fn from_reference(
    args: &CorruptArgs,
    problem: &Problem,
    reference: &Solution,
    report: &mut CorruptSummary,
) -> Vec<Solution> {
    let mut made = Vec::new();
    for number in 0..=args.layouts {
        let layout = (number > 0).then(|| Layout::draw(problem, number, args.seed));
        let fine = match &layout {
            None => reference.clone(),
            Some(layout) => layout.arrange(problem, reference, number),
        };
        let mut wrong = copies(args, problem, &fine, report);
        if !args.only_wrong {
            report.kept += 1;
            wrong.insert(0, fine);
        }
        if let Some(layout) = layout {
            wrong.iter_mut().for_each(|solution| layout.head(solution));
        }
        made.append(&mut wrong);
    }
    made
}

/// Labeled solutions, each followed by corrupted copies of its correct steps.
fn from_solutions(
    args: &CorruptArgs,
    problem: &Problem,
    solutions: Vec<Solution>,
    report: &mut CorruptSummary,
) -> Vec<Solution> {
    let mut made = Vec::new();
    // A record may hold one solution twice under one id, with labels of its own each time: copies are counted on.
    let mut copied: HashMap<String, usize> = HashMap::new();
    for solution in solutions {
        let fine = right_part(&solution);
        report.without_right_steps += u64::from(fine.is_none());
        let mut wrong = fine.map_or_else(Vec::new, |fine| copies(args, problem, &fine, report));
        let before = copied.entry(solution.id.clone()).or_default();
        if *before > 0 {
            for (number, copy) in wrong.iter_mut().enumerate() {
                copy.id = format!("{}/wrong-{}", solution.id, *before + number);
            }
        }
        *before += wrong.len();
        if !args.only_wrong {
            report.kept += 1;
            made.push(solution);
        }
        made.append(&mut wrong);
    }
    made
}

fn copies(
    args: &CorruptArgs,
    problem: &Problem,
    fine: &Solution,
    report: &mut CorruptSummary,
) -> Vec<Solution> {
    let kinds = if args.kinds.is_empty() { &Kind::ALL[..] } else { &args.kinds };
    let made = wrong(problem, fine, args.copies, kinds, args.seed);
    report.short += u64::from(made.len() < args.copies);
    report.wrong += made.len() as u64;
    for solution in &made {
        let kind = solution.metadata.get("error").and_then(|kind| kind.as_str()).unwrap_or_default();
        *report.by_kind.entry(kind.to_owned()).or_default() += 1;
    }
    made
}
