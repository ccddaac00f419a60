//! `gradus pool stats`: statistics of a pool, and whether its vectors are those of its texts.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use gradus_backend::{block_on, encoder_for};
use gradus_retrieve::pool::{PoolAddress, PoolManifest, VectorCheck, VectorSample};
use gradus_retrieve::source::{MarkCounts, PoolSource};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::retrieval::EncoderOptions;
use crate::arguments::values::at_least_one;
use crate::exit::Status;
use crate::references::verify_vectors;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus pool stats math.pool\n  gradus pool stats math.pool --verify\n  \
gradus pool stats math.pool --verify=all\n\n\
Checksums of all files are compared whenever a pool is opened."
)]
pub(crate) struct StatsArgs {
    /// Pool: a folder, or postgres://USER@HOST/DATABASE?pool=NAME
    pool: PoolAddress,
    /// Embed some texts again and compare with the pool's vectors: 32 texts, another number, or `all`
    #[arg(
        long,
        value_name = "TEXTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "32",
        value_parser = texts
    )]
    verify: Option<Texts>,
    /// Random seed of the texts to verify
    #[arg(long, default_value_t = 0, requires = "verify")]
    seed: u64,
    /// Embedding model (default: the one recorded in the pool)
    #[arg(long, value_name = "MODEL", requires = "verify")]
    encoder: Option<String>,
    #[command(flatten)]
    print: JsonOption,
    #[command(flatten)]
    options: EncoderOptions,
}

/// How many texts to embed again.
#[derive(Debug, Clone, Copy)]
enum Texts {
    Some(usize),
    All,
}

fn texts(text: &str) -> Result<Texts, String> {
    match text {
        "all" => Ok(Texts::All),
        _ => at_least_one(text).map(Texts::Some).map_err(|_| format!("`{text}` is not a number or `all`")),
    }
}

#[derive(Serialize)]
struct StatsSummary<'a> {
    #[serde(flatten)]
    manifest: &'a PoolManifest,
    bytes: u64,
    /// Seconds that opening took, the checksums of a small pool included.
    open_seconds: f64,
    /// Steps by label.
    correct: usize,
    incorrect: usize,
    neutral: usize,
    /// Solutions with a wrong step.
    wrong_solutions: usize,
    /// With `--verify`, the comparison of vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<VectorCheck>,
}

pub(super) fn run(args: &StatsArgs) -> Result<Status> {
    let began = Instant::now();
    let pool = args.pool.open()?;
    let open_seconds = began.elapsed().as_secs_f64();
    let verified = verified(args, &*pool)?;
    let manifest = pool.manifest();
    let bytes = block_on(pool.bytes())??;
    let MarkCounts { correct, incorrect, neutral, wrong_solutions } = block_on(pool.marks())??;
    let report = StatsSummary {
        manifest,
        bytes,
        open_seconds,
        correct,
        incorrect,
        neutral,
        wrong_solutions,
        verified,
    };
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    let counts = manifest.counts;
    let reduced = if manifest.pca {
        format!("{} of {}", manifest.kept, manifest.dimension)
    } else {
        grouped(manifest.kept)
    };
    let rows = [
        ("questions", grouped(counts.questions)),
        (
            "solutions",
            format!("{} ({} with an error)", grouped(counts.solutions), grouped(report.wrong_solutions)),
        ),
        ("steps", grouped(counts.steps)),
        ("  correct", grouped(report.correct)),
        ("  wrong", grouped(report.incorrect)),
        ("  neutral", grouped(report.neutral)),
        ("step texts", grouped(counts.step_texts)),
        ("encoder", format!("{} ({})", manifest.encoder, printer::excerpt(&manifest.fingerprint, 13))),
        ("dimensions", reduced),
        ("search", if pool.is_approximate() { "approximate (HNSW)" } else { "exact" }.to_owned()),
        ("leak guard", format!("near-duplicate threshold {}", manifest.guard.threshold)),
        ("size", format!("{:.1} MB", report.bytes as f64 / 1e6)),
        ("opened in", format!("{:.3} s", report.open_seconds)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    printer.table(&[&args.pool.to_string(), ""], &rows)?;
    // A server has no files of ours.
    if !manifest.files.is_empty() {
        printer.line("all checksums match")?;
    }
    if let Some(check) = &report.verified {
        printer.line(format!(
            "{} of {} embedded again: all vectors match (largest distance {:.1e})",
            grouped(check.checked),
            counted(check.total, "text"),
            check.largest_distance
        ))?;
    }
    Ok(Status::Done)
}

/// Compares the pool's vectors with those of its texts, where that is asked for.
fn verified(args: &StatsArgs, pool: &dyn PoolSource) -> Result<Option<VectorCheck>> {
    let sample = match args.verify {
        None => return Ok(None),
        Some(Texts::Some(count)) => VectorSample::Some { count, seed: args.seed },
        Some(Texts::All) => VectorSample::All,
    };
    let embedder = encoder_for(pool, args.encoder.as_deref(), args.options.settings())?;
    Ok(Some(verify_vectors(pool, &embedder, sample)?))
}
