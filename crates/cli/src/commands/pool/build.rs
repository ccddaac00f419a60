//! `gradus pool build` and `add`: from records to a pool, resumable at every batch.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use gradus_core::Record;
use gradus_retrieve::pca::{self, Keep, Pca};
use gradus_retrieve::pool::{self, PoolBuildSummary, Progress as Embedded, Settings};
use serde::Serialize;

use super::super::Status;
use crate::args::Input;
use crate::args::pool::{Dimensions, Growth, PoolAdd, PoolBuild};
use crate::input;
use crate::interrupt;
use crate::local;
use crate::printer::{self, Printer, counted};
use crate::progress::Progress;
use crate::references::{Library, TextEncoder};

/// What came of it, for machines.
#[derive(Serialize)]
struct Outcome<'a> {
    pool: &'a Path,
    encoder: &'a str,
    records: u64,
    /// Records that could not be read.
    skipped: u64,
    /// Share of the variance that the components explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<f64>,
    seconds: f64,
    #[serde(flatten)]
    report: PoolBuildSummary,
}

pub(super) fn build(args: &PoolBuild) -> Result<Status> {
    let began = Instant::now();
    let (records, tally) = read(&args.input)?;
    let encoder = TextEncoder::start(&args.encoder, &args.options)?;
    let explained = Mutex::new(None);
    let reduce = |rows: &[f32], dimension: usize| -> gradus_retrieve::Result<Pca> {
        let keep = match args.dimensions {
            Dimensions::Explained(share) => Keep::Explained(share),
            // A pool smaller than the dimensions asked for keeps as many as there are.
            Dimensions::Fixed(count) => Keep::Fixed(count.min(dimension).min(rows.len() / dimension.max(1))),
            Dimensions::All => Keep::Fixed(dimension),
        };
        let fitted = pca::fit(rows, dimension, keep)?;
        *lock(&explained) = Some(fitted.explained.iter().sum());
        Ok(fitted.pca)
    };
    let reduce: Option<&pca::Reduce<'_>> = (args.dimensions != Dimensions::All).then_some(&reduce);
    let mut watching = Watching::new();
    let named = encoder.named();
    let settings = settings(&args.growth);
    let work = pool::build(&args.output, records, &named, &settings, reduce, |done| watching.see(done));
    let report = local::wait(work)??;
    let explained = *lock(&explained);
    let outcome = Outcome {
        pool: &args.output,
        encoder: &args.encoder,
        records: tally.records,
        skipped: tally.skipped,
        explained,
        seconds: began.elapsed().as_secs_f64(),
        report,
    };
    show(&outcome, args.print.json)
}

pub(super) fn add(args: &PoolAdd) -> Result<Status> {
    let began = Instant::now();
    let (records, tally) = read(&args.input)?;
    let library = Library::open(&args.pool.pool, args.pool.encoder.as_deref(), &args.options)?;
    let mut watching = Watching::new();
    let named = library.encoder.named();
    let settings = settings(&args.growth);
    let work = pool::add(&args.pool.pool, records, &named, &settings, |done| watching.see(done));
    let report = local::wait(work)??;
    let outcome = Outcome {
        pool: &args.pool.pool,
        encoder: &library.pool.manifest().encoder,
        records: tally.records,
        skipped: tally.skipped,
        explained: None,
        seconds: began.elapsed().as_secs_f64(),
        report,
    };
    show(&outcome, args.print.json)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(input: &Input) -> Result<(Vec<Record>, input::Tally)> {
    let mut records = Vec::new();
    let tally = input::for_each(input, |item| {
        records.push(item.record);
        Ok(())
    })?;
    Ok((records, tally))
}

fn settings(growth: &Growth) -> Settings {
    Settings {
        batch: growth.batch,
        opinions: growth.any_labels,
        graph_from: growth.graph_from,
        ..Settings::default()
    }
}

/// A bar over the texts to embed, and the ear for Ctrl-C.
struct Watching {
    bar: Option<Progress>,
    began: Instant,
}

impl Watching {
    fn new() -> Self {
        interrupt::be_patient();
        Self { bar: None, began: Instant::now() }
    }

    fn see(&mut self, done: Embedded) -> bool {
        let bar = self.bar.get_or_insert_with(|| Progress::new(done.total as u64, false));
        let speed = done.tokens as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        bar.now(done.done as u64, &format!("texts  {speed:.0} tokens/s"));
        !interrupt::asked()
    }
}

fn show(outcome: &Outcome<'_>, json: bool) -> Result<Status> {
    let printer = Printer::new(None);
    if json {
        printer.json(outcome)?;
        return Ok(Status::Done);
    }
    let PoolBuildSummary { counts, before, dropped, embedded, dimension } = &outcome.report;
    let row = |what: &str, now: usize, before: usize| {
        vec![what.to_owned(), printer::count(now as u64), printer::count((now - before) as u64)]
    };
    let rows = [
        row("questions", counts.questions, before.questions),
        row("solutions", counts.solutions, before.solutions),
        row("steps", counts.steps, before.steps),
        row("step texts", counts.step_texts, before.step_texts),
    ];
    printer.table(&[&outcome.pool.display().to_string(), "now", "new"], &rows)?;
    let variance =
        outcome.explained.map_or(String::new(), |share| format!(", {:.1} % of the variance", 100.0 * share));
    printer.line(format!("{dimension} dimensions of {}{variance}", outcome.encoder))?;
    printer.line(format!(
        "{} embedded ({} from an earlier run), {} in {:.1} s",
        counted((embedded.done - embedded.resumed) as u64, "text"),
        printer::count(embedded.resumed as u64),
        counted(embedded.tokens, "token"),
        outcome.seconds,
    ))?;
    let left_out = [
        (dropped.unlabelled_records, "records without a labelled or reference solution"),
        (dropped.empty_questions, "records with an empty question"),
        (dropped.unlabelled_solutions, "solutions without labels"),
        (dropped.unlabelled_steps, "steps after a first error or without a label"),
        (dropped.known_solutions, "solutions that were there already"),
        (outcome.skipped as usize, "records that could not be read"),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        printer.line(format!("left out: {} {what}", printer::count(count as u64)))?;
    }
    if embedded.truncated > 0 {
        let texts = counted(embedded.truncated as u64, "text");
        printer.line(format!("{texts} longer than the encoder's limit: cut there"))?;
    }
    Ok(Status::Done)
}
