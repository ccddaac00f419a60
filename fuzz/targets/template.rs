//! Chat templates: whatever the template, a conversation is rendered or refused, within its limits.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_core::contracts::Message;
use gradus_engine::text::Tokenizer;
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> =
    LazyLock::new(|| scratch::copy_of("crates/engine/tests/reference/models/qwen2"));

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(FOLDER.join("chat_template.jinja"), bytes).expect("the scratch file can be written");
    let Ok(tokenizer) = Tokenizer::from_folder(&FOLDER) else { return };
    let conversation = [Message::new("system", "Be brief."), Message::new("user", "What is 2 + 3?")];
    let _ = tokenizer.chat(&conversation, true).map_err(|error| error.to_string());
});
