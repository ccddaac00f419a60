//! `tokenizer.json`: whatever the bytes, it is read or refused, and what it reads encodes and decodes a line of text.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_engine::text::Tokenizer;
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(FOLDER.join("tokenizer.json"), bytes).expect("the scratch file can be written");
    let Ok(tokenizer) = Tokenizer::from_folder(&FOLDER) else { return };
    if let Ok(tokens) = tokenizer.encode("2 + 3 = 5, ½ of √10\n", true) {
        let _ = tokenizer.decode(&tokens, false);
    }
});
