//! Cutting into steps: whatever the strategy, nothing but white space lies between the steps, and joining gives the
//! text back byte for byte.

#![no_main]

mod stack;

use gradus_core::steps::{SplitConfig, Strategy, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: stack::watch(), |text: &str| {
    for strategy in Strategy::ALL {
        for min_chars in [0, 8] {
            let cut = split(text, &SplitConfig { strategy, min_chars });
            let name = strategy.name();
            assert_eq!(cut.join(), text, "{name}");
            assert_eq!(cut.steps().len() == 0, text.trim().is_empty(), "{name}: no steps in {text:?}");
            for step in cut.steps() {
                assert!(!step.is_empty() && step.trim() == step, "{name}: a step is {step:?}");
            }
            for separator in cut.separators() {
                assert!(separator.trim().is_empty(), "{name}: left out {separator:?}");
            }
        }
    }
});
