//! GGUF files: whatever the bytes, tokenizer and model are read or refused, and what was read works.

#![no_main]

mod probe;
mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_core::contracts::Message;
use gradus_engine::models::ModelPath;
use gradus_engine::text::Tokenizer;
use gradus_engine::{Gguf, LoadOptions, Model};
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch::folder().join("model.gguf"));

fuzz_target!(init: stack::watch_uncaught(), |bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the scratch file can be written");
    let Ok(gguf) = Gguf::open(&FILE) else { return };
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        if let Ok(tokens) = tokenizer.encode("2 + 3 = 5", true) {
            let _ = tokenizer.decode(&tokens, false);
        }
        let _ = tokenizer.chat(&[Message::new("user", "What is 2 + 3?")], true);
    }
    match Model::load(&ModelPath::Gguf(FILE.clone()), &LoadOptions::default()) {
        Ok(model) => probe::run(&model),
        Err(error) => drop(error.to_string()),
    }
});
