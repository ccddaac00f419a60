//! What models answer: whatever the text, the judge protocols, reference-guided labels and the critics' parser read it or
//! say why not, and name no step that the solution does not have.

#![no_main]

mod stack;

use std::sync::LazyLock;

use gradus_annotate::judge::Protocol;
use gradus_annotate::reference::{Guide, ReferenceAnnotator, ReferenceConfig, annotate};
use gradus_core::contracts::{Answer, Choice, FinishReason, Generate, GenerateRequest, Generated, Usage};
use gradus_core::{FirstError, Problem, Record, Solution};
use gradus_train::critic;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

static PROTOCOLS: LazyLock<[Protocol; 3]> =
    LazyLock::new(|| [Protocol::gradus(), Protocol::processbench(), Protocol::qwen()]);
static GUIDE: LazyLock<Guide> = LazyLock::new(Guide::built_in);
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// A model that always says the same.
struct Says<'a>(&'a str);

impl Generate for Says<'_> {
    fn generate(&self, _: GenerateRequest) -> Answer<'_, Generated> {
        let (text, finish) = (self.0.to_owned(), FinishReason::Stop);
        let choice = Choice { text, finish, logprobs: Vec::new(), tokens: Vec::new() };
        Box::pin(async { Ok(Generated { choices: vec![choice], usage: Usage::default() }) })
    }
}

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let text = &*String::from_utf8_lossy(bytes);
    for protocol in &*PROTOCOLS {
        for (steps, cut) in [(0, false), (1, true), (3, false), (12, false)] {
            if let Ok(reading) = protocol.read(text, steps, cut) {
                assert!(!matches!(reading.first_error, FirstError::At(step) if step >= steps), "{reading:?}");
            }
        }
    }
    for steps in [0, 1, 3] {
        let parsed = critic::parse(text, steps);
        assert!(parsed.step.is_none_or(|step| step < steps), "a step that the solution does not have");
        if parsed.strict {
            let answer = critic::Answer { critique: parsed.critique, first_error: parsed.step };
            assert_eq!(critic::format(&answer), text.trim(), "what is strict is written as it was read");
        }
    }
    reference_guided(text);
});

fn reference_guided(text: &str) {
    let steps = |count: usize| (1..=count).map(|step| format!("Step {step}.")).collect::<Vec<_>>();
    let (context, reference) = (steps(2), steps(2));
    let problem = Problem { id: "p".into(), text: "1 + 1?".into(), context, reference, ..Problem::default() };
    let mut solution =
        Solution { id: "s".into(), problem_id: "p".into(), steps: steps(2), ..Solution::default() };
    let annotator = ReferenceAnnotator { model: &Says(text), name: "says", guide: &GUIDE };
    let config =
        ReferenceConfig { exemplars: 0, retries: 0, structured: false, ..ReferenceConfig::default() };
    let annotated = annotate(annotator, &problem, &solution, &config);
    let annotated = RUNTIME.block_on(annotated).expect("the model answers");
    assert_ne!(annotated.annotation.is_some(), annotated.undecided.is_some(), "labels, or a reason");
    solution.annotations.extend(annotated.annotation);
    Record::new(problem, vec![solution]).validate().expect("what was read is a valid annotation");
}
