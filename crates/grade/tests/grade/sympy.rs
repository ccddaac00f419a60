//! The grader against SymPy: `sympy/make.py` draws pairs of answers and SymPy decides whether they are equal.

use std::collections::BTreeMap;

use gradus_grade::{Verdict, compare};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Pair {
    gold: String,
    answer: String,
    equal: bool,
    kind: String,
}

/// Of the pairs of one kind, how many may stay undecided: 2 in 100.
const MAX_UNDECIDED: f64 = 0.02;

#[derive(Debug, Default)]
struct Row {
    pairs: usize,
    wrong: usize,
    undecided: usize,
}

#[test]
fn no_verdict_is_wrong_and_few_are_open() {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut report = String::new();
    for line in include_str!("sympy/pairs.jsonl").lines() {
        let Pair { gold, answer, equal, kind } = serde_json::from_str(line).expect("every line is a pair");
        let row = rows.entry(kind.clone()).or_default();
        row.pairs += 1;
        for (first, second) in [(&gold, &answer), (&answer, &gold)] {
            let verdict = compare(first, second);
            match verdict {
                Verdict::Undecided(_) => row.undecided += 1,
                _ if (verdict == Verdict::Equal) == equal => continue,
                _ => row.wrong += 1,
            }
            report += &format!("{kind}: {first}  |  {second}  equal={equal} but {verdict:?}\n");
        }
    }
    // Both orders are judged, so a pair counts twice.
    let judged = |row: &Row| (2 * row.pairs) as f64;
    for (kind, row) in &rows {
        report += &format!(
            "{kind:24} {:4} pairs  {:3} wrong  {:5.1}% undecided\n",
            row.pairs,
            row.wrong,
            100.0 * row.undecided as f64 / judged(row)
        );
    }
    let fails = |row: &Row| row.wrong > 0 || row.undecided as f64 > MAX_UNDECIDED * judged(row);
    assert!(!rows.is_empty() && !rows.values().any(fails), "\n{report}");
}
