//! Time and memory of the duplicate index: `cargo bench -p gradus-core --bench dedup`.
//!
//! 100,000 problems of the synthetic world are inserted and 10,000 looked up. Prints one JSON object.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use gradus_data::dedup::{DedupConfig, Index};
use gradus_synth::generate;

const PROBLEMS: usize = 100_000;
const LOOKUPS: usize = 10_000;

/// Resident megabytes, where the system tells.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(f64::NAN) * 4096.0 / 1e6
}

fn main() {
    let config = gradus_synth::SynthConfig {
        problems: PROBLEMS,
        solutions_per_problem: 1,
        ..gradus_synth::SynthConfig::default()
    };
    let texts: Vec<String> = generate(&config).map(|record| record.problem.text).collect();
    let mut index = Index::new(DedupConfig::default());
    let before = resident();
    let started = Instant::now();
    for (number, text) in texts.iter().enumerate() {
        index.insert(&number.to_string(), text);
    }
    let inserted = started.elapsed().as_secs_f64();
    let memory = resident() - before;
    let started = Instant::now();
    let found: usize = texts.iter().step_by(PROBLEMS / LOOKUPS).map(|text| index.find(text).len()).sum();
    let looked_up = started.elapsed().as_secs_f64();
    println!(
        r#"{{"problems": {PROBLEMS}, "inserted_s": {inserted:.2}, "memory_mb": {memory:.0}, "lookups": {LOOKUPS}, "looked_up_s": {looked_up:.2}, "found": {found}}}"#
    );
}
