//! Answers graded per second on one core: `cargo bench -p gradus-core --bench grade -- pairs.jsonl`.
//!
//! Each line of the file is `{"gold": …, "text": …}`. Prints one JSON object. `make bench-grade` runs it beside
//! math-verify on the same pairs.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use gradus_grade::{Verdict, grade};

/// The pairs are graded again until this much time has passed.
const LEAST: Duration = Duration::from_secs(3);

fn main() {
    let Some(path) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        println!("no pairs named: run `make bench-grade`");
        return;
    };
    let pairs: Vec<(String, String)> = std::fs::read_to_string(&path)
        .expect("the file of pairs can be read")
        .lines()
        .map(|line| {
            let pair: serde_json::Value = serde_json::from_str(line).expect("every line is a JSON object");
            let field = |name: &str| pair[name].as_str().expect("gold and text are strings").to_owned();
            (field("gold"), field("text"))
        })
        .collect();
    let mut equal = 0;
    let mut rounds = 0;
    let started = Instant::now();
    while started.elapsed() < LEAST {
        equal = pairs.iter().filter(|(gold, text)| grade(gold, text).verdict == Verdict::Equal).count();
        rounds += 1;
    }
    let seconds = started.elapsed().as_secs_f64();
    let per_second = (pairs.len() * rounds) as f64 / seconds;
    println!(
        r#"{{"pairs": {}, "rounds": {rounds}, "equal": {equal}, "per_second": {per_second:.0}}}"#,
        pairs.len()
    );
}
