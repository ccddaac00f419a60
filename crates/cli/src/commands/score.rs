//! `gradus score`: a score for every step of every solution, in few passes, resumable.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps as _, StepScores};
use gradus_core::data::files::{Journal, Sink, Target};
use gradus_core::data::{FirstError, Record, Solution};
use serde::Serialize;

use super::Status;
use crate::args::OnError;
use crate::args::engine::Score;
use crate::input;
use crate::journal::{self, key};
use crate::local::{self, Local, Purpose};
use crate::paint;
use crate::printer::{self, Printer};

/// Solutions that are with the engine at once, so that it can fill its passes.
const AHEAD: usize = 64;

#[derive(Debug, Default, Serialize)]
struct Report {
    model: String,
    profile: String,
    solutions: u64,
    steps: u64,
    /// Solutions with a step under the threshold.
    suspected: u64,
    threshold: f64,
    /// Solutions the model could not take: no steps, too long.
    refused: u64,
    /// Records that could not be read.
    skipped: u64,
    /// Solutions whose scores an earlier run had already found.
    resumed: u64,
    /// Tokens that went through the model.
    tokens: u64,
    seconds: f64,
    tokens_per_second: f64,
}

/// A record whose solutions are being scored.
struct Waiting<'a> {
    record: Record,
    /// Positions of the solutions that were sent, and their answer.
    sent: Vec<usize>,
    answer: Answer<'a, Vec<Result<StepScores, CallError>>>,
}

pub(super) fn run(args: &Score) -> Result<Status> {
    let purpose = Purpose { score: Some(args.profile.as_deref()), unpacked: args.no_tree_packing };
    let local = local::start(&args.model, &args.options, &purpose)?;
    let profile = local.profile.clone().unwrap_or_default();
    let mut job = Job {
        name: args.name.clone().unwrap_or_else(|| format!("{}/{profile}", args.model)),
        args,
        local: &local,
        journal: journal::beside(args.output.as_deref())?,
        sink: args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?,
        printer: Printer::new(args.output.as_deref()),
        waiting: VecDeque::new(),
        report: Report { model: args.model.clone(), profile, threshold: args.threshold, ..Report::default() },
    };
    let tally = input::for_each(&args.input, |item| job.take(item.record))?;
    job.report.skipped = tally.skipped;
    job.finish()
}

struct Job<'a> {
    args: &'a Score,
    local: &'a Local,
    name: String,
    journal: Journal<Vec<f64>>,
    sink: Option<Sink>,
    printer: Printer,
    waiting: VecDeque<Waiting<'a>>,
    report: Report,
}

impl<'a> Job<'a> {
    /// Sends a record's solutions off, and takes in the oldest answers when enough are on their way.
    fn take(&mut self, mut record: Record) -> Result<()> {
        let mut requests = Vec::new();
        let mut sent = Vec::new();
        for (position, solution) in record.solutions.iter_mut().enumerate() {
            let request = request(&record.problem.question(), solution);
            if let Some(scores) = self.journal.find(&key(&self.name, &request)) {
                self.report.resumed += 1;
                solution.scores.insert(self.name.clone(), scores);
            } else {
                requests.push(request);
                sent.push(position);
            }
        }
        let local: &'a Local = self.local;
        let answer = local.engine.score_steps(requests);
        self.waiting.push_back(Waiting { record, sent, answer });
        while self.waiting.iter().map(|waiting| waiting.sent.len().max(1)).sum::<usize>() > AHEAD {
            self.settle()?;
        }
        Ok(())
    }

    /// Takes in the answer of the oldest record, writes and prints it.
    fn settle(&mut self) -> Result<()> {
        let Some(Waiting { mut record, sent, answer }) = self.waiting.pop_front() else { return Ok(()) };
        let scores = local::wait(answer)??;
        for (position, outcome) in sent.into_iter().zip(scores) {
            let solution = &mut record.solutions[position];
            match outcome {
                Ok(scored) => {
                    let key = key(&self.name, &request(&record.problem.question(), solution));
                    self.journal.add(&key, &solution.id, &scored.scores)?;
                    solution.scores.insert(self.name.clone(), scored.scores);
                }
                Err(error) if self.args.input.on_error == OnError::Skip => {
                    self.report.refused += 1;
                    printer::note(format!("not scored: {error}"));
                }
                Err(error) => bail!("{error} (--on-error skip leaves such solutions without scores)"),
            }
        }
        for solution in &record.solutions {
            self.count(solution, &record)?;
        }
        self.sink.as_mut().map_or(Ok(()), |sink| sink.push(&record))?;
        Ok(())
    }

    fn count(&mut self, solution: &Solution, record: &Record) -> Result<()> {
        let Some(scores) = solution.scores.get(&self.name) else { return Ok(()) };
        let suspected = scores.iter().position(|score| *score < self.args.threshold);
        if (self.report.solutions as usize) < self.args.show && !self.args.print.json {
            self.show(solution, record, scores, suspected)?;
        }
        self.report.solutions += 1;
        self.report.steps += scores.len() as u64;
        self.report.suspected += u64::from(suspected.is_some());
        Ok(())
    }

    /// Prints a solution step by step, the first suspected error marked.
    fn show(
        &self,
        solution: &Solution,
        record: &Record,
        scores: &[f64],
        suspected: Option<usize>,
    ) -> Result<()> {
        let mut labelled = solution.annotations.iter().map(|annotation| annotation.first_error);
        let labelled = labelled.find(|first| *first != FirstError::Unknown);
        let title = format!("{}  {}", solution.id, printer::excerpt(&record.problem.text, 90));
        self.printer.line(format!("\n{}", paint::bold(&title)))?;
        for (index, (step, score)) in solution.steps.iter().zip(scores).enumerate() {
            let mut line = format!("  {}  {index:>2}  {}", paint::score(*score), printer::excerpt(step, 96));
            if suspected == Some(index) {
                line += &paint::red("  ◄ first suspected error");
            }
            if labelled == Some(FirstError::At(index)) {
                line += &paint::dim("  (labelled as the first error)");
            }
            self.printer.line(line)?;
        }
        if suspected.is_none() {
            self.printer.line(paint::green("  no step under the threshold"))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Status> {
        while !self.waiting.is_empty() {
            self.settle()?;
        }
        if let Some(sink) = self.sink.take() {
            sink.finish()?;
        }
        self.journal.remove()?;
        let metrics = self.local.engine.metrics();
        self.report.tokens = metrics.prompt_tokens;
        self.report.seconds = metrics.busy_seconds;
        self.report.tokens_per_second = metrics.tokens_per_second;
        if self.args.print.json {
            self.printer.json(&self.report)?;
            return Ok(Status::Done);
        }
        let report = &self.report;
        self.printer.line(format!(
            "\n{} scored ({}), {} with a step under {}",
            printer::counted(report.solutions, "solution"),
            printer::counted(report.steps, "step"),
            printer::count(report.suspected),
            report.threshold,
        ))?;
        self.printer.line(format!(
            "{} in {:.1} s: {:.0} tokens/s with {} as {}",
            printer::counted(report.tokens, "token"),
            report.seconds,
            report.tokens_per_second,
            report.model,
            report.profile
        ))?;
        if report.resumed > 0 {
            self.printer
                .line(format!("{} from an earlier run", printer::counted(report.resumed, "solution")))?;
        }
        if report.refused + report.skipped > 0 {
            let skipped = printer::counted(report.skipped, "record");
            self.printer.line(format!("{} refused, {skipped} skipped", report.refused))?;
        }
        Ok(Status::Done)
    }
}

fn request(problem: &str, solution: &Solution) -> ScoreRequest {
    ScoreRequest {
        id: solution.id.clone(),
        problem: problem.to_owned(),
        steps: solution.steps.clone(),
        ..ScoreRequest::default()
    }
}
