//! `gradus score`: a score for every step of every solution, in few passes, resumable.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps as _, StepScores};
use gradus_core::{FirstError, Record, Solution};
use gradus_data::files::{Sink, Target};
use gradus_durable::Journal;
use gradus_retrieve::two_stage::{self, Seen, Settings};
use serde::Serialize;
use serde_json::Value;

use super::Status;
use crate::args::OnError;
use crate::args::engine::Score;
use crate::input;
use crate::journal::{self, key};
use crate::local::{self, Local, Purpose};
use crate::paint;
use crate::printer::{self, Printer};
use crate::references::{self, Library, Tally};

/// Solutions that are with the engine at once, so that it can fill its passes.
const AHEAD: usize = 64;
/// Solutions whose references are looked for at once.
const GATHERED: usize = 4096;
/// Where a solution's metadata say which references it saw, by the scores' name.
const RETRIEVAL: &str = "retrieval";

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
    /// With a pool: what was retrieved, and what the leak guard kept out.
    #[serde(skip_serializing_if = "Option::is_none")]
    retrieval: Option<Tally>,
}

/// A record whose solutions are being scored.
struct Waiting<'a> {
    record: Record,
    /// Positions of the solutions that were sent, and their answer.
    sent: Vec<usize>,
    /// Which references each solution sees, with a pool.
    seen: Vec<Seen>,
    answer: Answer<'a, Vec<Result<StepScores, CallError>>>,
}

pub(super) fn run(args: &Score) -> Result<Status> {
    let settings = args.augmentation.retrieval.settings();
    let named = references::profile(args.profile.as_deref(), &args.augmentation);
    let model = args.model.as_deref().unwrap_or_else(|| local::default_scorer(named, &args.options));
    let chosen = local::choose(model, &args.options, named)?;
    if args.augmentation.pool.is_some() {
        references::check_profile(named.unwrap_or_default(), &settings)?;
    }
    let library = Library::of(&args.augmentation, &args.options)?;
    let purpose = Purpose { score: Some(chosen.profile), unpacked: args.no_tree_packing };
    let local = local::start(chosen.model, &chosen.options, &purpose)?;
    let profile = local.profile.clone().unwrap_or_default();
    let retrieval = library.as_ref().map(|_| Tally::default());
    let mut job = Job {
        name: args.name.clone().unwrap_or_else(|| local::title(model, &profile)),
        args,
        local: &local,
        library,
        settings,
        gathered: Vec::new(),
        journal: journal::beside(args.output.as_deref())?,
        sink: args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?,
        printer: Printer::new(args.output.as_deref()),
        waiting: VecDeque::new(),
        report: Report {
            model: model.to_owned(),
            profile,
            threshold: args.threshold,
            retrieval,
            ..Report::default()
        },
    };
    let tally = input::for_each(&args.input, |item| job.take(item.record))?;
    job.report.skipped = tally.skipped;
    job.finish()
}

struct Job<'a> {
    args: &'a Score,
    local: &'a Local,
    library: Option<Library>,
    settings: Settings,
    /// Records whose references are looked for together.
    gathered: Vec<Record>,
    name: String,
    journal: Journal<Vec<f64>>,
    sink: Option<Sink>,
    printer: Printer,
    waiting: VecDeque<Waiting<'a>>,
    report: Report,
}

impl<'a> Job<'a> {
    /// Takes a record in: at once, or with others whose references are looked for in one pass.
    fn take(&mut self, record: Record) -> Result<()> {
        if self.library.is_none() {
            return self.send(record, Vec::new());
        }
        self.gathered.push(record);
        let solutions: usize = self.gathered.iter().map(|record| record.solutions.len()).sum();
        if solutions >= GATHERED { self.retrieve() } else { Ok(()) }
    }

    /// Looks for the references of all that was gathered, and sends it off.
    fn retrieve(&mut self) -> Result<()> {
        let (Some(library), Some(tally)) = (&self.library, &mut self.report.retrieval) else { return Ok(()) };
        let mut records = std::mem::take(&mut self.gathered);
        let targets: Vec<two_stage::Target> = records
            .iter()
            .flat_map(|record| record.solutions.iter().map(|solution| (&record.problem, solution)))
            .map(|(problem, solution)| two_stage::Target::from(&ScoreRequest::of(problem, solution)))
            .collect();
        let found = library.retrieve(&targets, &self.settings)?;
        tally.add(&found);
        let mut found = found.targets.into_iter();
        for mut record in records.drain(..) {
            let mut seen = Vec::new();
            for (solution, found) in record.solutions.iter_mut().zip(&mut found) {
                solution.references = Some(Box::new(found.references));
                seen.push(found.seen);
            }
            self.send(record, seen)?;
        }
        Ok(())
    }

    /// Sends a record's solutions off, and takes in the oldest answers when enough are on their way.
    fn send(&mut self, mut record: Record, seen: Vec<Seen>) -> Result<()> {
        let mut requests = Vec::new();
        let mut sent = Vec::new();
        for (position, solution) in record.solutions.iter_mut().enumerate() {
            let request = ScoreRequest::of(&record.problem, solution);
            if let Some(scores) = self.journal.find(&key(&self.local.identity, &request)) {
                self.report.resumed += 1;
                solution.scores.insert(self.name.clone(), scores);
            } else {
                requests.push(request);
                sent.push(position);
            }
        }
        let local: &'a Local = self.local;
        let answer = local.engine.score_steps(requests);
        self.waiting.push_back(Waiting { record, sent, seen, answer });
        while self.waiting.iter().map(|waiting| waiting.sent.len().max(1)).sum::<usize>() > AHEAD {
            self.settle()?;
        }
        Ok(())
    }

    /// Takes in the answer of the oldest record, writes and prints it.
    fn settle(&mut self) -> Result<()> {
        let Some(Waiting { mut record, sent, seen, answer }) = self.waiting.pop_front() else {
            return Ok(());
        };
        let scores = local::wait(answer)??;
        for (position, outcome) in sent.into_iter().zip(scores) {
            let solution = &mut record.solutions[position];
            match outcome {
                Ok(scored) => {
                    let key = key(&self.local.identity, &ScoreRequest::of(&record.problem, solution));
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
        for (solution, seen) in record.solutions.iter_mut().zip(seen) {
            // Their names are kept, their texts are in the pool.
            solution.references = None;
            note_references(solution, &self.name, &seen)?;
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
        let seen = solution.metadata.get(RETRIEVAL).and_then(|noted| noted.get(&self.name));
        let seen: Option<Seen> = seen.and_then(|seen| serde_json::from_value(seen.clone()).ok());
        for from in seen.iter().flat_map(|seen| &seen.questions) {
            let line = format!("  reference  {:.2}  {}", from.similarity, from.solution);
            self.printer.line(paint::dim(&line))?;
        }
        for (index, (step, score)) in solution.steps.iter().zip(scores).enumerate() {
            let mut line = format!("  {}  {index:>2}  {}", paint::score(*score), printer::excerpt(step, 96));
            if suspected == Some(index) {
                line += &paint::red("  ◄ first suspected error");
            }
            if labelled == Some(FirstError::At(index)) {
                line += &paint::dim("  (labelled as the first error)");
            }
            if let Some(from) = seen.as_ref().and_then(|seen| seen.steps.get(index)?.first()) {
                line += &paint::dim(&format!("  (nearest step {:.2})", from.similarity));
            }
            self.printer.line(line)?;
        }
        if suspected.is_none() {
            self.printer.line(paint::green("  no step under the threshold"))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Status> {
        self.retrieve()?;
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
        for line in report.retrieval.iter().flat_map(Tally::lines) {
            self.printer.line(line)?;
        }
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

/// Writes among a solution's metadata which references it saw for these scores.
fn note_references(solution: &mut Solution, name: &str, seen: &Seen) -> Result<()> {
    let noted = solution.metadata.entry(RETRIEVAL).or_insert_with(|| Value::Object(Default::default()));
    if let Value::Object(noted) = noted {
        noted.insert(name.to_owned(), serde_json::to_value(seen)?);
    }
    Ok(())
}
