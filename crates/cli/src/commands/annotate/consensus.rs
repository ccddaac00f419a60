//! `gradus annotate consensus`: the solutions on which all annotators agree.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_annotate::consensus::{self, Agreed, PairCounts, agree};
use gradus_core::Annotation;
use serde::Serialize;

use super::sources::{Gathered, SourcesArgs, several, write};
use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped, percent_of};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate consensus mc.jsonl judged.jsonl -o agreed.jsonl\n  \
gradus annotate consensus candidates.jsonl --from-scores '*:0.5' -o agreed.jsonl\n\n\
The labels of the annotators stay beside those of their consensus, whose soft values are the mean of theirs.")]
pub(crate) struct ConsensusArgs {
    #[command(flatten)]
    sources: SourcesArgs,
    /// Output file with the solutions on which all annotators agree (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct ConsensusSummary {
    annotators: Vec<String>,
    solutions: usize,
    kept: usize,
    with_error: usize,
    disagree: usize,
    undecided: usize,
    pairs: Vec<PairSummary>,
}

#[derive(Debug, Serialize)]
struct PairSummary {
    names: [String; 2],
    both: usize,
    kept: usize,
    share: Option<f64>,
}

pub(super) fn run(args: &ConsensusArgs) -> Result<Status> {
    let Gathered { records, panel } = several(&args.sources)?;
    let mut report = ConsensusSummary {
        annotators: panel.names.clone(),
        solutions: panel.rows.len(),
        kept: 0,
        with_error: 0,
        disagree: 0,
        undecided: 0,
        pairs: Vec::new(),
    };
    let mut pairs = vec![PairCounts::default(); panel.names.len() * panel.names.len()];
    let labels: Vec<Option<Annotation>> = panel
        .rows
        .iter()
        .map(|row| {
            let said = row.votes();
            for first in 0..said.len() {
                for second in first + 1..said.len() {
                    pairs[first * said.len() + second].count(said[first], said[second]);
                }
            }
            match agree(&said) {
                Agreed::Kept(error) => {
                    report.kept += 1;
                    report.with_error += usize::from(error.is_some());
                    Some(consensus::annotation(row.steps, error, &panel.names, &row.annotations))
                }
                Agreed::Disagree => {
                    report.disagree += 1;
                    None
                }
                Agreed::Undecided => {
                    report.undecided += 1;
                    None
                }
            }
        })
        .collect();
    for first in 0..panel.names.len() {
        for second in first + 1..panel.names.len() {
            let pair = pairs[first * panel.names.len() + second];
            report.pairs.push(PairSummary {
                names: [panel.names[first].clone(), panel.names[second].clone()],
                both: pair.both,
                kept: pair.kept(),
                share: (pair.both > 0).then(|| pair.kept() as f64 / pair.both as f64),
            });
        }
    }
    write(args.output.as_deref(), records, labels)?;
    Printer::new(args.output.as_deref()).summary(args.print.json, &report, show)?;
    Ok(Status::Done)
}

fn show(printer: Printer, report: &ConsensusSummary) -> Result<()> {
    printer.line(format!(
        "{} of {} kept ({}): all of {} agree on the first error",
        paint::bold(&grouped(report.kept)),
        counted(report.solutions, "solution"),
        percent_of(report.kept, report.solutions),
        counted(report.annotators.len(), "annotator")
    ))?;
    printer.counts(&[
        (report.with_error as u64, "kept solution", "with an error"),
        (report.disagree as u64, "solution", "omitted: annotators disagree"),
        (report.undecided as u64, "solution", "omitted: an annotator is undecided"),
    ])?;
    let rows: Vec<Vec<String>> = (report.pairs.iter())
        .map(|pair| {
            let share = percent_of(pair.kept, pair.both);
            vec![pair.names.join(" & "), grouped(pair.both), grouped(pair.kept), share]
        })
        .collect();
    printer.line("")?;
    printer.table(&["pair", "both decided", "kept", "share"], &rows)
}
