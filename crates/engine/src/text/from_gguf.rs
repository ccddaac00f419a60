//! A tokenizer from the metadata of a GGUF file.
//!
//! `tokenizer.ggml.model` is `gpt2` (byte-level BPE, whose way to cut text into words is only named, by
//! `tokenizer.ggml.pre`) or `llama` (SentencePiece with scores). Token types: 1 normal, 2 unknown, 3 control,
//! 4 user-defined, 5 unused, 6 byte. Left out: `bert`, `t5`, `rwkv` and the like.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::tokenizer::{Extras, Tokenizer, surround};
use crate::error::{Error, Result};
use crate::gguf::Gguf;

const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const BYTE: i64 = 6;

impl Tokenizer {
    /// Reads `tokenizer.*` of a GGUF file.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let tokens: Vec<&str> = gguf.get("tokenizer.ggml.tokens")?;
        let types: Vec<i64> =
            gguf.find("tokenizer.ggml.token_type")?.unwrap_or_else(|| vec![1; tokens.len()]);
        let bad = |why: String| Error::model(gguf.path(), why);
        if types.len() != tokens.len() {
            let counts = format!("{} tokens but {} token types", tokens.len(), types.len());
            return Err(bad(format!("the tokenizer has {counts}")));
        }
        let (mut inner, add_bos) = match gguf.get("tokenizer.ggml.model")? {
            "gpt2" => byte_level_bpe(gguf, &tokens)?,
            "llama" => (sentence_piece(gguf, &tokens, &types)?, true),
            other => {
                return Err(bad(format!("the tokenizer `{other}` is not supported; `gpt2` and `llama` are")));
            }
        };
        let added = tokens.iter().zip(&types).filter_map(|(token, kind)| match *kind {
            CONTROL => Some(AddedToken::from(*token, true)),
            // llama.cpp has SentencePiece's unknown token as a kind of its own; elsewhere it is special.
            UNKNOWN => Some(AddedToken::from(*token, true)),
            USER_DEFINED => Some(AddedToken::from(*token, false).normalized(false)),
            _ => None,
        });
        let added: Vec<AddedToken> = added.filter(|token| !token.content.is_empty()).collect();
        inner.add_tokens(added).map_err(|why| bad(why.to_string()))?;

        let named = |name: &str| -> Result<Option<(&str, u32)>> {
            let id: Option<u32> = gguf.find(&format!("tokenizer.ggml.{name}_token_id"))?;
            Ok(id.and_then(|id| Some((*tokens.get(id as usize)?, id))))
        };
        let mut extras = Extras {
            template: gguf.find("tokenizer.chat_template")?.map(str::to_owned),
            ..Extras::default()
        };
        for (variable, name) in [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")] {
            if let Some((token, _)) = named(name)? {
                extras.named.insert(format!("{variable}_token"), token.to_owned());
            }
        }
        for name in ["eos", "eot", "eom"] {
            extras.eos.extend(named(name)?.map(|(_, id)| id));
        }
        let add_bos = gguf.find("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos);
        let add_eos = gguf.find("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        let around = surround(named("bos")?.filter(|_| add_bos), named("eos")?.filter(|_| add_eos));
        inner.with_post_processor(Some(around.map_err(|why| bad(why.to_string()))?));
        Self::new(inner, gguf.path(), extras)
    }
}

/// The tokenizer, and whether texts start with the first token where the file does not say.
fn byte_level_bpe(gguf: &Gguf, tokens: &[&str]) -> Result<(tokenizers::Tokenizer, bool)> {
    let bad = |why: &dyn std::fmt::Display| Error::model(gguf.path(), format!("the tokenizer: {why}"));
    let name = gguf.find("tokenizer.ggml.pre")?.unwrap_or("default");
    let pre =
        Pre::named(name).ok_or_else(|| bad(&format!("its way to cut words, `{name}`, is not known here")))?;
    let merges: Vec<&str> = gguf.get("tokenizer.ggml.merges")?;
    let pair = |merge: &&str| {
        // A merge may start with a space where a tokenizer has one in its alphabet.
        let cut = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?.0;
        Some((merge[..cut].to_owned(), merge[cut + 1..].to_owned()))
    };
    let merges = merges.iter().map(pair).collect::<Option<Vec<_>>>();
    let model = BPE::builder()
        .vocab_and_merges(vocabulary(tokens), merges.ok_or_else(|| bad(&"a merge is not two tokens"))?)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(|why| bad(&why))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    let mut steps: Vec<Value> = pre.patterns.iter().map(|pattern| split(pattern)).collect();
    steps.push(
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}),
    );
    inner.with_pre_tokenizer(Some(part::<PreTokenizerWrapper>(
        json!({"type": "Sequence", "pretokenizers": steps}),
    )));
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    inner.with_decoder(Some(part::<DecoderWrapper>(byte_level)));
    if pre.nfc {
        let nfc = part::<NormalizerWrapper>(json!({"type": "NFC"}));
        inner.with_normalizer(Some(nfc)).map_err(|why| bad(&why))?;
    }
    Ok((inner, pre.add_bos))
}

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

/// A stage of a tokenizer from its JSON, which is right by construction.
fn part<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a stage that tokenizers knows")
}

fn vocabulary(tokens: &[&str]) -> Vocab {
    // Of tokens that are spelled alike, the first counts.
    tokens.iter().enumerate().rev().map(|(id, token)| ((*token).to_owned(), id as u32)).collect()
}

/// How text is cut into words before merges: each pattern cuts what the ones before have left.
struct Pre {
    patterns: Vec<&'static str>,
    /// A word that is a token is taken whole.
    ignore_merges: bool,
    add_bos: bool,
    /// llama.cpp leaves out this normalization, which the models were trained with.
    nfc: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-4's pattern, with the model's own for digits.
macro_rules! gpt4_with_digits {
    ($digits:literal) => {
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    };
}

const LLAMA3: &str = gpt4_with_digits!(r"\p{N}{1,3}");
const QWEN2: &str = gpt4_with_digits!(r"\p{N}");
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[",
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}",
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}",
    r"\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}",
    r"\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}",
    r"\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}",
    r"\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}",
    r"\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}",
    r"\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}",
    r"\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}",
    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}",
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}",
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}",
    r"\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}",
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}",
    r"]+",
);
const DEEPSEEK_EAST: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
    r##" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
);

impl Pre {
    fn named(name: &str) -> Option<Self> {
        let cuts = |patterns: &[&'static str]| {
            Some(Self { patterns: patterns.to_vec(), ignore_merges: false, add_bos: false, nfc: false })
        };
        let like_llama3 = |pre: Self| Self { ignore_merges: true, add_bos: true, ..pre };
        match name {
            "gpt-2" | "phi-2" | "olmo" | "mpt" | "jais" | "trillion" | "gigachat" | "mellum"
            | "modern-bert" | "jina-es" | "jina-de" | "jina-v2-es" | "jina-v2-de" | "granite-docling" => {
                cuts(&[GPT2])
            }
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
                cuts(&[r"\p{N}", GPT2])
            }
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "lfm2" => {
                cuts(&[LLAMA3]).map(like_llama3)
            }
            "dbrx" | "smaug-bpe" | "chatglm-bpe" | "glm4" => cuts(&[LLAMA3]),
            "qwen2" => cuts(&[QWEN2]).map(|pre| Self { nfc: true, ..pre }),
            "deepseek-r1-qwen" | "stablelm2" | "hunyuan" | "megrez" | "kormo" | "grok-2" => cuts(&[QWEN2]),
            "qwen35" => cuts(&[QWEN35]).map(|pre| Self { nfc: true, ..pre }),
            "tekken" => cuts(&[TEKKEN]).map(like_llama3),
            "gpt-4o" | "llama4" => cuts(&[GPT4O]),
            "deepseek-llm" => cuts(&[
                r"[\r\n]",
                DEEPSEEK_LETTERS,
                r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
                r"\s+$",
                DEEPSEEK_EAST,
                r"\p{N}+",
            ]),
            "deepseek-coder" => cuts(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_EAST, r"\p{N}"]),
            "deepseek-v3" | "hunyuan-dense" => {
                cuts(&[r"\p{N}{1,3}", r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+", DEEPSEEK_V3])
            }
            "falcon" => cuts(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
            "default" => cuts(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
            _ => None,
        }
    }
}

/// Bytes that a token may have: finding its merges takes the square of its length. SentencePiece makes tokens of at most 16
/// characters by default.
const LONGEST_PIECE: usize = 1_024;

/// SentencePiece's BPE merges the pair whose result scores best. As merges in order that is: every way to write a
/// token as two others, best score first (`generate_merges` of transformers).
fn sentence_piece(gguf: &Gguf, tokens: &[&str], types: &[i64]) -> Result<tokenizers::Tokenizer> {
    let bad = |why: &dyn std::fmt::Display| Error::model(gguf.path(), format!("the tokenizer: {why}"));
    let scores: Vec<f32> = gguf.get("tokenizer.ggml.scores")?;
    if scores.len() != tokens.len() {
        return Err(bad(&format!("{} tokens but {} scores", tokens.len(), scores.len())));
    }
    if let Some(token) = tokens.iter().find(|token| token.len() > LONGEST_PIECE) {
        let length = token.len();
        return Err(bad(&format!("a token has {length} bytes: expected at most {LONGEST_PIECE}")));
    }
    let is_text = |id: usize| !matches!(types[id], UNKNOWN | CONTROL | BYTE);
    let ids: HashMap<&str, usize> =
        (0..tokens.len()).rev().filter(|id| is_text(*id)).map(|id| (tokens[id], id)).collect();
    let mut merges = Vec::new();
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| is_text(*id)) {
        let splits = token.char_indices().skip(1).filter_map(|(cut, _)| {
            let (left, right) = token.split_at(cut);
            Some((id, *ids.get(left)?, *ids.get(right)?))
        });
        let first = merges.len();
        merges.extend(splits);
        merges[first..].sort_by_key(|(_, left, right)| (*left, *right));
    }
    let length = |id: usize| tokens[id].chars().count();
    merges.sort_by(|a, b| {
        let lengths = |merge: &(usize, usize, usize)| (length(merge.1), length(merge.2));
        scores[b.0].total_cmp(&scores[a.0]).then_with(|| lengths(b).cmp(&lengths(a)))
    });
    let merges = merges
        .into_iter()
        .map(|(_, left, right)| (tokens[left].to_owned(), tokens[right].to_owned()))
        .collect();
    let unknown: Option<u32> = gguf.find("tokenizer.ggml.unknown_token_id")?;
    let unknown = unknown.map_or("<unk>", |id| tokens.get(id as usize).copied().unwrap_or("<unk>"));
    let model = BPE::builder()
        .vocab_and_merges(vocabulary(tokens), merges)
        .unk_token(unknown.to_owned())
        .fuse_unk(true)
        .byte_fallback(true)
        .build()
        .map_err(|why| bad(&why))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    // The space is put before every stretch of text, also one behind a special token: what transformers calls legacy.
    let space = gguf.find("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let replace =
        |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let prepend = space.then(|| json!({"type": "Prepend", "prepend": "▁"}));
    let normalizers: Vec<Value> = prepend.into_iter().chain([replace(" ", "▁")]).collect();
    let normalizer = part::<NormalizerWrapper>(json!({"type": "Sequence", "normalizers": normalizers}));
    inner.with_normalizer(Some(normalizer)).map_err(|why| bad(&why))?;
    let strip = space.then(|| json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    let decoders: Vec<Value> = [replace("▁", " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})]
        .into_iter()
        .chain(strip)
        .collect();
    inner.with_decoder(Some(part::<DecoderWrapper>(json!({"type": "Sequence", "decoders": decoders}))));
    Ok(inner)
}
