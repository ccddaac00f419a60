//! Shared by the annotators that prompt a model: a job with one task per solution. Solutions of a problem with the same
//! text are one task.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gradus_annotate::Annotated;
use gradus_annotate::prompt::Template;
use gradus_backend::{GeneratorSettings, block_on};
use gradus_core::contracts::CallError;
use gradus_core::{Annotation, Cost, Domain, Problem, Record, Solution};
use gradus_data::joined::{JoinedRecords, JoinedWriter};
use gradus_durable::ContentHash;
use serde::Serialize;

use super::summary::LabelingSummary;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::job::RunOptions;
use crate::cost::Running;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::job::{self, JobEnd, JobPlan, JobRecords, SharedJob, TaskSource};
use crate::output::working_folder;
use crate::prompting::PromptedGenerator;
use crate::terminal::progress::Progress;

/// Input and output of the annotators that prompt a model.
#[derive(Debug, Args)]
pub(crate) struct LabelingArgs {
    #[command(flatten)]
    pub(super) input: DatasetInput,
    /// Output file with the labeled dataset (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Record wall-clock time per solution in the output, which then differs between runs
    #[arg(long, alias = "seconds")]
    pub(super) record_time: bool,
    #[command(flatten)]
    pub(super) run: RunOptions,
}

/// Refuses options about how a partial solution is continued: this annotator sends whole conversations.
pub(super) fn refuse_continuation(options: &GeneratorSettings) -> Result<()> {
    let given = [("--raw", options.raw), ("--template", options.template.is_some())];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
        bail!(Usage(format!("{name} does not apply here: it is an option of sample and monte-carlo")));
    }
    Ok(())
}

/// Solutions to label, and the model that labels them.
pub(super) struct Labeling<'a> {
    labeling: &'a LabelingArgs,
    pub(super) generator: PromptedGenerator,
    solutions: Solutions<'a>,
}

/// Where the solutions come from.
enum Solutions<'a> {
    /// The input of this command.
    Input(Box<InputSolutions>),
    /// A job that another machine began.
    Job(SharedJob<'a>),
}

/// The solutions of this command's input.
struct InputSolutions {
    records: JoinedRecords,
    /// The first task of each record, and the end of the last's.
    first_tasks: Vec<u32>,
    /// A hash of all that the labels of these solutions depend on.
    inputs: String,
    skipped: u64,
}

impl<'a> Labeling<'a> {
    pub(super) fn open(
        labeling: &'a LabelingArgs,
        options: &GeneratorSettings,
        solve: Template,
        go_on: Template,
        source: TaskSource<'a>,
    ) -> Result<Self> {
        let solutions = match source {
            TaskSource::Input => Solutions::Input(Box::new(InputSolutions::read(labeling)?)),
            TaskSource::Job(job) => Solutions::Job(job),
        };
        let generator = PromptedGenerator::open(options, solve, go_on)?;
        Ok(Self { labeling, generator, solutions })
    }

    /// The problem and solution of a task.
    async fn pair(&self, task: usize) -> Result<(Problem, Solution), CallError> {
        match &self.solutions {
            Solutions::Input(input) => {
                input.pair(task).map_err(|error| CallError::Refused(format!("{error:#}")))
            }
            Solutions::Job(job) => job.input(task).await,
        }
    }

    /// Labels every solution, writes the dataset, and prints a summary.
    pub(super) fn run(
        &self,
        kind: &str,
        determined_by: &impl Serialize,
        annotate: &impl AsyncFn(&Problem, &Solution) -> Result<Annotated, CallError>,
        json: bool,
    ) -> Result<Status> {
        let running = Running::default();
        let settings = (self.generator.identity(), determined_by);
        let concurrency = self.generator.model.concurrency;
        let message = || running.message(&self.generator.model.spending);
        let each = |task: usize| {
            let running = &running;
            async move {
                let pair = self.pair(task).await?;
                let started = Instant::now();
                let mut annotated = annotate(&pair.0, &pair.1).await?;
                annotated.cost.seconds = started.elapsed().as_secs_f64();
                running.add(&annotated.cost);
                Ok(annotated)
            }
        };
        let input = match &self.solutions {
            Solutions::Input(input) => input,
            Solutions::Job(job) => {
                let done = block_on(job.work(kind, &settings, concurrency, each, message))??;
                return Ok(job.worked(done));
            }
        };
        let plan = JobPlan {
            kind,
            output: &self.labeling.output,
            settings,
            inputs: &input.inputs,
            concurrency,
            options: &self.labeling.run,
            quiet: json,
        };
        let summary = RefCell::new(LabelingSummary {
            annotator: kind.trim_start_matches("annotate ").to_owned(),
            model: self.generator.model.name.clone(),
            skipped: input.skipped,
            continuation: self.generator.continuation,
            unseeded: self.generator.model.is_unseeded(),
            ..LabelingSummary::default()
        });
        block_on(async {
            let labeled = LabeledRecords { labeling: self, input, summary: &summary };
            let complete = match job::run(plan, &labeled, each, message).await? {
                JobEnd::Complete(complete) => complete,
                JobEnd::Stopped(status) => return Ok(status),
            };
            let mut summary = summary.take();
            summary.job = complete.job;
            summary.failed = complete.failed;
            summary.failed_by_reason = complete.failed_by_reason;
            summary.resumed = complete.resumed;
            summary.cost.complete(&self.generator.model.spending);
            summary.print(&job::written(&self.labeling.output, &self.labeling.run), json)
        })?
    }
}

/// The records of a labeling job, whose labels are counted as they are put together.
struct LabeledRecords<'a> {
    labeling: &'a Labeling<'a>,
    input: &'a InputSolutions,
    summary: &'a RefCell<LabelingSummary>,
}

impl JobRecords<Annotated> for LabeledRecords<'_> {
    fn len(&self) -> usize {
        self.input.records.len()
    }

    fn first_task(&self, index: usize) -> usize {
        self.input.first_tasks[index] as usize
    }

    fn input(&self, task: usize) -> Result<String> {
        let (problem, mut solution) = self.input.pair(task)?;
        // What others said about it is not asked for.
        solution.annotations.clear();
        solution.scores.clear();
        Ok(serde_json::to_string(&(problem, solution))?)
    }

    fn name(&self, task: usize) -> String {
        self.input.pair(task).map_or_else(|_| format!("task {task}"), |(_, solution)| solution.id)
    }

    fn assemble(&self, index: usize, mut results: Vec<Option<Annotated>>) -> Result<Option<Record>> {
        let mut record = self.input.records.get(index)?;
        let earliest = record.earliest_equal();
        let firsts: Vec<usize> = distinct(&record).collect();
        let mut summary = self.summary.borrow_mut();
        for (at, solution) in record.solutions.iter_mut().enumerate() {
            let task = firsts.binary_search(&earliest[at]).expect("the earliest of its text is a task");
            let found = &mut results[task];
            summary.count(solution, found.as_ref(), earliest[at] != at);
            if let Some(annotation) = found.as_ref().and_then(|found| self.labeling.annotation(found)) {
                // Earlier labels of the same annotator are replaced.
                let name = annotation.annotator();
                solution.annotations.retain(|other| other.annotator().is_none() || other.annotator() != name);
                solution.annotations.push(annotation);
            }
            // What a text cost is with its first solution alone.
            if let Some(found) = found {
                found.cost = Cost::default();
                found.notes.clear();
                found.annotation.iter_mut().for_each(|annotation| annotation.cost = None);
            }
        }
        Ok(Some(record))
    }
}

impl InputSolutions {
    fn read(labeling: &LabelingArgs) -> Result<Self> {
        job::check_output(&labeling.output)?;
        let mut writer = JoinedWriter::create(&working_folder(&labeling.output))?;
        let tally = input::for_each(&labeling.input, Need::Steps, |item| Ok(writer.add(&item)?))?;
        let mut records = writer.finish()?;
        records.truncate(labeling.run.limit.unwrap_or(usize::MAX));
        let (first_tasks, inputs) = tasks(&records)?;
        Ok(Self { records, first_tasks, inputs, skipped: tally.skipped })
    }

    /// The problem and solution of a task.
    fn pair(&self, task: usize) -> Result<(Problem, Solution)> {
        let index = self.first_tasks.partition_point(|first| *first as usize <= task) - 1;
        let mut record = self.records.get(index)?;
        let nth = task - self.first_tasks[index] as usize;
        let solution = distinct(&record).nth(nth).expect("a record has as many tasks as distinct solutions");
        Ok((record.problem, record.solutions.swap_remove(solution)))
    }
}

impl Labeling<'_> {
    /// The annotation as it is written.
    fn annotation(&self, found: &Annotated) -> Option<Annotation> {
        let mut annotation = found.annotation.clone()?;
        if let (true, Some(cost)) = (self.labeling.record_time, &mut annotation.cost) {
            cost.seconds = found.cost.seconds;
        }
        annotation.unseeded = self.generator.model.is_unseeded();
        Some(annotation)
    }
}

/// The solutions of a record whose text none before them has: each is a task.
fn distinct(record: &Record) -> impl Iterator<Item = usize> + use<> {
    let earliest = record.earliest_equal();
    earliest.into_iter().enumerate().filter(|(index, first)| index == first).map(|(index, _)| index)
}

/// The first task of each record, with the end of the last's, and a hash of what determines the labels of all.
fn tasks(records: &JoinedRecords) -> Result<(Vec<u32>, String)> {
    let mut progress = Progress::new(records.len() as u64, false);
    let mut hasher = ContentHash::default();
    let mut first_tasks = Vec::with_capacity(records.len() + 1);
    let mut tasks: u32 = 0;
    for index in 0..records.len() {
        first_tasks.push(tasks);
        let record = records.get(index)?;
        for solution in distinct(&record) {
            let solution = &record.solutions[solution];
            hasher.add(&(&solution.id, inputs(&record.problem, solution)));
            tasks = tasks.checked_add(1).context("more than four billion solutions: split the input")?;
        }
        progress.at(index as u64 + 1, index as u64 + 1);
    }
    first_tasks.push(tasks);
    Ok((first_tasks, hasher.finish()))
}

/// The parts of a problem and solution that determine its labels.
#[derive(Serialize)]
struct LabelInputs<'a> {
    question: String,
    context: &'a [String],
    domain: Domain,
    answer: Option<&'a str>,
    aliases: &'a [String],
    reference: &'a [String],
    steps: &'a [String],
}

fn inputs<'a>(problem: &'a Problem, solution: &'a Solution) -> LabelInputs<'a> {
    LabelInputs {
        question: problem.question(),
        context: &problem.context,
        domain: problem.domain,
        answer: problem.answer.as_deref(),
        aliases: &problem.aliases,
        reference: &problem.reference,
        steps: &solution.steps,
    }
}
