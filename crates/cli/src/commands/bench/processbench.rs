//! `gradus bench processbench`: locates the first error of each solution.

use anyhow::Result;
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{MetricEstimate, processbench, published};
use gradus_core::FirstError;

use super::args::BenchArgs;
use super::measurement::Measurement;
use super::tables::{cell, published_rows};
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::grouped;

pub(super) fn run(args: &BenchArgs) -> Result<Status> {
    let mut job = Measurement::read("processbench", args)?;
    job.keep("the first error is unknown", |sample| sample.first_error() != FirstError::Unknown);
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let judged = job.ask(&judging)?;
    let (numbers, facts) = processbench::measure(&job.samples, &judged, args.judge.threshold, &job.settings)?;
    show(&numbers, &judging.name, job.printer(args))?;
    let sections = processbench::sections(&numbers, &judging.name, &job.samples, &judged);
    job.finish(args, &judging, BenchmarkResults::ProcessBench(Box::new(numbers)), sections, &facts)
}

fn show(numbers: &processbench::ProcessBenchResults, judge: &str, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .subsets
        .iter()
        .map(|part| {
            vec![
                part.name.clone(),
                grouped(part.scores.erroneous + part.scores.error_free),
                grouped(part.scores.undecided),
                part.acc_err.percent(),
                part.acc_cor.percent(),
                part.f1.percent(),
                part.accuracy.percent(),
            ]
        })
        .collect();
    let blank = || String::new();
    rows.push(vec![
        paint::bold("average"),
        blank(),
        blank(),
        blank(),
        blank(),
        numbers.average_f1.percent(),
        numbers.average_accuracy.percent(),
    ]);
    printer.line(format!("{judge}, threshold {}", numbers.threshold))?;
    printer
        .table(&["subset", "solutions", "undecided", "error acc", "correct acc", "f1", "accuracy"], &rows)?;
    without_a_model(numbers, judge, printer)?;
    if let Some(best) = numbers.best_threshold() {
        printer.line(format!(
            "best threshold on this data: {:.2}, average F1 {} (chosen on the same data)",
            best.threshold,
            cell(best.average)
        ))?;
    }
    if let Some(steps) = &numbers.steps {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        printer.line(format!(
            "steps: ROC AUC {}, average precision for wrong steps {}, ECE {}",
            number(steps.roc_auc),
            number(steps.average_precision),
            number(steps.ece)
        ))?;
    }
    if !numbers.is_official() {
        return Ok(());
    }
    published_rows(
        printer,
        &published::processbench(),
        "Published results (full benchmark, other models and thresholds):",
    )
}

/// F1 against baselines without a model.
fn without_a_model(numbers: &processbench::ProcessBenchResults, judge: &str, printer: Printer) -> Result<()> {
    let row = |name: String, subsets: Vec<MetricEstimate>, average: &MetricEstimate| -> Vec<String> {
        [name].into_iter().chain(subsets.iter().chain([average]).map(MetricEstimate::percent)).collect()
    };
    let own: Vec<MetricEstimate> = numbers.subsets.iter().map(|part| part.f1).collect();
    let mut rows = vec![row(paint::bold(judge), own, &numbers.average_f1)];
    for simple in &numbers.baselines {
        rows.push(row(paint::dim(&simple.name), simple.f1.clone(), &simple.average));
    }
    let subsets = numbers.subsets.iter().map(|part| part.name.as_str());
    let heading: Vec<&str> =
        ["f1 against baselines without a model"].into_iter().chain(subsets).chain(["average"]).collect();
    printer.line("")?;
    printer.table(&heading, &rows)
}
