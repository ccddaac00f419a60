//! Exact checks: no text panics or hangs, what is wrong has a proof, and what stands around can only excuse.

#![no_main]

mod stack;

use gradus_grade::checks::{Context, Verdict, check, check_in, prove};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: stack::watch(), |text: &str| {
    let found = check(text);
    for check in &found {
        assert!(check.span.start < check.span.end && check.span.end <= text.len(), "{:?} in {text:?}", check.span);
        assert!(text[check.span.clone()].starts_with(check.left) && text[check.span.clone()].ends_with(check.right));
        assert_eq!(check.verdict == Verdict::Wrong, check.proof.is_some(), "{text:?}");
    }
    // What is around can only excuse.
    let within = check_in(text, &Context::of(text));
    assert_eq!(found.len(), within.len(), "{text:?}");
    for (alone, within) in found.iter().zip(&within) {
        assert!(alone.verdict == within.verdict || alone.verdict == Verdict::Wrong, "{text:?}");
    }
    let steps: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
    for proof in prove(text, &steps) {
        assert!(steps[proof.step].get(proof.start..proof.end).is_some(), "{text:?}");
    }
});
