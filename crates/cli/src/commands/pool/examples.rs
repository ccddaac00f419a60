//! `gradus pool examples`: training examples with their references.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_backend::{Library, REFERENCES_PROFILE, check_profile};
use gradus_core::contracts::{Message, ScoreRequest};
use gradus_core::{Annotation, Mark, Problem, Record, Solution};
use gradus_data::files::{Sink, Target as File};
use gradus_engine::profile::{Profile, Score, Templates};
use gradus_retrieve::two_stage::{Retrieved, Seen, Settings, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::annotator::AnnotatorOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::retrieval::PoolQuery;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::references::{self, RetrievalTally};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

/// Formats of training examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExampleForm {
    /// One conversation per step, answered with + or -
    Chat,
    /// The dataset with references per solution, for gradus train
    Records,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus pool examples labeled.jsonl --pool math.pool -o train.jsonl\n  \
gradus pool examples labeled.jsonl --pool math.pool -o ablation.jsonl -k 0        # reference steps only\n  \
gradus pool examples labeled.jsonl --pool math.pool -o plain.jsonl -k 0 -r 0     # no references: the plain prompt")]
pub(crate) struct ExamplesArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file; the extension sets the file type (.json, .jsonl or .parquet, optionally .gz or .zst)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Output format
    #[arg(long = "as", value_enum, default_value = "chat")]
    form: ExampleForm,
    /// With --as chat, prompt profile (default: retrieval-prm, or plain without references)
    #[arg(short, long)]
    profile: Option<String>,
    /// With --as chat, omit neutral steps instead of treating them as correct
    #[arg(long)]
    skip_neutral: bool,
    /// Use model-generated labels where a solution has no others
    #[arg(long)]
    any_labels: bool,
    #[command(flatten)]
    labels: AnnotatorOption,
    #[command(flatten)]
    query: PoolQuery,
    #[command(flatten)]
    print: JsonOption,
}

/// Solutions per retrieval pass.
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
struct ExamplesSummary {
    solutions: u64,
    examples: u64,
    /// Of these, those to be answered with the token for wrong.
    wrong: u64,
    /// Omitted items by reason.
    left_out: BTreeMap<&'static str, u64>,
    /// Invalid records.
    skipped: u64,
    #[serde(flatten)]
    tally: RetrievalTally,
}

pub(super) fn run(args: &ExamplesArgs) -> Result<Status> {
    let settings = args.query.retrieval.settings();
    let writer = Writer::new(args, &settings)?;
    let library = references::open(&args.query.pool, &args.query.options, &settings)?;
    let sink = Sink::create(File::new(&args.output))?;
    let mut run = ExamplesRun {
        args,
        library,
        settings,
        writer,
        sink,
        waiting: Vec::new(),
        report: ExamplesSummary::default(),
    };
    let tally = input::for_each(&args.input, Need::Steps, |item| run.take(item.record))?;
    run.report.skipped = tally.skipped;
    run.finish()
}

struct ExamplesRun<'a> {
    args: &'a ExamplesArgs,
    library: Library,
    settings: Settings,
    writer: Writer,
    sink: Sink,
    waiting: Vec<Record>,
    report: ExamplesSummary,
}

/// How examples are written out.
enum Writer {
    Chat { templates: Box<Templates>, right: String, wrong: String },
    Records,
}

impl Writer {
    fn new(args: &ExamplesArgs, settings: &Settings) -> Result<Self> {
        if args.form == ExampleForm::Records {
            if args.profile.is_some() || args.skip_neutral {
                let message =
                    "--profile and --skip-neutral need --as chat; for records, set them in the recipe";
                return Err(Usage(message.to_owned()).into());
            }
            return Ok(Self::Records);
        }
        let nothing = settings.questions == 0 && settings.steps == 0;
        let name = args.profile.as_deref().unwrap_or(if nothing { "plain" } else { REFERENCES_PROFILE });
        let profile = Profile::find(name)?;
        let Score::Tokens { positive, negative } = profile.score.clone() else {
            let message = format!("profile `{name}` has no answer tokens: use --as records");
            return Err(Usage(message).into());
        };
        if !nothing {
            check_profile(name, settings)?;
        }
        Ok(Self::Chat { templates: Box::new(Templates::new(profile)?), right: positive, wrong: negative })
    }
}

impl ExamplesRun<'_> {
    fn take(&mut self, record: Record) -> Result<()> {
        self.waiting.push(record);
        let solutions: usize = self.waiting.iter().map(|record| record.solutions.len()).sum();
        if solutions >= CHUNK { self.write() } else { Ok(()) }
    }

    /// Retrieves the references of the waiting records and writes the examples.
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
        let found = references::retrieve(&self.library, &targets, &self.settings)?;
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
        solution.labels(&self.args.labels.choice_or_truth(self.args.any_labels))
    }

    fn leave_out(&mut self, reason: &'static str, count: usize) {
        if count > 0 {
            *self.report.left_out.entry(reason).or_default() += count as u64;
        }
    }

    /// Writes a conversation for every labeled step up to the first error.
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
            counted(report.examples, "labeled step"),
            grouped(report.wrong),
            counted(report.solutions, "solution"),
            printer::written_to(&self.args.output)
        ))?;
        for (reason, count) in &report.left_out {
            printer.line(format!("omitted: {} {reason}", grouped(*count)))?;
        }
        printer.skipped(report.skipped)?;
        report.tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
        Ok(Status::Done)
    }
}
