//! `gradus grade`: two answers, a solution against its answer, or a whole dataset.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use gradus_core::{Domain, Outcome, Problem, Record, Solution};
use gradus_data::files::{Sink, Target};
use gradus_grade::{Extracted, Grade, Reason, Verdict};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetOption;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped, percent_of};

#[derive(Debug, Args)]
#[command(mut_arg("data", |arg| arg.help("Grade all solutions of these datasets")))]
#[command(after_help = "Examples:\n  gradus grade '\\frac{1}{2}' 0.5\n  gradus grade 72 < solution.txt\n  \
gradus grade --data candidates.jsonl.gz")]
pub(super) struct GradeArgs {
    /// Gold answer
    #[arg(required_unless_present = "data", conflicts_with = "data", allow_hyphen_values = true)]
    gold: Option<String>,
    /// Answer to grade (default: extracted from a solution on standard input)
    #[arg(conflicts_with = "data", allow_hyphen_values = true)]
    answer: Option<String>,
    /// With --data, output file with graded outcomes (Gradus format)
    #[arg(short, long, value_name = "FILE", requires = "data")]
    output: Option<PathBuf>,
    /// With --data, maximum disagreements with recorded outcomes to print; --json prints all
    #[arg(long, default_value_t = 20, requires = "data")]
    show: usize,
    #[command(flatten)]
    dataset: DatasetOption,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &GradeArgs) -> Result<Status> {
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

fn show(args: &GradeArgs, grade: &gradus_grade::Grade) -> Result<Status> {
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(grade)?;
        return Ok(Status::Done);
    }
    let verdict = words(grade.verdict);
    match (&grade.answer, grade.found) {
        (Some(answer), Some(_)) => printer.line(format!("{verdict} (extracted answer: {answer})"))?,
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
struct GradeSummary {
    solutions: u64,
    equal: u64,
    different: u64,
    undecided: BTreeMap<&'static str, u64>,
    /// Answers in words: question answering and spatial reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_words: Option<InWords>,
    /// Solutions whose source states an outcome.
    stated: u64,
    /// Of those, how many we grade the same.
    agreed: u64,
    disagreements: Vec<Disagreement>,
    /// Invalid records.
    skipped: u64,
}

#[derive(Debug, Default, Serialize)]
struct InWords {
    solutions: u64,
    /// Mean F1 with the gold answer.
    f1: f64,
}

#[derive(Debug, Serialize)]
struct Disagreement {
    solution: String,
    gold: Option<String>,
    answer: Option<String>,
    ours: String,
    stated: Outcome,
}

fn dataset(args: &GradeArgs) -> Result<Status> {
    let mut report = GradeSummary::default();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::for_each_of(&args.dataset, Need::Solutions, |item| {
        let mut record = item.record;
        grade_record(&mut record, &mut report);
        sink.as_mut().map_or(Ok(()), |sink| sink.push(&record))?;
        Ok(())
    })?;
    report.skipped = tally.skipped;
    if let Some(sink) = sink {
        sink.finish()?;
    }
    Printer::new(args.output.as_deref())
        .summary(args.print.json, &report, |printer, report| print(printer, report, args.show))?;
    Ok(Status::Done)
}

/// Grades every solution by the answer in its text, or else by its recorded answer. A verdict replaces the recorded
/// outcome.
fn grade_record(record: &mut Record, report: &mut GradeSummary) {
    for solution in &mut record.solutions {
        let found = match record.problem.domain {
            Domain::Qa | Domain::Spatial => grade_in_words(&record.problem, solution, report),
            Domain::Math | Domain::Other => grade_value(&record.problem, solution),
        };
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

/// Grades an answer in words: exact match, and F1 beside it.
fn grade_in_words(problem: &Problem, solution: &Solution, report: &mut GradeSummary) -> Grade {
    let found = problem.final_answer(&solution.full_text());
    let (answer, found) = match found {
        Some(Extracted { answer, found }) => (Some(answer), Some(found)),
        None => (solution.answer.clone(), None),
    };
    if problem.answer.is_some() {
        let f1 = answer.as_deref().and_then(|answer| problem.f1(answer)).unwrap_or(0.0);
        let in_words = report.in_words.get_or_insert_default();
        in_words.solutions += 1;
        in_words.f1 += (f1 - in_words.f1) / in_words.solutions as f64;
    }
    let verdict = match answer.as_deref().map(|answer| problem.accepts(answer)) {
        Some(Some(true)) => Verdict::Equal,
        Some(Some(false)) => Verdict::Different,
        Some(None) => Verdict::Undecided(Reason::NoGold),
        None => Verdict::Undecided(Reason::NoAnswer),
    };
    Grade { verdict, answer, found }
}

fn grade_value(problem: &Problem, solution: &Solution) -> Grade {
    let gold = problem.answer.as_deref().unwrap_or_default();
    let mut found = gradus_grade::grade(gold, &solution.full_text());
    if found.answer.is_none()
        && let Some(answer) = &solution.answer
    {
        found.verdict = gradus_grade::compare(gold, answer);
        found.answer = Some(answer.clone());
    }
    let is_right = |answer: &String| problem.accepts(answer) == Some(true);
    if found.answer.as_ref().is_some_and(is_right) {
        found.verdict = Verdict::Equal;
    }
    found
}

fn print(printer: Printer, report: &GradeSummary, show: usize) -> Result<()> {
    let mut rows = vec![
        vec!["equal".to_owned(), grouped(report.equal), percent_of(report.equal, report.solutions)],
        vec![
            "different".to_owned(),
            grouped(report.different),
            percent_of(report.different, report.solutions),
        ],
    ];
    for (reason, count) in &report.undecided {
        rows.push(vec![
            format!("undecided: {reason}"),
            grouped(*count),
            percent_of(*count, report.solutions),
        ]);
    }
    printer.table(&["verdict", "solutions", "share"], &rows)?;
    if let Some(InWords { solutions, f1 }) = report.in_words {
        printer.line(format!(
            "F1 of answers in words: {:.1} % of {}",
            100.0 * f1,
            counted(solutions, "solution")
        ))?;
    }
    printer.skipped(report.skipped)?;
    if report.stated == 0 {
        return Ok(());
    }
    printer.line(format!(
        "\nagreement with recorded outcomes: {} of {} ({:.2} %)",
        grouped(report.agreed),
        grouped(report.stated),
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
    printer.table(&["solution", "gold", "extracted answer", "verdict", "recorded"], &rows)?;
    printer.more(report.disagreements.len(), show)?;
    Ok(())
}
