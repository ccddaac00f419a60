//! `gradus annotate report`: annotators side by side.

use anyhow::Result;
use gradus_annotate::report::{AnnotatorReport, AnnotatorSummary, AucEstimate, OutcomePrediction, report};
use gradus_core::metrics::bootstrap;

use super::sources::gather;
use crate::args::annotate::Report as Args;
use crate::commands::Status;
use crate::paint;
use crate::printer::{self, Printer};

pub(super) fn run(args: &Args) -> Result<Status> {
    let gathered = gather(&args.sources)?;
    let settings = bootstrap::Settings { resamples: args.resamples, ..bootstrap::Settings::default() };
    let report = report(&gathered.panel, &settings);
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
    } else {
        show(printer, &report)?;
    }
    Ok(Status::Done)
}

fn show(printer: Printer, report: &AnnotatorReport) -> Result<()> {
    printer.line(format!(
        "{} ({} with true labels, {} with a known outcome)\n",
        paint::bold(&printer::counted(report.solutions as u64, "solution")),
        printer::count(report.with_truth as u64),
        printer::count(report.with_outcome as u64),
    ))?;
    let rows: Vec<Vec<String>> = report.annotators.iter().map(labelled).collect();
    let heading = [
        "annotator",
        "labelled",
        "undecided",
        "labels",
        "errors",
        "tokens/label",
        "seconds/label",
        "AUC of outcome",
        "right if no error",
        "wrong if error",
    ];
    printer.table(&heading, &rows)?;
    if report.with_truth > 0 {
        let rows: Vec<Vec<String>> = report.annotators.iter().map(against_truth).collect();
        printer.line("\nagainst true labels")?;
        let heading = [
            "annotator",
            "accuracy",
            "right: precision",
            "recall",
            "wrong: precision",
            "recall",
            "first error F1",
        ];
        printer.table(&heading, &rows)?;
    }
    if !report.pairs.is_empty() {
        let rows: Vec<Vec<String>> = (report.pairs.iter())
            .map(|two| {
                let count = |number: usize| printer::count(number as u64);
                vec![
                    two.names.join(" & "),
                    count(two.pair.both),
                    percent(two.kept),
                    count(two.pair.no_error),
                    count(two.pair.same_error),
                    count(two.pair.other_error),
                    count(two.pair.first_only),
                    count(two.pair.second_only),
                    percent(two.overlap),
                    auc(&two.outcome_prediction),
                ]
            })
            .collect();
        printer.line("\ntwo by two: what a consensus keeps, and where first errors are")?;
        let heading = [
            "pair", "both", "kept", "no error", "same", "elsewhere", "first only", "second only", "overlap",
            "AUC of kept",
        ];
        printer.table(&heading, &rows)?;
    }
    if !report.together.is_empty() {
        let rows: Vec<Vec<String>> = (report.together.iter())
            .map(|rule| {
                let f1 = rule.first_errors.as_ref().and_then(|scores| scores.f1);
                let decided = printer::count(rule.decided as u64);
                let share = printer::percent(rule.decided as u64, report.solutions as u64);
                let errors = printer::count(rule.errors as u64);
                vec![
                    rule.rule.clone(),
                    decided,
                    share,
                    errors,
                    percent(f1),
                    auc(&rule.outcome_prediction),
                    percent(rule.outcome_prediction.right_without_error),
                    percent(rule.outcome_prediction.wrong_with_error),
                ]
            })
            .collect();
        printer.line("\nall together")?;
        printer.table(
            &[
                "rule",
                "labelled",
                "share",
                "errors",
                "first error F1",
                "AUC of outcome",
                "right if no error",
                "wrong if error",
            ],
            &rows,
        )?;
    }
    if !report.reliability.is_empty() {
        let rows: Vec<Vec<String>> = (report.annotators.iter().zip(&report.reliability))
            .map(|(annotator, of)| {
                vec![
                    annotator.name.clone(),
                    format!("{:.3}", of.sensitivity),
                    format!("{:.3}", of.false_alarm),
                ]
            })
            .collect();
        printer.line("\nreliability without truth, by Dawid and Skene")?;
        printer.table(&["annotator", "finds wrong steps", "accuses right steps"], &rows)?;
    }
    Ok(())
}

fn labelled(annotator: &AnnotatorSummary) -> Vec<String> {
    let count = |number: usize| printer::count(number as u64);
    let each = |amount: Option<f64>, digits: usize| match amount {
        Some(amount) if annotator.labels > 0 => format!("{:.digits$}", amount / annotator.labels as f64),
        _ => "–".to_owned(),
    };
    let cost = annotator.cost.as_ref();
    let tokens = cost.map(|cost| (cost.prompt_tokens + cost.completion_tokens) as f64);
    let seconds = cost.map(|cost| cost.seconds).filter(|seconds| *seconds > 0.0);
    vec![
        annotator.name.clone(),
        count(annotator.decided),
        count(annotator.undecided),
        count(annotator.labels),
        count(annotator.errors),
        each(tokens, 0),
        each(seconds, 3),
        auc(&annotator.outcome_prediction),
        percent(annotator.outcome_prediction.right_without_error),
        percent(annotator.outcome_prediction.wrong_with_error),
    ]
}

fn against_truth(annotator: &AnnotatorSummary) -> Vec<String> {
    let agreement = annotator.agreement.as_ref();
    let number =
        |of: fn(&gradus_core::metrics::labels::Agreement) -> Option<f64>| percent(agreement.and_then(of));
    vec![
        annotator.name.clone(),
        number(|found| found.accuracy),
        number(|found| found.right.precision),
        number(|found| found.right.recall),
        number(|found| found.wrong.precision),
        number(|found| found.wrong.recall),
        percent(annotator.first_errors.as_ref().and_then(|scores| scores.f1)),
    ]
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// `0.912 (0.900–0.924)`.
fn auc(prediction: &OutcomePrediction) -> String {
    match prediction.auc {
        None => "–".to_owned(),
        Some(AucEstimate { value, interval: None }) => format!("{value:.3}"),
        Some(AucEstimate { value, interval: Some(found) }) => {
            format!("{value:.3} ({:.3}–{:.3})", found.low, found.high)
        }
    }
}
