//! `gradus sample`: solutions to problems, sampled from a model.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::prompt::Template;
use gradus_annotate::sample::{SampleConfig, Sampled, sample};
use gradus_backend::{GeneratorSettings, block_on};
use gradus_core::contracts::{CallError, Sampling};
use gradus_core::steps;
use gradus_core::{Domain, Outcome, Problem, Record};
use gradus_data::spool::{Spool, SpoolWriter};
use gradus_durable::ContentHash;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::job::RunOptions;
use crate::arguments::values::{at_least_one, count, temperature, top_p};
use crate::cost::{CostSummary, Running};
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::job::{self, JobEnd, JobPlan, JobRecords, SharedJob, TaskSource};
use crate::output::working_folder;
use crate::prompting::PromptedGenerator;
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, percent_of};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus sample gsm8k.jsonl -n 8 -o sampled.jsonl\n  \
gradus sample gsm8k.jsonl -n 8 --endpoint http://localhost:8000 --model Qwen/Qwen2.5-7B-Instruct -o sampled.jsonl\n\n\
Rerun an interrupted command, or use gradus jobs resume, to resume it.")]
pub(super) struct SampleArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file with problems and solutions (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Solutions per problem
    #[arg(short = 'n', long = "solutions", value_name = "N", default_value_t = 8, value_parser = count)]
    n: usize,
    /// Maximum tokens per completion
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = at_least_one)]
    max_tokens: usize,
    /// Sampling temperature
    #[arg(short, long, default_value_t = 0.8, value_parser = temperature)]
    temperature: f32,
    /// Nucleus sampling: smallest set of tokens with this total probability; 1 disables it
    #[arg(long, default_value_t = 1.0, value_parser = top_p)]
    top_p: f32,
    /// Stop sequence; repeatable
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Prompt template file (variable: problem; default: built in)
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    pub(super) generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct SampleSummary {
    generator: String,
    problems: usize,
    solutions: usize,
    /// Graded, where the gold answer is known.
    right: usize,
    wrong: usize,
    unknown: usize,
    steps: usize,
    repeated: usize,
    empty: usize,
    cut: usize,
    unanswered: usize,
    failed: usize,
    resumed: usize,
    skipped: u64,
    #[serde(flatten)]
    cost: CostSummary,
}

pub(super) fn run(args: &SampleArgs, source: TaskSource<'_>) -> Result<Status> {
    let config = SampleConfig {
        solutions: args.n,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, top_p: args.top_p, ..Sampling::default() },
        stop: args.stop.clone(),
        steps: steps::SplitConfig {
            strategy: args.input.steps.unwrap_or_default(),
            ..steps::SplitConfig::default()
        },
        seed: args.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    let problems = match source {
        TaskSource::Input => Problems::Input(InputProblems::read(args)?),
        TaskSource::Job(job) => Problems::Job(job),
    };
    let solve = args.prompt.as_deref().map_or_else(|| Ok(Template::solve()), Template::read)?;
    let generator = PromptedGenerator::open(&args.generator, solve, Template::go_on())?;
    let running = Running::default();
    let message = || running.message(&generator.model.spending);
    let each = |task: usize| {
        let (generator, config, running, problems) = (&generator, &config, &running, &problems);
        async move {
            let problem = problems.get(task).await?;
            let ask = generator.ask(&problem).map_err(|error| CallError::Invalid(format!("{error:#}")))?;
            let started = Instant::now();
            let model = &generator.model;
            let mut sampled = sample(model, &model.name, ask.as_ref(), &problem, config).await?;
            sampled.cost.seconds = started.elapsed().as_secs_f64();
            running.add(&sampled.cost);
            Ok(sampled)
        }
    };
    let (kind, settings) = ("sample", (generator.identity(), &config));
    let concurrency = generator.model.concurrency;
    let input = match &problems {
        Problems::Input(input) => input,
        Problems::Job(job) => {
            let done = block_on(job.work(kind, &settings, concurrency, each, message))??;
            return Ok(job.worked(done));
        }
    };
    let plan = JobPlan {
        kind,
        output: &args.output,
        settings,
        inputs: &input.inputs,
        concurrency,
        options: &args.run,
        quiet: args.print.json,
    };
    let report = RefCell::new(SampleSummary {
        generator: generator.model.name.clone(),
        problems: input.spool.len(),
        skipped: input.skipped,
        ..SampleSummary::default()
    });
    block_on(async {
        let records = SampledRecords { problems: input, report: &report };
        let complete = match job::run(plan, &records, each, message).await? {
            JobEnd::Complete(complete) => complete,
            JobEnd::Stopped(status) => return Ok(status),
        };
        let mut report = report.take();
        report.failed = complete.failed;
        report.resumed = complete.resumed;
        report.cost.complete(&generator.model.spending);
        report.print(args)
    })?
}

/// The problems to solve, each a task: where they come from.
enum Problems<'a> {
    /// The input of this command.
    Input(InputProblems),
    /// A job that another machine began.
    Job(SharedJob<'a>),
}

impl Problems<'_> {
    async fn get(&self, task: usize) -> Result<Problem, CallError> {
        match self {
            Self::Input(input) => input.get(task).map_err(|error| CallError::Refused(format!("{error:#}"))),
            Self::Job(job) => job.input(task).await,
        }
    }
}

/// The problems of this command's input.
struct InputProblems {
    spool: Spool,
    /// A hash of all that their solutions depend on.
    inputs: String,
    skipped: u64,
}

impl InputProblems {
    /// Reads them; one that occurs again with the same id and text is left out.
    fn read(args: &SampleArgs) -> Result<Self> {
        job::check_output(&args.output)?;
        let mut writer = SpoolWriter::create(&working_folder(&args.output))?;
        let (mut hasher, mut seen) = (ContentHash::default(), HashSet::new());
        let limit = args.run.limit.unwrap_or(usize::MAX);
        let tally = input::for_each(&args.input, Need::Records, |item| {
            let problem = item.record.problem;
            if seen.len() < limit && seen.insert(ContentHash::of(&(&problem.id, &problem.text))) {
                hasher.add(&(&problem.id, inputs(&problem)));
                writer.push(&Record::new(problem, Vec::new()))?;
            }
            Ok(())
        })?;
        let spool = writer.finish()?;
        if spool.is_empty() {
            bail!("the input contains no problems");
        }
        Ok(Self { spool, inputs: hasher.finish(), skipped: tally.skipped })
    }

    fn get(&self, index: usize) -> Result<Problem> {
        Ok(self.spool.get(index)?.problem)
    }
}

/// The records of a sampling job, whose solutions are counted as they are put together.
struct SampledRecords<'a> {
    problems: &'a InputProblems,
    report: &'a RefCell<SampleSummary>,
}

impl JobRecords<Sampled> for SampledRecords<'_> {
    fn len(&self) -> usize {
        self.problems.spool.len()
    }

    fn first_task(&self, index: usize) -> usize {
        index
    }

    fn input(&self, task: usize) -> Result<String> {
        Ok(serde_json::to_string(&self.problems.get(task)?)?)
    }

    fn name(&self, task: usize) -> String {
        self.problems.get(task).map_or_else(|_| format!("task {task}"), |problem| problem.id)
    }

    fn assemble(&self, index: usize, mut results: Vec<Option<Sampled>>) -> Result<Option<Record>> {
        let Some(sampled) = results.pop().flatten() else { return Ok(None) };
        self.report.borrow_mut().count(&sampled);
        Ok(Some(Record::new(self.problems.get(index)?, sampled.solutions)))
    }
}

/// The parts of a problem that determine its solutions and their outcomes.
#[derive(Serialize)]
struct SampleInputs<'a> {
    text: &'a str,
    context: &'a [String],
    domain: Domain,
    answer: Option<&'a str>,
    aliases: &'a [String],
}

fn inputs(problem: &Problem) -> SampleInputs<'_> {
    SampleInputs {
        text: &problem.text,
        context: &problem.context,
        domain: problem.domain,
        answer: problem.answer.as_deref(),
        aliases: &problem.aliases,
    }
}

impl SampleSummary {
    fn count(&mut self, sampled: &Sampled) {
        self.solutions += sampled.solutions.len();
        for solution in &sampled.solutions {
            match solution.outcome {
                Outcome::Correct => self.right += 1,
                Outcome::Wrong => self.wrong += 1,
                Outcome::Unknown => self.unknown += 1,
            }
            self.steps += solution.steps.len();
        }
        self.repeated += sampled.repeated;
        self.empty += sampled.empty;
        self.cut += sampled.cut;
        self.unanswered += sampled.unanswered;
        self.cost.add(&sampled.cost);
    }

    fn print(&self, args: &SampleArgs) -> Result<Status> {
        let printer = Printer::new(None);
        if args.print.json {
            printer.json(self)?;
            return Ok(Status::Done);
        }
        printer.line(format!(
            "{} to {} sampled from {}, {}",
            paint::bold(&counted(self.solutions, "solution")),
            counted(self.problems, "problem"),
            self.generator,
            printer::written_to(&job::written(&args.output, &args.run))
        ))?;
        let graded = self.right + self.wrong;
        printer.counts(&[
            (self.right as u64, "solution", "with a correct answer"),
            (self.wrong as u64, "solution", "with a wrong answer"),
            (self.unknown as u64, "solution", "ungraded"),
            (self.unanswered as u64, "solution", "without a final answer"),
            (self.cut as u64, "solution", "truncated at --max-tokens"),
            (self.repeated as u64, "solution", "with the text of an earlier one"),
            (self.empty as u64, "empty solution", "omitted"),
            (self.failed as u64, "problem", "failed and omitted"),
            (self.resumed as u64, "problem", "resumed from an earlier run"),
        ])?;
        if graded > 0 {
            printer.line(format!("accuracy: {} of graded solutions", percent_of(self.right, graded)))?;
        }
        self.cost.print(printer, self.solutions)?;
        Ok(Status::Done)
    }
}
