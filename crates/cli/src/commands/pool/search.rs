//! `gradus pool search`: the nearest questions and steps, of one question or of whole datasets.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use gradus_core::contracts::ScoreRequest;
use gradus_data::files::{Sink, Target as File};
use gradus_retrieve::two_stage::{Retrieved, Settings, Target};
use serde::Serialize;

use super::super::Status;
use crate::args::pool::PoolSearch;
use crate::input;
use crate::paint;
use crate::printer::{self, Printer, counted};
use crate::references::{Library, Tally};

/// What came of a dataset, for machines.
#[derive(Serialize)]
struct Report {
    solutions: usize,
    texts: usize,
    tokens: u64,
    /// Both stages with the embedding of the queries, and opening the pool and the encoder before.
    seconds: f64,
    opening_seconds: f64,
    skipped: u64,
    #[serde(flatten)]
    tally: Tally,
}

pub(super) fn run(args: &PoolSearch) -> Result<Status> {
    let began = Instant::now();
    let library = Library::open(&args.pool.pool, args.pool.encoder.as_deref(), &args.options)?;
    let opening_seconds = began.elapsed().as_secs_f64();
    let settings = args.retrieval.settings();
    match (&args.question, &args.output) {
        (None, Some(output)) => dataset(args, &library, &settings, output, opening_seconds),
        (question, _) => one(args, &library, settings, question.as_deref().unwrap_or_default()),
    }
}

fn one(args: &PoolSearch, library: &Library, mut settings: Settings, question: &str) -> Result<Status> {
    if args.step.is_empty() {
        settings.steps = 0;
    }
    let target = Target { question: question.to_owned(), steps: args.step.clone(), ..Target::default() };
    let found = library.retrieve(&[target], &settings)?;
    let Retrieved { references, seen, .. } = &found.targets[0];
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&found.targets[0])?;
        return Ok(Status::Done);
    }
    let excerpt = |text: &str| printer::excerpt(text, 88);
    for (reference, from) in references.questions.iter().zip(&seen.questions) {
        printer.line(format!(
            "{}  {}  {}",
            paint::bold(&format!("{:.3}", from.similarity)),
            from.solution,
            excerpt(&reference.question)
        ))?;
        for (step, mark) in &reference.steps {
            printer.line(paint::dim(&format!("         {} {}", mark_of(*mark), excerpt(step))))?;
        }
    }
    for ((text, found), from) in args.step.iter().zip(&references.steps).zip(&seen.steps) {
        printer.line(format!("\n{}", paint::bold(&excerpt(text))))?;
        for (step, from) in found.iter().zip(from) {
            printer.line(format!(
                "{:.3}  {} {}",
                from.similarity,
                mark_of(step.mark),
                excerpt(&step.text)
            ))?;
        }
    }
    if references.questions.is_empty() && settings.questions > 0 {
        printer.line("nothing found")?;
    }
    let mut tally = Tally::default();
    tally.add(&found);
    if tally.guarded > 0 {
        printer.line(format!("\n{}", tally.lines()[0]))?;
    }
    Ok(Status::Done)
}

fn mark_of(mark: gradus_core::Mark) -> &'static str {
    match mark {
        gradus_core::Mark::Correct => "+",
        gradus_core::Mark::Incorrect => "-",
        gradus_core::Mark::Neutral => "0",
    }
}

fn dataset(
    args: &PoolSearch,
    library: &Library,
    settings: &Settings,
    output: &Path,
    opening_seconds: f64,
) -> Result<Status> {
    let began = Instant::now();
    let mut targets: Vec<Target> = Vec::new();
    let read = input::read(&args.data, args.from, args.on_error, &mut |item| {
        let requests =
            item.record.solutions.iter().map(|solution| ScoreRequest::of(&item.record.problem, solution));
        targets.extend(requests.map(|request| Target::from(&request)));
        Ok(())
    })?;
    let found = library.retrieve(&targets, settings)?;
    let mut sink = Sink::create(File::new(output))?;
    found.targets.iter().try_for_each(|target| sink.push(target))?;
    sink.finish()?;
    let mut tally = Tally::default();
    tally.add(&found);
    let report = Report {
        solutions: targets.len(),
        texts: found.embedded,
        tokens: found.tokens,
        seconds: began.elapsed().as_secs_f64(),
        opening_seconds,
        skipped: read.skipped,
        tally,
    };
    let printer = Printer::new(Some(output));
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "references of {} {}",
        counted(report.solutions as u64, "solution"),
        printer::written_to(output)
    ))?;
    printer.line(format!(
        "{} embedded ({}) and searched in {:.1} s, after {:.1} s to open pool and encoder",
        counted(report.texts as u64, "text"),
        counted(report.tokens, "token"),
        report.seconds,
        report.opening_seconds
    ))?;
    report.tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
    if report.skipped > 0 {
        printer.line(format!("{} skipped", counted(report.skipped, "record")))?;
    }
    Ok(Status::Done)
}
