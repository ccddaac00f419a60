//! GGUF files: whatever the bytes, the head and the tokenizer are read or refused.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_engine::Gguf;
use gradus_engine::text::Tokenizer;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch::folder().join("model.gguf"));

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the scratch file can be written");
    let Ok(gguf) = Gguf::open(&FILE) else { return };
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        let _ = tokenizer.encode("2 + 3 = 5", true);
    }
});
