//! `gradus pool search`: the nearest questions and steps, of one question or of whole datasets.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use gradus_backend::Library;
use gradus_core::contracts::ScoreRequest;
use gradus_data::files::{Sink, Target as File};
use gradus_retrieve::two_stage::{Retrieved, Settings, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetOption;
use crate::arguments::retrieval::PoolQuery;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::references::{self, RetrievalTally};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::counted;

#[derive(Debug, Args)]
#[command(mut_arg("data", |arg| arg.help("Search for the questions and steps of all solutions of these datasets").requires("output")))]
#[command(
    after_help = "Examples:\n  gradus pool search 'How many apples are left?' --pool math.pool -k 5\n  \
gradus pool search --data solutions.jsonl --pool math.pool -o references.jsonl"
)]
pub(crate) struct SearchArgs {
    /// Question to search for
    #[arg(required_unless_present = "data", conflicts_with = "data")]
    question: Option<String>,
    /// Step to search for; repeatable
    #[arg(long, value_name = "TEXT", conflicts_with = "data")]
    step: Vec<String>,
    /// With --data, output file with one row per solution: references, their sources, and what the leak guard
    /// excluded
    #[arg(short, long, value_name = "FILE", requires = "data")]
    output: Option<PathBuf>,
    #[command(flatten)]
    dataset: DatasetOption,
    #[command(flatten)]
    query: PoolQuery,
    #[command(flatten)]
    print: JsonOption,
}

/// Summary of a search over datasets.
#[derive(Serialize)]
struct SearchSummary {
    solutions: usize,
    texts: usize,
    tokens: u64,
    /// Both stages with the embedding of the queries, and opening the pool and the encoder before.
    seconds: f64,
    opening_seconds: f64,
    skipped: u64,
    #[serde(flatten)]
    tally: RetrievalTally,
}

pub(super) fn run(args: &SearchArgs) -> Result<Status> {
    let began = Instant::now();
    let settings = args.query.retrieval.settings();
    let library = references::open(&args.query.pool, &args.query.options, &settings)?;
    let opening_seconds = began.elapsed().as_secs_f64();
    match (&args.question, &args.output) {
        (None, Some(output)) => dataset(args, &library, &settings, output, opening_seconds),
        (question, _) => one(args, &library, settings, question.as_deref().unwrap_or_default()),
    }
}

fn one(args: &SearchArgs, library: &Library, mut settings: Settings, question: &str) -> Result<Status> {
    if args.step.is_empty() {
        settings.steps = 0;
    }
    let target = Target { question: question.to_owned(), steps: args.step.clone(), ..Target::default() };
    let found = references::retrieve(library, &[target], &settings)?;
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
            paint::bold(&references::similarity(from)),
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
                "{}  {} {}",
                references::similarity(from),
                mark_of(step.mark),
                excerpt(&step.text)
            ))?;
        }
    }
    if references.questions.is_empty() && settings.questions > 0 {
        printer.line("no references found")?;
    }
    let mut tally = RetrievalTally::default();
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
    args: &SearchArgs,
    library: &Library,
    settings: &Settings,
    output: &Path,
    opening_seconds: f64,
) -> Result<Status> {
    let began = Instant::now();
    let mut targets: Vec<Target> = Vec::new();
    let read = input::for_each_of(&args.dataset, Need::Steps, |item| {
        let requests =
            item.record.solutions.iter().map(|solution| ScoreRequest::of(&item.record.problem, solution));
        targets.extend(requests.map(|request| Target::from(&request)));
        Ok(())
    })?;
    let found = references::retrieve(library, &targets, settings)?;
    let mut sink = Sink::create(File::new(output))?;
    found.targets.iter().try_for_each(|target| sink.push(target))?;
    sink.finish()?;
    let mut tally = RetrievalTally::default();
    tally.add(&found);
    let report = SearchSummary {
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
        counted(report.solutions, "solution"),
        printer::written_to(output)
    ))?;
    printer.line(format!(
        "{} embedded ({}) and searched in {:.1} s, after {:.1} s of loading",
        counted(report.texts, "text"),
        counted(report.tokens, "token"),
        report.seconds,
        report.opening_seconds
    ))?;
    report.tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
    printer.skipped(report.skipped)?;
    Ok(Status::Done)
}
