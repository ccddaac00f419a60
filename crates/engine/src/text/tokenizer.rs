//! A model's tokenizer with what belongs to it: first and last tokens, the chat template, the bytes of each token.
//!
//! The work is done by the `tokenizers` crate; `from_folder.rs` and `from_gguf.rs` build it from files. Truncation and
//! padding that a `tokenizer.json` asks for are switched off, because they silently drop what a caller wanted scored.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gradus_core::contracts::Message;
use tokenizers::{
    AddedVocabulary, DecoderWrapper, Model as _, OffsetType, PostProcessorWrapper, PreTokenizer as _,
};

use super::stream::TextStream;
use super::template::ChatTemplate;
use crate::error::{Error, Result};

/// Variables for a chat template by name.
pub(crate) type Variables = serde_json::Map<String, serde_json::Value>;

/// Turns text into the ids that a model reads, and back.
pub struct Tokenizer {
    pub(super) inner: tokenizers::Tokenizer,
    pub(super) path: PathBuf,
    /// The template, or why there is none.
    pub(super) template: std::result::Result<ChatTemplate, String>,
    /// The template as it was written, and the names that it knows tokens by.
    written: (Option<String>, BTreeMap<String, String>),
    /// The token that starts a text, if the model has one.
    pub bos: Option<u32>,
    /// All tokens that end a text or a turn; ascending.
    pub eos: Vec<u32>,
    vocab_size: usize,
    pub(super) style: Style,
    no_added: AddedVocabulary,
    /// What `constrain.rs` builds once for this tokenizer.
    pub(crate) constraints: OnceLock<std::result::Result<Arc<llguidance::ParserFactory>, String>>,
}

/// How tokens become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// GPT-2's alphabet, in which each character stands for a byte.
    ByteLevel,
    /// SentencePiece: `▁` is a space and `<0x0A>` a byte.
    Pieces,
    /// Anything else, such as WordPiece: text cannot be had token by token.
    Whole,
}

/// What the files beside the vocabulary say.
#[derive(Default)]
pub(super) struct Extras {
    /// `bos_token` and the like, for the template.
    pub(super) named: BTreeMap<String, String>,
    /// Ids that end a text, from configuration files.
    pub(super) eos: Vec<u32>,
    pub(super) template: Option<String>,
}

/// Tokens that end a turn in the chat formats in use. A configuration often names only one of two.
const END_OF_TURN: [&str; 12] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|eos|>",
];

impl Tokenizer {
    pub(super) fn new(mut inner: tokenizers::Tokenizer, path: &Path, extras: Extras) -> Result<Self> {
        super::limits::check(&inner).map_err(|why| Error::model(path, why))?;
        inner.with_truncation(None).map_err(|why| Error::model(path, why.to_string()))?.with_padding(None);
        let written = (extras.template.clone(), extras.named.clone());
        let template = match extras.template {
            Some(source) => ChatTemplate::parse(&source, extras.named.clone())
                .map_err(|why| format!("the chat template cannot be read: {why}")),
            None => {
                Err("there is no chat template here; give the prompt as text, or use an instruct model"
                    .into())
            }
        };
        let id = |name: &str| extras.named.get(name).and_then(|token| inner.token_to_id(token));
        let mut eos: BTreeSet<u32> = extras.eos.into_iter().chain(id("eos_token")).collect();
        let added = inner.get_added_vocabulary();
        let ends = END_OF_TURN.iter().filter(|token| added.is_special_token(token));
        eos.extend(ends.filter_map(|token| inner.token_to_id(token)));
        let vocab_size = inner.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
        Ok(Self {
            bos: id("bos_token"),
            eos: eos.into_iter().collect(),
            vocab_size,
            style: Style::of(inner.get_decoder()),
            inner,
            path: path.to_owned(),
            template,
            written,
            no_added: AddedVocabulary::new(),
            constraints: OnceLock::new(),
        })
    }

    /// Writes it as Hugging Face tokenizers are kept: `tokenizer.json` and `tokenizer_config.json` with the template.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let text = self.inner.to_string(true).map_err(|why| self.failed(&why))?;
        gradus_durable::replace_file(&folder.join("tokenizer.json"), text.as_bytes())?;
        let (template, named) = &self.written;
        let mut config = serde_json::json!(named);
        if let Some(template) = template {
            config["chat_template"] = template.as_str().into();
        }
        let text = serde_json::to_string_pretty(&config).expect("texts can be written as JSON") + "\n";
        Ok(gradus_durable::replace_file(&folder.join("tokenizer_config.json"), text.as_bytes())?)
    }

    /// The ids of `text`. Special tokens written out in it are recognized; `add_special` also adds those that the
    /// model expects around a text, such as the first one.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let encoding = without_panic(|| self.inner.encode_fast(text, add_special));
        Ok(encoding.map_err(|why| self.failed(&why))?.get_ids().to_vec())
    }

    /// The ids of `text` taken literally: `<|im_end|>` in it is nine characters, not a token. Nothing is added.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        let encode = || {
            let mut pieces = self.no_added.extract_and_normalize(self.inner.get_normalizer(), text);
            if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            pieces.tokenize(|piece| self.inner.get_model().tokenize(piece.get()))?;
            pieces.into_encoding(None, 0, OffsetType::None)
        };
        Ok(without_panic(encode).map_err(|why| self.failed(&why))?.get_ids().to_vec())
    }

    /// The text of `ids`. Ids outside the vocabulary have none.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        without_panic(|| self.inner.decode(ids, skip_special)).map_err(|why| self.failed(&why))
    }

    /// A decoder that gives text as tokens arrive.
    pub(crate) fn stream(self: &Arc<Self>, skip_special: bool) -> TextStream {
        TextStream::new(Arc::clone(self), skip_special)
    }

    /// The conversation as the model's own template writes it; `add_generation_prompt` opens the assistant's turn.
    pub fn chat(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        self.chat_with(messages, add_generation_prompt, &Variables::new())
    }

    /// [`Tokenizer::chat`] with further variables that the template knows, such as `enable_thinking` of Qwen3 or
    /// `date_string` of Llama 3, which otherwise writes today's date.
    pub(crate) fn chat_with(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        variables: &Variables,
    ) -> Result<String> {
        let template = self.template.as_ref().map_err(|why| Error::model(&self.path, why))?;
        template.render(messages, add_generation_prompt, variables)
    }

    /// The ids of [`Tokenizer::chat`]. The template writes the special tokens, so none are added.
    pub fn encode_chat(&self, messages: &[Message], add_generation_prompt: bool) -> Result<Vec<u32>> {
        self.encode(&self.chat(messages, add_generation_prompt)?, false)
    }

    /// Whether [`Tokenizer::chat`] can work.
    pub fn has_template(&self) -> bool {
        self.template.is_ok()
    }

    /// The id of a token, as the vocabulary spells it.
    pub(crate) fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The texts of the tokens that end a text.
    pub fn end_texts(&self) -> Vec<String> {
        self.eos.iter().map(|id| self.token_text(*id)).filter(|text| !text.is_empty()).collect()
    }

    /// The text of one token, with `�` for bytes that are no character by themselves.
    pub fn token_text(&self, id: u32) -> String {
        String::from_utf8_lossy(&self.token_bytes(id)).into_owned()
    }

    /// The bytes that one token stands for inside a text; empty outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.inner.id_to_token(id) else { return Vec::new() };
        match self.style {
            Style::ByteLevel => byte_level(&token),
            Style::Pieces => match fallback_byte(&token) {
                Some(byte) => vec![byte],
                None => token.replace('▁', " ").into_bytes(),
            },
            Style::Whole => token.into_bytes(),
        }
    }

    /// Whether a token is special: a mark that is no part of the text.
    pub(crate) fn is_special(&self, id: u32) -> bool {
        let added = self.inner.get_added_vocabulary();
        added.simple_id_to_token(id).is_some_and(|token| added.is_special_token(&token))
    }

    /// One more than the largest id. A model's output may be longer.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    pub(super) fn vocabulary_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    fn failed(&self, why: &tokenizers::Error) -> Error {
        Error::model(&self.path, format!("the tokenizer failed: {why}"))
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Tokenizer({}, {} tokens)", self.path.display(), self.vocab_size)
    }
}

impl Style {
    fn of(decoder: Option<&DecoderWrapper>) -> Self {
        fn contains(decoder: &DecoderWrapper, wanted: fn(&DecoderWrapper) -> bool) -> bool {
            match decoder {
                DecoderWrapper::Sequence(all) => all.get_decoders().iter().any(|each| contains(each, wanted)),
                other => wanted(other),
            }
        }
        let Some(decoder) = decoder else { return Self::Whole };
        if contains(decoder, |kind| matches!(kind, DecoderWrapper::ByteLevel(_))) {
            Self::ByteLevel
        } else if contains(decoder, |kind| matches!(kind, DecoderWrapper::ByteFallback(_))) {
            Self::Pieces
        } else {
            Self::Whole
        }
    }
}

/// The `tokenizers` crate panics at some files that no program writes. It changes nothing that would be used again.
pub(super) fn without_panic<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    let contradicted = "its parts contradict each other: take the tokenizer.json of the model's publisher";
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(contradicted.into()))
}

/// The bytes of a token in GPT-2's alphabet; one with other characters is taken literally, as `tokenizers` does.
pub(super) fn byte_level(token: &str) -> Vec<u8> {
    // Printable characters of Latin-1 stand for themselves; the 68 other bytes are U+0100 and up, in order.
    fn is_plain(byte: u8) -> bool {
        matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
    }
    static OTHERS: OnceLock<Vec<u8>> = OnceLock::new();
    let others = OTHERS.get_or_init(|| (0..=255).filter(|byte| !is_plain(*byte)).collect());
    let byte = |c: char| match u32::from(c) {
        code @ 0..=0xFF => Some(code as u8).filter(|byte| is_plain(*byte)),
        code => others.get(code as usize - 0x100).copied(),
    };
    token.chars().map(byte).collect::<Option<_>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte of a token like `<0x0A>`.
pub(super) fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// What puts the first and last token around a text.
pub(super) fn surround(
    bos: Option<(&str, u32)>,
    eos: Option<(&str, u32)>,
) -> std::result::Result<PostProcessorWrapper, serde_json::Error> {
    use serde_json::json;
    let mark = |token: Option<(&str, u32)>| {
        token.map(|(text, _)| json!({"SpecialToken": {"id": text, "type_id": 0}}))
    };
    let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let around = |name| mark(bos).into_iter().chain([text(name)]).chain(mark(eos)).collect::<Vec<_>>();
    let specials: serde_json::Map<_, _> = [bos, eos]
        .into_iter()
        .flatten()
        .map(|(text, id)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]})))
        .collect();
    let pair = [around("A"), around("B")].concat();
    serde_json::from_value(json!({
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": pair,
        "special_tokens": specials,
    }))
}
