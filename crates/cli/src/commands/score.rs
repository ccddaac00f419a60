//! `gradus score`: a score for every step of every solution, in few passes; an interrupted run resumes from `OUT.journal`.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::path::PathBuf;
use std::task::Poll;

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::exact;
use gradus_backend::{Augmentation, Library, Scorer, ScorerSettings, block_on, check_profile, with_profile};
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps as _, StepScores};
use gradus_core::select::{Decision, DecisionRule, Posterior};
use gradus_core::{FirstError, Record, Solution};
use gradus_data::files::{Sink, Target};
use gradus_durable::Journal;
use gradus_engine::models::SHIPPED;
use gradus_grade::checks::{Proof, examine};
use gradus_retrieve::two_stage::{self, Seen, Settings};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::JsonOption;
use crate::arguments::dataset::{DatasetInput, OnError};
use crate::arguments::decision::DecisionOptions;
use crate::exit::Status;
use crate::input::Need;
use crate::references::{self, RetrievalTally};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer, excerpt};
use crate::terminal::progress::{self, Progress};
use crate::{cost, input, job, journal};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus score solutions.jsonl\n  gradus score data.jsonl --model ./Qwen2.5-Math-PRM-7B -o scored.jsonl --json\n  gradus score data.jsonl --model ./my-retrieval-prm --pool math.pool -o scored.jsonl\n  gradus score data.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-Math-PRM-7B -o scored.jsonl"
)]
pub(super) struct ScoreArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file with the scored dataset (Gradus format); rerun to resume
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name of the scores in the dataset (default: model and profile)
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    decision: DecisionOptions,
    /// Maximum solutions to print
    #[arg(long, default_value_t = 5)]
    show: usize,
    /// Disable prefix sharing between the prompts of a solution (slower, same scores)
    #[arg(long, conflicts_with = "endpoint")]
    no_tree_packing: bool,
    #[command(flatten)]
    augmentation: Augmentation,
    #[command(flatten)]
    scorer: ScorerSettings,
    #[command(flatten)]
    print: JsonOption,
}

/// Consecutive solutions without an answer after which a run stops, also with `--on-error skip`.
const PATIENCE: usize = 8;
/// Solutions per retrieval pass.
const GATHERED: usize = 4096;
/// How far the model that ships with the program can be trusted, as its card has it.
const TRUST: &str = "gradus-prm is small: its average F1 on half of ProcessBench is 37.0, that of the length of steps 29.4, \
a 7B PRM's on the whole 73.5. To decide, use a larger one: --model Qwen/Qwen2.5-Math-PRM-7B";
/// Metadata key of a solution's references, by the name of the scores.
const RETRIEVAL: &str = "retrieval";

#[derive(Debug, Default, Serialize)]
struct ScoreSummary {
    model: String,
    profile: String,
    solutions: u64,
    steps: u64,
    /// Solutions with a suspected error.
    suspected: u64,
    /// Solutions with arithmetic that is proved wrong.
    proved: u64,
    /// Whether a proof decides the first error: by the profile.
    exact_checks: bool,
    /// The rule by which scores become a first error.
    decision: DecisionRule,
    /// The threshold, of a rule that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// Solutions the model could not take: no steps, too long.
    refused: u64,
    /// Invalid records.
    skipped: u64,
    /// Solutions whose scores an earlier run had already found.
    resumed: u64,
    /// Solutions with the text of another one of their problem: scored once.
    repeated: u64,
    /// Tokens that went through the model.
    tokens: u64,
    seconds: f64,
    tokens_per_second: f64,
    /// With --json: the scores of every solution.
    results: Vec<SolutionScores>,
    /// With a pool: what was retrieved, and what the leak guard kept out.
    #[serde(skip_serializing_if = "Option::is_none")]
    retrieval: Option<RetrievalTally>,
}

type Scored = Result<StepScores, CallError>;

#[derive(Debug, Serialize)]
struct SolutionScores {
    problem: String,
    solution: String,
    /// One per step.
    scores: Vec<f64>,
    /// The first error by the rule, from 0.
    first_suspected: Option<usize>,
    /// How probable it is that the first error is in each step, and that there is none.
    posterior: Posterior,
    /// Arithmetic in the steps that is proved wrong.
    proofs: Vec<Proof>,
}

/// A record whose solutions are being scored.
struct Sent {
    record: Record,
    /// Positions of the solutions that were sent, and what came back.
    outcomes: Vec<(usize, Option<Scored>)>,
    /// Positions of solutions that ask the same as one that was sent, and of that one.
    repeats: Vec<(usize, usize)>,
    /// Which references each solution sees, with a pool.
    seen: Vec<Seen>,
}

/// Solutions that were sent together, and their answer.
struct Call<'a> {
    /// The record's number and the solution's place in its outcomes.
    asked: Vec<(usize, usize)>,
    answer: Answer<'a, Vec<Scored>>,
}

pub(super) fn run(args: &ScoreArgs) -> Result<Status> {
    job::registered_with_output("score", args.output.as_deref(), || score(args))
}

fn score(args: &ScoreArgs) -> Result<Status> {
    args.decision.check()?;
    let settings = args.augmentation.retrieval.settings();
    let named = with_profile(&args.scorer, &args.augmentation)?;
    if let (Some(_), Some(profile)) = (&args.augmentation.pool, &named.profile) {
        check_profile(profile, &settings)?;
    }
    let library = Library::of(&args.augmentation, &args.scorer.local)?;
    let scorer = Scorer::open(&ScorerSettings { no_tree_packing: args.no_tree_packing, ..named })?;
    cost::announce(&scorer.spending);
    let retrieval = library.as_ref().map(|_| RetrievalTally::default());
    let decision = args.decision.over(scorer.decision)?;
    let mut run = ScoreRun {
        name: args.name.clone().unwrap_or_else(|| scorer.name()),
        args,
        scorer: &scorer,
        library,
        settings,
        gathered: Vec::new(),
        journal: journal::beside(args.output.as_deref())?,
        sink: args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?,
        printer: Printer::new(args.output.as_deref()),
        records: VecDeque::new(),
        finished: 0,
        requests: Vec::new(),
        asked: Vec::new(),
        calls: Vec::new(),
        failures: 0,
        scorer_failed: false,
        report: ScoreSummary {
            model: scorer.model.clone(),
            profile: scorer.profile.clone().unwrap_or_default(),
            decision,
            threshold: decision.threshold(),
            exact_checks: scorer.exact_checks,
            retrieval,
            ..ScoreSummary::default()
        },
    };
    let scored = run.score_all();
    if scored.is_err() {
        run.keep();
    }
    scored?;
    run.finish()
}

struct ScoreRun<'a> {
    args: &'a ScoreArgs,
    scorer: &'a Scorer,
    library: Option<Library>,
    settings: Settings,
    /// Records that wait for a retrieval pass.
    gathered: Vec<Record>,
    name: String,
    journal: Journal<Vec<f64>>,
    sink: Option<Sink>,
    printer: Printer,
    /// Records that are not written yet, the oldest first.
    records: VecDeque<Sent>,
    /// Records that are.
    finished: usize,
    /// The next call, and where its answers belong.
    requests: Vec<ScoreRequest>,
    asked: Vec<(usize, usize)>,
    /// Calls under way.
    calls: Vec<Call<'a>>,
    /// Solutions without an answer since the last one that has scores.
    failures: usize,
    /// The scorer is at fault, not a solution or the input.
    scorer_failed: bool,
    report: ScoreSummary,
}

impl<'a> ScoreRun<'a> {
    /// Scores all records of the input.
    fn score_all(&mut self) -> Result<()> {
        let tally = input::for_each(&self.args.input, Need::Steps, |item| self.take(item.record))?;
        self.report.skipped = tally.skipped;
        self.retrieve()?;
        self.ask()?;
        let in_flight: usize = self.records.iter().map(|sent| sent.record.solutions.len()).sum();
        let done = |report: &ScoreSummary| report.solutions + report.refused;
        let mut progress = Progress::new(done(&self.report) + in_flight as u64, false);
        while !self.records.is_empty() {
            progress.now(done(&self.report), "solutions");
            self.settle()?;
        }
        progress.now(done(&self.report), "solutions");
        Ok(())
    }

    /// Accepts a record: sends it at once, or with a pool in batches after retrieval.
    fn take(&mut self, record: Record) -> Result<()> {
        if self.library.is_none() {
            return self.send(record, Vec::new());
        }
        self.gathered.push(record);
        let solutions: usize = self.gathered.iter().map(|record| record.solutions.len()).sum();
        if solutions >= GATHERED { self.retrieve() } else { Ok(()) }
    }

    /// Retrieves the references of the gathered records and sends them.
    fn retrieve(&mut self) -> Result<()> {
        let (Some(library), Some(tally)) = (&self.library, &mut self.report.retrieval) else { return Ok(()) };
        let mut records = std::mem::take(&mut self.gathered);
        let targets: Vec<two_stage::Target> = records
            .iter()
            .flat_map(|record| record.solutions.iter().map(|solution| (&record.problem, solution)))
            .map(|(problem, solution)| two_stage::Target::from(&ScoreRequest::of(problem, solution)))
            .collect();
        let found = references::retrieve(library, &targets, &self.settings)?;
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

    /// Sends a record's solutions to the scorer, those of several records together where it gains from that, and those
    /// of one record in several calls where they fill more than one.
    fn send(&mut self, mut record: Record, seen: Vec<Seen>) -> Result<()> {
        let number = self.finished + self.records.len();
        let (mut outcomes, mut repeats) = (Vec::new(), Vec::new());
        let mut sent: HashMap<String, usize> = HashMap::new();
        for (position, solution) in record.solutions.iter_mut().enumerate() {
            let request = ScoreRequest::of(&record.problem, solution);
            let key = journal::key(self.scorer.identity(), &request);
            if let Some(scores) = self.journal.find(&key) {
                self.report.resumed += 1;
                solution.scores.insert(self.name.clone(), scores);
                continue;
            }
            if let Some(first) = sent.get(&key) {
                self.report.repeated += 1;
                repeats.push((position, *first));
                continue;
            }
            sent.insert(key, position);
            self.requests.push(request);
            self.asked.push((number, outcomes.len()));
            outcomes.push((position, None));
            if self.scorer.is_full(&self.requests) {
                self.call();
            }
        }
        self.records.push_back(Sent { record, outcomes, repeats, seen });
        if self.requests.len() >= self.scorer.batch || self.requests.is_empty() { self.ask() } else { Ok(()) }
    }

    /// Asks about the next solutions, and settles the oldest records when enough solutions are in flight.
    fn ask(&mut self) -> Result<()> {
        self.call();
        let in_flight = |records: &VecDeque<Sent>| -> usize {
            records.iter().map(|sent| sent.outcomes.len().max(1)).sum()
        };
        while in_flight(&self.records) > self.scorer.ahead {
            self.settle()?;
        }
        Ok(())
    }

    fn call(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let scorer: &'a Scorer = self.scorer;
        let answer = scorer.score_steps(std::mem::take(&mut self.requests));
        self.calls.push(Call { asked: std::mem::take(&mut self.asked), answer });
    }

    /// Waits for the scores of the oldest record, writes and prints them.
    fn settle(&mut self) -> Result<()> {
        let known = |sent: &Sent| sent.outcomes.iter().all(|(_, outcome)| outcome.is_some());
        while self.records.front().is_some_and(|sent| !known(sent)) {
            if self.calls.is_empty() {
                bail!("the scorer left a solution unanswered. Rerun to resume");
            }
            self.receive(true)?;
        }
        let Some(sent) = self.records.pop_front() else { return Ok(()) };
        self.finished += 1;
        self.finish_record(sent)
    }

    /// Journals the scores of the calls that are answered; with `wait`, until there is one.
    fn receive(&mut self, wait: bool) -> Result<()> {
        let calls = &mut self.calls;
        let answered = block_on(poll_fn(|context| {
            let mut answered = Vec::new();
            calls.retain_mut(|call| match call.answer.as_mut().poll(context) {
                Poll::Ready(answer) => {
                    answered.push((std::mem::take(&mut call.asked), answer));
                    false
                }
                Poll::Pending => true,
            });
            if answered.is_empty() && wait { Poll::Pending } else { Poll::Ready(answered) }
        }))?;
        let mut failed = None;
        for (asked, answer) in answered {
            match answer {
                Ok(scored) => {
                    asked.into_iter().zip(scored).try_for_each(|(place, scored)| self.note(place, scored))?;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.scorer_failed |= failed.is_some();
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Keeps what was found out about a solution, its scores in the journal.
    fn note(&mut self, (record, place): (usize, usize), scored: Scored) -> Result<()> {
        let Sent { record, outcomes, .. } = &mut self.records[record - self.finished];
        let (position, outcome) = &mut outcomes[place];
        if let Ok(scored) = &scored {
            let solution = &record.solutions[*position];
            let request = ScoreRequest::of(&record.problem, solution);
            let key = journal::key(self.scorer.identity(), &request);
            self.journal.add(&key, &solution.id, &scored.scores)?;
        }
        *outcome = Some(scored);
        Ok(())
    }

    /// Keeps what is known before the run ends with a failure, which is the one to be told. A scorer that failed is not
    /// waited for; one that refused a solution, or whose input ended badly, finishes what it was asked.
    fn keep(&mut self) {
        let mut kept = self.receive(false);
        while kept.is_ok() && !self.scorer_failed && !self.calls.is_empty() {
            kept = self.receive(true);
        }
    }

    fn finish_record(&mut self, Sent { mut record, outcomes, repeats, seen }: Sent) -> Result<()> {
        for (position, outcome) in outcomes {
            match outcome.expect("a record is finished when all outcomes are known") {
                Ok(scored) => {
                    record.solutions[position].scores.insert(self.name.clone(), scored.scores);
                    self.failures = 0;
                }
                Err(error @ CallError::Refused(_)) => bail!("{error}"),
                Err(error) if self.args.input.on_error == OnError::Skip => self.refuse(&error)?,
                Err(error @ CallError::Invalid(_)) => {
                    let problem = excerpt(&record.problem.text, 60);
                    bail!(
                        "problem “{problem}”: {error} (use --on-error skip to leave such solutions unscored)"
                    )
                }
                Err(error) => {
                    self.scorer_failed = true;
                    bail!("{error}. Rerun to resume")
                }
            }
        }
        for (position, first) in repeats {
            if let Some(scores) = record.solutions[first].scores.get(&self.name).cloned() {
                record.solutions[position].scores.insert(self.name.clone(), scores);
            }
        }
        for (solution, seen) in record.solutions.iter_mut().zip(seen) {
            // Their names are kept, their texts are in the pool.
            solution.references = None;
            note_references(solution, &self.name, &seen)?;
        }
        let mut findings = Vec::with_capacity(record.solutions.len());
        for solution in &record.solutions {
            let found = examine(&record.problem.text, &solution.steps);
            self.count(solution, &record, &found.wrong)?;
            findings.push(found);
        }
        for (solution, found) in record.solutions.iter_mut().zip(&findings) {
            exact::replace(solution, found);
        }
        self.sink.as_mut().map_or(Ok(()), |sink| sink.push(&record))?;
        Ok(())
    }

    /// Leaves a solution unscored. A scorer that answers nothing any more ends the run, which can be resumed.
    fn refuse(&mut self, error: &CallError) -> Result<()> {
        self.report.refused += 1;
        printer::note(format!("not scored: {error}"));
        self.failures += usize::from(!matches!(error, CallError::Invalid(_)));
        if self.failures >= PATIENCE {
            let scored = counted(self.report.solutions, "solution");
            self.scorer_failed = true;
            bail!(
                "Stopped after {PATIENCE} consecutive failures ({scored} scored): {error}. Rerun to resume"
            );
        }
        Ok(())
    }

    fn count(&mut self, solution: &Solution, record: &Record, proofs: &[Proof]) -> Result<()> {
        let Some(scores) = solution.scores.get(&self.name) else { return Ok(()) };
        let proven = proofs.first().map(|proof| proof.step).filter(|_| self.report.exact_checks);
        let decided = self.report.decision.decide(scores, proven);
        let is_suspected = decided.first_error.is_some();
        if self.args.print.json {
            self.report.results.push(SolutionScores {
                problem: record.problem.id.clone(),
                solution: solution.id.clone(),
                scores: scores.clone(),
                first_suspected: decided.first_error,
                posterior: decided.posterior,
                proofs: proofs.to_vec(),
            });
        } else if (self.report.solutions as usize) < self.args.show {
            self.show(solution, record, scores, &decided, proofs)?;
        }
        self.report.solutions += 1;
        self.report.steps += scores.len() as u64;
        progress::note(self.report.solutions, 0);
        self.report.suspected += u64::from(is_suspected);
        self.report.proved += u64::from(!proofs.is_empty());
        Ok(())
    }

    /// Prints a solution step by step, the first suspected error marked.
    fn show(
        &self,
        solution: &Solution,
        record: &Record,
        scores: &[f64],
        decided: &Decision,
        proofs: &[Proof],
    ) -> Result<()> {
        let labeled = solution.by_trust().into_iter().filter(|annotation| !annotation.is_partial());
        let labeled =
            labeled.map(|annotation| annotation.first_error).find(|first| *first != FirstError::Unknown);
        let title = format!("{}  {}", solution.id, printer::excerpt(&record.problem.text, 90));
        self.printer.line(format!("\n{}", paint::bold(&title)))?;
        let seen = solution.metadata.get(RETRIEVAL).and_then(|noted| noted.get(&self.name));
        let seen: Option<Seen> = seen.and_then(|seen| serde_json::from_value(seen.clone()).ok());
        for from in seen.iter().flat_map(|seen| &seen.questions) {
            let line = format!("  reference  {}  {}", references::similarity(from), from.solution);
            self.printer.line(paint::dim(&line))?;
        }
        for (index, (step, score)) in solution.steps.iter().zip(scores).enumerate() {
            let mut line = format!("  {}  {index:>2}  {}", paint::score(*score), printer::excerpt(step, 96));
            if decided.first_error == Some(index) {
                line += &paint::red("  ◄ first suspected error");
            }
            if labeled == Some(FirstError::At(index)) {
                line += &paint::dim("  (labeled first error)");
            }
            let nearest = seen.as_ref().and_then(|seen| seen.steps.get(index)?.first()?.similarity);
            if let Some(similarity) = nearest {
                line += &paint::dim(&format!("  (nearest step {similarity:.2})"));
            }
            self.printer.line(line)?;
            for proof in proofs.iter().filter(|proof| proof.step == index) {
                self.printer.line(paint::red(&format!("            proved wrong: {}", proof.proof)))?;
            }
        }
        if decided.first_error.is_none() {
            let words = match self.report.decision {
                DecisionRule::Threshold { .. } => "no step below the threshold",
                DecisionRule::Posterior { .. } => "'no error' is the most probable",
            };
            self.printer.line(paint::green(&format!("  {words}")))?;
        }
        self.printer.line(paint::dim(&format!("  {}", likeliest(&decided.posterior))))
    }

    fn finish(mut self) -> Result<Status> {
        if let Some(sink) = self.sink.take() {
            sink.finish()?;
        }
        self.journal.remove()?;
        cost::conclude(&self.scorer.spending);
        let speed = self.scorer.summary();
        self.report.tokens = speed.tokens;
        self.report.seconds = speed.seconds;
        self.report.tokens_per_second = speed.tokens_per_second;
        if self.args.print.json {
            self.printer.json(&self.report)?;
            return Ok(Status::Done);
        }
        let report = &self.report;
        self.printer.line(format!(
            "\n{} scored ({}), {} with a suspected error ({})",
            counted(report.solutions, "solution"),
            counted(report.steps, "step"),
            grouped(report.suspected),
            report.decision,
        ))?;
        let profile = self.scorer.profile.as_ref().map(|profile| format!(" (profile {profile})"));
        self.printer.line(format!(
            "{} in {:.1} s: {:.0} tokens/s with {}{}",
            counted(report.tokens, "token"),
            report.seconds,
            report.tokens_per_second,
            report.model,
            profile.unwrap_or_default()
        ))?;
        for line in report.retrieval.iter().flat_map(RetrievalTally::lines) {
            self.printer.line(line)?;
        }
        if report.proved > 0 {
            let proved = counted(report.proved, "solution");
            self.printer.line(format!("{proved} with arithmetic that is proved wrong"))?;
        }
        if report.repeated > 0 {
            let repeated = counted(report.repeated, "solution");
            self.printer.line(format!("{repeated} with the text of an earlier one, scored once"))?;
        }
        if report.resumed > 0 {
            self.printer
                .line(format!("{} resumed from an earlier run", counted(report.resumed, "solution")))?;
        }
        if report.refused + report.skipped > 0 {
            let skipped = counted(report.skipped, "record");
            self.printer
                .line(format!("{} refused, {skipped} skipped", counted(report.refused, "solution")))?;
        }
        if self.scorer.name() == SHIPPED {
            self.printer.line(paint::dim(TRUST))?;
        }
        Ok(Status::Done)
    }
}

/// The most probable first error, and how probable it is that there is none.
fn likeliest(posterior: &Posterior) -> String {
    let steps = posterior.steps.iter().enumerate();
    let step = steps.max_by(|(step, one), (later, other)| one.total_cmp(other).then(later.cmp(step)));
    let step = step.map_or_else(String::new, |(step, share)| format!("step {step} ({share:.2}); "));
    format!("most probable first error: {step}no error ({:.2})", posterior.none)
}

/// Writes among a solution's metadata which references it saw for these scores.
fn note_references(solution: &mut Solution, name: &str, seen: &Seen) -> Result<()> {
    let noted = solution.metadata.entry(RETRIEVAL).or_insert_with(|| Value::Object(Default::default()));
    if let Value::Object(noted) = noted {
        noted.insert(name.to_owned(), serde_json::to_value(seen)?);
    }
    Ok(())
}
