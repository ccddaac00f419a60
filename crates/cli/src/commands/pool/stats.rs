//! `gradus pool stats`: what is in a pool.

use std::time::Instant;

use anyhow::Result;
use gradus_core::Mark;
use gradus_retrieve::pool::{Pool, PoolManifest};
use serde::Serialize;

use super::super::Status;
use crate::args::pool::PoolStats;
use crate::printer::{self, Printer, count};

#[derive(Serialize)]
struct Report<'a> {
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

pub(super) fn run(args: &PoolStats) -> Result<Status> {
    let began = Instant::now();
    let pool = Pool::open_any(&args.pool)?;
    let open_seconds = began.elapsed().as_secs_f64();
    if args.verify {
        pool.verify()?;
    }
    let manifest = pool.manifest();
    let bytes = manifest.files.values().map(|entry| entry.bytes).sum();
    let mut report =
        Report { manifest, bytes, open_seconds, correct: 0, incorrect: 0, neutral: 0, wrong_solutions: 0 };
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
    let number = |number: usize| count(number as u64);
    let reduced = if manifest.pca {
        format!("{} of {}", manifest.kept, manifest.dimension)
    } else {
        number(manifest.kept)
    };
    let rows = [
        ("questions", number(counts.questions)),
        (
            "solutions",
            format!("{} ({} with an error)", number(counts.solutions), number(report.wrong_solutions)),
        ),
        ("steps", number(counts.steps)),
        ("  right", number(report.correct)),
        ("  wrong", number(report.incorrect)),
        ("  neutral", number(report.neutral)),
        ("step texts", number(counts.step_texts)),
        ("encoder", format!("{} ({})", manifest.encoder, printer::excerpt(&manifest.fingerprint, 13))),
        ("dimensions", reduced),
        ("search", if pool.is_approximate() { "through a graph" } else { "exact" }.to_owned()),
        ("leak guard", format!("near-duplicates from a similarity of {}", manifest.guard.threshold)),
        ("size", format!("{:.1} MB", report.bytes as f64 / 1e6)),
        ("opened in", format!("{:.3} s", report.open_seconds)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    printer.table(&[&args.pool.display().to_string(), ""], &rows)?;
    if args.verify {
        printer.line("every file has its checksum")?;
    }
    Ok(Status::Done)
}
