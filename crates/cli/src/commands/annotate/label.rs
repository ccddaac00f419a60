//! The annotators that ask a model: a job with one task per solution.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};
use gradus_annotate::prompt::Template;
use gradus_annotate::reference::{Guide, ReferenceAnnotator};
use gradus_annotate::report::{Panel, PanelRow, report};
use gradus_annotate::{Annotated, judge as by_judge, monte_carlo as by_sampling, reference as by_reference};
use gradus_core::contracts::{CallError, Sampling};
use gradus_core::metrics::bootstrap;
use gradus_core::metrics::labels::Agreement;
use gradus_core::metrics::process::ProcessScores;
use gradus_core::{Cost, Problem, Record, Solution};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use super::cost::{self, Running};
use crate::args::annotate::{Judge, LabelKind, Labelling, MonteCarlo, Reference, SearchKind};
use crate::args::generator::GeneratorOptions;
use crate::commands::{Status, Usage};
use crate::generator::{Generator, Traffic};
use crate::job::{self, Ended, Work};
use crate::printer::{self, Printer};
use crate::{input, local, paint};

pub(super) fn monte_carlo(args: &MonteCarlo) -> Result<Status> {
    let config = by_sampling::MonteCarloConfig {
        samples: args.samples,
        threshold: args.threshold,
        labels: match args.labels {
            LabelKind::Hard => by_sampling::Labels::Hard,
            LabelKind::Soft => by_sampling::Labels::Soft,
        },
        search: match args.search {
            SearchKind::Linear => by_sampling::Search::Linear,
            SearchKind::Binary => by_sampling::Search::Binary,
        },
        early_stop: !args.no_early_stop,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, ..Sampling::default() },
        seed: args.labelling.run.seed,
        ..by_sampling::MonteCarloConfig::default()
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    let solve = args.prompt.as_deref().map_or_else(|| Ok(Template::solve()), Template::read)?;
    let go_on = args.continue_prompt.as_deref().map_or_else(|| Ok(Template::go_on()), Template::read)?;
    let ready = Ready::open(&args.labelling, &args.generator, solve, go_on)?;
    let each = async |problem: &Problem, solution: &Solution| {
        let generator = &ready.generator;
        let ask = generator.ask(problem).map_err(|error| CallError::Invalid(format!("{error:#}")))?;
        by_sampling::annotate(generator.model.as_ref(), ask.as_ref(), problem, solution, &config).await
    };
    ready.run("annotate monte-carlo", &config, &each, args.print.json)
}

pub(super) fn judge(args: &Judge) -> Result<Status> {
    let temperature = args.temperature.unwrap_or(if args.votes > 1 { 0.7 } else { 0.0 });
    let config = by_judge::JudgeConfig {
        votes: args.votes,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature, ..Sampling::default() },
        seed: args.labelling.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    only_talked_to(&args.generator)?;
    let template = args.prompt.as_deref().map_or_else(|| Ok(Template::judge()), Template::read)?;
    by_judge::check_template(&template)?;
    let ready = Ready::open(&args.labelling, &args.generator, Template::solve(), Template::go_on())?;
    let judge = by_judge::Judge {
        model: ready.generator.model.as_ref(),
        name: &ready.generator.name,
        template: &template,
        system: args.generator.system.as_deref(),
    };
    let each = async |problem: &Problem, solution: &Solution| {
        by_judge::annotate(judge, problem, solution, &config).await
    };
    ready.run("annotate judge", &(&config, template.text()), &each, args.print.json)
}

pub(super) fn reference(args: &Reference) -> Result<Status> {
    let config = by_reference::ReferenceConfig {
        exemplars: args.shots,
        retries: args.attempts,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, ..Sampling::default() },
        structured: !args.unstructured,
        seed: args.labelling.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    only_talked_to(&args.generator)?;
    if args.generator.system.is_some() {
        bail!(Usage("--system means nothing here: --prompt replaces the instructions".to_owned()));
    }
    let mut guide = Guide::built_in();
    if let Some(path) = &args.prompt {
        guide = guide.with_system(path)?;
    }
    if let Some(path) = &args.exemplars {
        guide = guide.with_exemplars(path)?;
    }
    let ready = Ready::open(&args.labelling, &args.generator, Template::solve(), Template::go_on())?;
    let annotator = ReferenceAnnotator {
        model: ready.generator.model.as_ref(),
        name: &ready.generator.name,
        guide: &guide,
    };
    let each = async |problem: &Problem, solution: &Solution| {
        by_reference::annotate(annotator, problem, solution, &config).await
    };
    ready.run("annotate reference", &(&config, guide.text()), &each, args.print.json)
}

/// Refuses options about how a solution is gone on with: this annotator only talks.
fn only_talked_to(options: &GeneratorOptions) -> Result<()> {
    let given = [("--raw", options.raw), ("--template", options.template.is_some())];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
        bail!(Usage(format!("{name} means nothing here: it is for sample and monte-carlo")));
    }
    Ok(())
}

/// Solutions to label, and who does it.
struct Ready<'a> {
    labelling: &'a Labelling,
    options: &'a GeneratorOptions,
    generator: Generator,
    records: Vec<Record>,
    /// Places of the solutions in `records`.
    places: Vec<(usize, usize)>,
    skipped: u64,
}

impl<'a> Ready<'a> {
    fn open(
        labelling: &'a Labelling,
        options: &'a GeneratorOptions,
        solve: Template,
        go_on: Template,
    ) -> Result<Self> {
        let mut records: Vec<Record> = Vec::new();
        let tally = input::for_each(&labelling.input, |item| {
            records.push(item.record);
            Ok(())
        })?;
        records.truncate(labelling.run.limit.unwrap_or(usize::MAX));
        let places: Vec<(usize, usize)> = (0..records.len())
            .flat_map(|record| (0..records[record].solutions.len()).map(move |solution| (record, solution)))
            .collect();
        if places.is_empty() {
            bail!("there is no solution in the input: `gradus sample` draws some");
        }
        let generator = Generator::open(options, solve, go_on)?;
        Ok(Self { labelling, options, generator, records, places, skipped: tally.skipped })
    }

    fn pair(&self, task: usize) -> (&Problem, &Solution) {
        let (record, solution) = self.places[task];
        (&self.records[record].problem, &self.records[record].solutions[solution])
    }

    /// Labels every solution, writes the dataset, and says what came out.
    fn run(
        &self,
        kind: &str,
        determined_by: &impl Serialize,
        annotate: &impl AsyncFn(&Problem, &Solution) -> Result<Annotated, CallError>,
        json: bool,
    ) -> Result<Status> {
        let pairs: Vec<(&Problem, &Solution)> = (0..self.places.len()).map(|task| self.pair(task)).collect();
        let running = Running::default();
        let work = Work {
            kind,
            output: &self.labelling.output,
            determined_by: (self.generator.identity(self.options), determined_by, texts(&pairs)),
            tasks: pairs.iter().map(|(_, solution)| solution.id.clone()).collect(),
            concurrency: self.generator.concurrency,
            skip_failed: self.labelling.run.skip_failed,
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
        local::wait(async {
            let message = || running.message(&self.generator);
            let complete = match job::run(&self.labelling.run.jobs, work, each, message).await? {
                Ended::Complete(complete) => complete,
                Ended::Stopped(status) => return Ok(status),
            };
            let mut summary = Summary {
                annotator: kind.trim_start_matches("annotate ").to_owned(),
                model: self.generator.name.clone(),
                failed: complete.failed,
                resumed: complete.resumed,
                skipped: self.skipped,
                traffic: self.generator.traffic(),
                ..Summary::default()
            };
            self.write(&complete.results)?;
            complete.done().await?;
            summary.count(&pairs, &complete.results);
            summary.money = self.generator.money(&summary.cost);
            summary.print(&self.labelling.output, json)
        })?
    }

    fn write(&self, results: &[Option<Annotated>]) -> Result<()> {
        let mut results = results.iter();
        let mut sink = Sink::create(Target::new(&self.labelling.output))?;
        for record in &self.records {
            let mut record = record.clone();
            for solution in &mut record.solutions {
                let annotated = results.next().expect("one for each solution");
                let Some(mut annotation) = annotated.as_ref().and_then(|found| found.annotation.clone())
                else {
                    continue;
                };
                if let (true, Some(cost)) = (self.labelling.seconds, &mut annotation.cost) {
                    cost.seconds = annotated.as_ref().map_or(0.0, |found| found.cost.seconds);
                }
                // The same annotator's labels of before are replaced.
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

/// What of a solution determines its labels.
#[derive(Serialize)]
struct Text<'a> {
    question: String,
    answer: Option<&'a str>,
    aliases: &'a [String],
    reference: &'a [String],
    steps: &'a [String],
}

fn texts<'a>(pairs: &[(&'a Problem, &'a Solution)]) -> Vec<Text<'a>> {
    let of = |&(problem, solution): &(&'a Problem, &'a Solution)| Text {
        question: problem.question(),
        answer: problem.answer.as_deref(),
        aliases: &problem.aliases,
        reference: &problem.reference,
        steps: &solution.steps,
    };
    pairs.iter().map(of).collect()
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    annotator: String,
    model: String,
    solutions: usize,
    labelled: usize,
    steps_labelled: usize,
    /// Labelled solutions in which an error was found.
    with_error: usize,
    undecided: usize,
    undecided_by_reason: BTreeMap<String, u64>,
    notes: BTreeMap<String, u64>,
    failed: usize,
    resumed: usize,
    skipped: u64,
    cost: Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    money: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<Traffic>,
    /// Agreement with labels that the input had already.
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<Agreement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_errors: Option<ProcessScores>,
}

impl Summary {
    fn count(&mut self, pairs: &[(&Problem, &Solution)], results: &[Option<Annotated>]) {
        let mut rows = Vec::new();
        for ((problem, solution), found) in pairs.iter().zip(results) {
            self.solutions += 1;
            let Some(found) = found else { continue };
            cost::add(&mut self.cost, &found.cost);
            for (note, count) in &found.notes {
                *self.notes.entry(note.clone()).or_default() += count;
            }
            if let Some(undecided) = &found.undecided {
                self.undecided += 1;
                *self.undecided_by_reason.entry(undecided.reason.clone()).or_default() += 1;
            }
            rows.push(PanelRow {
                problem: problem.id.clone(),
                steps: solution.steps.len(),
                outcome: solution.outcome,
                truth: solution.truth().cloned(),
                annotations: vec![found.annotation.clone()],
            });
        }
        let panel = Panel { names: vec![self.annotator.clone()], rows };
        let settings = bootstrap::Settings { resamples: 0, ..bootstrap::Settings::default() };
        let Some(numbers) = report(&panel, &settings).annotators.pop() else { return };
        self.labelled = numbers.decided;
        self.steps_labelled = numbers.labels;
        self.with_error = numbers.errors;
        self.agreement = numbers.agreement;
        self.first_errors = numbers.first_errors;
    }

    fn print(&self, output: &std::path::Path, json: bool) -> Result<Status> {
        let printer = Printer::new(None);
        if json {
            printer.json(self)?;
            return Ok(Status::Done);
        }
        let share = printer::percent(self.labelled as u64, self.solutions as u64);
        printer.line(format!(
            "{} of {} labelled by {} with {} ({share}) {}",
            paint::bold(&printer::count(self.labelled as u64)),
            printer::counted(self.solutions as u64, "solution"),
            self.annotator,
            self.model,
            printer::written_to(output)
        ))?;
        printer.counts(&[
            (self.steps_labelled, "steps have a label"),
            (self.with_error, "solutions have an error"),
            (self.undecided, "solutions are undecided"),
        ])?;
        for (reason, count) in &self.undecided_by_reason {
            printer.counts(&[(*count as usize, &format!("  {reason}"))])?;
        }
        for (note, count) in &self.notes {
            printer.counts(&[(*count as usize, note)])?;
        }
        printer.counts(&[
            (self.failed, "solutions failed and have no label"),
            (self.resumed, "solutions were done by an earlier run"),
            (self.skipped as usize, "records were skipped: they could not be read"),
        ])?;
        if let Some(agreement) = &self.agreement {
            let percent =
                |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share));
            let heading = ["labels of before", "steps", "undecided", "precision", "recall"];
            let row = |name: &str, class: &gradus_core::metrics::labels::ClassScores, undecided: usize| {
                let steps = printer::count(class.steps as u64);
                let undecided = printer::count(undecided as u64);
                vec![name.to_owned(), steps, undecided, percent(class.precision), percent(class.recall)]
            };
            let rows = [
                row("right", &agreement.right, agreement.said_of_right.undecided),
                row("wrong", &agreement.wrong, agreement.said_of_wrong.undecided),
            ];
            printer.line(format!(
                "\nagrees with {} % of the labels that were there",
                percent(agreement.accuracy)
            ))?;
            printer.table(&heading, &rows)?;
        }
        cost::print(
            printer,
            &self.cost,
            self.solutions,
            "solution",
            self.money.as_deref(),
            self.traffic.as_ref(),
        )?;
        if self.undecided > 0 {
            printer
                .line(paint::dim("what was said of the undecided ones: gradus jobs show ID --undecided"))?;
        }
        Ok(Status::Done)
    }
}
