//! Grades pairs of answers whose equality is known, and prints what was judged wrongly, kind by kind.
//!
//! `python3 tests/metamorphic/generate.py | cargo run --release --example metamorphic`, or `make test-metamorphic`. Fails with
//! any wrong *equal*, with 0.5 % wrong *different* or with 3 % undecided.
#![expect(clippy::print_stdout, reason = "a report is printed")]

#[path = "../tests/metamorphic/pair.rs"]
mod pair;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::ExitCode;

use gradus_grade::{Verdict, compare};
use pair::Pair;

#[derive(Default)]
struct Row {
    pairs: usize,
    wrong_equal: usize,
    wrong_different: usize,
    undecided: usize,
}

/// Faults of each sort that are shown.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut faults: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let pair: Pair =
            serde_json::from_str(&line.expect("a line of text")).expect("every line is a JSON object");
        let row = rows.entry(pair.kind.clone()).or_default();
        row.pairs += 1;
        let (verdict, fault) = match (compare(&pair.gold, &pair.answer), pair.equal) {
            (Verdict::Equal, true) | (Verdict::Different, false) => continue,
            (verdict @ Verdict::Equal, false) => (verdict, "wrong equal"),
            (verdict @ Verdict::Different, true) => (verdict, "wrong different"),
            (verdict, _) => (verdict, "undecided"),
        };
        match verdict {
            Verdict::Equal => row.wrong_equal += 1,
            Verdict::Different => row.wrong_different += 1,
            Verdict::Undecided(_) => row.undecided += 1,
        }
        let shown = faults.entry(fault).or_default();
        if shown.len() < SHOWN {
            shown.push(format!("{} ({}): {}  |  {}", pair.kind, pair.rule, pair.gold, pair.answer));
        }
    }
    for (fault, pairs) in &faults {
        println!("{fault}:");
        for pair in pairs {
            println!("  {pair}");
        }
    }
    println!(
        "{:24} {:>9} {:>12} {:>16} {:>10}",
        "kind", "pairs", "wrong equal", "wrong different", "undecided"
    );
    let mut all = Row::default();
    let show = |kind: &str, row: &Row| {
        let Row { pairs, wrong_equal, wrong_different, undecided } = row;
        println!("{kind:24} {pairs:9} {wrong_equal:12} {wrong_different:16} {undecided:10}");
    };
    for (kind, row) in &rows {
        show(kind, row);
        all.pairs += row.pairs;
        all.wrong_equal += row.wrong_equal;
        all.wrong_different += row.wrong_different;
        all.undecided += row.undecided;
    }
    show("all", &all);
    let share = |count: usize| count as f64 / all.pairs.max(1) as f64;
    let passes = all.wrong_equal == 0 && share(all.wrong_different) < 0.005 && share(all.undecided) < 0.03;
    if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
