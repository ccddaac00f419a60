//! `gradus bench drift`: whether scores follow the steps or the final answer.

use anyhow::Result;
use gradus_bench::drift;
use gradus_bench::report::BenchmarkResults;

use super::args::BenchArgs;
use super::measurement::Measurement;
use super::tables::cell;
use crate::exit::Status;
use crate::terminal::printer::Printer;
use gradus_core::count::grouped;

pub(super) fn run(args: &BenchArgs) -> Result<Status> {
    let mut job = Measurement::read("drift", args)?;
    job.keep("the outcome is unknown", |sample| sample.solution.outcome.is_correct().is_some());
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let decision = job.decision(&judging)?;
    let judged = job.ask(&judging)?;
    let numbers = drift::measure(&job.samples, &judged, decision, &job.settings)?;
    show(&numbers, &judging.name, job.printer(args))?;
    let sections = drift::sections(&numbers, &judging.name);
    job.finish(args, &judging, BenchmarkResults::Drift(Box::new(numbers)), sections, &[])
}

fn show(numbers: &drift::DriftResults, judge: &str, printer: Option<Printer>) -> Result<()> {
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
            "correct answer: lowest score at the last step",
            drift.right_answer.solutions,
            numbers.right_at_last,
            drift.right_answer.by_chance,
        ),
        ("correct answer, wrong process: detected", drift.detected.solutions, numbers.detected, None),
        (
            "correct answer, correct process: false alarm",
            drift.false_alarms.solutions,
            numbers.false_alarms,
            None,
        ),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, solutions, share, chance)| {
            let chance = chance.map_or(String::new(), |chance| cell(Some(chance)));
            vec![name.to_owned(), grouped(solutions), share.percent(), chance]
        })
        .collect();
    printer.line(format!("{judge}, {}", numbers.decision))?;
    printer.table(&["", "solutions", "share, %", "by chance"], &rows)
}
