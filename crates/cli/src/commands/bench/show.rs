//! A benchmark's numbers as tables in a terminal.

use std::path::Path;

use anyhow::Result;
use gradus_bench::report::SampleCounts;
use gradus_bench::{MetricEstimate, best_of_n, drift, labels, preference, prmbench, processbench, published};
use gradus_core::select::Aggregation;

use crate::paint;
use crate::printer::{Printer, count};

/// Published rows that are printed; the page has all.
const PUBLISHED: usize = 8;

fn cell(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

/// F1 beside that of judges without a model, which is what an F1 has to be measured by.
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
        ["f1 beside judges without a model"].into_iter().chain(subsets).chain(["average"]).collect();
    printer.line("")?;
    printer.table(&heading, &rows)
}

pub(super) fn processbench(
    numbers: &processbench::ProcessBenchResults,
    judge: &str,
    printer: Option<Printer>,
) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .subsets
        .iter()
        .map(|part| {
            vec![
                part.name.clone(),
                count((part.scores.erroneous + part.scores.error_free) as u64),
                count(part.scores.undecided as u64),
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
        .table(&["subset", "solutions", "undecided", "error found", "left alone", "f1", "accuracy"], &rows)?;
    without_a_model(numbers, judge, printer)?;
    if let Some(best) = numbers.best_threshold() {
        printer.line(format!(
            "best threshold on this data: {:.2}, average F1 {} (chosen on what it is measured on)",
            best.threshold,
            cell(best.average)
        ))?;
    }
    if let Some(steps) = &numbers.steps {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        printer.line(format!(
            "steps: AUC {}, average precision at wrong ones {}, calibration error {}",
            number(steps.roc_auc),
            number(steps.average_precision),
            number(steps.ece)
        ))?;
    }
    if !numbers.is_official() {
        return Ok(());
    }
    others(
        printer,
        &published::processbench(),
        "Published, on the whole benchmark, other models and thresholds:",
    )
}

pub(super) fn prmbench(
    numbers: &prmbench::PrmBenchResults,
    judge: &str,
    printer: Option<Printer>,
) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .classes
        .iter()
        .map(|class| {
            vec![
                class.name.clone(),
                count(class.samples as u64),
                class.f1.percent(),
                class.negative_f1.percent(),
                class.score.percent(),
            ]
        })
        .collect();
    for (group, score) in &numbers.groups {
        let name = serde_json::to_value(group).ok().and_then(|name| name.as_str().map(str::to_owned));
        rows.push(vec![name.unwrap_or_default(), String::new(), String::new(), String::new(), cell(*score)]);
    }
    let overall = numbers.overall.percent();
    rows.push(vec![paint::bold("overall"), String::new(), String::new(), String::new(), overall]);
    printer.line(format!("{judge}, threshold {}", numbers.threshold))?;
    printer.table(&["class", "solutions", "f1", "negative f1", "prmscore"], &rows)?;
    if numbers.ours.unlabelled > 0 {
        printer.line(format!(
            "{} have labels that cannot be right and are in no number",
            count(numbers.ours.unlabelled as u64)
        ))?;
    }
    let official =
        numbers.official.as_ref().and_then(|metrics| metrics.overall).and_then(|overall| overall.prm_score);
    printer.line(format!("overall by the official code's rules: {}", cell(official)))?;
    others(printer, &published::prmbench(), "Published:")
}

pub(super) fn best_of_n(numbers: &best_of_n::BestOfNResults, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    for set in &numbers.sets {
        printer.line(format!(
            "\n{}: {} problems, {} candidates",
            paint::bold(&set.name),
            count(set.problems as u64),
            count(set.candidates as u64)
        ))?;
        let mut heading = vec!["choice".to_owned()];
        heading.extend(numbers.sizes.iter().map(|size| format!("N={size}")));
        heading.push("over chance, majority".to_owned());
        let over_n = |name: String, estimates: &[MetricEstimate], gain: &[MetricEstimate]| {
            let last = estimates.len().saturating_sub(1);
            let cells = estimates.iter().enumerate();
            let cells = cells.map(
                |(index, estimate)| if index == last { estimate.percent() } else { cell(estimate.value) },
            );
            let gain = gain.last().map_or_else(String::new, MetricEstimate::signed);
            std::iter::once(name).chain(cells).chain([gain]).collect::<Vec<String>>()
        };
        let mut rows = vec![
            over_n("pass@N".to_owned(), &set.pass, &[]),
            over_n("majority".to_owned(), &set.majority, &[]),
            over_n("chance".to_owned(), &set.chance, &[]),
        ];
        for scorer in &set.scorers {
            let shown = [Aggregation::Last, Aggregation::Min, Aggregation::Product, Aggregation::Mean];
            for choice in scorer.choices.iter().filter(|choice| shown.contains(&choice.aggregation)) {
                let name = format!("{} {}", scorer.name, choice.aggregation);
                rows.push(over_n(format!("{name} best"), &choice.best, &choice.best_over_chance));
                rows.push(over_n(format!("{name} vote"), &choice.vote, &choice.vote_over_majority));
            }
        }
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        printer.table(&heading, &rows)?;
        for scorer in set.scorers.iter().filter(|scorer| scorer.unscored > 0) {
            printer.line(format!(
                "{}: {} candidates without scores",
                scorer.name,
                count(scorer.unscored as u64)
            ))?;
        }
        if set.unknown_outcomes > 0 {
            let unknown = count(set.unknown_outcomes as u64);
            printer.line(format!("{unknown} candidates of unknown outcome count as wrong"))?;
        }
    }
    Ok(())
}

pub(super) fn preference(
    numbers: &preference::PreferenceResults,
    judge: &str,
    printer: Option<Printer>,
) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .generators
        .iter()
        .map(|generator| {
            vec![
                generator.name.clone(),
                count(generator.bias.correct as u64),
                count(generator.bias.wrong as u64),
                count(generator.bias.undecided as u64),
                generator.fpr.percent(),
                generator.fnr.percent(),
                generator.bi.signed(),
                generator.accuracy.percent(),
                generator.median_perplexity.map_or(String::new(), |value| format!("{value:.2}")),
            ]
        })
        .collect();
    rows.push(vec![
        paint::bold("mean (|BI|)"),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        numbers.mean_absolute_bi.percent(),
        numbers.accuracy.percent(),
        String::new(),
    ]);
    printer.line(judge)?;
    let heading =
        ["generator", "correct", "wrong", "undecided", "fpr", "fnr", "bi", "accuracy", "perplexity"];
    printer.table(&heading, &rows)?;
    if let Some(analysis) = &numbers.perplexity {
        regression(analysis, printer)?;
    }
    others(printer, &published::preference(), "Published, on another set of problems:")
}

/// The line through the deciles, in one sentence.
pub(super) fn regression(
    analysis: &preference::perplexity_bias::PerplexityBias,
    printer: Printer,
) -> Result<()> {
    match &analysis.fit {
        Some(fit) => printer.line(format!(
            "BI over deciles of perplexity: slope {:.4} ± {:.4}, r {:.3}, p {:.2e} ({} solutions, {} without perplexity)",
            fit.slope, fit.stderr, fit.r, fit.p, analysis.solutions, analysis.without
        )),
        None => printer.line("BI over deciles of perplexity: fewer than three deciles have a BI"),
    }
}

pub(super) fn labels(numbers: &labels::LabelResults, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let rows: Vec<Vec<String>> = numbers
        .annotators
        .iter()
        .map(|(name, found)| {
            vec![
                name.clone(),
                count(found.solutions as u64),
                count(found.steps.steps as u64),
                count(found.steps.undecided as u64),
                cell(found.steps.accuracy),
                cell(found.steps.balanced_accuracy),
                cell(found.steps.right.recall),
                cell(found.steps.wrong.precision),
                cell(found.steps.wrong.recall),
                cell(found.first_errors.f1),
            ]
        })
        .collect();
    let heading = [
        "annotator",
        "solutions",
        "steps",
        "undecided",
        "accuracy",
        "balanced",
        "recall right",
        "precision wrong",
        "recall wrong",
        "first-error f1",
    ];
    printer.table(&heading, &rows)
}

pub(super) fn drift(numbers: &drift::DriftResults, judge: &str, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let drift = &numbers.drift;
    let rows = [
        (
            "wrong answer: lowest score at the last step",
            drift.wrong_answer.solutions,
            numbers.wrong_at_last,
            drift.wrong_answer.by_chance,
        ),
        (
            "right answer: lowest score at the last step",
            drift.right_answer.solutions,
            numbers.right_at_last,
            drift.right_answer.by_chance,
        ),
        ("right answer, wrong process: detected", drift.detected.solutions, numbers.detected, None),
        (
            "right answer, right process: false alarm",
            drift.false_alarms.solutions,
            numbers.false_alarms,
            None,
        ),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, solutions, share, chance)| {
            let chance = chance.map_or(String::new(), |chance| cell(Some(chance)));
            vec![name.to_owned(), count(solutions as u64), share.percent(), chance]
        })
        .collect();
    printer.line(format!("{judge}, threshold {}", numbers.threshold))?;
    printer.table(&["", "solutions", "share, %", "by chance"], &rows)
}

/// What happened to the samples, and where the report is.
pub(super) fn counts(counts: &SampleCounts, folder: &Path, printer: Printer) -> Result<()> {
    let mut parts = vec![format!("{} solutions", count(counts.samples as u64))];
    if counts.resumed > 0 {
        parts.push(format!("{} from an earlier run", count(counts.resumed as u64)));
    }
    if counts.undecided > 0 {
        parts.push(format!("{} undecided, counted as not right", count(counts.undecided as u64)));
    }
    if counts.truncated > 0 {
        parts.push(format!("{} cut off", count(counts.truncated as u64)));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} records skipped", count(counts.skipped)));
    }
    printer.line(format!("{} in {:.1} s", parts.join(", "), counts.seconds))?;
    for (reason, number) in &counts.reasons {
        printer.line(format!("  undecided: {} × {reason}", count(*number as u64)))?;
    }
    for (reason, number) in &counts.dropped {
        printer.line(format!("  in no number: {} × {reason}", count(*number as u64)))?;
    }
    printer.line(format!("report: {}", folder.join("report.html").display()))
}

fn others(printer: Printer, published: &published::Published, title: &str) -> Result<()> {
    let cell = |value: &Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    let mut heading = vec!["model"];
    heading.extend(published.columns.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = published
        .rows
        .iter()
        .take(PUBLISHED)
        .map(|row| std::iter::once(row.name.clone()).chain(row.values.iter().map(cell)).collect())
        .collect();
    printer.line(format!("\n{title}"))?;
    printer.table(&heading, &rows)?;
    if published.rows.len() > PUBLISHED {
        printer.line(format!(
            "… {} more rows and their sources are in the report",
            published.rows.len() - PUBLISHED
        ))?;
    }
    Ok(())
}
