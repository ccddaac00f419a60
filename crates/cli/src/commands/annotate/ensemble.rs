//! `gradus annotate ensemble`: one label out of several.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use gradus_annotate::consensus;
use gradus_annotate::dawid_skene::{DawidSkene, Reliability, SolutionVotes};
use gradus_annotate::ensemble::{Rule, combine};
use gradus_core::Annotation;
use serde::Serialize;

use super::sources::{Gathered, SourcesArgs, several, write};
use crate::arguments::JsonOption;
use crate::exit::{Status, Usage};
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};

/// How labels are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EnsembleRule {
    /// A step is wrong if all annotators say so
    Intersection,
    /// A step is wrong if any annotator says so
    Union,
    /// A step is wrong if more than half of the annotators say so
    Majority,
    /// Dawid-Skene: annotators weighted by reliability estimated from the data
    DawidSkene,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate ensemble mc.jsonl judged.jsonl spare.jsonl --rule dawid-skene --min-confidence 0.9 -o labels.jsonl"
)]
pub(crate) struct EnsembleArgs {
    #[command(flatten)]
    sources: SourcesArgs,
    /// Combination rule
    #[arg(long, value_enum)]
    rule: EnsembleRule,
    /// With --rule dawid-skene, minimum probability of the first error (default: keep all)
    #[arg(long, alias = "least", value_name = "PROBABILITY")]
    min_confidence: Option<f64>,
    /// Output file with the combined labels (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct EnsembleSummary {
    rule: &'static str,
    annotators: Vec<String>,
    solutions: usize,
    labeled: usize,
    with_error: usize,
    undecided: usize,
    /// Below the minimum confidence.
    uncertain: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reliability: Vec<Reliability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prior: Option<f64>,
}

pub(super) fn run(args: &EnsembleArgs) -> Result<Status> {
    if args.min_confidence.is_some() && args.rule != EnsembleRule::DawidSkene {
        bail!(Usage(
            "--min-confidence requires --rule dawid-skene: other rules give no probabilities".to_owned()
        ));
    }
    if let Some(confidence) = args.min_confidence.filter(|least| !(0.0..=1.0).contains(least)) {
        bail!(Usage(format!("--min-confidence is {confidence}: expected a probability from 0 to 1")));
    }
    let Gathered { records, panel } = several(&args.sources)?;
    let mut report = EnsembleSummary {
        rule: "",
        annotators: panel.names.clone(),
        solutions: panel.rows.len(),
        labeled: 0,
        with_error: 0,
        undecided: 0,
        uncertain: 0,
        reliability: Vec::new(),
        prior: None,
    };
    let items: Vec<SolutionVotes> =
        panel.rows.iter().map(|row| SolutionVotes { steps: row.steps, votes: row.votes() }).collect();
    let rule = match args.rule {
        EnsembleRule::Intersection => Some(Rule::Intersection),
        EnsembleRule::Union => Some(Rule::Union),
        EnsembleRule::Majority => Some(Rule::Majority),
        EnsembleRule::DawidSkene => None,
    };
    report.rule = rule.map_or("dawid-skene", Rule::name);
    // First errors with their probability, 1 where the rule gives none.
    let found: Vec<Option<(Option<usize>, f64)>> = match rule {
        Some(rule) => items.iter().map(|item| combine(rule, &item.votes).map(|error| (error, 1.0))).collect(),
        None => {
            let model = DawidSkene::fit(&items, panel.names.len()).ok_or_else(|| {
                anyhow::anyhow!("no annotator labeled any solution: cannot estimate reliability")
            })?;
            report.reliability.clone_from(&model.annotators);
            report.prior = Some(model.prior);
            let estimate = |item| model.estimate(item).map(|found| (found.first_error, found.probability));
            items.iter().map(estimate).collect()
        }
    };
    let labels: Vec<Option<Annotation>> = found
        .into_iter()
        .zip(&panel.rows)
        .map(|(found, row)| match found {
            None => {
                report.undecided += 1;
                None
            }
            Some((_, probability)) if args.min_confidence.is_some_and(|least| probability < least) => {
                report.uncertain += 1;
                None
            }
            Some((error, _)) => {
                report.labeled += 1;
                report.with_error += usize::from(error.is_some());
                let of = vec![format!("{} of {}", report.rule, panel.names.join(", "))];
                Some(consensus::annotation(row.steps, error, &of, &[]))
            }
        })
        .collect();
    write(args.output.as_deref(), records, labels)?;
    Printer::new(args.output.as_deref()).summary(args.print.json, &report, show)?;
    Ok(Status::Done)
}

fn show(printer: Printer, report: &EnsembleSummary) -> Result<()> {
    printer.line(format!(
        "{} of {} labeled by {} of {}",
        paint::bold(&grouped(report.labeled)),
        counted(report.solutions, "solution"),
        report.rule,
        counted(report.annotators.len(), "annotator")
    ))?;
    printer.counts(&[
        (report.with_error as u64, "solution", "with an error"),
        (report.undecided as u64, "solution", "omitted: no annotator decided"),
        (report.uncertain as u64, "solution", "omitted: below --min-confidence"),
    ])?;
    if !report.reliability.is_empty() {
        let rows: Vec<Vec<String>> = (report.annotators.iter().zip(&report.reliability))
            .map(|(name, of)| {
                vec![name.clone(), format!("{:.3}", of.sensitivity), format!("{:.3}", of.false_alarm)]
            })
            .collect();
        printer.line("")?;
        printer.table(&["annotator", "sensitivity", "false alarm rate"], &rows)?;
    }
    Ok(())
}
