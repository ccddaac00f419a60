//! `Generate` over OpenAI's protocol: `/v1/chat/completions` for conversations, `/v1/completions` for text.
//!
//! A server that answers with fewer samples than asked for, or refuses `n`, is sent one request per sample, at the same
//! time, sample `i` with `seed + i`; it is remembered, and the next call does so at once. Whether a seed gives the same text
//! again is the server's affair, and an endpoint with `request_seed = false` is sent none. A conversation whose last message
//! is the assistant's is sent with `continue_final_message`; [`crate::continues_turns`] says whether a server obeys. Regular expressions are refused, since the protocol has no field for them, and a
//! JSON schema is only asked for: the text is not checked against it here.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use gradus_core::contracts::{
    Answer, CallError, Choice, Constraint, FinishReason, Generate, GenerateRequest, Generated, Message,
    Prompt, TokenLogProb, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::continuation::ContinuedTurn;
use crate::{Dialect, Http};

/// [`TokenLogProb::id`] where a server names a token's text but not its id.
pub(crate) const UNKNOWN_TOKEN: u32 = u32::MAX;

/// A model that generates behind an OpenAI-compatible server.
///
/// ```no_run
/// use gradus_core::contracts::{Generate, GenerateRequest, Prompt};
/// use gradus_llm::{Chat, Endpoint, Http};
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Chat::new(Http::open(&Endpoint::new("http://127.0.0.1:8080", ""))?);
/// let request = GenerateRequest { n: 4, seed: 7, ..GenerateRequest::new(Prompt::Text("1, 2,".into()), 16) };
/// assert_eq!(model.generate(request).await?.choices.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Chat {
    pub(crate) http: Http,
    one_each: AtomicBool,
}

impl Chat {
    /// The model of `http`'s endpoint.
    pub fn new(http: Http) -> Self {
        Self { http, one_each: AtomicBool::new(false) }
    }

    /// Sends one request per sample from the start, for servers that answer `n` with status 500.
    #[cfg(test)]
    pub(crate) fn one_each(self) -> Self {
        self.one_each.store(true, Ordering::Relaxed);
        self
    }

    async fn draw(&self, request: &GenerateRequest) -> Result<Generated, CallError> {
        self.check(request)?;
        let n = request.n;
        let mut drawn = Generated { choices: Vec::new(), usage: Usage::default() };
        if n > 1 && !self.one_each.load(Ordering::Relaxed) {
            match self.ask(request, 0, n).await {
                Ok(answer) => drawn = answer,
                // Perhaps it is `n` that is refused: the first sample alone tells.
                Err(CallError::Invalid(_)) => drawn = self.ask(request, 0, 1).await?,
                Err(error) => return Err(error),
            }
            self.one_each.fetch_or(drawn.choices.len() < n, Ordering::Relaxed);
        }
        let missing = (drawn.choices.len()..n).map(|sample| self.ask(request, sample, 1));
        for answer in try_join_all(missing).await? {
            drawn.choices.extend(answer.choices);
            drawn.usage.prompt_tokens += answer.usage.prompt_tokens;
            drawn.usage.completion_tokens += answer.usage.completion_tokens;
        }
        Ok(drawn)
    }

    fn check(&self, request: &GenerateRequest) -> Result<(), CallError> {
        let refuse = |message: &str| Err(CallError::Invalid(message.to_owned()));
        if request.n == 0 || request.max_tokens == 0 {
            return refuse("n and max_tokens must be at least 1");
        }
        if request.stop.iter().any(String::is_empty) {
            return refuse("a stop text is empty");
        }
        if matches!(request.constraint, Some(Constraint::Regex(_))) {
            return refuse(
                "OpenAI's protocol has no regular expressions: give a JSON schema, or use a local model",
            );
        }
        let sampling = &request.sampling;
        let plain = sampling.top_k == 0 && sampling.min_p == 0.0 && sampling.repetition_penalty == 1.0;
        if !plain && self.http.endpoint().dialect == Dialect::OpenAi {
            return refuse("top_k, min_p and repetition_penalty are not in the dialect `open_ai`");
        }
        Ok(())
    }

    /// One request for `n` samples from the `first` on; there may come fewer, but not none.
    async fn ask(&self, request: &GenerateRequest, first: usize, n: usize) -> Result<Generated, CallError> {
        let endpoint = self.http.endpoint();
        let body = ChatBody::new(request, &endpoint.model, endpoint.dialect, first, n);
        let path = if body.messages.is_some() { "/v1/chat/completions" } else { "/v1/completions" };
        let accept = |mut reply: ChatReply, usage| {
            if reply.choices.iter().any(|sample| sample.finish_reason.as_deref() == Some("content_filter")) {
                let filtered = CallError::FILTERED;
                return Err(CallError::Invalid(format!("{filtered}: {path} withheld a completion")));
            }
            reply.choices.sort_by_key(|sample| sample.index);
            reply.choices.truncate(n);
            if reply.choices.is_empty() {
                return Err(CallError::Failed(format!("{path}: `choices` of the answer is empty")));
            }
            let choices = reply.choices.into_iter().enumerate().map(|(index, sample)| {
                sample.choice(request.logprobs).map_err(|(field, found)| {
                    CallError::Failed(format!("{path}: `choices[{index}].{field}` of the answer is {found}"))
                })
            });
            Ok(Generated { choices: choices.collect::<Result<_, _>>()?, usage })
        };
        self.http.post_and(path, &body, accept).await
    }
}

impl Generate for Chat {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        Box::pin(async move { self.draw(&request).await })
    }
}

#[derive(Serialize)]
struct ChatBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Message]>,
    #[serde(flatten)]
    continued: Option<ContinuedTurn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptBody<'a>>,
    n: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<usize>,
    temperature: f32,
    top_p: f32,
    #[serde(flatten)]
    more: Option<OpenServerFields>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
}

/// Fields of open servers. llama.cpp has its own name for the penalty; vLLM and SGLang ignore that one.
/// A prompt of `/v1/completions`.
#[derive(Serialize)]
#[serde(untagged)]
enum PromptBody<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

#[derive(Serialize)]
struct OpenServerFields {
    top_k: i64,
    min_p: f32,
    repetition_penalty: f32,
    repeat_penalty: f32,
}

impl<'a> ChatBody<'a> {
    fn new(request: &'a GenerateRequest, model: &'a str, dialect: Dialect, first: usize, n: usize) -> Self {
        let (messages, prompt) = match &request.prompt {
            Prompt::Chat(messages) => (Some(messages.as_slice()), None),
            Prompt::Text(text) => (None, Some(PromptBody::Text(text))),
            Prompt::Tokens(tokens) => (None, Some(PromptBody::Tokens(tokens))),
        };
        let begun = messages.and_then(<[Message]>::last).is_some_and(|last| last.role == "assistant");
        let sampling = &request.sampling;
        let more = (dialect == Dialect::Open).then(|| OpenServerFields {
            // 0 is an error in older servers, −1 is 'all' in every one.
            top_k: if sampling.top_k == 0 { -1 } else { i64::try_from(sampling.top_k).unwrap_or(i64::MAX) },
            min_p: sampling.min_p,
            repetition_penalty: sampling.repetition_penalty,
            repeat_penalty: sampling.repetition_penalty,
        });
        let newer = dialect == Dialect::OpenAi && messages.is_some();
        Self {
            model,
            messages,
            continued: begun.then(ContinuedTurn::default),
            prompt,
            n,
            max_tokens: (!newer).then_some(request.max_tokens),
            max_completion_tokens: newer.then_some(request.max_tokens),
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            more,
            stop: &request.stop,
            // Servers read a signed number.
            seed: request.seed.wrapping_add(first as u64) & i64::MAX as u64,
            logprobs: request.logprobs.then(|| if messages.is_some() { json!(true) } else { json!(1) }),
            response_format: request.constraint.as_ref().and_then(|constraint| match constraint {
                Constraint::JsonSchema(schema) => Some(json!({
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": schema, "strict": true},
                })),
                Constraint::Regex(_) => None,
            }),
        }
    }
}

#[derive(Deserialize)]
struct ChatReply {
    choices: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    index: Option<usize>,
    message: Option<ChatMessage>,
    text: Option<String>,
    finish_reason: Option<String>,
    logprobs: Option<Tokens>,
}

#[derive(Deserialize)]
struct ChatMessage {
    content: Option<String>,
}

/// Log-probabilities as chat answers have them, or as the older completions do; llama.cpp answers both in the first way.
#[derive(Deserialize)]
struct Tokens {
    content: Option<Vec<Token>>,
    tokens: Option<Vec<String>>,
    token_logprobs: Option<Vec<f32>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default = "unknown")]
    id: u32,
    token: String,
    logprob: f32,
}

fn unknown() -> u32 {
    UNKNOWN_TOKEN
}

/// The field at fault and what it is.
type Fault = (&'static str, String);

impl Sample {
    fn choice(self, logprobs: bool) -> Result<Choice, Fault> {
        let finish = match self.finish_reason.as_deref() {
            Some("stop") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            Some(other) => return Err(("finish_reason", format!("`{other}`, neither `stop` nor `length`"))),
            None => return Err(("finish_reason", "missing".to_owned())),
        };
        let text = match (self.message, self.text) {
            (Some(message), _) => match message.content {
                Some(text) => text,
                // A reasoning model that is cut off while it thinks has said nothing yet.
                None if finish == FinishReason::Length => String::new(),
                None => return Err(("message.content", "missing".to_owned())),
            },
            (None, Some(text)) => text,
            (None, None) => return Err(("message", "missing, and so is `text`".to_owned())),
        };
        let tokens = if logprobs {
            self.logprobs.ok_or(("logprobs", "missing".to_owned()))?.list()?
        } else {
            Vec::new()
        };
        Ok(Choice { text, finish, logprobs: tokens, tokens: Vec::new() })
    }
}

impl Tokens {
    fn list(self) -> Result<Vec<TokenLogProb>, Fault> {
        if let Some(content) = self.content {
            return Ok(content
                .into_iter()
                .map(|Token { id, token, logprob }| TokenLogProb::new(id, token, logprob))
                .collect());
        }
        let missing = |field| (field, "missing".to_owned());
        let tokens = self.tokens.ok_or_else(|| missing("logprobs.tokens"))?;
        let values = self.token_logprobs.ok_or_else(|| missing("logprobs.token_logprobs"))?;
        if tokens.len() != values.len() {
            let found = format!("{} numbers for {} tokens", values.len(), tokens.len());
            return Err(("logprobs.token_logprobs", found));
        }
        Ok(tokens
            .into_iter()
            .zip(values)
            .map(|(token, logprob)| TokenLogProb::new(UNKNOWN_TOKEN, token, logprob))
            .collect())
    }
}
