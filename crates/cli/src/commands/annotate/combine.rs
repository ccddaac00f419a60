//! `gradus annotate consensus` and `ensemble`: one label out of several.

use std::path::Path;

use anyhow::{Result, bail};
use gradus_annotate::consensus::{self, Agreed, PairCounts, agree};
use gradus_annotate::dawid_skene::{DawidSkene, Reliability, SolutionVotes};
use gradus_annotate::ensemble::{Rule, combine};
use gradus_core::{Annotation, Record};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use super::sources::{Gathered, gather};
use crate::args::annotate::{Consensus, Ensemble, EnsembleRule, Sources};
use crate::commands::{Status, Usage};
use crate::paint;
use crate::printer::{self, Printer};

#[derive(Debug, Serialize)]
struct Kept {
    annotators: Vec<String>,
    solutions: usize,
    kept: usize,
    with_error: usize,
    disagree: usize,
    undecided: usize,
    pairs: Vec<KeptPair>,
}

#[derive(Debug, Serialize)]
struct KeptPair {
    names: [String; 2],
    both: usize,
    kept: usize,
    share: Option<f64>,
}

pub(super) fn consensus(args: &Consensus) -> Result<Status> {
    let Gathered { records, panel } = several(&args.sources)?;
    let mut report = Kept {
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
                    Some(consensus::annotation(row.steps, error, &panel.names))
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
            report.pairs.push(KeptPair {
                names: [panel.names[first].clone(), panel.names[second].clone()],
                both: pair.both,
                kept: pair.kept(),
                share: (pair.both > 0).then(|| pair.kept() as f64 / pair.both as f64),
            });
        }
    }
    if let Some(output) = &args.output {
        write(output, records, labels)?;
    }
    let printer = Printer::new(args.output.as_deref());
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} of {} kept ({}): all of {} annotators agree on the first error",
        paint::bold(&printer::count(report.kept as u64)),
        printer::counted(report.solutions as u64, "solution"),
        printer::percent(report.kept as u64, report.solutions as u64),
        panel.names.len()
    ))?;
    printer.counts(&[
        (report.with_error, "of the kept ones have an error"),
        (report.disagree, "solutions are left out: annotators disagree"),
        (report.undecided, "solutions are left out: an annotator did not decide"),
    ])?;
    let rows: Vec<Vec<String>> = (report.pairs.iter())
        .map(|pair| {
            let share = printer::percent(pair.kept as u64, pair.both as u64);
            let count = |number: usize| printer::count(number as u64);
            vec![pair.names.join(" & "), count(pair.both), count(pair.kept), share]
        })
        .collect();
    printer.line("")?;
    printer.table(&["pair", "both decide", "kept", "share"], &rows)?;
    Ok(Status::Done)
}

#[derive(Debug, Serialize)]
struct Made {
    rule: &'static str,
    annotators: Vec<String>,
    solutions: usize,
    labelled: usize,
    with_error: usize,
    undecided: usize,
    /// Less certain than was asked for.
    uncertain: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reliability: Vec<Reliability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prior: Option<f64>,
}

pub(super) fn ensemble(args: &Ensemble) -> Result<Status> {
    if args.least.is_some() && args.rule != EnsembleRule::DawidSkene {
        bail!(Usage("--least goes with --rule dawid-skene: the others know no probabilities".to_owned()));
    }
    if let Some(least) = args.least.filter(|least| !(0.0..=1.0).contains(least)) {
        bail!(Usage(format!("--least is {least}: expected a probability, 0 to 1")));
    }
    let Gathered { records, panel } = several(&args.sources)?;
    let mut report = Made {
        rule: "",
        annotators: panel.names.clone(),
        solutions: panel.rows.len(),
        labelled: 0,
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
    // A probability beside each first error, where the rule knows one.
    let found: Vec<Option<(Option<usize>, f64)>> = match rule {
        Some(rule) => items.iter().map(|item| combine(rule, &item.votes).map(|error| (error, 1.0))).collect(),
        None => {
            let model = DawidSkene::fit(&items, panel.names.len()).ok_or_else(|| {
                anyhow::anyhow!("no annotator decided anything: there is nothing to learn from")
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
            Some((_, probability)) if args.least.is_some_and(|least| probability < least) => {
                report.uncertain += 1;
                None
            }
            Some((error, _)) => {
                report.labelled += 1;
                report.with_error += usize::from(error.is_some());
                let of = vec![format!("{} of {}", report.rule, panel.names.join(", "))];
                Some(consensus::annotation(row.steps, error, &of))
            }
        })
        .collect();
    if let Some(output) = &args.output {
        write(output, records, labels)?;
    }
    let printer = Printer::new(args.output.as_deref());
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} of {} labelled by {} of {} annotators",
        paint::bold(&printer::count(report.labelled as u64)),
        printer::counted(report.solutions as u64, "solution"),
        report.rule,
        panel.names.len()
    ))?;
    printer.counts(&[
        (report.with_error, "have an error"),
        (report.undecided, "are left out: no annotator decided"),
        (report.uncertain, "are left out: less certain than --least"),
    ])?;
    if !report.reliability.is_empty() {
        let rows: Vec<Vec<String>> = (panel.names.iter().zip(&report.reliability))
            .map(|(name, of)| {
                vec![name.clone(), format!("{:.3}", of.sensitivity), format!("{:.3}", of.false_alarm)]
            })
            .collect();
        printer.line("")?;
        printer.table(&["annotator", "finds wrong steps", "accuses right steps"], &rows)?;
    }
    Ok(Status::Done)
}

/// At least two annotators.
fn several(sources: &Sources) -> Result<Gathered> {
    let gathered = gather(sources)?;
    if gathered.panel.names.len() < 2 {
        bail!("there is one annotator, {}: two or more can be combined", gathered.panel.names[0]);
    }
    Ok(gathered)
}

/// The solutions that have a label; problems without one are left out.
fn write(output: &Path, records: Vec<Record>, labels: Vec<Option<Annotation>>) -> Result<()> {
    let mut labels = labels.into_iter();
    let mut sink = Sink::create(Target::new(output))?;
    for mut record in records {
        record.solutions.retain_mut(|solution| match labels.next().flatten() {
            Some(annotation) => {
                solution.annotations.push(annotation);
                true
            }
            None => false,
        });
        if !record.solutions.is_empty() {
            sink.push(&record)?;
        }
    }
    sink.finish()?;
    Ok(())
}
