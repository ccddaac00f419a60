//! Answers graded per second on one core and on all: `cargo bench -p gradus-grade --bench grade -- pairs.jsonl`.
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
    let equal = pairs.iter().filter(|(gold, text)| grade(gold, text).verdict == Verdict::Equal).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let one_core = rate(&pairs, 1);
    let all_cores = rate(&pairs, cores);
    println!(
        r#"{{"pairs": {}, "equal": {equal}, "per_second": {one_core:.0}, "cores": {cores}, "per_second_all_cores": {all_cores:.0}}}"#,
        pairs.len()
    );
}

/// Pairs graded per second by so many threads.
fn rate(pairs: &[(String, String)], threads: usize) -> f64 {
    let started = Instant::now();
    let graded: usize = std::thread::scope(|scope| {
        let work = || {
            let mut graded = 0;
            while started.elapsed() < LEAST {
                let equal = |(gold, text): &&(String, String)| grade(gold, text).verdict == Verdict::Equal;
                std::hint::black_box(pairs.iter().filter(equal).count());
                graded += pairs.len();
            }
            graded
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("grading does not panic")).sum()
    });
    graded as f64 / started.elapsed().as_secs_f64()
}
