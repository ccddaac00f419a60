//! `gradus data stats`: statistics of a dataset.

use anyhow::Result;
use clap::Args;
use gradus_core::metrics::exact::wilson;
use gradus_data::stats::{Bin, Stats, Summary, WrongProcesses};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped, percent_of};

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    input: DatasetInput,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct StatsSummary {
    #[serde(flatten)]
    summary: Summary,
    /// Invalid records.
    skipped: u64,
}

/// Generators shown in the table.
const GENERATORS: usize = 20;
/// Issues shown below it.
const ISSUES: usize = 10;
const BAR: usize = 30;

pub(super) fn run(args: &StatsArgs) -> Result<Status> {
    let mut stats = Stats::default();
    let tally = input::for_each(&args.input, Need::Records, |item| {
        stats.add(&item);
        Ok(())
    })?;
    let report = StatsSummary { summary: stats.finish(), skipped: tally.skipped };
    Printer::new(None).summary(args.print.json, &report, print)?;
    Ok(Status::Done)
}

fn print(printer: Printer, report: &StatsSummary) -> Result<()> {
    let StatsSummary { summary, skipped } = report;
    overview(printer, summary, *skipped)?;
    if summary.steps > 0 {
        histogram(printer, "steps per solution", &summary.steps_per_solution)?;
    }
    histogram(printer, "characters per step", &summary.step_chars)?;
    histogram(printer, "first error position (from 0)", &summary.errors.position)?;
    generators(printer, summary)?;
    wrong_processes(printer, summary)?;
    scores(printer, summary)?;
    issues(printer, summary)
}

fn overview(printer: Printer, summary: &Summary, skipped: u64) -> Result<()> {
    let alone = summary.formats.len() == 1;
    let formats = summary.formats.iter().map(|(name, count)| match alone {
        true => name.to_string(),
        false => format!("{name} {}", grouped(*count)),
    });
    printer.line(format!(
        "{} ({})",
        counted(summary.records, "record"),
        formats.collect::<Vec<_>>().join(", ")
    ))?;
    let errors = &summary.errors;
    let labels = &summary.labels;
    let labeled = labels.correct + labels.incorrect + labels.neutral + labels.unknown;
    let judged = errors.erroneous + errors.error_free > 0;
    let row = |name: &str, count: u64, of: u64| vec![name.to_owned(), grouped(count), percent_of(count, of)];
    let mut rows = vec![
        row("records", summary.records, 0),
        row("  with a gold answer", summary.with_answer, summary.records),
        row("  with a reference solution", summary.with_reference, summary.records),
        row("  with context", summary.with_context, summary.records),
        row("distinct problems", summary.problems, 0),
        row("solutions", summary.solutions, 0),
        row("  answer correct", summary.outcomes.correct, summary.solutions),
        row("  answer wrong", summary.outcomes.wrong, summary.solutions),
        row("  with an error", errors.erroneous, summary.solutions),
        row("  without an error", errors.error_free, summary.solutions),
        row("  first error unknown", if judged { errors.unknown } else { 0 }, summary.solutions),
        row("steps", summary.steps, 0),
        row("  labeled correct", labels.correct, labeled),
        row("  labeled incorrect", labels.incorrect, labeled),
        row("  labeled neutral", labels.neutral, labeled),
        row("  labeled unknown", labels.unknown, labeled),
        row("  with a soft value", labels.soft, labeled),
    ];
    rows.retain(|row| !row[0].starts_with(' ') || row[1] != "0");
    if skipped > 0 {
        rows.push(row("records skipped", skipped, 0));
    }
    if summary.duplicate_solution_ids > 0 {
        rows.push(row("duplicate solution ids", summary.duplicate_solution_ids, 0));
    }
    printer.table(&["what", "count", "share"], &rows)
}

fn range(bin: &Bin) -> String {
    match bin.to {
        Some(to) if to == bin.from => bin.from.to_string(),
        Some(to) => format!("{}–{to}", bin.from),
        None => format!("{}+", bin.from),
    }
}

fn histogram(printer: Printer, title: &str, bins: &[Bin]) -> Result<()> {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    let first = bins.iter().position(|bin| bin.count > 0).unwrap_or(0);
    let last = bins.iter().rposition(|bin| bin.count > 0).unwrap_or(0);
    let rows: Vec<_> = bins[first..=last]
        .iter()
        .map(|bin| vec![range(bin), grouped(bin.count), printer::bar(bin.count, most, BAR)])
        .collect();
    printer.line("")?;
    printer.table(&[title, "count", ""], &rows)
}

fn generators(printer: Printer, summary: &Summary) -> Result<()> {
    let named = summary.generators.iter().any(|generator| generator.name.is_some());
    if !named {
        return Ok(());
    }
    // A column about what the source does not say would be empty, or worse, read as a share of 0.
    let outcomes = summary.outcomes.correct + summary.outcomes.wrong > 0;
    let errors = summary.errors.erroneous + summary.errors.error_free > 0;
    let mut heading = vec!["generator", "solutions"];
    heading.extend(outcomes.then_some("answer correct"));
    heading.extend(errors.then_some("with an error"));
    let rows: Vec<_> = summary
        .generators
        .iter()
        .take(GENERATORS)
        .map(|generator| {
            let name = generator.name.clone().unwrap_or_else(|| "(unnamed)".to_owned());
            let mut row = vec![name, grouped(generator.solutions)];
            row.extend(outcomes.then(|| percent_of(generator.outcome_correct, generator.solutions)));
            let judged = generator.erroneous + generator.error_free;
            row.extend(errors.then(|| percent_of(generator.erroneous, judged)));
            row
        })
        .collect();
    printer.line("")?;
    printer.table(&heading, &rows)?;
    if summary.generators.len() > GENERATORS {
        printer.line(format!("… and {} more (--json)", summary.generators.len() - GENERATORS))?;
    }
    Ok(())
}

/// How often the answer is correct and the process is not, by file and over all.
fn wrong_processes(printer: Printer, summary: &Summary) -> Result<()> {
    let files = &summary.wrong_processes;
    let mut counts: Vec<_> =
        files.iter().map(|file| (file.file.as_str(), file.correct_answers, file.with_error)).collect();
    if counts.is_empty() {
        return Ok(());
    }
    if counts.len() > 1 {
        let sum = |of: fn(&WrongProcesses) -> u64| files.iter().map(of).sum();
        counts.push(("all", sum(|file| file.correct_answers), sum(|file| file.with_error)));
    }
    let rows: Vec<_> = counts
        .into_iter()
        .map(|(file, answers, wrong)| {
            let interval = wilson(wrong as usize, answers as usize, 0.95).map_or_else(String::new, |share| {
                format!("{:.1}–{:.1} %", 100.0 * share.low, 100.0 * share.high)
            });
            vec![file.to_owned(), grouped(answers), grouped(wrong), percent_of(wrong, answers), interval]
        })
        .collect();
    printer.line("")?;
    printer.table(&["file", "answer correct", "process wrong", "share", "95 % interval"], &rows)
}

fn scores(printer: Printer, summary: &Summary) -> Result<()> {
    if summary.scores.is_empty() {
        return Ok(());
    }
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let rows: Vec<_> = summary
        .scores
        .iter()
        .map(|(name, column)| {
            let (min, mean, max) = (number(column.min), number(column.mean), number(column.max));
            vec![name.clone(), grouped(column.solutions), min, mean, max, grouped(column.length_mismatches)]
        })
        .collect();
    printer.line("")?;
    printer.table(&["score column", "solutions", "min", "mean", "max", "length mismatch"], &rows)
}

fn issues(printer: Printer, summary: &Summary) -> Result<()> {
    if summary.issues.is_empty() {
        return Ok(());
    }
    printer.line(format!("\n{} in the source:", counted(summary.issues.len(), "issue")))?;
    for issue in summary.issues.iter().take(ISSUES) {
        let who = issue.solution.as_ref().unwrap_or(&issue.problem);
        printer.line(format!(
            "  {}:{}: {who}: field `{}`: {}",
            issue.file, issue.line, issue.field, issue.message
        ))?;
    }
    if summary.issues.len() > ISSUES {
        printer.line(format!("  … and {} more (--json)", grouped((summary.issues.len() - ISSUES) as u64)))?;
    }
    Ok(())
}
