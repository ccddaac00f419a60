//! A tokenizer from a Hugging Face folder: `tokenizer.json`, or a BERT `vocab.txt` alone.
//!
//! Beside it, all optional: `tokenizer_config.json` and `special_tokens_map.json` (special tokens),
//! `chat_template.jinja` (else the template in the configuration, of several the one called `default`),
//! `generation_config.json` and `config.json` (ids that end a text).

use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokenizers::AddedToken;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;

use super::tokenizer::{Extras, Tokenizer, surround, without_panic};
use crate::error::{Error, Result};
use crate::small_file;

impl Tokenizer {
    /// Reads a model folder.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let config = read_json(folder, "tokenizer_config.json")?;
        let (json, vocab) = (folder.join("tokenizer.json"), folder.join("vocab.txt"));
        let mut inner = if json.is_file() {
            let bytes = small_file::read_json(&json)?;
            without_panic(|| tokenizers::Tokenizer::from_bytes(&bytes)).map_err(|why| {
                // Where the file was cut off, JSON itself says it best.
                let no_json = serde_json::from_slice::<IgnoredAny>(&bytes).err();
                let why = no_json.map_or(why.to_string(), |error| format!("not valid JSON: {error}"));
                Error::model(&json, why)
            })?
        } else if vocab.is_file() {
            bert(&vocab, &config)?
        } else {
            return Err(Error::model(folder, "there is no tokenizer.json and no vocab.txt"));
        };
        let mut extras = Extras { template: template(folder, &config)?, ..Extras::default() };
        let map = read_json(folder, "special_tokens_map.json")?;
        for name in ["bos", "eos", "unk", "pad", "sep", "cls", "mask"].map(|name| format!("{name}_token")) {
            if let Some(token) = token_text(&config[&name]).or_else(|| token_text(&map[&name])) {
                extras.named.insert(name, token.to_owned());
            }
        }
        for file in ["generation_config.json", "config.json"] {
            match &read_json(folder, file)?["eos_token_id"] {
                Value::Array(ids) => extras.eos.extend(ids.iter().filter_map(token_id)),
                id => extras.eos.extend(token_id(id)),
            }
        }
        add_missing_tokens(&mut inner, &config).map_err(|why| Error::model(folder, why))?;
        surround_like_llama(&mut inner, &config, &extras).map_err(|why| Error::model(folder, why))?;
        Self::new(inner, folder, extras)
    }
}

fn read_json(folder: &Path, name: &str) -> Result<Value> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(Value::Null);
    }
    let bytes = small_file::read_json(&path)?;
    serde_json::from_slice(&bytes).map_err(|why| Error::model(path, why.to_string()))
}

/// A special token is written as text or as `{"content": text, …}`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

fn token_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn template(folder: &Path, config: &Value) -> Result<Option<String>> {
    let path = folder.join("chat_template.jinja");
    match std::fs::read_to_string(&path) {
        Ok(source) => return Ok(Some(source)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
        Err(why) => return Err(Error::io(path, why)),
    }
    Ok(match &config["chat_template"] {
        Value::Array(named) => {
            let default = named.iter().find(|template| template["name"] == "default");
            default.and_then(|template| template["template"].as_str()).map(str::to_owned)
        }
        other => other.as_str().map(str::to_owned),
    })
}

/// Tokens of `added_tokens_decoder` that `tokenizer.json` lacks; a few models only have them in the configuration.
fn add_missing_tokens(inner: &mut tokenizers::Tokenizer, config: &Value) -> std::result::Result<(), String> {
    let Some(decoder) = config["added_tokens_decoder"].as_object() else { return Ok(()) };
    let mut missing: Vec<(u32, AddedToken)> = decoder
        .iter()
        .filter_map(|(id, token)| Some((id.parse().ok()?, token)))
        .filter(|(id, _)| inner.get_added_vocabulary().simple_id_to_token(*id).is_none())
        .map(|(id, token)| {
            let flag = |name: &str| token[name].as_bool().unwrap_or(false);
            let added = AddedToken::from(token["content"].as_str().unwrap_or_default(), flag("special"))
                .lstrip(flag("lstrip"))
                .rstrip(flag("rstrip"))
                .single_word(flag("single_word"))
                .normalized(flag("normalized"));
            (id, added)
        })
        .filter(|(_, added)| !added.content.is_empty())
        .collect();
    missing.sort_by_key(|(id, _)| *id);
    for (id, added) in missing {
        let content = added.content.clone();
        inner.add_tokens([added]).map_err(|why| why.to_string())?;
        if inner.token_to_id(&content) != Some(id) {
            return Err(format!(
                "tokenizer_config.json gives the token `{content}` the id {id}, which is not free"
            ));
        }
    }
    Ok(())
}

/// `LlamaTokenizer` and its kin ignore what `tokenizer.json` puts around a text and go by two flags instead.
fn surround_like_llama(
    inner: &mut tokenizers::Tokenizer,
    config: &Value,
    extras: &Extras,
) -> std::result::Result<(), String> {
    let class = config["tokenizer_class"].as_str().unwrap_or_default().trim_end_matches("Fast");
    if !matches!(class, "LlamaTokenizer" | "CodeLlamaTokenizer" | "GemmaTokenizer" | "CohereTokenizer") {
        return Ok(());
    }
    let wanted = |flag: &str, default: bool| config[flag].as_bool().unwrap_or(default);
    let token = |name: &str| {
        let text = extras.named.get(name)?.as_str();
        Some((text, inner.token_to_id(text)?))
    };
    let bos = token("bos_token").filter(|_| wanted("add_bos_token", true));
    let eos = token("eos_token").filter(|_| wanted("add_eos_token", false));
    let surround = surround(bos, eos).map_err(|why| why.to_string())?;
    inner.with_post_processor(Some(surround));
    Ok(())
}

/// What `BertTokenizer` builds from a vocabulary with one token on each line.
fn bert(path: &Path, config: &Value) -> Result<tokenizers::Tokenizer> {
    let text = std::fs::read_to_string(path).map_err(|why| Error::io(path, why))?;
    let failed = |why: &dyn std::fmt::Display| Error::model(path, why.to_string());
    let special = |name: &str, default: &'static str| token_text(&config[name]).unwrap_or(default).to_owned();
    let unk = special("unk_token", "[UNK]");
    let (cls, sep) = (special("cls_token", "[CLS]"), special("sep_token", "[SEP]"));
    let specials = [
        unk.clone(),
        sep.clone(),
        special("pad_token", "[PAD]"),
        cls.clone(),
        special("mask_token", "[MASK]"),
    ];
    let model = WordPiece::builder()
        .vocab(
            text.lines().enumerate().map(|(id, token)| (token.to_owned(), id as u32)).collect::<Vocabulary>(),
        )
        .unk_token(unk)
        .build()
        .map_err(|why| failed(&why))?;
    let flag = |name: &str, default: bool| config[name].as_bool().unwrap_or(default);
    let mut inner = tokenizers::Tokenizer::new(model);
    let normalizer = BertNormalizer::new(
        true,
        flag("tokenize_chinese_chars", true),
        config["strip_accents"].as_bool(),
        flag("do_lower_case", true),
    );
    inner.with_normalizer(Some(normalizer)).map_err(|why| failed(&why))?;
    inner.with_pre_tokenizer(Some(BertPreTokenizer));
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    inner.with_decoder(Some(
        serde_json::from_value::<tokenizers::DecoderWrapper>(decoder).map_err(|why| failed(&why))?,
    ));
    let id =
        |token: &str| inner.token_to_id(token).ok_or_else(|| failed(&format!("there is no `{token}` in it")));
    let around = BertProcessing::new((sep.clone(), id(&sep)?), (cls.clone(), id(&cls)?));
    inner.with_post_processor(Some(around));
    let known = specials.into_iter().filter(|token| inner.token_to_id(token).is_some());
    let known: Vec<AddedToken> = known.map(|token| AddedToken::from(token, true)).collect();
    inner.add_special_tokens(known).map_err(|why| failed(&why))?;
    Ok(inner)
}

type Vocabulary = tokenizers::models::bpe::Vocab;
