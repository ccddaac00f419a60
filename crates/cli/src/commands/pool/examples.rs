//! `gradus pool examples`: training examples with their references.

use std::collections::BTreeMap;

use anyhow::Result;
use gradus_core::contracts::{Message, ScoreRequest};
use gradus_core::{Annotation, Mark, Problem, Record, Solution};
use gradus_data::files::{Sink, Target as File};
use gradus_engine::profile::{Profile, Score, Templates};
use gradus_retrieve::two_stage::{Retrieved, Seen, Settings, Target};
use serde::Serialize;

use super::super::{Status, Usage};
use crate::args::pool::{ExampleForm, PoolExamples};
use crate::input;
use crate::printer::{self, Printer, counted};
use crate::references::{self, Library, Tally};

/// Solutions whose references are looked for at once.
const CHUNK: usize = 4096;

/// One step's conversation.
#[derive(Serialize)]
struct Example<'a> {
    id: String,
    messages: Vec<Message>,
    solution: &'a str,
    step: usize,
    /// Which references it saw.
    references: Seen,
}

#[derive(Default, Serialize)]
struct Report {
    solutions: u64,
    examples: u64,
    /// Of these, those to be answered with the token for wrong.
    wrong: u64,
    /// What was left out, by reason.
    left_out: BTreeMap<&'static str, u64>,
    /// Records that could not be read.
    skipped: u64,
    #[serde(flatten)]
    tally: Tally,
}

pub(super) fn run(args: &PoolExamples) -> Result<Status> {
    let settings = args.retrieval.settings();
    let writer = Writer::new(args, &settings)?;
    let library = Library::open(&args.pool.pool, args.pool.encoder.as_deref(), &args.options)?;
    let sink = Sink::create(File::new(&args.output))?;
    let mut job =
        Job { args, library, settings, writer, sink, waiting: Vec::new(), report: Report::default() };
    let tally = input::for_each(&args.input, |item| job.take(item.record))?;
    job.report.skipped = tally.skipped;
    job.finish()
}

struct Job<'a> {
    args: &'a PoolExamples,
    library: Library,
    settings: Settings,
    writer: Writer,
    sink: Sink,
    waiting: Vec<Record>,
    report: Report,
}

/// How examples are written out.
enum Writer {
    Chat { templates: Box<Templates>, right: String, wrong: String },
    Records,
}

impl Writer {
    fn new(args: &PoolExamples, settings: &Settings) -> Result<Self> {
        if args.form == ExampleForm::Records {
            if args.profile.is_some() || args.skip_neutral {
                let message = "--profile and --skip-neutral go with --as chat: a recipe says so for records";
                return Err(Usage(message.to_owned()).into());
            }
            return Ok(Self::Records);
        }
        let nothing = settings.questions == 0 && settings.steps == 0;
        let name = args.profile.as_deref().unwrap_or(if nothing { "plain" } else { references::PROFILE });
        let profile = Profile::find(name)?;
        let Score::Tokens { positive, negative } = profile.score.clone() else {
            let message = format!("profile `{name}` has no answer in words: --as records fits it");
            return Err(Usage(message).into());
        };
        if !nothing {
            references::check_profile(name, settings)?;
        }
        Ok(Self::Chat { templates: Box::new(Templates::new(profile)?), right: positive, wrong: negative })
    }
}

impl Job<'_> {
    fn take(&mut self, record: Record) -> Result<()> {
        self.waiting.push(record);
        let solutions: usize = self.waiting.iter().map(|record| record.solutions.len()).sum();
        if solutions >= CHUNK { self.write() } else { Ok(()) }
    }

    /// Looks for the references of all that waits, and writes it out.
    fn write(&mut self) -> Result<()> {
        let mut records = std::mem::take(&mut self.waiting);
        for record in &mut records {
            let before = record.solutions.len();
            record.solutions.retain(|solution| self.labels(solution).is_some());
            self.leave_out("solutions without labels", before - record.solutions.len());
        }
        let requests = records.iter().flat_map(|record| {
            record.solutions.iter().map(|solution| ScoreRequest::of(&record.problem, solution))
        });
        let targets: Vec<Target> = requests.map(|request| Target::from(&request)).collect();
        let found = self.library.retrieve(&targets, &self.settings)?;
        self.report.tally.add(&found);
        let mut found = found.targets.into_iter();
        for mut record in records {
            for solution in &mut record.solutions {
                let Retrieved { references, seen, .. } = found.next().expect("one answer per solution");
                solution.references = Some(Box::new(references));
                self.report.solutions += 1;
                self.chat(&record.problem, solution, &seen)?;
            }
            if matches!(self.writer, Writer::Records) && !record.solutions.is_empty() {
                self.sink.push(&record)?;
            }
        }
        Ok(())
    }

    fn labels<'a>(&self, solution: &'a Solution) -> Option<&'a Annotation> {
        solution.training_labels(self.args.any_labels)
    }

    fn leave_out(&mut self, reason: &'static str, count: usize) {
        if count > 0 {
            *self.report.left_out.entry(reason).or_default() += count as u64;
        }
    }

    /// Writes a conversation for every labelled step up to the first error.
    fn chat(&mut self, problem: &Problem, solution: &Solution, seen: &Seen) -> Result<()> {
        let Some(annotation) = self.labels(solution) else { return Ok(()) };
        let targets: Vec<(usize, Mark)> =
            annotation.targets().map(|(step, label)| (step, label.mark)).collect();
        let Writer::Chat { templates, right, wrong } = &self.writer else {
            self.report.examples += targets.len() as u64;
            self.report.wrong += targets.iter().filter(|(_, mark)| *mark == Mark::Incorrect).count() as u64;
            return Ok(());
        };
        let prompts = templates.messages(&ScoreRequest::of(problem, solution))?;
        let mut neutral = 0;
        for (step, mark) in targets {
            if mark == Mark::Neutral && self.args.skip_neutral {
                neutral += 1;
                continue;
            }
            let answer = if mark == Mark::Incorrect { wrong } else { right };
            let mut messages = prompts[step].clone();
            messages.push(Message::new("assistant", answer.as_str()));
            let of_step = seen.steps.get(step).cloned();
            let example = Example {
                id: format!("{}/step-{}", solution.id, step + 1),
                messages,
                solution: &solution.id,
                step,
                references: Seen { steps: of_step.into_iter().collect(), ..seen.clone() },
            };
            self.sink.push(&example)?;
            self.report.examples += 1;
            self.report.wrong += u64::from(mark == Mark::Incorrect);
        }
        self.leave_out("neutral steps", neutral);
        Ok(())
    }

    fn finish(mut self) -> Result<Status> {
        self.write()?;
        self.sink.finish()?;
        let printer = Printer::new(Some(&self.args.output));
        let report = &self.report;
        if self.args.print.json {
            printer.json(report)?;
            return Ok(Status::Done);
        }
        printer.line(format!(
            "{} ({} wrong) of {} {}",
            counted(report.examples, "labelled step"),
            printer::count(report.wrong),
            counted(report.solutions, "solution"),
            printer::written_to(&self.args.output)
        ))?;
        for (reason, count) in &report.left_out {
            printer.line(format!("left out: {} {reason}", printer::count(*count)))?;
        }
        if report.skipped > 0 {
            printer.line(format!("{} skipped", counted(report.skipped, "record")))?;
        }
        report.tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
        Ok(Status::Done)
    }
}
