//! Grading: no pair of answers panics, hangs, or is equal one way round only.
//!
//! The first line of the input is the gold answer, the rest is the solution.

#![no_main]

mod stack;

use gradus_grade::{Reason, Verdict, compare, extract, grade};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: stack::watch(), |text: &str| {
    let (gold, answer) = text.split_once('\n').unwrap_or((text, ""));
    for side in [gold, answer] {
        let verdict = compare(side, side);
        assert!(
            matches!(verdict, Verdict::Equal | Verdict::Undecided(Reason::NoGold | Reason::NoAnswer)),
            "an answer is not equal to itself: {side:?}: {verdict:?}"
        );
    }
    let (verdict, turned) = (compare(gold, answer), compare(answer, gold));
    // What is different one way round may stay undecided the other way: a unit is converted to that of the gold answer.
    assert_eq!(
        verdict == Verdict::Equal,
        turned == Verdict::Equal,
        "{gold:?} and {answer:?} are {verdict:?}, turned round {turned:?}"
    );
    let found = extract(answer).map(|extracted| extracted.answer);
    assert_eq!(grade(gold, answer).answer, found);
});
