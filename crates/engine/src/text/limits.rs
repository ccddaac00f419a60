//! Tokenizers that would blow a text up are refused when they are read.
//!
//! A `Replace` or a `Prepend` puts a text of its own into what it normalizes or decodes, and a sequence of them multiplies:
//! forty that double fill any memory. So the growth that a tokenizer's own texts can cause is computed beforehand. What
//! Unicode's normal forms add is bounded by themselves.

use serde::Serialize;
use serde_json::Value;

/// How many times longer a tokenizer's own texts may make another; SentencePiece's `▁` makes a space three times as long.
const MAX_GROWTH: usize = 64;
/// Bytes that may be put before a text.
const MAX_PREPENDED: usize = 1_024;
/// Ids are rows of a model's output; vocabularies have some hundred thousand.
const MAX_ID: u32 = 1 << 24;

/// Refuses a tokenizer with a stage that makes much of little, or with an id that no model has.
pub(super) fn check(inner: &tokenizers::Tokenizer) -> Result<(), String> {
    stage("normalizer", inner.get_normalizer())?;
    stage("decoder", inner.get_decoder())?;
    match inner.get_vocab(true).into_iter().max_by_key(|(_, id)| *id) {
        Some((token, id)) if id >= MAX_ID => {
            let token: String = token.chars().take(40).collect();
            Err(format!("the tokenizer gives `{token}` the id {id}: expected one below {MAX_ID}"))
        }
        _ => Ok(()),
    }
}

fn stage(name: &str, stage: Option<&impl Serialize>) -> Result<(), String> {
    let json = serde_json::to_value(stage).map_err(|why| format!("the tokenizer's {name}: {why}"))?;
    let (growth, prepended) = growth(&json);
    if growth > MAX_GROWTH || prepended > MAX_PREPENDED {
        return Err(format!(
            "the tokenizer's {name} can make a text more than {MAX_GROWTH} times as long, or put more than \
             {MAX_PREPENDED} bytes before it, and is refused: take the tokenizer.json of the model's publisher"
        ));
    }
    Ok(())
}

/// The factor by which a stage's own texts can make another longer, and what it puts before one.
fn growth(stage: &Value) -> (usize, usize) {
    let length = |text: &Value| text.as_str().map_or(0, str::len);
    match stage["type"].as_str() {
        Some("Sequence") => {
            let parts = stage["normalizers"].as_array().or(stage["decoders"].as_array());
            parts.into_iter().flatten().map(growth).fold((1, 0), |(factor, before), (next, more)| {
                (factor.saturating_mul(next), before.saturating_mul(next).saturating_add(more))
            })
        }
        Some("Replace") => {
            let content = length(&stage["content"]);
            // An expression may match a single letter, or the empty text between two.
            let factor = match length(&stage["pattern"]["String"]) {
                0 => content + 1,
                pattern => content.div_ceil(pattern).max(1),
            };
            (factor, 0)
        }
        Some("Prepend") => (1, length(&stage["prepend"])),
        Some("Precompiled") => (longest_replacement(&decoded(&stage["precompiled_charsmap"])), 0),
        _ => (1, 0),
    }
}

/// The bytes of a map of characters, which is written in base64.
fn decoded(map: &Value) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = map.as_str().unwrap_or_default().bytes().filter_map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits =
            four.iter().fold(0_u32, |bits, digit| (bits << 6) | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

/// SentencePiece's map: the length of a trie, the trie, and the replacements, each ended by a zero.
fn longest_replacement(map: &[u8]) -> usize {
    let trie = map.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let replacements = map.get(trie.saturating_add(4)..).unwrap_or_default();
    replacements.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replace(pattern: &str, content: &str) -> Value {
        json!({"type": "Replace", "pattern": {"String": pattern}, "content": content})
    }

    #[test]
    fn growth_multiplies_along_a_sequence() {
        let sentence_piece = [json!({"type": "Prepend", "prepend": "▁"}), replace(" ", "▁")];
        assert_eq!(growth(&json!({"type": "Sequence", "normalizers": sentence_piece})), (3, 9));
        let doubling = vec![replace("a", "aa"); 40];
        let (factor, _) = growth(&json!({"type": "Sequence", "decoders": doubling}));
        assert_eq!(factor, 1 << 40);
        assert_eq!(growth(&json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "xyz"})), (4, 0));
        assert_eq!(growth(&json!({"type": "NFKD"})), (1, 0));
    }

    #[test]
    fn a_map_of_characters_is_as_long_as_its_longest_replacement() {
        // Four bytes of length, no trie, then `abc` and `de`: AAAAAGFiYwBkZQA= in base64.
        let map = json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAGFiYwBkZQA="});
        assert_eq!(decoded(&map["precompiled_charsmap"]), b"\0\0\0\0abc\0de\0");
        assert_eq!(growth(&map), (3, 0));
    }
}
