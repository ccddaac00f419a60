//! `gradus select`: one solution per problem, by step scores, votes or both, and the accuracy of the selection.
//!
//! A solution without an answer of its own has the one that its text states; one without an outcome is graded against
//! the problem's answer. What stays unknown counts as wrong wherever another outcome of the same problem is known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use gradus_core::select::Aggregation;
use gradus_core::select::best_of_n::chance;
use gradus_core::select::vote::{self, Power};
use gradus_core::{Outcome, Record};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::values::at_least_one;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

/// Selection methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// Best-of-N: the solution with the highest score
    Best,
    /// Weighted vote: the answer with the highest total score
    Vote,
    /// Majority vote: the most frequent answer; needs no scores
    Majority,
    /// All three side by side
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus select scored.jsonl\n  \
gradus select scored.jsonl --by vote --aggregation min --vote-power 4 -n 8 -o chosen.jsonl\n  \
gradus select candidates.jsonl.gz --scores my-prm --by all --show 0\n\n\
Records of the same problem are joined; a text that was sampled several times counts as often. Answers are compared with the grader; ties go to the earliest solution.")]
pub(super) struct SelectArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Selection method
    #[arg(long, value_enum, default_value = "best")]
    by: By,
    /// Name of the step scores (default: the only ones in the data)
    #[arg(long, value_name = "NAME")]
    scores: Option<String>,
    /// Step score aggregation: last, min, product, mean or norm_product (geometric mean)
    #[arg(long, default_value = "last")]
    aggregation: Aggregation,
    /// Exponent of scores in the weighted vote; above 1 favors the best solution, below 1 the majority (default: 1)
    #[arg(long, value_name = "POWER")]
    vote_power: Option<Power>,
    /// Use only the first N solutions of each problem
    #[arg(short = 'n', long = "first", value_name = "N", value_parser = at_least_one)]
    first: Option<usize>,
    /// Output file with the selected solutions (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum problems to print; --json prints all
    #[arg(long, default_value_t = 20)]
    show: usize,
    #[command(flatten)]
    print: JsonOption,
}

/// The solution of a problem selected by one method.
#[derive(Debug, Clone, Serialize)]
struct Choice {
    solution: String,
    answer: Option<String>,
    /// The solution's aggregate.
    score: Option<f64>,
    /// Solutions that give an equivalent answer.
    votes: usize,
    /// The sum of their aggregates, raised to the vote's power.
    weight: Option<f64>,
    /// Whether it is right, where that is known.
    right: Option<bool>,
    #[serde(skip)]
    index: usize,
}

/// One problem.
#[derive(Debug, Serialize)]
struct Row {
    problem: String,
    gold: Option<String>,
    candidates: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vote: Option<Choice>,
    majority: Choice,
    /// Whether any candidate is right, and the share of those that are; none where nothing is known.
    pass: Option<bool>,
    chance: Option<f64>,
}

/// Right choices among the problems whose outcomes are known.
#[derive(Debug, Default, Serialize)]
struct Accuracy {
    right: f64,
    accuracy: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
struct SelectSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregation: Option<Aggregation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vote_power: Option<Power>,
    /// Candidates of the problem that has most.
    n: usize,
    problems: u64,
    candidates: u64,
    /// Problems with fewer than `n` candidates.
    fewer: u64,
    /// Problems of which some outcome is known: accuracies are shares of these.
    known: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Accuracy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vote: Option<Accuracy>,
    majority: Accuracy,
    pass: Accuracy,
    chance: Accuracy,
    /// Candidates without scores of this name.
    unscored: u64,
    /// Candidates without an answer, not even in their text.
    unanswered: u64,
    /// Answers that were found in the text.
    extracted: u64,
    /// Outcomes that the grader found.
    graded: u64,
    /// Candidates with unknown outcome.
    unknown_outcomes: u64,
    /// Problems without a solution: nothing to choose from.
    empty: u64,
    /// Solutions that were in several files.
    united: u64,
    /// Invalid records.
    skipped: u64,
    choices: Vec<Row>,
}

pub(super) fn run(args: &SelectArgs) -> Result<Status> {
    if args.by == By::All && args.output.is_some() {
        bail!(Usage("-o needs one selection method: use --by best, vote or majority".to_owned()));
    }
    let (mut records, tally) = input::joined(&args.input, Need::Solutions)?;
    let mut report =
        SelectSummary { united: tally.united, skipped: tally.skipped, ..SelectSummary::default() };
    let all = records.len();
    records.retain(|record| !record.solutions.is_empty());
    report.empty = (all - records.len()) as u64;
    if records.is_empty() {
        bail!("the input contains no solutions");
    }
    for record in &mut records {
        record.solutions.truncate(args.first.unwrap_or(usize::MAX));
    }
    report.scores = scores_name(args, &records)?;
    report.aggregation = report.scores.is_some().then_some(args.aggregation);
    report.vote_power = args.vote_power;
    if args.vote_power.is_some() && report.scores.is_none() {
        bail!(Usage("--vote-power needs scores: omit it or set --scores".to_owned()));
    }
    report.n = records.iter().map(|record| record.solutions.len()).max().unwrap_or_default();

    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    for mut record in records {
        let row = choose(&mut record, args, &mut report);
        if let Some(sink) = &mut sink {
            let chosen = match args.by {
                By::Best => row.best.as_ref(),
                By::Vote => row.vote.as_ref(),
                By::Majority | By::All => Some(&row.majority),
            };
            let chosen = chosen.map(|chosen| record.solutions.swap_remove(chosen.index));
            sink.push(&Record::new(record.problem, chosen.into_iter().collect()))?;
        }
        report.choices.push(row);
    }
    if let Some(sink) = sink {
        sink.finish()?;
    }
    count_right(&mut report);
    Printer::new(args.output.as_deref())
        .summary(args.print.json, &report, |printer, report| print(printer, args, report))?;
    Ok(Status::Done)
}

/// The scores to choose by: those that were named, or the only ones there are. A majority needs none.
fn scores_name(args: &SelectArgs, records: &[Record]) -> Result<Option<String>> {
    let solutions = records.iter().flat_map(|record| &record.solutions);
    let names: BTreeSet<&str> =
        solutions.flat_map(|solution| solution.scores.keys()).map(String::as_str).collect();
    let listed = names.iter().copied().collect::<Vec<_>>().join(", ");
    match (&args.scores, names.len()) {
        (None, 1) => Ok(Some(listed)),
        (None, _) if args.by == By::Majority => Ok(None),
        (_, 0) => bail!(
            "the solutions have no step scores: run `gradus score FILE -o scored.jsonl` first, or use --by majority"
        ),
        (None, _) => {
            bail!(Usage(format!(
                "the solutions have scores of several names: set --scores to one of {listed}"
            )))
        }
        (Some(name), _) if names.contains(name.as_str()) => Ok(Some(name.clone())),
        (Some(name), _) => {
            bail!(Usage(format!("no solution has scores named `{name}`: the data has {listed}")))
        }
    }
}

/// Chooses in every way that the data allows. Answers and outcomes that are found on the way are kept in the record.
fn choose(record: &mut Record, args: &SelectArgs, report: &mut SelectSummary) -> Row {
    let Record { problem, solutions, .. } = record;
    for solution in solutions.iter_mut() {
        let found = problem.final_answer_of(solution);
        report.extracted += u64::from(found.extracted);
        report.unanswered += u64::from(found.answer.is_none());
        report.graded += u64::from(found.graded);
        report.unknown_outcomes += u64::from(found.outcome == Outcome::Unknown);
        (solution.answer, solution.outcome) = (found.answer, found.outcome);
    }
    let answers: Vec<Option<&str>> = solutions.iter().map(|solution| solution.answer.as_deref()).collect();
    let groups = vote::groups(&answers);
    let scores: Vec<Option<f64>> = solutions
        .iter()
        .map(|solution| args.aggregation.of(solution.scores.get(report.scores.as_ref()?)?))
        .collect();
    let (scored, power) = (report.scores.is_some(), args.vote_power.unwrap_or_default());
    report.problems += 1;
    report.candidates += solutions.len() as u64;
    report.fewer += u64::from(solutions.len() < report.n);
    report.unscored += if scored { scores.iter().filter(|score| score.is_none()).count() as u64 } else { 0 };

    let known = solutions.iter().any(|solution| solution.outcome != Outcome::Unknown);
    let correct: Vec<bool> = solutions.iter().map(|solution| solution.outcome == Outcome::Correct).collect();
    let choice = |index: usize| {
        let members =
            || (0..groups.len()).filter(|other| groups[index].is_some() && groups[*other] == groups[index]);
        Choice {
            solution: solutions[index].id.clone(),
            answer: solutions[index].answer.clone(),
            score: scores[index],
            votes: members().count(),
            weight: scored
                .then(|| members().filter_map(|member| scores[member]).map(|score| power.of(score)).sum()),
            right: solutions[index].outcome.is_correct(),
            index,
        }
    };
    let winner =
        |group: Option<usize>| choice(vote::representative(&groups, &scores, group).unwrap_or_default());
    Row {
        problem: problem.id.clone(),
        gold: problem.answer.clone(),
        candidates: solutions.len(),
        best: scored.then(|| winner(None)),
        vote: scored.then(|| winner(vote::weighted(&groups, &scores, power))),
        majority: winner(vote::majority(&groups)),
        pass: known.then(|| correct.contains(&true)),
        chance: if known { chance(&correct, correct.len()) } else { None },
    }
}

fn count_right(report: &mut SelectSummary) {
    let rows = &report.choices;
    let known = rows.iter().filter(|row| row.pass.is_some()).count();
    let of = |right: f64| Accuracy { right, accuracy: (known > 0).then(|| right / known as f64) };
    let chosen = |choice: &dyn Fn(&Row) -> Option<bool>| {
        of(rows.iter().filter(|row| choice(row) == Some(true)).count() as f64)
    };
    let scored = report.scores.is_some();
    let best = scored.then(|| chosen(&|row| row.best.as_ref()?.right));
    let vote = scored.then(|| chosen(&|row| row.vote.as_ref()?.right));
    let majority = chosen(&|row| row.majority.right);
    let pass = chosen(&|row| row.pass);
    let chance = of(rows.iter().filter_map(|row| row.chance).sum());
    (report.best, report.vote, report.majority, report.pass, report.chance) =
        (best, vote, majority, pass, chance);
    report.known = known as u64;
}

fn print(printer: Printer, args: &SelectArgs, report: &SelectSummary) -> Result<()> {
    let shown = &report.choices[..args.show.min(report.choices.len())];
    if !shown.is_empty() {
        let (heading, rows) = table(args.by, shown, report.scores.is_some());
        printer.table(&heading, &rows)?;
        printer.more(report.choices.len(), shown.len())?;
        printer.line("")?;
    }
    let mut scores = match (&report.scores, report.aggregation) {
        (Some(name), Some(aggregation)) => format!(", scores `{name}`, aggregation {aggregation}"),
        _ => String::new(),
    };
    if let Some(power) = report.vote_power {
        scores += &format!(", vote power {power}");
    }
    printer.line(paint::bold(&format!(
        "{} with {}{scores}",
        counted(report.problems, "problem"),
        counted(report.candidates, "solution"),
    )))?;
    if report.known > 0 {
        accuracies(printer, report)?;
    } else {
        printer.line("accuracy unknown: no outcome is known")?;
    }
    let n = report.n;
    printer.counts(&[
        (report.fewer, "problem", &format!("with fewer than {}", counted(n, "solution"))),
        (report.empty, "problem", "without solutions, omitted"),
        (report.unscored, "solution", "without scores: ranked last, no weight in votes"),
        (report.extracted, "answer", "extracted from the text"),
        (report.unanswered, "solution", "without an answer: no vote"),
        (report.graded, "outcome", "graded"),
        (report.unknown_outcomes, "outcome", "unknown: counted as wrong beside known ones"),
        (report.united, "solution", "in several files, united"),
        (report.skipped, "record", "skipped (invalid)"),
    ])?;
    if let Some(output) = args.output.as_deref().filter(|output| *output != Path::new("-")) {
        printer.line(format!("selected solutions {}", printer::written_to(output)))?;
    }
    Ok(())
}

fn accuracies(printer: Printer, report: &SelectSummary) -> Result<()> {
    let pass = format!("pass@{}", report.n);
    let row = |name: &str, accuracy: &Accuracy| {
        let right = accuracy.right;
        let right = if right.fract() == 0.0 { format!("{right:.0}") } else { format!("{right:.1}") };
        let share = accuracy.accuracy.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share));
        vec![name.to_owned(), right, share]
    };
    let mut rows = Vec::new();
    rows.extend(report.best.as_ref().map(|best| row("best", best)));
    rows.extend(report.vote.as_ref().map(|vote| row("vote", vote)));
    rows.push(row("majority", &report.majority));
    rows.push(row(&pass, &report.pass));
    rows.push(row("chance", &report.chance));
    printer.table(&["choice", &format!("correct of {}", grouped(report.known)), "accuracy"], &rows)
}

/// The first problems, as one strategy sees them or as all do.
fn table(by: By, rows: &[Row], scored: bool) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let id = |row: &Row| printer::excerpt(&row.problem, 28);
    let answer = |choice: &Choice, width| printer::excerpt(choice.answer.as_deref().unwrap_or("none"), width);
    let right = |choice: &Choice| match choice.right {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "unknown".to_owned(),
    };
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let votes = |row: &Row, choice: &Choice| format!("{}/{}", choice.votes, row.candidates);
    let one = |row: &Row, choice: &Choice, score: Option<f64>| {
        let mut cells = vec![id(row), answer(choice, 32)];
        cells.extend(scored.then(|| number(score)));
        cells.extend([votes(row, choice), right(choice)]);
        cells
    };
    match by {
        By::All => {
            let cell = |choice: Option<&Choice>| {
                let mark = |choice: &Choice| match choice.right {
                    Some(true) => paint::green(" ✓"),
                    Some(false) => paint::red(" ✗"),
                    None => String::new(),
                };
                choice.map_or_else(String::new, |choice| answer(choice, 20) + &mark(choice))
            };
            let cells = |row: &Row| {
                vec![id(row), cell(row.best.as_ref()), cell(row.vote.as_ref()), cell(Some(&row.majority))]
            };
            (vec!["problem", "best", "vote", "majority"], rows.iter().map(cells).collect())
        }
        By::Best => {
            let best = rows.iter().filter_map(|row| row.best.as_ref().map(|best| one(row, best, best.score)));
            (vec!["problem", "answer", "score", "votes", "correct"], best.collect())
        }
        By::Vote => {
            let vote =
                rows.iter().filter_map(|row| row.vote.as_ref().map(|vote| one(row, vote, vote.weight)));
            (vec!["problem", "answer", "weight", "votes", "correct"], vote.collect())
        }
        By::Majority => {
            let mut heading = vec!["problem", "answer", "votes", "correct"];
            if scored {
                heading.insert(2, "weight");
            }
            let majority = rows.iter().map(|row| one(row, &row.majority, row.majority.weight));
            (heading, majority.collect())
        }
    }
}
