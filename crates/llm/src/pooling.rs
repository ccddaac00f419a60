//! `ScoreSteps` over vLLM's `/pooling`. For Qwen2.5-Math-PRM:
//!
//! ```json
//! {"model": "Qwen/Qwen2.5-Math-PRM-7B", "task": "token_classify", "encoding_format": "float",
//!  "messages": [{"role": "system", "content": "Please reason …"}, {"role": "user", "content": "What is 1 + 1?"},
//!               {"role": "assistant", "content": "1 + 1 = 2<extra_0>"}]}
//! {"object": "list", "data": [{"index": 0, "object": "pooling", "data": [[0.07, 0.93]]}], "usage": {"prompt_tokens": 40}}
//! ```
//!
//! Texts and token ids travel together, as a list in `input`; a conversation travels alone. Where a server refuses a list,
//! each of its solutions is sent by itself, so that one that is too long is only its own error.
//!
//! `data` must hold one entry per prompt, and its `data` one row per step tag or per token (see `prompt.rs`), each a score
//! or one probability per class (see `rows.rs`). Logits are refused: the server has to apply the model's activation.

mod prompt;
mod rows;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{join_all, try_join_all};
use gradus_core::contracts::{Answer, CallError, Message, ScoreRequest, ScoreSteps, StepScores, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use prompt::{Columns, PoolingFormat, PoolingInput, PoolingPrompt, Reads};

use crate::{Http, scores};
use rows::Row;

/// Most prompts of one request; a solution with more has a request of its own.
const PROMPTS: usize = 32;

/// A process reward model behind vLLM.
///
/// ```no_run
/// use gradus_core::contracts::{CallError, ScoreRequest, ScoreSteps};
/// use gradus_llm::{Endpoint, Http, Pooling, PoolingFormat, PoolingInput, PoolingPrompt, Reads};
///
/// /// The problem and each step end in a line break.
/// struct Lines;
///
/// impl PoolingFormat for Lines {
///     fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
///         let text = format!("{}\n{}\n", request.problem, request.steps.join("\n"));
///         Ok(vec![PoolingPrompt { input: PoolingInput::Text(text), reads: Reads::Tags }])
///     }
/// }
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B"))?;
/// let model = Pooling::new(http, Lines);
/// let request = ScoreRequest { problem: "1 + 1?".into(), steps: vec!["It is 2.".into()], ..Default::default() };
/// for scores in model.score_steps(vec![request]).await? {
///     assert_eq!(scores?.scores.len(), 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pooling {
    http: Http,
    format: Arc<dyn PoolingFormat>,
}

impl fmt::Debug for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooling").field("http", &self.http).finish_non_exhaustive()
    }
}

/// A solution and its prompts.
struct Solution<'a> {
    request: &'a ScoreRequest,
    prompts: Vec<PoolingPrompt>,
}

impl Solution<'_> {
    fn is_chat(&self) -> bool {
        self.prompts.iter().any(|prompt| matches!(prompt.input, PoolingInput::Chat { .. }))
    }
}

#[derive(Serialize)]
struct PoolingBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    task: &'static str,
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Message]>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    add_generation_prompt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Inputs<'a>>,
}

/// One prompt, or a list of one kind.
#[derive(Serialize)]
#[serde(untagged)]
enum Inputs<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
    Texts(Vec<&'a str>),
    TokenLists(Vec<&'a [u32]>),
}

#[derive(Deserialize)]
struct PoolingReply {
    data: Vec<Pooled>,
}

/// The rows of one prompt, which are read one by one: what is wrong with them is one solution's error.
#[derive(Deserialize)]
struct Pooled {
    index: Option<usize>,
    data: Value,
}

/// What was read for one prompt, or what is wrong with it.
type ReadValues = Result<Vec<f64>, String>;
/// One answer per solution.
type Answers = Vec<Result<StepScores, CallError>>;

impl Pooling {
    /// The model of `http`'s endpoint, with solutions as `format` writes them.
    pub fn new(http: Http, format: impl PoolingFormat + 'static) -> Self {
        Self { http, format: Arc::new(format) }
    }

    fn write<'a>(&self, request: &'a ScoreRequest) -> Result<Solution<'a>, CallError> {
        scores::check_request(request)?;
        Ok(Solution { request, prompts: self.format.write(request)? })
    }

    /// Solutions in one request; if the server refuses that, each by itself.
    async fn together(&self, solutions: &[&Solution<'_>]) -> Answers {
        match self.ask(solutions).await {
            Ok(answers) => answers,
            Err(CallError::Invalid(_)) if solutions.len() > 1 => {
                let alone = solutions.iter().map(|solution| async move {
                    match self.ask(&[*solution]).await {
                        Ok(mut answers) => answers.remove(0),
                        Err(error) => Err(error),
                    }
                });
                join_all(alone).await
            }
            Err(error) => solutions.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// One answer per solution; an error is the whole request's.
    async fn ask(&self, solutions: &[&Solution<'_>]) -> Result<Answers, CallError> {
        let prompts: Vec<&PoolingPrompt> = solutions.iter().flat_map(|solution| &solution.prompts).collect();
        if !solutions.iter().any(|solution| solution.is_chat()) || prompts.len() == 1 {
            let read = |values, usage| {
                let answers = self.answers(solutions, values, usage);
                let good = answers.iter().all(Result::is_ok);
                (answers, good)
            };
            return self.post(&prompts, read).await;
        }
        // A solution of several conversations, which travel alone.
        let read = |values: Vec<ReadValues>, usage| {
            let within = |value: &f64| (0.0..=1.0).contains(value);
            let good = values.iter().all(|read| read.as_ref().is_ok_and(|read| read.iter().all(within)));
            ((values, usage), good)
        };
        let each = prompts.iter().map(|prompt| self.post(std::slice::from_ref(prompt), read));
        let mut values = Vec::new();
        let mut sum = Usage::default();
        for (read, usage) in try_join_all(each).await? {
            values.extend(read);
            sum.prompt_tokens += usage.prompt_tokens;
            sum.completion_tokens += usage.completion_tokens;
        }
        Ok(self.answers(solutions, values, sum))
    }

    /// What was read, as the solutions' scores.
    fn answers(&self, solutions: &[&Solution<'_>], values: Vec<ReadValues>, usage: Usage) -> Answers {
        let count = solutions.len() as u64;
        let mut values = values.into_iter();
        let answers = solutions.iter().enumerate().map(|(place, solution)| {
            // What a request costs is divided evenly among its solutions, the rest to the first.
            let share = |tokens: u64| tokens / count + if place == 0 { tokens % count } else { 0 };
            let usage = Usage {
                prompt_tokens: share(usage.prompt_tokens),
                completion_tokens: share(usage.completion_tokens),
            };
            let request = solution.request;
            let read: Vec<ReadValues> = values.by_ref().take(solution.prompts.len()).collect();
            let read = read.into_iter().collect::<Result<Vec<Vec<f64>>, String>>();
            let read = read
                .map_err(|what| CallError::Failed(format!("solution `{}`: /pooling: {what}", request.id)))?;
            let read = read.concat();
            scores::check_scores(request, &read)?;
            Ok(StepScores { scores: self.format.scores(request, read), usage })
        });
        answers.collect()
    }

    /// One request. `read` makes something of the values of each prompt, and says whether all of it is good.
    async fn post<T: Send>(
        &self,
        prompts: &[&PoolingPrompt],
        read: impl Fn(Vec<ReadValues>, Usage) -> (T, bool),
    ) -> Result<T, CallError> {
        let body = PoolingBody {
            model: &self.http.endpoint().model,
            task: "token_classify",
            encoding_format: "float",
            messages: None,
            add_generation_prompt: false,
            input: None,
        };
        let body = match prompts {
            [prompt] => match &prompt.input {
                PoolingInput::Text(text) => PoolingBody { input: Some(Inputs::Text(text)), ..body },
                PoolingInput::Tokens(tokens) => PoolingBody { input: Some(Inputs::Tokens(tokens)), ..body },
                PoolingInput::Chat { messages, add_generation_prompt } => PoolingBody {
                    messages: Some(messages),
                    add_generation_prompt: *add_generation_prompt,
                    ..body
                },
            },
            _ => PoolingBody { input: Some(list(prompts)?), ..body },
        };
        // An answer with one bad part is not kept in the cache, but its good parts are used.
        let parts: Mutex<Option<T>> = Mutex::new(None);
        let accept = |reply: PoolingReply, usage| {
            let (answer, good) = read(self.values(prompts, reply)?, usage);
            if good {
                return Ok(answer);
            }
            *parts.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Err(CallError::Failed("/pooling: a part of the answer cannot be used".to_owned()))
        };
        let answer = self.http.post_and("/pooling", &body, accept).await;
        answer.or_else(|error| parts.into_inner().unwrap_or_else(PoisonError::into_inner).ok_or(error))
    }

    /// What the answer has for each prompt.
    fn values(&self, prompts: &[&PoolingPrompt], reply: PoolingReply) -> Result<Vec<ReadValues>, CallError> {
        let (found, wanted) = (reply.data.len(), prompts.len());
        if found != wanted {
            let what = format!("`data` of the answer has {found} entries instead of {wanted}");
            return Err(CallError::Failed(format!("/pooling: {what}")));
        }
        let places = reply.data.into_iter().enumerate();
        let by_index: BTreeMap<usize, Value> =
            places.map(|(place, pooled)| (pooled.index.unwrap_or(place), pooled.data)).collect();
        if by_index.len() != wanted || by_index.keys().next_back().is_some_and(|last| *last >= wanted) {
            let what = "`index` of the answer's entries does not count from 0";
            return Err(CallError::Failed(format!("/pooling: {what}")));
        }
        let columns = self.format.columns();
        let read = |((entry, data), prompt): ((usize, Value), &&PoolingPrompt)| {
            let rows: Vec<Row> = serde_json::from_value(data)
                .map_err(|error| format!("`data[{entry}].data` of the answer: {error}"))?;
            let wanted = prompt.reads.rows(rows.len())?;
            // Rows that nobody reads may hold anything.
            let wanted: Vec<(usize, &Row)> = wanted.into_iter().map(|row| (row, &rows[row])).collect();
            rows::right(&wanted, columns, entry)
        };
        Ok(by_index.into_iter().zip(prompts).map(read).collect())
    }
}

/// Several prompts, which are all texts or all tokens.
fn list<'a>(prompts: &[&'a PoolingPrompt]) -> Result<Inputs<'a>, CallError> {
    let texts = prompts.iter().map(|prompt| match &prompt.input {
        PoolingInput::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let tokens = prompts.iter().map(|prompt| match &prompt.input {
        PoolingInput::Tokens(tokens) => Some(tokens.as_slice()),
        _ => None,
    });
    let texts = texts.collect::<Option<_>>().map(Inputs::Texts);
    texts.or_else(|| tokens.collect::<Option<_>>().map(Inputs::TokenLists)).ok_or_else(|| {
        CallError::Invalid("/pooling: prompts of several kinds cannot travel in one request".to_owned())
    })
}

impl ScoreSteps for Pooling {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move {
            let written: Vec<_> = requests.iter().map(|request| self.write(request)).collect();
            let solutions: Vec<&Solution<'_>> = written.iter().flatten().collect();
            let batches = batches(&solutions, self.http.number_of_endpoints());
            let answers = join_all(batches.into_iter().map(|batch| self.together(batch))).await;
            let mut answers = answers.into_iter().flatten();
            let each = written.iter().map(|solution| match solution {
                Ok(_) => answers.next().expect("one answer per solution that was sent"),
                Err(error) => Err(error.clone()),
            });
            Ok(each.collect())
        })
    }
}

/// Neighbors that travel together: as many as a request takes, but no endpoint has everything while others have nothing.
fn batches<'a, 'b>(solutions: &'a [&'b Solution<'b>], endpoints: usize) -> Vec<&'a [&'b Solution<'b>]> {
    let prompts: usize = solutions.iter().map(|solution| solution.prompts.len()).sum();
    let most = prompts.div_ceil(endpoints.max(1)).min(PROMPTS);
    let mut batches = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (place, solution) in solutions.iter().enumerate() {
        let full = size + solution.prompts.len() > most;
        if place > start && (full || solution.is_chat() || solutions[start].is_chat()) {
            batches.push(&solutions[start..place]);
            (start, size) = (place, 0);
        }
        size += solution.prompts.len();
    }
    if start < solutions.len() {
        batches.push(&solutions[start..]);
    }
    batches
}
