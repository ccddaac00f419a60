//! Hard pairs of answers, checked by hand, each with its reason: `pairs/*.txt`, one file for each type of answer.
//!
//! ```text
//! # The reason of the pairs below.
//! = 1/2 ;; 0.5
//! ! 1/2 ;; 0.25
//! ? 7:30 ;; 7:30 PM
//! ```
//!
//! `=` is equal, `!` is different, and `?` is undecided: what the question says, and an answer alone does not, decides.

use std::fmt::Write;
use std::path::Path;

use gradus_grade::{Verdict, compare};

/// Shares of all pairs: wrongly different, and undecided though it can be told.
const MAX_WRONG_DIFFERENT: f64 = 0.005;
const MAX_UNDECIDED: f64 = 0.03;
const LEAST_PAIRS: usize = 1_500;

#[derive(Debug, Clone, Copy, Default)]
struct Confusion {
    pairs: usize,
    wrong_equal: usize,
    wrong_different: usize,
    undecided: usize,
}

/// The answers and the verdict of a line; `None` for a reason or an empty line.
fn pair(line: &str) -> Option<(&str, &str, char)> {
    let expected = line.chars().next().filter(|mark| "=!?".contains(*mark))?;
    let (left, right) = line[1..].split_once(";;").unwrap_or_else(|| panic!("no pair: {line}"));
    Some((left.trim(), right.trim(), expected))
}

#[test]
fn hard_pairs_are_judged_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grade/pairs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the pairs are there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let mut report = String::from("type               pairs  wrong equal  wrong different  undecided\n");
    let mut faults = String::new();
    let mut all = Confusion::default();
    for path in files {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("the file reads");
        let mut row = Confusion::default();
        let mut reason = "";
        for line in text.lines() {
            reason = line.strip_prefix("# ").unwrap_or(reason);
            let Some((left, right, expected)) = pair(line) else { continue };
            assert!(!reason.is_empty(), "{name}: no reason before {line}");
            row.pairs += 1;
            // The worse of the two orders counts.
            let verdicts = [compare(left, right), compare(right, left)];
            let says = |verdict| verdicts.contains(&verdict);
            let fault = match expected {
                '=' if says(Verdict::Different) => "wrong different",
                '=' if verdicts != [Verdict::Equal; 2] => "undecided",
                '!' | '?' if says(Verdict::Equal) => "wrong equal",
                '!' if verdicts != [Verdict::Different; 2] => "undecided",
                '?' if says(Verdict::Different) => "wrong different",
                _ => continue,
            };
            let _ = writeln!(faults, "{name}: {fault}: {line}   ({reason})");
            match fault {
                "wrong equal" => row.wrong_equal += 1,
                "wrong different" => row.wrong_different += 1,
                _ => row.undecided += 1,
            }
        }
        let _ = writeln!(
            report,
            "{name:18} {:5} {:12} {:16} {:10}",
            row.pairs, row.wrong_equal, row.wrong_different, row.undecided
        );
        all.pairs += row.pairs;
        all.wrong_equal += row.wrong_equal;
        all.wrong_different += row.wrong_different;
        all.undecided += row.undecided;
    }
    let _ = writeln!(
        report,
        "{:18} {:5} {:12} {:16} {:10}",
        "all", all.pairs, all.wrong_equal, all.wrong_different, all.undecided
    );
    #[expect(clippy::print_stdout, reason = "the table is shown with --nocapture and when the test fails")]
    {
        println!("{faults}\n{report}");
    }
    let share = |count: usize| count as f64 / all.pairs as f64;
    assert!(all.pairs >= LEAST_PAIRS, "only {} pairs", all.pairs);
    assert_eq!(all.wrong_equal, 0, "wrong equal");
    assert!(share(all.wrong_different) < MAX_WRONG_DIFFERENT, "too many are wrongly different");
    assert!(share(all.undecided) < MAX_UNDECIDED, "too many are undecided");
}
