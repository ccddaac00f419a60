//! `gradus pool stats`: statistics of a pool.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use gradus_core::Mark;
use gradus_retrieve::pool::{Pool, PoolManifest};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::grouped;

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Pool folder
    pool: PathBuf,
    /// Verify the checksums of all files, however large the pool is
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    print: JsonOption,
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
}

pub(super) fn run(args: &StatsArgs) -> Result<Status> {
    let began = Instant::now();
    let pool = Pool::open_any(&args.pool)?;
    let open_seconds = began.elapsed().as_secs_f64();
    if args.verify {
        pool.verify()?;
    }
    let manifest = pool.manifest();
    let bytes = manifest.files.values().map(|entry| entry.bytes).sum();
    let mut report = StatsSummary {
        manifest,
        bytes,
        open_seconds,
        correct: 0,
        incorrect: 0,
        neutral: 0,
        wrong_solutions: 0,
    };
    for solution in pool.questions().flat_map(|question| question.solutions()) {
        let before = report.incorrect;
        for step in solution.steps() {
            match step.mark {
                Mark::Correct => report.correct += 1,
                Mark::Incorrect => report.incorrect += 1,
                Mark::Neutral => report.neutral += 1,
            }
        }
        report.wrong_solutions += usize::from(report.incorrect > before);
    }
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
    printer.table(&[&args.pool.display().to_string(), ""], &rows)?;
    if args.verify {
        printer.line("all checksums match")?;
    }
    Ok(Status::Done)
}
