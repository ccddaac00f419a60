//! `gradus annotate report`: annotators side by side.

use anyhow::Result;
use clap::Args;
use gradus_annotate::report::{AnnotatorReport, AnnotatorSummary, AucEstimate, OutcomePrediction, report};
use gradus_core::metrics::bootstrap;

use super::sources::{SourcesArgs, gather};
use crate::alignment;
use crate::arguments::JsonOption;
use crate::arguments::values::count_or_none;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped, percent_of};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate report mc.jsonl judged.jsonl\n  \
gradus annotate report candidates.jsonl --from-scores '*:0.5' --json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    sources: SourcesArgs,
    /// Bootstrap resamples
    #[arg(long, default_value_t = 1000, value_parser = count_or_none)]
    resamples: usize,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &ReportArgs) -> Result<Status> {
    let gathered = gather(&args.sources, true)?;
    let settings = bootstrap::Settings { resamples: args.resamples, ..bootstrap::Settings::default() };
    let report = report(&gathered.panel, &settings);
    Printer::new(None).summary(args.print.json, &report, show)?;
    Ok(Status::Done)
}

fn show(printer: Printer, report: &AnnotatorReport) -> Result<()> {
    printer.line(format!(
        "{} ({} with true labels, {} with a known outcome)\n",
        paint::bold(&counted(report.solutions, "solution")),
        grouped(report.with_truth),
        grouped(report.with_outcome),
    ))?;
    let rows: Vec<Vec<String>> = report.annotators.iter().map(label_counts).collect();
    let heading = [
        "annotator",
        "labeled",
        "undecided",
        "labels",
        "errors",
        "tokens/label",
        "seconds/label",
        "outcome AUC",
        "correct if no error",
        "wrong if error",
    ];
    printer.table(&heading, &rows)?;
    if report.with_truth > 0 {
        let rows: Vec<Vec<String>> = report.annotators.iter().map(against_truth).collect();
        printer.line("\nagreement with true labels")?;
        let heading = [
            "annotator",
            "accuracy",
            "correct: precision",
            "recall",
            "wrong: precision",
            "recall",
            "first error F1",
        ];
        printer.table(&heading, &rows)?;
    }
    for annotator in &report.annotators {
        alignment::show(printer, &annotator.name, &annotator.by_alignment)?;
    }
    if !report.repeats.is_empty() {
        let rows: Vec<Vec<String>> = (report.repeats.iter())
            .map(|repeats| {
                vec![
                    repeats.name.clone(),
                    grouped(repeats.runs),
                    percent(repeats.accuracy),
                    percent(repeats.deviation),
                    percent(repeats.majority_accuracy),
                    percent(repeats.agreement),
                ]
            })
            .collect();
        printer.line("\nrepeated runs: step label accuracy")?;
        let heading = ["annotator", "runs", "mean", "std. dev.", "majority", "same label"];
        printer.table(&heading, &rows)?;
    }
    if !report.cost_ratios.is_empty() {
        let times =
            |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2} ×"));
        let rows: Vec<Vec<String>> = (report.cost_ratios.iter())
            .map(|ratio| {
                let (tokens, seconds) = (times(ratio.tokens), times(ratio.seconds));
                vec![ratio.name.clone(), grouped(ratio.solutions), tokens, seconds]
            })
            .collect();
        printer.line("\ncost of Monte Carlo for the same solutions")?;
        printer.table(&["in relation to", "solutions", "tokens", "time"], &rows)?;
    }
    if !report.pairs.is_empty() {
        let rows: Vec<Vec<String>> = (report.pairs.iter())
            .map(|two| {
                vec![
                    two.names.join(" & "),
                    grouped(two.pair.both),
                    percent(two.kept),
                    grouped(two.pair.no_error),
                    grouped(two.pair.same_error),
                    grouped(two.pair.other_error),
                    grouped(two.pair.first_only),
                    grouped(two.pair.second_only),
                    percent(two.overlap),
                    auc(&two.outcome_prediction),
                ]
            })
            .collect();
        printer.line("\npairs: consensus and first errors")?;
        let heading = [
            "pair",
            "both",
            "kept",
            "no error",
            "same error",
            "different error",
            "first only",
            "second only",
            "overlap",
            "kept AUC",
        ];
        printer.table(&heading, &rows)?;
    }
    if !report.together.is_empty() {
        let rows: Vec<Vec<String>> = (report.together.iter())
            .map(|rule| {
                let f1 = rule.first_errors.as_ref().and_then(|scores| scores.f1);
                let decided = grouped(rule.decided);
                let share = percent_of(rule.decided, report.solutions);
                let errors = grouped(rule.errors);
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
        printer.line("\nensembles")?;
        printer.table(
            &[
                "rule",
                "labeled",
                "share",
                "errors",
                "first error F1",
                "outcome AUC",
                "correct if no error",
                "wrong if error",
            ],
            &rows,
        )?;
    }
    if !report.reliability.is_empty() {
        let whole = report.annotators.iter().filter(|annotator| !annotator.partial);
        let rows: Vec<Vec<String>> = (whole.zip(&report.reliability))
            .map(|(annotator, of)| {
                vec![
                    annotator.name.clone(),
                    format!("{:.3}", of.sensitivity),
                    format!("{:.3}", of.false_alarm),
                ]
            })
            .collect();
        printer.line("\nreliability without true labels (Dawid-Skene)")?;
        printer.table(&["annotator", "sensitivity", "false alarm rate"], &rows)?;
    }
    Ok(())
}

fn label_counts(annotator: &AnnotatorSummary) -> Vec<String> {
    let each = |amount: Option<f64>, digits: usize| match amount {
        Some(amount) if annotator.labels > 0 => format!("{:.digits$}", amount / annotator.labels as f64),
        _ => "–".to_owned(),
    };
    let cost = annotator.cost.as_ref();
    let tokens = cost.map(|cost| (cost.prompt_tokens + cost.completion_tokens) as f64);
    let seconds = cost.map(|cost| cost.seconds).filter(|seconds| *seconds > 0.0);
    vec![
        annotator.name.clone(),
        grouped(annotator.decided),
        grouped(annotator.undecided),
        grouped(annotator.labels),
        grouped(annotator.errors),
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
