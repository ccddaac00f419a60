//! Shared by the annotators that prompt a model: a job with one task per solution. Solutions of a problem with the same
//! text are one task.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::Annotated;
use gradus_annotate::prompt::Template;
use gradus_backend::{GeneratorSettings, block_on};
use gradus_core::contracts::CallError;
use gradus_core::{Cost, Domain, Problem, Record, Solution};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use super::summary::LabelingSummary;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::job::RunOptions;
use crate::cost::Running;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::job::{self, JobEnd, JobPlan};
use crate::prompting::PromptedGenerator;

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
    records: Vec<Record>,
    /// Record and solution index of each task.
    places: Vec<(usize, usize)>,
    /// The task of each solution, in the order of the records.
    tasks: Vec<usize>,
    skipped: u64,
}

impl<'a> Labeling<'a> {
    pub(super) fn open(
        labeling: &'a LabelingArgs,
        options: &GeneratorSettings,
        solve: Template,
        go_on: Template,
    ) -> Result<Self> {
        let (mut records, tally) = input::joined(&labeling.input, Need::Steps)?;
        records.truncate(labeling.run.limit.unwrap_or(usize::MAX));
        let (mut places, mut tasks) = (Vec::new(), Vec::new());
        for (index, record) in records.iter().enumerate() {
            let begin = tasks.len();
            for (solution, first) in record.earliest_equal().into_iter().enumerate() {
                if solution == first {
                    tasks.push(places.len());
                    places.push((index, solution));
                } else {
                    tasks.push(tasks[begin + first]);
                }
            }
        }
        let generator = PromptedGenerator::open(options, solve, go_on)?;
        Ok(Self { labeling, generator, records, places, tasks, skipped: tally.skipped })
    }

    fn pair(&self, task: usize) -> (&Problem, &Solution) {
        let (record, solution) = self.places[task];
        (&self.records[record].problem, &self.records[record].solutions[solution])
    }

    /// Labels every solution, writes the dataset, and prints a summary.
    pub(super) fn run(
        &self,
        kind: &str,
        determined_by: &impl Serialize,
        annotate: &impl AsyncFn(&Problem, &Solution) -> Result<Annotated, CallError>,
        json: bool,
    ) -> Result<Status> {
        let pairs: Vec<(&Problem, &Solution)> = (0..self.places.len()).map(|task| self.pair(task)).collect();
        let running = Running::default();
        let spec = JobPlan {
            kind,
            output: &self.labeling.output,
            determined_by: (self.generator.identity(), determined_by, texts(&pairs)),
            tasks: pairs.iter().map(|(_, solution)| solution.id.clone()).collect(),
            concurrency: self.generator.model.concurrency,
            skip_failed: self.labeling.run.skip_failed,
            quiet: json,
        };
        let each = |task: usize| {
            let ((problem, solution), running) = (pairs[task], &running);
            async move {
                let started = Instant::now();
                let mut annotated = annotate(problem, solution).await?;
                annotated.cost.seconds = started.elapsed().as_secs_f64();
                running.add(&annotated.cost);
                Ok(annotated)
            }
        };
        block_on(async {
            let message = || running.message(&self.generator.model.spending);
            let complete = match job::run(&self.labeling.run.jobs, spec, each, message).await? {
                JobEnd::Complete(complete) => complete,
                JobEnd::Stopped(status) => return Ok(status),
            };
            let results = self.of_solutions(&complete.results);
            let mut summary = LabelingSummary {
                annotator: kind.trim_start_matches("annotate ").to_owned(),
                model: self.generator.model.name.clone(),
                failed: complete.failed,
                failed_by_reason: complete.failed_by_reason.clone(),
                resumed: complete.resumed,
                skipped: self.skipped,
                continuation: self.generator.continuation,
                unseeded: self.generator.model.is_unseeded(),
                repeated: results.len() - self.places.len(),
                ..LabelingSummary::default()
            };
            self.write(&results)?;
            complete.done().await?;
            summary.count(&self.records, &results);
            summary.cost.complete(&self.generator.model.spending);
            summary.print(&self.labeling.output, json)
        })?
    }

    /// The result of each solution. What a text cost is with its first solution alone.
    fn of_solutions(&self, results: &[Option<Annotated>]) -> Vec<Option<Annotated>> {
        let mut paid = vec![false; results.len()];
        let of_task = |task: &usize| {
            let mut annotated = results[*task].clone()?;
            if std::mem::replace(&mut paid[*task], true) {
                annotated.cost = Cost::default();
                annotated.notes.clear();
                annotated.annotation.iter_mut().for_each(|annotation| annotation.cost = None);
            }
            Some(annotated)
        };
        self.tasks.iter().map(of_task).collect()
    }

    fn write(&self, results: &[Option<Annotated>]) -> Result<()> {
        let mut results = results.iter();
        let mut sink = Sink::create(Target::new(&self.labeling.output))?;
        for record in &self.records {
            let mut record = record.clone();
            for solution in &mut record.solutions {
                let annotated = results.next().expect("one for each solution");
                let Some(mut annotation) = annotated.as_ref().and_then(|found| found.annotation.clone())
                else {
                    continue;
                };
                if let (true, Some(cost)) = (self.labeling.record_time, &mut annotation.cost) {
                    cost.seconds = annotated.as_ref().map_or(0.0, |found| found.cost.seconds);
                }
                annotation.unseeded = self.generator.model.is_unseeded();
                // Earlier labels of the same annotator are replaced.
                let name = annotation.annotator();
                solution.annotations.retain(|other| other.annotator().is_none() || other.annotator() != name);
                solution.annotations.push(annotation);
            }
            sink.push(&record)?;
        }
        sink.finish()?;
        Ok(())
    }
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

fn texts<'a>(pairs: &[(&'a Problem, &'a Solution)]) -> Vec<LabelInputs<'a>> {
    let of = |&(problem, solution): &(&'a Problem, &'a Solution)| LabelInputs {
        question: problem.question(),
        context: &problem.context,
        domain: problem.domain,
        answer: problem.answer.as_deref(),
        aliases: &problem.aliases,
        reference: &problem.reference,
        steps: &solution.steps,
    };
    pairs.iter().map(of).collect()
}
