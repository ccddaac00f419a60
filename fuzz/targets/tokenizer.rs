//! `tokenizer.json`: whatever the bytes, it is read or refused; what it reads encodes and decodes a line of text, makes
//! no flood of it, and can be saved and read again.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_engine::text::Tokenizer;
use libfuzzer_sys::fuzz_target;

const TEXT: &str = "2 + 3 = 5, ½ of √10\n";
/// More tokens or bytes than a line becomes in any tokenizer that is not made to exhaust the memory.
const TOO_MUCH: usize = 1 << 20;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);
static SAVED: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = FOLDER.join("saved");
    std::fs::create_dir(&folder).expect("the scratch folder can be written");
    folder
});

fuzz_target!(init: stack::watch_uncaught(), |bytes: &[u8]| {
    std::fs::write(FOLDER.join("tokenizer.json"), bytes).expect("the scratch file can be written");
    let Ok(tokenizer) = Tokenizer::from_folder(&FOLDER) else { return };
    let Ok(tokens) = tokenizer.encode(TEXT, true) else { return };
    assert!(tokens.len() < TOO_MUCH, "{} tokens", tokens.len());
    let _ = tokenizer.encode_plain(TEXT);
    let text = tokenizer.decode(&tokens, false).unwrap_or_default();
    assert!(text.len() < TOO_MUCH, "{} bytes", text.len());
    tokens.iter().for_each(|token| drop(tokenizer.token_text(*token)));

    // Of tokens with one id only one is saved, so it may be another tokenizer now.
    if tokenizer.save(&SAVED).is_ok() {
        let _ = Tokenizer::from_folder(&SAVED).and_then(|again| again.encode(TEXT, true));
    }
});
