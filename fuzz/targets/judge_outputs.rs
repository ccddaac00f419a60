//! What models answer: whatever the text, each judge protocol and the critics' parser read it or say why not.

#![no_main]

mod stack;

use gradus_annotate::judge::Protocol;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for protocol in [Protocol::gradus(), Protocol::processbench(), Protocol::qwen()] {
        for (steps, cut) in [(0, false), (1, true), (3, false), (12, false)] {
            let _ = protocol.read(&text, steps, cut);
        }
    }
    for steps in [0, 1, 3] {
        let parsed = gradus_train::critic::parse(&text, steps);
        assert!(parsed.step.is_none_or(|step| step < steps), "a step that the solution does not have");
    }
});
