//! `gradus grade`: two answers, a solution against its answer, or a whole dataset.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result};
use gradus_core::{Outcome, Record};
use gradus_data::files::{Sink, Target};
use gradus_grade::Verdict;
use serde::Serialize;

use super::Status;
use crate::args::Grade;
use crate::input;
use crate::printer::{self, Printer};

pub(super) fn run(args: &Grade) -> Result<Status> {
    match (&args.gold, &args.answer) {
        (Some(gold), Some(answer)) => {
            let verdict = gradus_grade::compare(gold, answer);
            show(args, &gradus_grade::Grade { verdict, answer: Some(answer.clone()), found: None })
        }
        (Some(gold), None) => {
            let mut solution = String::new();
            std::io::stdin()
                .read_to_string(&mut solution)
                .context("cannot read a solution from standard input")?;
            show(args, &gradus_grade::grade(gold, &solution))
        }
        (None, _) => dataset(args),
    }
}

fn show(args: &Grade, grade: &gradus_grade::Grade) -> Result<Status> {
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(grade)?;
        return Ok(Status::Done);
    }
    let verdict = words(grade.verdict);
    match (&grade.answer, grade.found) {
        (Some(answer), Some(_)) => printer.line(format!("{verdict} (found the answer {answer})"))?,
        _ => printer.line(verdict)?,
    }
    Ok(Status::Done)
}

fn words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Equal => "equal".to_owned(),
        Verdict::Different => "different".to_owned(),
        Verdict::Undecided(reason) => format!("undecided: {}", reason.describe()),
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    solutions: u64,
    equal: u64,
    different: u64,
    undecided: BTreeMap<&'static str, u64>,
    /// Solutions whose source states an outcome.
    stated: u64,
    /// Of those, how many we grade the same.
    agreed: u64,
    disagreements: Vec<Disagreement>,
    /// Records that could not be read.
    skipped: u64,
}

#[derive(Debug, Serialize)]
struct Disagreement {
    solution: String,
    gold: Option<String>,
    answer: Option<String>,
    ours: String,
    stated: Outcome,
}

fn dataset(args: &Grade) -> Result<Status> {
    let mut report = Report::default();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::read(&args.data, args.from, args.on_error, &mut |item| {
        let mut record = item.record;
        grade_record(&mut record, &mut report);
        sink.as_mut().map_or(Ok(()), |sink| sink.push(&record))?;
        Ok(())
    })?;
    report.skipped = tally.skipped;
    if let Some(sink) = sink {
        sink.finish()?;
    }
    let printer = Printer::new(args.output.as_deref());
    if args.print.json {
        printer.json(&report)?;
    } else {
        print(printer, &report, args.show)?;
    }
    Ok(Status::Done)
}

/// Grades every solution: by the answer in its text, or else by the one its source states. A verdict replaces the stated outcome.
fn grade_record(record: &mut Record, report: &mut Report) {
    let gold = record.problem.answer.clone().unwrap_or_default();
    let aliases = record.problem.aliases.clone();
    for solution in &mut record.solutions {
        let text = solution.full_text();
        let mut found = gradus_grade::grade(&gold, &text);
        if found.answer.is_none()
            && let Some(answer) = &solution.answer
        {
            found.verdict = gradus_grade::compare(&gold, answer);
            found.answer = Some(answer.clone());
        }
        for alias in &aliases {
            if found.verdict == Verdict::Equal {
                break;
            }
            if let Some(answer) = &found.answer
                && gradus_grade::compare(alias, answer) == Verdict::Equal
            {
                found.verdict = Verdict::Equal;
            }
        }
        report.solutions += 1;
        let ours = match found.verdict {
            Verdict::Equal => {
                report.equal += 1;
                Outcome::Correct
            }
            Verdict::Different => {
                report.different += 1;
                Outcome::Wrong
            }
            Verdict::Undecided(reason) => {
                *report.undecided.entry(reason.describe()).or_default() += 1;
                Outcome::Unknown
            }
        };
        if solution.outcome != Outcome::Unknown {
            report.stated += 1;
            if ours == solution.outcome {
                report.agreed += 1;
            } else {
                report.disagreements.push(Disagreement {
                    solution: solution.id.clone(),
                    gold: record.problem.answer.clone(),
                    answer: found.answer.clone(),
                    ours: words(found.verdict),
                    stated: solution.outcome,
                });
            }
        }
        if ours != Outcome::Unknown {
            solution.outcome = ours;
        }
        if found.answer.is_some() {
            solution.answer = found.answer;
        }
    }
}

fn print(printer: Printer, report: &Report, show: usize) -> Result<()> {
    if report.solutions == 0 {
        return printer.line("no solution to grade: the records hold problems only");
    }
    let mut rows = vec![
        vec![
            "equal".to_owned(),
            printer::count(report.equal),
            printer::percent(report.equal, report.solutions),
        ],
        vec![
            "different".to_owned(),
            printer::count(report.different),
            printer::percent(report.different, report.solutions),
        ],
    ];
    for (reason, count) in &report.undecided {
        rows.push(vec![
            format!("undecided: {reason}"),
            printer::count(*count),
            printer::percent(*count, report.solutions),
        ]);
    }
    printer.table(&["verdict", "solutions", "share"], &rows)?;
    if report.skipped > 0 {
        printer.line(format!("{} skipped: could not be read", printer::counted(report.skipped, "record")))?;
    }
    if report.stated == 0 {
        return Ok(());
    }
    printer.line(format!(
        "\nagrees with {} of {} stated outcomes ({:.2} %)",
        printer::count(report.agreed),
        printer::count(report.stated),
        100.0 * report.agreed as f64 / report.stated as f64
    ))?;
    if report.disagreements.is_empty() || show == 0 {
        return Ok(());
    }
    let rows: Vec<_> = report
        .disagreements
        .iter()
        .take(show)
        .map(|d| {
            let stated = if d.stated == Outcome::Correct { "correct" } else { "wrong" };
            vec![
                d.solution.clone(),
                printer::excerpt(d.gold.as_deref().unwrap_or_default(), 24),
                printer::excerpt(d.answer.as_deref().unwrap_or("none"), 32),
                d.ours.clone(),
                stated.to_owned(),
            ]
        })
        .collect();
    printer.table(&["solution", "gold", "answer found", "ours", "stated"], &rows)?;
    if report.disagreements.len() > show {
        let more = printer::count((report.disagreements.len() - show) as u64);
        printer.line(format!("… and {more} more (--show or --json)"))?;
    }
    Ok(())
}
