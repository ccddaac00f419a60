//! Exact checks against step labels, and their speed.
//!
//! `cargo run --release -p gradus-grade --example step_checks -- processbench/*.json` prints for each file how many first
//! errors are proved wrong, how many right steps are (false alarms, and errors of the labels), and how many MB of steps
//! are checked a second on one core. `--show` prints every proof with its step.
#![expect(clippy::print_stdout, reason = "a report is printed")]

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gradus_core::{Mark, Solution};
use gradus_grade::checks::{check, prove};

/// All texts are checked again until this much time has passed.
const LEAST: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Row {
    right: usize,
    false_alarms: usize,
    wrong: usize,
    found: usize,
}

impl Row {
    fn print(&self, name: &str) {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "{name:28} {:>7} right, {:>4} flagged ({:.3} %)   {:>6} wrong, {:>5} flagged ({:.1} %)",
            self.right,
            self.false_alarms,
            percent(self.false_alarms, self.right),
            self.wrong,
            self.found,
            percent(self.found, self.wrong),
        );
    }

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.false_alarms += other.false_alarms;
        self.wrong += other.wrong;
        self.found += other.found;
    }
}

/// Steps that were seen already: solutions of some datasets begin alike.
type Seen = HashSet<(String, Mark)>;

fn main() {
    let (options, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let show = options.iter().any(|option| option == "--show");
    let mut total = Row::default();
    let mut texts = Vec::new();
    for file in &files {
        let mut row = Row::default();
        let mut seen = Seen::new();
        for item in gradus_data::files::open(&[PathBuf::from(file)], None).expect("the file opens") {
            let record = item.expect("the record is read").record;
            for solution in &record.solutions {
                measure(&record.problem.text, solution, &mut row, &mut seen, show);
                texts.extend(solution.steps.iter().cloned());
            }
        }
        row.print(file.rsplit('/').next().unwrap_or(file));
        total.add(&row);
    }
    total.print("all");
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{:.1} MB of steps, {:.0} MB/s", bytes as f64 / 1e6, rate(&texts, bytes));
}

/// Counts what is proved wrong of the steps that are labeled.
fn measure(problem: &str, solution: &Solution, row: &mut Row, seen: &mut Seen, show: bool) {
    let Some(labels) = solution.truth() else { return };
    let proofs = prove(problem, &solution.steps);
    for (step, label) in labels.targets() {
        let prefix = format!("{problem}\n{}", solution.steps[..=step].join("\n"));
        if label.mark == Mark::Neutral || !seen.insert((prefix, label.mark)) {
            continue;
        }
        let proof = proofs.iter().find(|proof| proof.step == step);
        if let (true, Some(proof)) = (show, proof) {
            println!("{:?}  {}\n    {}", label.mark, proof.proof, solution.steps[step].replace('\n', " "));
        }
        let flagged = usize::from(proof.is_some());
        if label.mark == Mark::Correct {
            row.right += 1;
            row.false_alarms += flagged;
        } else {
            row.wrong += 1;
            row.found += flagged;
        }
    }
}

/// Megabytes checked per second.
fn rate(texts: &[String], bytes: usize) -> f64 {
    let started = Instant::now();
    let mut rounds = 0;
    while started.elapsed() < LEAST {
        std::hint::black_box(texts.iter().map(|text| check(text).len()).sum::<usize>());
        rounds += 1;
    }
    (rounds * bytes) as f64 / 1e6 / started.elapsed().as_secs_f64()
}
