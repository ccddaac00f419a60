//! `gradus annotate exact`: steps with arithmetic that is proved wrong, in one pass and without a model.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_annotate::exact;
use gradus_core::count::{counted, grouped};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate exact solutions.jsonl -o exact.jsonl\n  \
gradus annotate report judged.jsonl exact.jsonl\n\n\
Closed arithmetic such as 48/2 = 26 is evaluated exactly. A step with a false equality is labeled incorrect, with the \
proof as evidence; other steps stay unlabeled.")]
pub(crate) struct ExactArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file with the labeled dataset (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct ExactSummary {
    solutions: u64,
    steps: u64,
    /// Equalities between closed sides.
    equalities: u64,
    right: u64,
    wrong: u64,
    undecided: u64,
    /// Solutions with a step that is proved wrong.
    proved_solutions: u64,
    /// Steps that are proved wrong.
    proved_steps: u64,
    /// Invalid records.
    skipped: u64,
}

pub(super) fn run(args: &ExactArgs) -> Result<Status> {
    let mut summary = ExactSummary::default();
    let mut sink = Sink::create(Target::new(&args.output))?;
    let tally = input::for_each(&args.input, Need::Steps, |item| {
        let mut record = item.record;
        for solution in &mut record.solutions {
            let findings = exact::label(&record.problem.text, solution);
            summary.add(&findings, solution.steps.len());
        }
        Ok(sink.push(&record)?)
    })?;
    sink.finish()?;
    summary.skipped = tally.skipped;
    Printer::new(Some(&args.output))
        .summary(args.print.json, &summary, |printer, summary| show(printer, summary, args))?;
    Ok(Status::Done)
}

impl ExactSummary {
    fn add(&mut self, findings: &gradus_grade::checks::Findings, steps: usize) {
        let mut proved: Vec<usize> = findings.wrong.iter().map(|proof| proof.step).collect();
        proved.dedup();
        self.solutions += 1;
        self.steps += steps as u64;
        self.right += findings.right as u64;
        self.wrong += findings.wrong.len() as u64;
        self.undecided += findings.undecided as u64;
        self.equalities = self.right + self.wrong + self.undecided;
        self.proved_solutions += u64::from(!proved.is_empty());
        self.proved_steps += proved.len() as u64;
    }
}

fn show(printer: Printer, summary: &ExactSummary, args: &ExactArgs) -> Result<()> {
    printer.line(format!(
        "{} of {} proved wrong, in {} of {}; {}",
        paint::bold(&grouped(summary.proved_steps)),
        counted(summary.steps, "step"),
        grouped(summary.proved_solutions),
        counted(summary.solutions, "solution"),
        printer::written_to(&args.output)
    ))?;
    printer.counts(&[
        (summary.right, "equality", "proved right"),
        (summary.wrong, "equality", "proved wrong"),
        (summary.undecided, "equality", "undecided"),
        (summary.skipped, "record", "skipped (invalid)"),
    ])
}
