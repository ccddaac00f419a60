//! Pairs that rules keep or break, and whose equality is therefore known: a small part of `make test-metamorphic`.
//!
//! `metamorphic.jsonl` was written by `python3 ../metamorphic/generate.py --pairs 3000 --bases 14 --seed 20261117`.

#[path = "../metamorphic/pair.rs"]
mod pair;

use std::fmt::Write;

use gradus_grade::{Verdict, compare};
use pair::Pair;

#[test]
fn rules_that_keep_or_break_equality_are_seen() {
    let (mut pairs, mut wrong, mut undecided) = (0, 0, 0);
    let mut faults = String::new();
    for line in include_str!("metamorphic.jsonl").lines() {
        let Pair { gold, answer, equal, kind, rule } =
            serde_json::from_str(line).expect("every line is a pair");
        pairs += 1;
        match compare(&gold, &answer) {
            Verdict::Undecided(_) => undecided += 1,
            verdict if (verdict == Verdict::Equal) == equal => {}
            verdict => {
                wrong += 1;
                let _ = writeln!(faults, "{kind} ({rule}): {gold}  |  {answer}: {verdict:?}");
            }
        }
    }
    assert!(pairs >= 3_000);
    assert_eq!(wrong, 0, "\n{faults}");
    assert!(undecided * 100 < 3 * pairs, "{undecided} of {pairs} are undecided");
}
