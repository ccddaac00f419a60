//! How text is generated, in the words of OpenAI and vLLM.

use gradus_core::contracts::{Constraint, GenerateRequest, Prompt, Sampling, TokenLogProb};
use gradus_engine::text::Tokenizer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::limits::Limits;

/// Alternatives that are given for each token at most, as at OpenAI.
const MAX_TOP_LOGPROBS: usize = 20;
/// Stop texts at most; OpenAI takes four.
const MAX_STOPS: usize = 64;
/// Bytes of a stop text at most.
const MAX_STOP_BYTES: usize = 4 << 10;
/// Bytes of a JSON schema or a regular expression at most.
const MAX_CONSTRAINT_BYTES: usize = 1 << 20;

/// One or several.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// Fields that chat and text completions share.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct GenerationOptions {
    /// Maximum tokens of a completion.
    pub(crate) max_tokens: Option<usize>,
    /// The same, by its newer name.
    pub(crate) max_completion_tokens: Option<usize>,
    /// Sampling temperature (default: 1).
    temperature: Option<f32>,
    /// Nucleus sampling (default: 1).
    top_p: Option<f32>,
    /// Only so many of the most probable tokens (default: all).
    top_k: Option<i64>,
    /// Only tokens at least this share as probable as the most probable one (default: 0).
    min_p: Option<f32>,
    /// Divides the logits of tokens that were seen (default: 1).
    repetition_penalty: Option<f32>,
    /// Samples (default: 1).
    n: Option<usize>,
    /// Texts that end a completion.
    stop: Option<OneOrMany>,
    /// Random seed (default: a new one for each request).
    seed: Option<i64>,
    /// Whether the answer is sent as it grows.
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    /// What is sent beside it.
    pub(crate) stream_options: Option<StreamOptions>,
    /// `text`, `json_object` or `json_schema`.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// A JSON schema that the completion satisfies (vLLM's older field).
    #[schema(value_type = Option<Object>)]
    guided_json: Option<Value>,
    /// A regular expression that the completion matches (vLLM's older field).
    guided_regex: Option<String>,
    /// `json` or `regex` (vLLM's newer field).
    #[schema(value_type = Option<Object>)]
    structured_outputs: Option<Value>,
    /// Refused unless 0.
    frequency_penalty: Option<f32>,
    /// Refused unless 0.
    presence_penalty: Option<f32>,
    /// Refused unless empty.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Refused: this server calls no tools.
    #[schema(value_type = Option<Object>)]
    tools: Option<Value>,
    /// Refused unless `none` or `auto`.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// Refused: this server calls no functions.
    #[schema(value_type = Option<Object>)]
    functions: Option<Value>,
}

/// What is sent beside a stream.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// Whether the last event has the usage.
    #[serde(default)]
    pub(crate) include_usage: bool,
}

impl GenerationOptions {
    /// The request, with `top` alternatives for each token; `usual` is the length where none is given.
    pub(crate) fn request(
        self,
        prompt: Prompt,
        usual: usize,
        top: Option<usize>,
        limits: &Limits,
    ) -> Result<GenerateRequest, ApiError> {
        self.refuse_unsupported()?;
        let constraint = self.constraint()?;
        let max_tokens = self.max_completion_tokens.or(self.max_tokens).unwrap_or(usual);
        let n = self.n.unwrap_or(1);
        for (name, value) in [("max_tokens", max_tokens), ("n", n)] {
            if value == 0 {
                return Err(ApiError::invalid(format!("`{name}` must be at least 1")));
            }
        }
        if n.saturating_mul(max_tokens) > limits.generated_tokens || n > limits.inputs {
            return Err(ApiError::invalid(format!(
                "{n} samples of {max_tokens} tokens are more than {} (--max-generated-tokens)",
                limits.generated_tokens
            )));
        }
        if top.is_some_and(|top| top > MAX_TOP_LOGPROBS) {
            return Err(ApiError::invalid(format!("`top_logprobs` must be at most {MAX_TOP_LOGPROBS}")));
        }
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(1.0),
            top_p: self.top_p.unwrap_or(1.0),
            // vLLM takes −1 for all.
            top_k: self.top_k.map_or(0, |top_k| usize::try_from(top_k).unwrap_or(0)),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
        };
        let stop = self.stop.map(OneOrMany::into_vec).unwrap_or_default();
        if stop.iter().any(String::is_empty) {
            return Err(ApiError::invalid("`stop` has an empty text"));
        }
        if stop.len() > MAX_STOPS || stop.iter().any(|text| text.len() > MAX_STOP_BYTES) {
            return Err(ApiError::invalid(format!(
                "`stop` takes at most {MAX_STOPS} texts of at most {MAX_STOP_BYTES} bytes"
            )));
        }
        Ok(GenerateRequest {
            n,
            sampling,
            stop,
            seed: self.seed.map_or_else(crate::guard::random, i64::cast_unsigned),
            constraint,
            logprobs: top.is_some(),
            top_logprobs: top.unwrap_or(0),
            ..GenerateRequest::new(prompt, max_tokens)
        })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let is_set = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                Value::String(word) => !matches!(word.as_str(), "none" | "auto"),
                _ => true,
            })
        };
        let refused = [
            ("tools", is_set(&self.tools)),
            ("tool_choice", is_set(&self.tool_choice)),
            ("functions", is_set(&self.functions)),
            ("logit_bias", is_set(&self.logit_bias)),
            ("frequency_penalty", self.frequency_penalty.is_some_and(|value| value != 0.0)),
            ("presence_penalty", self.presence_penalty.is_some_and(|value| value != 0.0)),
        ];
        match refused.iter().find(|(_, set)| *set) {
            None => Ok(()),
            Some((field, _)) => Err(ApiError::invalid(format!("`{field}` is not supported by this server"))),
        }
    }

    fn constraint(&self) -> Result<Option<Constraint>, ApiError> {
        let mut found = Vec::new();
        if let Some(format) = &self.response_format {
            match format["type"].as_str() {
                Some("text") => {}
                Some("json_object") => found.push(Constraint::JsonSchema(json!({"type": "object"}))),
                Some("json_schema") => {
                    let schema = &format["json_schema"]["schema"];
                    if !schema.is_object() {
                        return Err(ApiError::invalid(
                            "`response_format.json_schema.schema` must be a JSON schema",
                        ));
                    }
                    found.push(Constraint::JsonSchema(schema.clone()));
                }
                _ => {
                    return Err(ApiError::invalid(
                        "`response_format.type` must be text, json_object or json_schema",
                    ));
                }
            }
        }
        if let Some(schema) = &self.guided_json {
            found.push(Constraint::JsonSchema(parsed(schema)?));
        }
        found.extend(self.guided_regex.clone().map(Constraint::Regex));
        if let Some(Value::Object(fields)) = &self.structured_outputs {
            for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                found.push(match (field.as_str(), value) {
                    ("json", schema) => Constraint::JsonSchema(parsed(schema)?),
                    ("regex", Value::String(regex)) => Constraint::Regex(regex.clone()),
                    _ => {
                        return Err(ApiError::invalid(format!(
                            "`structured_outputs.{field}` is not supported: use json or regex"
                        )));
                    }
                });
            }
        }
        if found.len() > 1 {
            return Err(ApiError::invalid(
                "more than one constraint is given: use one of response_format, guided_json, guided_regex, structured_outputs",
            ));
        }
        let constraint = found.pop();
        let bytes = match &constraint {
            Some(Constraint::JsonSchema(schema)) => schema.to_string().len(),
            Some(Constraint::Regex(regex)) => regex.len(),
            None => 0,
        };
        if bytes > MAX_CONSTRAINT_BYTES {
            return Err(ApiError::invalid(format!(
                "the JSON schema or regular expression has more than {MAX_CONSTRAINT_BYTES} bytes"
            )));
        }
        Ok(constraint)
    }
}

/// Bytes of what every prompt's request has a copy of.
pub(crate) fn shared(request: &GenerateRequest) -> usize {
    let constraint = match &request.constraint {
        Some(Constraint::JsonSchema(schema)) => held(schema),
        Some(Constraint::Regex(regex)) => regex.len(),
        None => 0,
    };
    request.stop.iter().map(String::len).sum::<usize>() + constraint
}

/// Bytes of a JSON value in memory.
fn held(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(held).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| size_of_val(name) + name.len() + held(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of_val(value) + inside
}

/// A schema, which some clients send as a text.
fn parsed(schema: &Value) -> Result<Value, ApiError> {
    let Value::String(text) = schema else { return Ok(schema.clone()) };
    serde_json::from_str(text)
        .map_err(|error| ApiError::invalid(format!("the JSON schema is not JSON: {error}")))
}

/// A token's log-probability, as chat completions have it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatLogProb {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    top_logprobs: Option<Vec<ChatLogProb>>,
}

impl ChatLogProb {
    pub(crate) fn of(token: &TokenLogProb, tokenizer: &Tokenizer) -> Self {
        let alternatives = token.top.iter().map(|other| Self::alone(other, tokenizer));
        Self { top_logprobs: Some(alternatives.collect()), ..Self::alone(token, tokenizer) }
    }

    fn alone(token: &TokenLogProb, tokenizer: &Tokenizer) -> Self {
        // A token may be a part of a character, which only its bytes say.
        let bytes = tokenizer.token_bytes(token.id);
        Self { token: token.token.clone(), logprob: token.logprob, bytes, top_logprobs: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> Result<GenerateRequest, String> {
        let options: GenerationOptions = serde_json::from_str(body).unwrap();
        let made = options.request(Prompt::Text("x".into()), 16, None, &Limits::default());
        made.map_err(|error| error.message)
    }

    #[test]
    fn fields_have_an_effect_or_are_refused() {
        let made =
            asked(r#"{"max_tokens": 5, "temperature": 0, "top_k": -1, "n": 2, "stop": "a", "seed": 7}"#)
                .unwrap();
        assert_eq!((made.max_tokens, made.n, made.seed, made.sampling.top_k), (5, 2, 7, 0));
        assert_eq!((made.stop, made.sampling.temperature), (vec!["a".to_owned()], 0.0));
        for body in [
            r#"{"tools": [{"type": "function"}]}"#,
            r#"{"presence_penalty": 0.5}"#,
            r#"{"logit_bias": {"5": 1}}"#,
            r#"{"n": 0}"#,
            r#"{"stop": ""}"#,
            r#"{"n": 1000, "max_tokens": 100000}"#,
            r#"{"response_format": {"type": "xml"}}"#,
            r#"{"guided_json": {}, "guided_regex": "a"}"#,
        ] {
            asked(body).unwrap_err();
        }
        let many = |count: usize, bytes: usize| json!({"stop": vec!["a".repeat(bytes); count]}).to_string();
        asked(&many(64, 4096)).unwrap();
        assert!(asked(&many(65, 1)).unwrap_err().contains("64 texts"));
        assert!(asked(&many(1, 4097)).unwrap_err().contains("4096 bytes"));
        asked(r#"{"tools": [], "presence_penalty": 0, "tool_choice": "none", "logit_bias": {}}"#).unwrap();
    }

    #[test]
    fn constraints_come_in_four_ways() {
        let schema = Some(Constraint::JsonSchema(json!({"type": "object"})));
        for body in [
            r#"{"response_format": {"type": "json_object"}}"#,
            r#"{"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}"#,
            r#"{"guided_json": "{\"type\": \"object\"}"}"#,
            r#"{"structured_outputs": {"json": {"type": "object"}}}"#,
        ] {
            assert_eq!(asked(body).unwrap().constraint, schema, "{body}");
        }
        assert_eq!(
            asked(r#"{"structured_outputs": {"regex": "a+"}}"#).unwrap().constraint,
            Some(Constraint::Regex("a+".into()))
        );
        for body in [
            json!({"guided_json": {"enum": vec![0; 600_000]}}),
            json!({"guided_regex": "a".repeat((1 << 20) + 1)}),
        ] {
            assert!(asked(&body.to_string()).unwrap_err().contains("more than 1048576 bytes"));
        }
    }
}
