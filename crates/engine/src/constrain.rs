//! Output that must be JSON of a schema or match a regular expression, by llguidance.
//!
//! A [`Grammar`] is a constraint compiled for a tokenizer; each sequence has its own [`Matcher`], which says at every
//! step which tokens may come next. Tokens that end a text are among them exactly when the text so far is complete.
//! Which schemas are understood is llguidance's matter; a keyword that it does not know is an error, not ignored.

use std::sync::Arc;

use gradus_core::contracts::Constraint;
use llguidance::ParserFactory;
use llguidance::api::TopLevelGrammar;
use serde_json::json;
use toktrie::{SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::{Error, Result};
use crate::text::Tokenizer;

/// A compiled constraint.
pub(crate) struct Grammar {
    start: llguidance::Matcher,
}

/// The state of one sequence under a constraint.
pub(crate) struct Matcher {
    inner: llguidance::Matcher,
    mask: SimpleVob,
}

impl Grammar {
    /// Compiles a constraint. The first one for a tokenizer also builds a trie of its tokens, which takes longer.
    pub(crate) fn compile(constraint: &Constraint, tokenizer: &Tokenizer) -> Result<Self> {
        let (what, grammar) = match constraint {
            Constraint::Regex(pattern) => {
                ("regular expression", TopLevelGrammar::from_regex(unanchored(pattern)))
            }
            Constraint::JsonSchema(schema) => {
                let mut schema = schema.clone();
                if let Some(keywords) = schema.as_object_mut() {
                    // Without an end to white space, a small model may write nothing else.
                    let options = || json!({"whitespace_pattern": r"[ \n\r\t]{1,40}"});
                    keywords.entry("x-guidance").or_insert_with(options);
                }
                ("JSON schema", TopLevelGrammar::from_json_schema(schema))
            }
        };
        let factory = factory(tokenizer)?;
        let start = llguidance::Matcher::new(factory.create_parser(grammar));
        match start.get_error() {
            None => Ok(Self { start }),
            Some(why) => Err(Error::request(format!("the {what} cannot be used: {}", shown(&why)))),
        }
    }

    /// A matcher at the start of the text.
    pub(crate) fn matcher(&self) -> Matcher {
        Matcher { inner: self.start.clone(), mask: SimpleVob::new() }
    }
}

impl Matcher {
    /// The tokens that may come next, as [`crate::sample::Sampler::next`] takes them: a bit for each token of the vocabulary,
    /// the lowest of the first word for token 0. Once [`Matcher::finished`], only those that end a text.
    pub(crate) fn mask(&mut self) -> Result<&[u32]> {
        self.mask = self.inner.compute_mask_or_eos().map_err(|why| failed(&why))?;
        Ok(self.mask.as_slice())
    }

    /// Goes on by a token, which must be one that the mask allows.
    pub(crate) fn accept(&mut self, token: u32) -> Result<()> {
        self.inner.consume_token(token).map_err(|why| failed(&why))
    }

    /// Whether the text is complete and nothing can follow. A text that is complete but could go on is not finished:
    /// there the mask has the tokens that end a text among others.
    pub(crate) fn finished(&self) -> bool {
        self.inner.is_stopped()
    }
}

fn failed(why: &impl std::fmt::Display) -> Error {
    Error::request(format!(
        "the output cannot be continued under its constraint: {}",
        shown(&why.to_string())
    ))
}

/// What llguidance says, on one line. Of its own failures it says where in its code and in which state, which is no help.
fn shown(why: &str) -> String {
    if ["panic", "<backtrace>", "<state>"].iter().any(|mark| why.contains(mark)) {
        return "llguidance, which compiles constraints, failed on it: try a simpler one".to_owned();
    }
    why.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The whole text must match anyhow, and llguidance takes `^` and `$` for letters or refuses them.
fn unanchored(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => inner,
        _ => pattern,
    }
}

/// The part of llguidance that depends only on the tokenizer.
fn factory(tokenizer: &Tokenizer) -> Result<Arc<ParserFactory>> {
    let build = || {
        let environment: TokEnv = Arc::new(Tokens { trie: trie(tokenizer) });
        let mut factory = ParserFactory::new_simple(&environment).map_err(|why| why.to_string())?;
        factory.quiet();
        Ok(Arc::new(factory))
    };
    tokenizer.constraints.get_or_init(build).clone().map_err(Error::Request)
}

fn trie(tokenizer: &Tokenizer) -> TokTrie {
    let size = tokenizer.vocab_size() as u32;
    let bytes = |id: u32| match tokenizer.token_bytes(id) {
        // The mark keeps a special token from passing for its spelling.
        bytes if tokenizer.is_special(id) => [&[TokTrie::SPECIAL_TOKEN_MARKER][..], &bytes].concat(),
        bytes => bytes,
    };
    let words: Vec<Vec<u8>> = (0..size).map(bytes).collect();
    let ends: Vec<u32> = tokenizer.eos.iter().copied().filter(|id| *id < size).collect();
    match ends.first() {
        Some(end) => TokTrie::from(&TokRxInfo::new(size, *end), &words).with_eos_tokens(&ends),
        None => TokTrie::from(&TokRxInfo::new(size, toktrie::INVALID_TOKEN), &words),
    }
}

/// The tokenizer as llguidance sees it. It would tokenize only to force tokens, which is not asked for here.
struct Tokens {
    trie: TokTrie,
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    use serde_json::Value;
    use tokenizers::utils::SysRegex;

    use super::*;
    use crate::text::tests::tiny;

    /// Random allowed tokens until the end. Every seventh step ends the text if it may, so that it stays short.
    fn walk(grammar: &Grammar, tokenizer: &Tokenizer, seed: u64) -> Option<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut matcher = grammar.matcher();
        let mut ids = Vec::new();
        let end = tokenizer.eos[0];
        for step in 0..600 {
            let mask = matcher.mask().unwrap();
            let allowed: Vec<u32> = (0..tokenizer.vocab_size() as u32)
                .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1)
                .collect();
            let can_end = allowed.contains(&end);
            if (can_end && step % 7 == 0) || matcher.finished() {
                assert!(can_end, "a finished text may end");
                return Some(tokenizer.decode(&ids, false).unwrap());
            }
            let token = allowed[(rng.next_u64() % allowed.len() as u64) as usize];
            if tokenizer.eos.contains(&token) {
                return Some(tokenizer.decode(&ids, false).unwrap());
            }
            matcher.accept(token).unwrap();
            ids.push(token);
        }
        None
    }

    /// The part of JSON Schema that the schemas below use.
    fn satisfies(value: &Value, schema: &Value) -> bool {
        let is_type = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|x| x.fract() == 0.0)
            }
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("null") => value.is_null(),
            _ => true,
        };
        let in_enum = schema["enum"].as_array().is_none_or(|all| all.contains(value));
        let in_range = value.as_f64().is_none_or(|x| {
            schema["minimum"].as_f64().is_none_or(|low| x >= low)
                && schema["maximum"].as_f64().is_none_or(|high| x <= high)
        });
        let has_length = value.as_str().is_none_or(|text| {
            let count = text.chars().count() as u64;
            schema["maxLength"].as_u64().is_none_or(|most| count <= most)
                && schema["minLength"].as_u64().is_none_or(|least| count >= least)
        });
        let has_fields = value.as_object().is_none_or(|fields| {
            let required = schema["required"].as_array().into_iter().flatten();
            let known = schema["properties"].as_object();
            required.clone().all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, value)| match known.and_then(|known| known.get(name)) {
                    Some(schema) => satisfies(value, schema),
                    None => schema["additionalProperties"] != false,
                })
        });
        let has_items = value.as_array().is_none_or(|items| {
            schema["maxItems"].as_u64().is_none_or(|most| items.len() as u64 <= most)
                && schema["minItems"].as_u64().is_none_or(|least| items.len() as u64 >= least)
                && items.iter().all(|item| satisfies(item, &schema["items"]))
        });
        let any =
            schema["anyOf"].as_array().is_none_or(|all| all.iter().any(|schema| satisfies(value, schema)));
        is_type && in_enum && in_range && has_length && has_fields && has_items && any
    }

    #[test]
    fn random_walks_satisfy_their_schema() {
        let tokenizer = tiny();
        let step = json!({
            "type": "object",
            "properties": {
                "verdict": {"type": "string", "enum": ["correct", "wrong", "uns\u{fc}re"]},
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
                "note": {"type": "string", "maxLength": 12},
            },
            "required": ["verdict", "score"],
            "additionalProperties": false,
        });
        let schemas = [
            step.clone(),
            json!({"type": "array", "items": step, "minItems": 1, "maxItems": 3}),
            json!({"anyOf": [{"type": "boolean"}, {"type": "null"}, {"type": "string", "minLength": 2, "maxLength": 5}]}),
            json!({"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "maxItems": 4}),
        ];
        for schema in schemas {
            let grammar = Grammar::compile(&Constraint::JsonSchema(schema.clone()), &tokenizer).unwrap();
            let texts: Vec<String> = (0..150).filter_map(|seed| walk(&grammar, &tokenizer, seed)).collect();
            assert!(texts.len() > 100, "{} of 150 walks ended under {schema}", texts.len());
            for text in texts {
                let value: Value =
                    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
                assert!(satisfies(&value, &schema), "{text} under {schema}");
            }
        }
    }

    #[test]
    fn random_walks_match_their_pattern() {
        let tokenizer = tiny();
        let patterns = [
            "yes|no",
            r"[0-9]{1,3}(\.[0-9]+)?",
            r"^\\boxed\{-?[0-9]+\}$",
            "(the |a )?(sum|total) is [0-9]+",
            "[äöü€🎉]{2,4}",
            r"-?1|\$5",
            r"Step [1-9]: [^\n]{0,20}\n",
            "",
        ];
        for pattern in patterns {
            let grammar = Grammar::compile(&Constraint::Regex(pattern.into()), &tokenizer).unwrap();
            let whole = SysRegex::new(&format!(r"\A(?:{pattern})\z")).unwrap();
            for text in (0..100).filter_map(|seed| walk(&grammar, &tokenizer, seed)) {
                assert!(whole.find_iter(&text).next().is_some(), "{text:?} for {pattern}");
            }
            assert!(walk(&grammar, &tokenizer, 0).is_some(), "{pattern}");
        }
    }

    #[test]
    fn a_text_may_end_exactly_when_it_is_complete() {
        let tokenizer = tiny();
        let grammar = Grammar::compile(&Constraint::Regex("ab(cd)?".into()), &tokenizer).unwrap();
        let mut matcher = grammar.matcher();
        let end = tokenizer.eos[0];
        for (letter, may_end) in [("a", false), ("b", false), ("c", true), ("d", false)] {
            let mask = matcher.mask().unwrap();
            assert_eq!(mask[end as usize / 32] >> (end % 32) & 1 == 1, may_end, "before {letter}");
            assert!(!matcher.finished());
            matcher.accept(tokenizer.token_id(letter).unwrap()).unwrap();
        }
        assert!(matcher.finished());
        let only_end: u32 = matcher.mask().unwrap().iter().map(|word| word.count_ones()).sum();
        assert_eq!(only_end as usize, tokenizer.eos.len());
    }

    #[test]
    fn special_tokens_do_not_pass_for_their_spelling() {
        let tokenizer = tiny();
        let grammar = Grammar::compile(&Constraint::Regex(r"<\|im_start\|>x".into()), &tokenizer).unwrap();
        let special = tokenizer.token_id("<|im_start|>").unwrap();
        let mut matcher = grammar.matcher();
        assert_eq!(matcher.mask().unwrap()[special as usize / 32] >> (special % 32) & 1, 0);
        assert!(matcher.accept(special).is_err());
    }

    #[test]
    fn what_cannot_be_compiled_is_said_in_a_line() {
        let tokenizer = tiny();
        let said = |constraint| Grammar::compile(&constraint, &tokenizer).err().unwrap().to_string();
        let regex = said(Constraint::Regex("(a".into()));
        assert!(
            regex.starts_with("the regular expression cannot be used: ") && !regex.contains('\n'),
            "{regex}"
        );
        let schema = said(Constraint::JsonSchema(json!({"type": "thing"})));
        assert!(schema.starts_with("the JSON schema cannot be used: ") && !schema.contains('\n'), "{schema}");
        let empty = said(Constraint::JsonSchema(json!({"type": "integer", "minimum": 2, "maximum": 1})));
        assert!(empty.starts_with("the JSON schema cannot be used: "), "{empty}");
    }

    #[test]
    fn what_llguidance_fails_on_shows_nothing_of_its_inside() {
        let tokenizer = tiny();
        for schema in [json!({"type": "integer", "minimum": i64::MIN}), json!({"$ref": "#"})] {
            // A later version may take them.
            let Err(error) = Grammar::compile(&Constraint::JsonSchema(schema), &tokenizer) else { continue };
            let error = error.to_string();
            assert!(error.starts_with("the JSON schema cannot be used: "), "{error}");
            assert!(!error.contains("panic") && !error.contains('<') && error.len() < 200, "{error}");
        }
        let said = shown("panicked at 'x'\n<backtrace>\n0: y");
        assert_eq!(said, "llguidance, which compiles constraints, failed on it: try a simpler one");
    }
}
