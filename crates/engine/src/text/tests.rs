//! Tests over whole tokenizers that are built here; those over models' own files are in `tests/text.rs`.

use std::sync::Arc;

use super::Tokenizer;
use crate::gguf::Writer;

/// A byte-level tokenizer in a GGUF file: 256 bytes, a few merges, ChatML's special tokens.
fn tiny_file() -> Writer {
    let plain = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut others = (0x100..).map(|code| char::from_u32(code).unwrap());
    let mut tokens: Vec<String> = (0..=255u8)
        .map(|byte| if plain(byte) { char::from(byte) } else { others.next().unwrap() }.to_string())
        .collect();
    let merges =
        ["t h", "th e", "Ġ the", "Ġ i", "Ġi s", "{ \"", "\" :", "Ã ¼", "s u", "su m", "1 0", "ð Ł", "ðŁ İ"];
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    tokens.extend(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"].map(str::to_owned));
    let n = tokens.len();
    let mut types = vec![1; n];
    types[n - 4..].copy_from_slice(&[3, 3, 3, 4]);
    let mut writer = Writer::default();
    writer
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "qwen2")
        .texts("tokenizer.ggml.tokens", &tokens)
        .texts("tokenizer.ggml.merges", &merges)
        .i32s("tokenizer.ggml.token_type", &types)
        .u32("tokenizer.ggml.bos_token_id", (n - 4) as u32)
        .u32("tokenizer.ggml.eos_token_id", (n - 2) as u32);
    writer
}

pub(crate) fn tiny() -> Arc<Tokenizer> {
    Arc::new(Tokenizer::from_gguf(&tiny_file().open()).unwrap())
}
