//! Tests over whole tokenizers that are built here; those over models' own files are in `models.rs`.

mod models;

use std::sync::Arc;

use super::Tokenizer;
use crate::gguf::tests::Writer;

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

/// The Llama-like model of `tests/text/sentencepiece.json`, as a GGUF file, and what sentencepiece does with it.
fn pieces() -> (Arc<Tokenizer>, Vec<(String, Vec<u32>)>) {
    #[derive(serde::Deserialize)]
    struct Text {
        text: String,
        ids: Vec<u32>,
    }
    #[derive(serde::Deserialize)]
    struct Model {
        tokens: Vec<String>,
        scores: Vec<f32>,
        types: Vec<i32>,
        texts: Vec<Text>,
    }
    let model: Model = serde_json::from_str(include_str!("../../../tests/text/sentencepiece.json")).unwrap();
    let mut writer = Writer::default();
    writer
        .text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &model.tokens)
        .f32s("tokenizer.ggml.scores", &model.scores)
        .i32s("tokenizer.ggml.token_type", &model.types)
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2);
    let texts = model.texts.into_iter().map(|Text { text, ids }| (text, ids)).collect();
    (Arc::new(Tokenizer::from_gguf(&writer.open()).unwrap()), texts)
}

#[test]
fn sentencepiece_scores_become_the_same_merges() {
    let (tokenizer, texts) = pieces();
    assert_eq!((tokenizer.bos, tokenizer.eos.as_slice()), (Some(1), &[2][..]));
    for (text, ids) in texts {
        assert_eq!(tokenizer.encode(&text, false).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.encode(&text, true).unwrap(), [&[1], &ids[..]].concat(), "{text:?}");
        // A literal ▁ cannot be told from a space.
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), text.replace('▁', " "), "{text:?}");
    }
    assert_eq!(tokenizer.token_bytes(tokenizer.token_id("<0x0A>").unwrap()), b"\n");
    assert_eq!(tokenizer.token_text(tokenizer.token_id("▁the").unwrap()), " the");
}

#[test]
fn special_tokens_are_recognised_unless_plain() {
    let tokenizer = tiny();
    let id = |token: &str| tokenizer.token_id(token).unwrap();
    let text = "the<|im_end|> <think>";
    let ids = tokenizer.encode(text, true).unwrap();
    assert_eq!(ids, [id("the"), id("<|im_end|>"), id("Ġ"), id("<think>")]);
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "the <think>", "user-defined tokens are text");
    let plain = tokenizer.encode_plain(text).unwrap();
    assert!(plain.iter().all(|token| !tokenizer.is_special(*token)) && plain.len() > ids.len());
    assert_eq!(tokenizer.decode(&plain, true).unwrap(), text);
    assert_eq!(
        tokenizer.eos,
        [id("<|endoftext|>"), id("<|im_end|>")],
        "both ends are known, though one is named"
    );
}

#[test]
fn flags_put_tokens_around_a_text() {
    let mut file = tiny_file();
    file.bool("tokenizer.ggml.add_bos_token", true).bool("tokenizer.ggml.add_eos_token", true);
    let tokenizer = Tokenizer::from_gguf(&file.open()).unwrap();
    let [bos, the, eos] =
        ["<|endoftext|>", "the", "<|im_end|>"].map(|token| tokenizer.token_id(token).unwrap());
    assert_eq!(tokenizer.encode("the", true).unwrap(), [bos, the, eos]);
    assert_eq!(tokenizer.encode("the", false).unwrap(), [the]);
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let said = tiny().chat(&[], true).unwrap_err().to_string();
    assert!(said.contains("there is no chat template here"), "{said}");
    let mut file = Writer::default();
    file.texts("tokenizer.ggml.tokens", &["a"]).texts("tokenizer.ggml.merges", &[] as &[&str]);
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "novel");
    let said = Tokenizer::from_gguf(&file.open()).unwrap_err().to_string();
    assert!(said.ends_with("its way to cut words, `novel`, is not known here"), "{said}");
    // Every way to cut it in two would be tried.
    let mut file = Writer::default();
    file.texts("tokenizer.ggml.tokens", &["a".repeat(3_000_000)]).f32s("tokenizer.ggml.scores", &[0.0]);
    let said =
        Tokenizer::from_gguf(&file.text("tokenizer.ggml.model", "llama").open()).unwrap_err().to_string();
    assert!(said.ends_with("a token has 3000000 bytes: expected at most 1024"), "{said}");
    let mut file = Writer::default();
    file.texts("tokenizer.ggml.tokens", &["a"]).text("tokenizer.ggml.model", "rwkv");
    let said = Tokenizer::from_gguf(&file.open()).unwrap_err().to_string();
    assert!(said.ends_with("the tokenizer `rwkv` is not supported; `gpt2` and `llama` are"), "{said}");
}

/// Found by fuzzing: the `tokenizers` crate panics where a map of characters has no trie, and where the JSON of a decoder
/// is cut off.
#[test]
fn a_tokenizer_that_contradicts_itself_fails_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), r#"{"version":"1.0","decoder":{"type":"Fuse""#)
        .unwrap();
    let said = Tokenizer::from_folder(folder.path()).unwrap_err().to_string();
    assert!(said.contains("tokenizer.json: not valid JSON: EOF while parsing"), "{said}");
    let json = serde_json::json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAGFiYwA="},
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
    });
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    let tokenizer = Tokenizer::from_folder(folder.path()).unwrap();
    let said = [tokenizer.encode("a", true), tokenizer.encode_plain("a")]
        .map(|found| found.unwrap_err().to_string());
    assert!(
        said.iter().all(|said| said.contains("its parts contradict each other: take the tokenizer.json")),
        "{said:?}"
    );
}

#[test]
fn every_named_way_to_cut_words_works() {
    let names = [
        "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "stablelm2", "qwen35", "tekken", "gpt-4o",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "default",
    ];
    let text = "It's 1234 naïve   steps,\r\n\n东京 ΑΒΓ $5 == x_1!  \n";
    for name in names {
        let mut file = Writer::default();
        let model = tiny_file().open();
        let tokens: Vec<&str> = model.get("tokenizer.ggml.tokens").unwrap();
        let merges: Vec<&str> = model.get("tokenizer.ggml.merges").unwrap();
        file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", name);
        file.texts("tokenizer.ggml.tokens", &tokens).texts("tokenizer.ggml.merges", &merges);
        let tokenizer = Tokenizer::from_gguf(&file.open()).unwrap();
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text, "{name}");
    }
}

#[test]
fn a_broken_template_does_not_keep_a_model_from_loading() {
    let mut file = tiny_file();
    file.text("tokenizer.chat_template", "{% for %}");
    let tokenizer = Tokenizer::from_gguf(&file.open()).unwrap();
    let said = tokenizer.chat(&[], true).unwrap_err().to_string();
    assert!(said.contains("the chat template cannot be read: "), "{said}");
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn streamed(tokenizer: &Arc<Tokenizer>, ids: &[u32], skip_special: bool) -> String {
        let mut stream = tokenizer.stream(skip_special);
        let mut text = String::new();
        for id in ids {
            let piece = stream.push(*id);
            assert_ne!(piece.as_deref(), Some(""));
            text.extend(piece);
        }
        text + &stream.finish().unwrap()
    }

    proptest! {
        #[test]
        fn a_byte_level_stream_is_the_whole_decoded(
            ids in prop::collection::vec(0u32..280, 0..40), skip_special in any::<bool>(),
        ) {
            let tokenizer = tiny();
            prop_assert_eq!(streamed(&tokenizer, &ids, skip_special), tokenizer.decode(&ids, skip_special).unwrap());
        }

        #[test]
        fn a_sentencepiece_stream_keeps_the_first_space(
            ids in prop::collection::vec(0u32..405, 0..30), skip_special in any::<bool>(),
        ) {
            let (tokenizer, _) = pieces();
            let text = streamed(&tokenizer, &ids, skip_special);
            let whole = tokenizer.decode(&ids, skip_special).unwrap();
            prop_assert_eq!(text.strip_prefix(' ').unwrap_or(&text), whole);
        }

        #[test]
        fn text_comes_back(text in "\\PC{0,30}|[a-z \n\t0-9🙂é]{0,30}") {
            let tokenizer = tiny();
            // Its normalizer composes characters, so what is composed already comes back.
            let ids = tokenizer.encode_plain(&text).unwrap();
            let once = tokenizer.decode(&ids, true).unwrap();
            prop_assert_eq!(&tokenizer.decode(&tokenizer.encode_plain(&once).unwrap(), true).unwrap(), &once);
            let (tokenizer, _) = pieces();
            let ids = tokenizer.encode_plain(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids, true).unwrap(), text.replace('▁', " "));
        }

        #[test]
        fn token_bytes_add_up(ids in prop::collection::vec(0u32..273, 0..40)) {
            let tokenizer = tiny();
            let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.token_bytes(*id)).collect();
            prop_assert_eq!(String::from_utf8_lossy(&bytes), tokenizer.decode(&ids, false).unwrap());
        }
    }
}
