//! `gradus bench labels`: agreement of annotators, and of a judge if one is named, with human labels.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{Error, labels};
use gradus_core::Annotation;
use gradus_core::select::DecisionRule;

use super::args::BenchArgs;
use super::judging::Judging;
use super::measurement::Measurement;
use super::tables::cell;
use crate::alignment;
use crate::arguments::annotator::AnnotatorOption;
use crate::exit::Status;
use crate::input;
use crate::terminal::printer::Printer;
use gradus_core::count::grouped;

#[derive(Debug, Args)]
#[command(mut_arg("annotator", |arg| arg.help("Measure only this annotator: a name, as `annotate report` prints it, or a \
kind, such as judge (default: all)")))]
pub(crate) struct LabelsArgs {
    /// Datasets with the true labels, matched by solution id (default: the input itself)
    #[arg(long, value_name = "FILE")]
    truth: Vec<PathBuf>,
    #[command(flatten)]
    labels: AnnotatorOption,
    #[command(flatten)]
    pub(super) bench: BenchArgs,
}

pub(super) fn run(args: &LabelsArgs) -> Result<Status> {
    let bench = &args.bench;
    bench.judge.decision.of_steps(DecisionRule::default())?;
    let mut job = Measurement::read("labels", bench)?;
    if !args.truth.is_empty() {
        join(&mut job, args)?;
    }
    if let Some(name) = &args.labels.annotator {
        for sample in &mut job.samples {
            sample.solution.annotations.retain(|found| found.is_truth() || found.is_by(name));
        }
    }
    job.keep("nobody says which steps are right", |sample| sample.marks().iter().any(Option::is_some));
    let asked = bench.judge.is_named()?;
    let (judging, judged) = if asked {
        let judging = job.judge()?;
        let judged = job.ask(&judging)?;
        (judging, Some(judged))
    } else {
        if job.samples.is_empty() {
            return Err(
                Error::Data("no solution has true labels: provide them with --truth".to_owned()).into()
            );
        }
        let recorded = Judging::recorded("annotators", &bench.judge);
        job.open(&recorded)?;
        job.counts.samples = job.samples.len();
        (recorded, None)
    };
    let named = judged.as_ref().map(|judged| (judging.name.as_str(), judged.as_slice()));
    let threshold = job.step_threshold(judging.decision)?;
    let numbers = labels::measure(&job.samples, named, threshold)?;
    show(&numbers, job.printer(bench))?;
    let sections = labels::sections(&numbers);
    job.finish(bench, &judging, BenchmarkResults::Labels(Box::new(numbers)), sections, &[])
}

/// Puts the labels of `--truth` beside those of the same solutions in the input.
fn join(job: &mut Measurement<'_>, args: &LabelsArgs) -> Result<()> {
    let mut truth: HashMap<String, Vec<Annotation>> = HashMap::new();
    input::read(&args.truth, Default::default(), args.bench.input.on_error, &mut |item| {
        for solution in item.record.solutions {
            truth.insert(solution.id, solution.annotations);
        }
        Ok(())
    })?;
    for sample in &mut job.samples {
        let steps = sample.solution.steps.len();
        let known = truth.get(&sample.solution.id).into_iter().flatten();
        let usable = known.filter(|annotation| annotation.labels.len() == steps);
        sample.solution.annotations.splice(0..0, usable.cloned());
    }
    Ok(())
}

fn show(numbers: &labels::LabelResults, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let rows: Vec<Vec<String>> = numbers
        .annotators
        .iter()
        .map(|(name, found)| {
            let steps = &found.steps;
            let counts = [found.solutions, steps.steps, steps.undecided].map(grouped);
            let shares = [
                steps.accuracy,
                steps.balanced_accuracy,
                steps.right.recall,
                steps.wrong.precision,
                steps.wrong.recall,
                found.first_errors.f1,
            ];
            std::iter::once(name.clone()).chain(counts).chain(shares.map(cell)).collect()
        })
        .collect();
    let heading = [
        "annotator",
        "solutions",
        "steps",
        "undecided",
        "accuracy",
        "balanced",
        "recall correct",
        "precision wrong",
        "recall wrong",
        "first-error f1",
    ];
    printer.table(&heading, &rows)?;
    for (name, found) in &numbers.annotators {
        alignment::show(printer, name, &found.by_alignment)?;
    }
    Ok(())
}
