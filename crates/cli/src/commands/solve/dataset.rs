//! Solves the problems of datasets, several at a time, and counts how many answers are right where that is known.
//!
//! With `-o`, each outcome is appended to a journal at once, so that an interrupted run can be resumed.
//! Records of the same problem are merged; existing solutions are omitted.

use anyhow::{Result, bail};
use futures_util::stream::{self, StreamExt as _};
use gradus_backend::{Scorer, block_on};
use gradus_core::contracts::CallError;
use gradus_core::select::search::{SearchOutcome, SearchUsage, StopReason};
use gradus_core::{Metadata, Outcome, Problem, Record, Solution, id};
use gradus_data::files::{Sink, Target};
use gradus_durable::{Journal, journal_key};
use serde::Serialize;

use super::args::SolveArgs;
use super::parties::Parties;
use super::plan::{Plan, name_of, solve};
use super::show;
use crate::arguments::dataset::OnError;
use crate::exit::Status;
use crate::input::Need;
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;
use crate::{cost, input, job, journal};
use gradus_core::count::{counted, grouped};

/// Concurrent problems where no concurrency is set, so that batches and connections are full.
const AHEAD: usize = 4;

#[derive(Debug, Serialize)]
struct SolvedProblem {
    problem: String,
    answer: Option<String>,
    gold: Option<String>,
    /// Whether the answer is correct; none if it cannot be graded.
    right: Option<bool>,
    /// Complete solutions among those found.
    complete: usize,
    solutions: usize,
    stopped: StopReason,
    generated_tokens: u64,
}

#[derive(Debug, Default, Serialize)]
struct SolveSummary {
    strategy: &'static str,
    generator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scorer: Option<String>,
    problems: u64,
    /// Problems whose answer is known.
    known: u64,
    right: u64,
    wrong: u64,
    /// Of the known ones, those without an answer: they count as wrong.
    unanswered: u64,
    /// Of the known ones, those where the grader cannot say: they are no part of the accuracy.
    undecided: u64,
    accuracy: Option<f64>,
    /// Problems that the model refused.
    refused: u64,
    /// Invalid records.
    skipped: u64,
    /// Problems that an earlier run had already solved.
    resumed: u64,
    usage: SearchUsage,
    solved: Vec<SolvedProblem>,
}

pub(super) fn run(args: &SolveArgs, plan: &Plan) -> Result<Status> {
    job::registered_with_output("solve", args.output.as_deref(), || solve_all(args, plan))
}

fn solve_all(args: &SolveArgs, plan: &Plan) -> Result<Status> {
    let mut problems: Vec<Problem> = Vec::new();
    let tally = input::for_each_of(&args.dataset, Need::Records, |item| {
        problems.push(item.record.problem);
        Ok(())
    })?;
    input::distinct(&mut problems);
    let parties = Parties::open(args)?;
    let mut run = SolveRun {
        args,
        parties: &parties,
        journal: journal::beside(args.output.as_deref())?,
        sink: args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?,
        printer: Printer::new(args.output.as_deref()),
        report: SolveSummary {
            strategy: name_of(args.strategy),
            generator: parties.generator.name.clone(),
            scorer: parties.scorer.as_ref().map(Scorer::name),
            skipped: tally.skipped,
            ..SolveSummary::default()
        },
    };
    let keys: Vec<String> = problems.iter().map(|problem| key(args, plan, &parties, problem)).collect();
    let known: Vec<Option<SearchOutcome>> = keys.iter().map(|key| run.journal.find(key)).collect();
    let mut progress = Progress::new(problems.len() as u64, false);
    let ahead = args.generator.endpoints.concurrency.map_or(AHEAD, |_| parties.generator.concurrency);
    block_on(async {
        let searches = problems.iter().zip(keys).zip(known).map(|((problem, key), known)| {
            let parties = &parties;
            async move {
                let outcome = match known {
                    Some(outcome) => return (problem, None, Ok(outcome)),
                    None => solve(parties, plan, &problem.question()).await,
                };
                (problem, Some(key), outcome)
            }
        });
        let mut searches = stream::iter(searches).buffered(ahead);
        while let Some((problem, key, outcome)) = searches.next().await {
            run.take(problem, key, outcome)?;
            progress.now(run.report.problems, &format!("{} correct", run.report.right));
        }
        Ok::<_, anyhow::Error>(())
    })??;
    drop(progress);
    run.finish()
}

/// A hash of all that determines an outcome.
fn key(args: &SolveArgs, plan: &Plan, parties: &Parties, problem: &Problem) -> String {
    let asked = parties.generator.identity_with(Vec::new());
    journal_key(&(name_of(args.strategy), plan, parties.identity(), asked, problem.question()))
}

struct SolveRun<'a> {
    args: &'a SolveArgs,
    parties: &'a Parties,
    journal: Journal<SearchOutcome>,
    sink: Option<Sink>,
    printer: Printer,
    report: SolveSummary,
}

impl SolveRun<'_> {
    /// Keeps, counts, prints and writes one problem's outcome. Without a key it was known already.
    fn take(
        &mut self,
        problem: &Problem,
        key: Option<String>,
        outcome: Result<SearchOutcome, CallError>,
    ) -> Result<()> {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(CallError::Invalid(error)) if self.args.dataset.on_error == OnError::Skip => {
                self.report.refused += 1;
                printer::note(format!("not solved: {}: {error}", problem.id));
                return Ok(());
            }
            Err(CallError::Invalid(error)) => {
                bail!("{}: {error} (use --on-error skip to skip such problems)", problem.id)
            }
            Err(error) => return Err(error.into()),
        };
        if outcome.stopped == StopReason::Failed {
            // A partial outcome must not be kept: a rerun solves this problem again.
            bail!("{}: {}", problem.id, outcome.error.as_deref().unwrap_or("the generator failed"));
        }
        match key {
            Some(key) => self.journal.add(&key, &problem.id, &outcome)?,
            None => self.report.resumed += 1,
        }
        let right = outcome.answer().and_then(|answer| problem.accepts(answer));
        self.count(problem, &outcome, right);
        if (self.report.problems as usize) <= self.args.show && !self.args.print.json {
            self.show(problem, &outcome, right)?;
        }
        if let Some(sink) = &mut self.sink {
            sink.push(&self.parties.record(problem, &outcome, self.args))?;
        }
        Ok(())
    }

    fn count(&mut self, problem: &Problem, outcome: &SearchOutcome, right: Option<bool>) {
        let report = &mut self.report;
        report.problems += 1;
        if problem.answer.is_some() {
            report.known += 1;
            match (outcome.answer(), right) {
                (None, _) => report.unanswered += 1,
                (Some(_), Some(true)) => report.right += 1,
                (Some(_), Some(false)) => report.wrong += 1,
                (Some(_), None) => report.undecided += 1,
            }
        }
        add(&mut report.usage, &outcome.usage);
        report.solved.push(SolvedProblem {
            problem: problem.id.clone(),
            answer: outcome.answer().map(str::to_owned),
            gold: problem.answer.clone(),
            right,
            complete: outcome.solutions.iter().filter(|found| found.complete).count(),
            solutions: outcome.solutions.len(),
            stopped: outcome.stopped,
            generated_tokens: outcome.usage.generated_tokens,
        });
    }

    fn show(&self, problem: &Problem, outcome: &SearchOutcome, right: Option<bool>) -> Result<()> {
        let mark = match right {
            Some(true) => paint::green("✓"),
            Some(false) => paint::red("✗"),
            None => "·".to_owned(),
        };
        let answer = printer::excerpt(outcome.answer().unwrap_or("no answer"), 32);
        let gold = match (&problem.answer, right) {
            (Some(gold), Some(false) | None) => {
                paint::dim(&format!("  (gold: {})", printer::excerpt(gold, 24)))
            }
            _ => String::new(),
        };
        let text = printer::excerpt(&problem.text, 60);
        self.printer.line(format!("{mark} {}  {text}  {}{gold}", problem.id, paint::bold(&answer)))
    }

    fn finish(mut self) -> Result<Status> {
        if let Some(sink) = self.sink.take() {
            sink.finish()?;
        }
        self.journal.remove()?;
        self.parties.spending().for_each(cost::conclude);
        let report = &mut self.report;
        let decided = report.right + report.wrong + report.unanswered;
        report.accuracy = (decided > 0).then(|| report.right as f64 / decided as f64);
        if self.args.print.json {
            self.printer.json(&self.report)?;
            return Ok(Status::Done);
        }
        let report = &self.report;
        self.printer.more(report.problems as usize, self.args.show)?;
        let scorer = report.scorer.as_ref().map_or_else(String::new, |scorer| format!(" and {scorer}"));
        self.printer.line(format!(
            "\n{} by {} with {}{scorer}",
            counted(report.problems, "problem"),
            report.strategy,
            report.generator
        ))?;
        if let Some(accuracy) = report.accuracy {
            self.printer.line(format!(
                "accuracy {}: {} of {} with a known answer ({} unanswered)",
                paint::bold(&format!("{:.1} %", 100.0 * accuracy)),
                grouped(report.right),
                counted(decided, "problem"),
                grouped(report.unanswered),
            ))?;
        }
        self.printer.line(show::cost(&report.usage))?;
        self.printer.counts(&[
            (report.undecided, "answer", "ungraded, excluded from the accuracy"),
            (report.resumed, "problem", "resumed from an earlier run"),
            (report.refused, "problem", "refused by the model"),
            (report.skipped, "record", "skipped (invalid)"),
        ])?;
        Ok(Status::Done)
    }
}

impl Parties {
    /// The problem with its complete solutions, in the order in which they were found.
    fn record(&self, problem: &Problem, outcome: &SearchOutcome, args: &SolveArgs) -> Record {
        let complete = outcome.solutions.iter().enumerate().filter(|(_, found)| found.complete);
        let solutions = complete.map(|(index, found)| {
            let right = found.answer.as_deref().and_then(|answer| problem.accepts(answer));
            let scores = self.scorer.as_ref().filter(|_| !found.scores.is_empty());
            let mut metadata = Metadata::new();
            metadata.insert("strategy".to_owned(), name_of(args.strategy).into());
            metadata.insert("chosen".to_owned(), (outcome.chosen == Some(index)).into());
            let text = found.steps.join(&args.search.separator);
            let maker = format!("{}/{}", self.generator.name, name_of(args.strategy));
            Solution {
                id: id::sample(&problem.id, &maker, index, args.search.seed, &text),
                problem_id: problem.id.clone(),
                generator: Some(self.generator.name.clone()),
                steps: found.steps.clone(),
                text: Some(text),
                answer: found.answer.clone(),
                outcome: right.map_or(Outcome::Unknown, Outcome::from_correct),
                scores: scores.map(|scorer| (scorer.name(), found.scores.clone())).into_iter().collect(),
                metadata,
                ..Solution::default()
            }
        });
        Record::new(problem.clone(), solutions.collect())
    }
}

fn add(all: &mut SearchUsage, one: &SearchUsage) {
    all.generated_tokens += one.generated_tokens;
    all.scored_tokens += one.scored_tokens;
    all.generate_calls += one.generate_calls;
    all.score_calls += one.score_calls;
    all.failed_calls += one.failed_calls;
    all.proposals += one.proposals;
    all.duplicates += one.duplicates;
    all.empty += one.empty;
    all.cut += one.cut;
    all.undecided += one.undecided;
}
