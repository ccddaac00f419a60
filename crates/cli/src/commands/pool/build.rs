//! `gradus pool build` and `add`: from records to a pool, resumable at every batch.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use gradus_backend::{Embedder, block_on, encoder_for};
use gradus_retrieve::pca::{self, Keep, Pca};
use gradus_retrieve::pool::{PoolAddress, PoolBuildSummary, Progress as Embedded, Settings};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::annotator::AnnotatorOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::retrieval::{EncoderOptions, PoolOption};
use crate::arguments::values::count;
use crate::cost;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::job;
use crate::output::local_folder;
use crate::terminal::interrupt;
use crate::terminal::printer::Printer;
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

/// Dimensions of the vectors that a pool keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Dimensions {
    /// This many principal components.
    Fixed(usize),
    /// As many as explain this share of the variance.
    Explained(f64),
    /// The encoder's own.
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus pool build math-train.jsonl prm800k.jsonl -o math.pool\n  \
gradus pool build data.jsonl -o data.pool --dimensions 95%\n  \
gradus pool build data.jsonl -o data.pool --encoder smollm2-135m   # mean-pooled decoder\n  \
gradus pool build data.jsonl --to 'postgres://gradus@db/pools?pool=math'\n\n\
Rerun an interrupted build to resume it.")]
pub(crate) struct BuildArgs {
    /// Pool to create: a folder, or postgres://USER@HOST/DATABASE?pool=NAME (PostgreSQL with pgvector)
    #[arg(short, long, visible_alias = "to", value_name = "POOL")]
    output: PoolAddress,
    /// On a server, replace a pool of the same name once the new one is complete
    #[arg(long)]
    replace: bool,
    /// Embedding model name or folder (see gradus models list)
    #[arg(short, long, default_value = "all-minilm-l6-v2", value_name = "MODEL")]
    encoder: String,
    /// PCA dimensions: a number, a share of the variance such as 95%, or `all` for no PCA
    #[arg(long, default_value = "128", value_parser = dimensions)]
    dimensions: Dimensions,
    #[command(flatten)]
    growth: GrowthArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gradus pool add new.jsonl --pool math.pool")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pool: PoolOption,
    #[command(flatten)]
    growth: GrowthArgs,
}

/// What is added to a pool, and how it is indexed.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Use model-generated labels where a solution has no others
    #[arg(long)]
    any_labels: bool,
    #[command(flatten)]
    labels: AnnotatorOption,
    /// Number of questions from which an HNSW index is built (approximate search)
    #[arg(long, alias = "graph-from", default_value_t = 1_000_000, value_name = "QUESTIONS")]
    hnsw_threshold: usize,
    /// Texts per embedding batch
    #[arg(long, alias = "batch", default_value_t = 256, value_name = "TEXTS", value_parser = count)]
    batch_size: usize,
    #[command(flatten)]
    options: EncoderOptions,
    #[command(flatten)]
    print: JsonOption,
}

fn dimensions(text: &str) -> Result<Dimensions, String> {
    if text == "all" {
        return Ok(Dimensions::All);
    }
    let wrong = || format!("`{text}` is not a number, a share such as 95%, or `all`");
    if let Some(share) = text.strip_suffix('%') {
        let share: f64 = share.trim().parse().map_err(|_| wrong())?;
        return match share > 0.0 && share < 100.0 {
            true => Ok(Dimensions::Explained(share / 100.0)),
            false => Err(format!("`{text}` is not a share between 0% and 100%")),
        };
    }
    count(text).map(Dimensions::Fixed).map_err(|_| wrong())
}

/// Summary of a build.
#[derive(Serialize)]
struct BuildSummary<'a> {
    pool: &'a PoolAddress,
    encoder: &'a str,
    records: u64,
    /// Invalid records.
    skipped: u64,
    /// Share of the variance that the components explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<f64>,
    seconds: f64,
    #[serde(flatten)]
    report: PoolBuildSummary,
}

pub(super) fn build(args: &BuildArgs) -> Result<Status> {
    local_folder(&args.output.shown().to_string_lossy()).map_err(Usage)?;
    if args.replace && !args.output.is_on_server() {
        let message = "--replace is for a pool on a server; remove the folder first, or choose another name";
        return Err(Usage(message.to_owned()).into());
    }
    job::registered("pool build", Some(args.output.shown()), || build_pool(args))
}

fn build_pool(args: &BuildArgs) -> Result<Status> {
    let began = Instant::now();
    let (records, tally) = input::joined(&args.growth.input, Need::Records)?;
    let embedder = Embedder::open(&args.growth.options.named(&args.encoder))?;
    cost::announce(&embedder.spending);
    let explained = Mutex::new(None);
    let reduce = |rows: &[f32], dimension: usize| -> gradus_retrieve::Result<Pca> {
        let keep = match args.dimensions {
            Dimensions::Explained(share) => Keep::Explained(share),
            // A small pool has fewer principal components than requested.
            Dimensions::Fixed(count) => Keep::Fixed(count.min(dimension).min(rows.len() / dimension.max(1))),
            Dimensions::All => Keep::Fixed(dimension),
        };
        let fitted = pca::fit(rows, dimension, keep)?;
        *lock(&explained) = Some(fitted.explained.iter().sum());
        Ok(fitted.pca)
    };
    let reduce: Option<&pca::Reduce<'_>> = (args.dimensions != Dimensions::All).then_some(&reduce);
    let mut watching = Watching::new();
    let named = embedder.as_encoder();
    let settings = Settings { replace: args.replace, ..settings(&args.growth) };
    let work = args.output.build(records, &named, &settings, reduce, |done| watching.see(done));
    let report = block_on(work)??;
    cost::conclude(&embedder.spending);
    let explained = *lock(&explained);
    let outcome = BuildSummary {
        pool: &args.output,
        encoder: &args.encoder,
        records: tally.records,
        skipped: tally.skipped,
        explained,
        seconds: began.elapsed().as_secs_f64(),
        report,
    };
    show(&outcome, args.growth.print.json)
}

pub(super) fn add(args: &AddArgs) -> Result<Status> {
    job::registered("pool add", Some(args.pool.pool.shown()), || add_to_pool(args))
}

fn add_to_pool(args: &AddArgs) -> Result<Status> {
    let began = Instant::now();
    let (records, tally) = input::joined(&args.growth.input, Need::Records)?;
    let pool = args.pool.pool.open()?;
    let embedder = encoder_for(&*pool, args.pool.encoder.as_deref(), args.growth.options.settings())?;
    let mut watching = Watching::new();
    let named = embedder.as_encoder();
    let settings = settings(&args.growth);
    let work = args.pool.pool.add(records, &named, &settings, |done| watching.see(done));
    let report = block_on(work)??;
    let outcome = BuildSummary {
        pool: &args.pool.pool,
        encoder: &pool.manifest().encoder,
        records: tally.records,
        skipped: tally.skipped,
        explained: None,
        seconds: began.elapsed().as_secs_f64(),
        report,
    };
    show(&outcome, args.growth.print.json)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settings(growth: &GrowthArgs) -> Settings {
    Settings {
        batch: growth.batch_size,
        labels: growth.labels.choice_or_truth(growth.any_labels),
        graph_from: growth.hnsw_threshold,
        ..Settings::default()
    }
}

/// Progress of embedding, stopped by Ctrl-C.
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

fn show(outcome: &BuildSummary<'_>, json: bool) -> Result<Status> {
    let printer = Printer::new(None);
    if json {
        printer.json(outcome)?;
        return Ok(Status::Done);
    }
    let PoolBuildSummary { counts, before, dropped, embedded, dimension } = &outcome.report;
    let row =
        |what: &str, now: usize, before: usize| vec![what.to_owned(), grouped(now), grouped(now - before)];
    let rows = [
        row("questions", counts.questions, before.questions),
        row("solutions", counts.solutions, before.solutions),
        row("steps", counts.steps, before.steps),
        row("step texts", counts.step_texts, before.step_texts),
    ];
    printer.table(&[&outcome.pool.to_string(), "total", "new"], &rows)?;
    let variance =
        outcome.explained.map_or(String::new(), |share| format!(", {:.1} % of the variance", 100.0 * share));
    printer.line(format!("{} of {}{variance}", counted(dimension, "dimension"), outcome.encoder))?;
    printer.line(format!(
        "{} embedded ({} resumed), {} in {:.1} s",
        counted(embedded.done - embedded.resumed, "text"),
        grouped(embedded.resumed),
        counted(embedded.tokens, "token"),
        outcome.seconds,
    ))?;
    let left_out = [
        (dropped.unlabeled_records, "record", " without a labeled or reference solution"),
        (dropped.empty_questions, "record", " with an empty question"),
        (dropped.unlabeled_solutions, "solution", " without labels"),
        (dropped.unlabeled_steps, "step", " after a first error or without a label"),
        (dropped.known_solutions, "solution", " already in the pool"),
        (outcome.skipped as usize, "record", " (invalid)"),
    ];
    for (count, noun, what) in left_out.into_iter().filter(|(count, ..)| *count > 0) {
        printer.line(format!("omitted: {}{what}", counted(count, noun)))?;
    }
    if embedded.truncated > 0 {
        let texts = counted(embedded.truncated, "text");
        printer.line(format!("{texts} truncated to the encoder's limit"))?;
    }
    Ok(Status::Done)
}
