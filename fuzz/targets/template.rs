//! Chat templates: whatever the template, a conversation is rendered or refused, within its limits.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_core::contracts::Message;
use gradus_engine::text::Tokenizer;
use libfuzzer_sys::fuzz_target;

/// What a rendering may write at most; see `crates/template`.
const LIMIT: usize = 33 << 20;

/// A folder with the smallest tokenizer there is.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch::folder();
    let tokenizer = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"<s>":0},"unk_token":"<s>"}}"#;
    std::fs::write(folder.join("tokenizer.json"), tokenizer).expect("the scratch folder can be written");
    let config = r#"{"bos_token":"<s>","eos_token":"</s>"}"#;
    std::fs::write(folder.join("tokenizer_config.json"), config).expect("as before");
    folder
});

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(FOLDER.join("chat_template.jinja"), bytes).expect("the scratch file can be written");
    let Ok(tokenizer) = Tokenizer::from_folder(&FOLDER) else { return };
    let conversation = [Message::new("system", "Be brief."), Message::new("user", "What is 2 + 3?")];
    match tokenizer.chat(&conversation, true) {
        Ok(text) => assert!(text.len() < LIMIT, "{} bytes", text.len()),
        Err(error) => drop(error.to_string()),
    }
});
