//! `gradus annotate relabel`: Monte Carlo labels at another threshold, from the counts in the data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::relabel::{RelabelConfig, most_samples, relabel};
use gradus_core::{Annotation, FirstError, LabelSource, Record, Solution};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::values::count_u32;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

const MONTE_CARLO: &str = "monte-carlo";

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate monte-carlo sampled.jsonl -o mc.jsonl --labels soft\n  \
gradus annotate relabel mc.jsonl --threshold 3 -o mc-3.jsonl\n\n\
No model is asked. Soft labels, and hard ones with --no-early-stop, have all completions; other hard labels stop \
sampling a step when their own threshold decides, so that a higher one may be undecided."
)]
pub(crate) struct RelabelArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file with the relabeled dataset (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A step is correct if more than T completions are correct
    #[arg(long, value_name = "T", value_parser = count_u32)]
    threshold: u32,
    /// Completions per step that were asked for (default: the most that a step in the data has)
    #[arg(short = 'k', long, value_name = "K", value_parser = count_u32)]
    samples: Option<u32>,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct RelabelSummary {
    threshold: u32,
    samples: u32,
    solutions: usize,
    relabelled: usize,
    with_error: usize,
    /// Relabeled solutions whose first error is another one now.
    changed: usize,
    /// Solutions whose counts do not decide; they have no Monte Carlo labels now.
    undecided_by_reason: BTreeMap<&'static str, usize>,
    /// Labels made from Monte Carlo's by consensus or ensemble, removed: they are of the old threshold.
    outdated: usize,
    /// Solutions without Monte Carlo labels.
    without: usize,
    /// Invalid records.
    skipped: u64,
}

pub(super) fn run(args: &RelabelArgs) -> Result<Status> {
    let (mut records, tally) = input::joined(&args.input, Need::Solutions)?;
    let config = config(args, &records)?;
    let mut summary = RelabelSummary {
        threshold: config.threshold,
        samples: config.samples,
        skipped: tally.skipped,
        ..RelabelSummary::default()
    };
    let mut sink = Sink::create(Target::new(&args.output))?;
    for record in &mut records {
        record.solutions.iter_mut().for_each(|solution| summary.relabel(solution, config));
        sink.push(record)?;
    }
    sink.finish()?;
    Printer::new(Some(&args.output))
        .summary(args.print.json, &summary, |printer, summary| show(printer, summary, args))?;
    Ok(Status::Done)
}

fn config(args: &RelabelArgs, records: &[Record]) -> Result<RelabelConfig> {
    let solutions = records.iter().flat_map(|record| &record.solutions);
    let most = solutions.flat_map(|solution| &solution.annotations).filter_map(most_samples).max();
    let Some(most) = most else {
        bail!("no solution has Monte Carlo labels: `gradus annotate monte-carlo` makes them");
    };
    let samples = args.samples.unwrap_or(most);
    if args.threshold >= samples {
        bail!(Usage(format!(
            "--threshold is {}: more than that many of {samples} completions can never be correct",
            args.threshold
        )));
    }
    Ok(RelabelConfig { threshold: args.threshold, samples })
}

impl RelabelSummary {
    fn relabel(&mut self, solution: &mut Solution, config: RelabelConfig) {
        self.solutions += 1;
        let before = solution.annotations.len();
        solution.annotations.retain(|annotation| !is_made_of_monte_carlo(annotation));
        self.outdated += before - solution.annotations.len();
        // Several models may have completed a solution: each has labels of its own.
        let (mut found, mut relabelled, mut with_error, mut changed) = (false, false, false, false);
        for old in std::mem::take(&mut solution.annotations) {
            if !old.is_by(MONTE_CARLO) {
                solution.annotations.push(old);
                continue;
            }
            found = true;
            match relabel(&old, solution, config) {
                Ok(new) => {
                    relabelled = true;
                    with_error |= matches!(new.first_error, FirstError::At(_));
                    changed |= new.first_error != old.first_error;
                    solution.annotations.push(new);
                }
                Err(error) => *self.undecided_by_reason.entry(error.reason()).or_default() += 1,
            }
        }
        self.without += usize::from(!found);
        self.relabelled += usize::from(relabelled);
        self.with_error += usize::from(with_error);
        self.changed += usize::from(changed);
    }
}

fn is_made_of_monte_carlo(annotation: &Annotation) -> bool {
    annotation.labels.iter().flatten().any(|label| match &label.source {
        LabelSource::Consensus { of } => of.iter().any(|name| name.contains(MONTE_CARLO)),
        _ => false,
    })
}

fn show(printer: Printer, summary: &RelabelSummary, args: &RelabelArgs) -> Result<()> {
    printer.line(format!(
        "{} of {} relabeled: correct if more than {} of {} reach the answer; {}",
        paint::bold(&grouped(summary.relabelled)),
        counted(summary.solutions, "solution"),
        summary.threshold,
        counted(summary.samples, "completion"),
        printer::written_to(&args.output)
    ))?;
    printer.counts(&[
        (summary.with_error as u64, "solution", "with an error"),
        (summary.changed as u64, "solution", "with another first error than before"),
        (summary.without as u64, "solution", "without Monte Carlo labels"),
        (summary.outdated as u64, "consensus", "of the old labels removed"),
        (summary.skipped, "record", "skipped (invalid)"),
    ])?;
    for (reason, count) in &summary.undecided_by_reason {
        printer.line(format!("{:>8}  undecided: {reason}", grouped(*count)))?;
    }
    Ok(())
}
