//! `gradus sample`: solutions to problems, drawn from a model.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::{Result, bail};
use gradus_annotate::prompt::Template;
use gradus_annotate::sample::{SampleConfig, Sampled, sample};
use gradus_core::contracts::{CallError, Sampling};
use gradus_core::steps;
use gradus_core::{Cost, Outcome, Problem, Record};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use super::annotate::cost::{self, Running};
use super::{Status, Usage};
use crate::args::annotate::Sample;
use crate::generator::{Generator, Traffic};
use crate::job::{self, Ended, Work};
use crate::printer::{self, Printer};
use crate::{input, local, paint};

#[derive(Debug, Default, Serialize)]
struct Report {
    generator: String,
    problems: usize,
    solutions: usize,
    /// By the grader, where the right answer is known.
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
    cost: Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    money: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<Traffic>,
}

pub(super) fn run(args: &Sample) -> Result<Status> {
    let mut problems: Vec<Problem> = Vec::new();
    let tally = input::for_each(&args.input, |item| {
        problems.push(item.record.problem);
        Ok(())
    })?;
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert((problem.id.clone(), problem.text.clone())));
    problems.truncate(args.run.limit.unwrap_or(usize::MAX));
    if problems.is_empty() {
        bail!("there is no problem in the input");
    }
    let config = SampleConfig {
        solutions: args.n,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, top_p: args.top_p, ..Sampling::default() },
        stop: args.stop.clone(),
        steps: steps::Config { strategy: args.steps, ..steps::Config::default() },
        seed: args.run.seed,
    };
    config.check().map_err(|error| Usage(error.to_string()))?;
    let solve = args.prompt.as_deref().map_or_else(|| Ok(Template::solve()), Template::read)?;
    let generator = Generator::open(&args.generator, solve, Template::go_on())?;
    let running = Running::default();
    let work = Work {
        kind: "sample",
        output: &args.output,
        determined_by: (generator.identity(&args.generator), &config, texts(&problems)),
        tasks: problems.iter().map(|problem| problem.id.clone()).collect(),
        concurrency: generator.concurrency,
        skip_failed: args.run.skip_failed,
        quiet: args.print.json,
    };
    let each = |task: usize| {
        let (generator, config, running, problem) = (&generator, &config, &running, &problems[task]);
        async move {
            let ask = generator.ask(problem).map_err(|error| CallError::Invalid(format!("{error:#}")))?;
            let started = Instant::now();
            let model = generator.model.as_ref();
            let mut sampled = sample(model, &generator.name, ask.as_ref(), problem, config).await?;
            sampled.cost.seconds = started.elapsed().as_secs_f64();
            running.add(&sampled.cost);
            Ok(sampled)
        }
    };
    local::wait(async {
        let ended = job::run(&args.run.jobs, work, each, || running.message(&generator)).await?;
        let complete = match ended {
            Ended::Complete(complete) => complete,
            Ended::Stopped(status) => return Ok(status),
        };
        let mut report = Report {
            generator: generator.name.clone(),
            problems: problems.len(),
            failed: complete.failed,
            resumed: complete.resumed,
            skipped: tally.skipped,
            traffic: generator.traffic(),
            ..Report::default()
        };
        let mut sink = Sink::create(Target::new(&args.output))?;
        for (problem, sampled) in problems.iter().zip(&complete.results) {
            let Some(sampled) = sampled else { continue };
            report.count(sampled);
            sink.push(&Record::new(problem.clone(), sampled.solutions.clone()))?;
        }
        sink.finish()?;
        complete.done().await?;
        report.money = generator.money(&report.cost);
        report.print(args)
    })?
}

/// What of problems determines their solutions.
fn texts(problems: &[Problem]) -> Vec<(&str, &[String], Option<&str>)> {
    problems
        .iter()
        .map(|problem| (problem.text.as_str(), problem.context.as_slice(), problem.answer.as_deref()))
        .collect()
}

impl Report {
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
        cost::add(&mut self.cost, &sampled.cost);
    }

    fn print(&self, args: &Sample) -> Result<Status> {
        let printer = Printer::new(None);
        if args.print.json {
            printer.json(self)?;
            return Ok(Status::Done);
        }
        printer.line(format!(
            "{} to {} by {} {}",
            paint::bold(&printer::counted(self.solutions as u64, "solution")),
            printer::counted(self.problems as u64, "problem"),
            self.generator,
            printer::written_to(&args.output)
        ))?;
        let graded = self.right + self.wrong;
        printer.counts(&[
            (self.right, "have the right answer"),
            (self.wrong, "have a wrong one"),
            (self.unknown, "have none that could be graded"),
            (self.unanswered, "have no final answer at all"),
            (self.cut, "were cut off at the token limit"),
            (self.repeated, "more repeated another word for word and are left out"),
            (self.empty, "more were empty and are left out"),
            (self.failed, "problems failed and are left out"),
            (self.resumed, "problems were done by an earlier run"),
        ])?;
        if graded > 0 {
            printer.line(format!(
                "{:>8}  of the graded ones are right",
                printer::percent(self.right as u64, graded as u64)
            ))?;
        }
        cost::print(
            printer,
            &self.cost,
            self.solutions,
            "solution",
            self.money.as_deref(),
            self.traffic.as_ref(),
        )?;
        Ok(Status::Done)
    }
}
