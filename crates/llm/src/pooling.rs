//! `ScoreSteps` over vLLM's `/pooling`, one request per solution. For Qwen2.5-Math-PRM:
//!
//! ```json
//! {"model": "Qwen/Qwen2.5-Math-PRM-7B", "task": "token_classify", "encoding_format": "float",
//!  "messages": [{"role": "system", "content": "Please reason …"}, {"role": "user", "content": "What is 1 + 1?"},
//!               {"role": "assistant", "content": "1 + 1 = 2<extra_0>"}]}
//! {"object": "list", "data": [{"index": 0, "object": "pooling", "data": [[0.07, 0.93]]}], "usage": {"prompt_tokens": 40}}
//! ```
//!
//! `data` must hold one entry, and its `data` one row per step, in order, all of one kind:
//! - `[p_wrong, p_right]`: two probabilities that add up to 1 (within 0.02, which half precision needs); the second counts;
//! - `[p]` or `p`: the score itself.
//!
//! Logits, and rows for tokens other than the steps', are refused: start vLLM so that it reads at the step tag only
//! (its `STEP` pooling) and applies the model's activation.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use gradus_core::contracts::{Answer, CallError, Message, ScoreRequest, ScoreSteps, StepScores};
use serde::{Deserialize, Serialize};

use crate::{Http, scores};

/// Writes the text of a solution.
pub type Writer = Arc<dyn Fn(&ScoreRequest) -> Result<String, CallError> + Send + Sync>;

/// How a solution is written for the model.
#[derive(Clone)]
pub enum Render {
    /// `messages`: system, the problem as user, the steps as assistant with the tag after each.
    Chat {
        /// The system prompt; none if empty.
        system: String,
        /// What follows each step. A problem or step that holds it is refused, as the model would read there, too.
        tag: String,
    },
    /// `input`: whatever the function writes.
    Text(Writer),
}

impl Render {
    /// What Qwen2.5-Math-PRM was trained on.
    pub fn qwen() -> Self {
        Self::Chat {
            system: r"Please reason step by step, and put your final answer within \boxed{}.".to_owned(),
            tag: "<extra_0>".to_owned(),
        }
    }

    /// Text written by `writer`.
    ///
    /// ```
    /// use gradus_llm::Render;
    /// // Skywork-o1-PRM: the problem and each step end in a line break.
    /// let render = Render::text(|request| Ok(format!("{}\n{}\n", request.problem, request.steps.join("\n"))));
    /// assert!(matches!(render, Render::Text(_)));
    /// ```
    pub fn text(writer: impl Fn(&ScoreRequest) -> Result<String, CallError> + Send + Sync + 'static) -> Self {
        Self::Text(Arc::new(writer))
    }

    fn write(&self, request: &ScoreRequest) -> Result<Written, CallError> {
        let refuse = |what: String| Err(CallError::Invalid(format!("solution `{}`: {what}", request.id)));
        let (system, tag) = match self {
            Self::Text(writer) => return Ok(Written { messages: None, input: Some(writer(request)?) }),
            Self::Chat { system, tag } => (system, tag),
        };
        if tag.is_empty() {
            return refuse("the step tag is empty, so no step's end can be found".to_owned());
        }
        if !request.references.is_empty() || !request.step_references.is_empty() {
            return refuse("this model's input has no place for references".to_owned());
        }
        if request.problem.contains(tag) {
            return refuse(format!("the problem holds the step tag {tag}"));
        }
        if let Some(step) = request.steps.iter().position(|step| step.contains(tag)) {
            return refuse(format!("step {step} holds the step tag {tag}"));
        }
        let steps: String = request.steps.iter().flat_map(|step| [step, tag.as_str()]).collect();
        let mut messages = Vec::with_capacity(3);
        if !system.is_empty() {
            messages.push(Message::new("system", system));
        }
        messages.push(Message::new("user", &request.problem));
        messages.push(Message::new("assistant", steps));
        Ok(Written { messages: Some(messages), input: None })
    }
}

impl fmt::Debug for Render {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chat { system, tag } => {
                f.debug_struct("Chat").field("system", system).field("tag", tag).finish()
            }
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}

/// A process reward model behind vLLM.
///
/// ```no_run
/// use gradus_core::contracts::{ScoreRequest, ScoreSteps};
/// use gradus_llm::{Endpoint, Http, Pooling, Render};
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "Qwen/Qwen2.5-Math-PRM-7B"))?;
/// let model = Pooling::new(http, Render::qwen());
/// let request = ScoreRequest { problem: "1 + 1?".into(), steps: vec!["It is 2.".into()], ..Default::default() };
/// for scores in model.score_steps(vec![request]).await? {
///     assert_eq!(scores?.scores.len(), 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Pooling {
    http: Http,
    render: Render,
}

struct Written {
    messages: Option<Vec<Message>>,
    input: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    task: &'static str,
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
}

#[derive(Deserialize)]
struct Reply {
    data: Vec<Pooled>,
}

#[derive(Deserialize)]
struct Pooled {
    data: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
enum Row {
    Score(f64),
    Classes(Vec<f64>),
}

impl Pooling {
    /// The model of `http`'s endpoint, with solutions as `render` writes them.
    pub fn new(http: Http, render: Render) -> Self {
        Self { http, render }
    }

    async fn score(&self, request: ScoreRequest) -> Result<StepScores, CallError> {
        scores::check_request(&request)?;
        let Written { messages, input } = self.render.write(&request)?;
        let model = &self.http.endpoint().model;
        let body = Body { model, task: "token_classify", encoding_format: "float", messages, input };
        let failed = |what: String| CallError::Failed(format!("solution `{}`: /pooling: {what}", request.id));
        let accept = |reply: Reply, usage| {
            let [pooled] = reply.data.as_slice() else {
                return Err(failed(format!(
                    "`data` of the answer has {} entries instead of 1",
                    reply.data.len()
                )));
            };
            let scores = right(&pooled.data).map_err(failed)?;
            scores::check_scores(&request, &scores)?;
            Ok(StepScores { scores, usage })
        };
        self.http.post_and("/pooling", &body, accept).await
    }
}

/// The probability of 'right' in each row.
fn right(rows: &[Row]) -> Result<Vec<f64>, String> {
    let width = |row: &Row| match row {
        Row::Score(_) => 0,
        Row::Classes(classes) => classes.len(),
    };
    let first = rows.first().map_or(0, width);
    let take = |(place, row): (usize, &Row)| match row {
        row if width(row) != first => {
            Err(format!("`data[0].data[{place}]` of the answer has another length than the rows before it"))
        }
        Row::Score(score) => Ok(*score),
        Row::Classes(classes) => match classes[..] {
            [score] => Ok(score),
            [wrong, right] if wrong >= 0.0 && right >= 0.0 && (wrong + right - 1.0).abs() <= 0.02 => {
                Ok(right.min(1.0))
            }
            [wrong, right] => Err(format!(
                "`data[0].data[{place}]` of the answer is [{wrong}, {right}], which are no probabilities; start the \
                 server with its activation on"
            )),
            _ => Err(format!(
                "`data[0].data[{place}]` of the answer has {} classes instead of 1 or 2",
                classes.len()
            )),
        },
    };
    rows.iter().enumerate().map(take).collect()
}

impl ScoreSteps for Pooling {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move { Ok(join_all(requests.into_iter().map(|request| self.score(request))).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<f64>, String> {
        right(&serde_json::from_str::<Vec<Row>>(json).map_err(|error| error.to_string())?)
    }

    #[test]
    fn rows_are_pairs_singles_or_numbers() {
        assert_eq!(read("[[0.25, 0.75], [1, 0]]").unwrap(), [0.75, 0.0]);
        assert_eq!(read("[[0.25], [1]]").unwrap(), [0.25, 1.0]);
        assert_eq!(read("[0.25, 1, 0]").unwrap(), [0.25, 1.0, 0.0]);
        assert_eq!(read("[]").unwrap(), [0.0; 0]);
    }

    #[test]
    fn other_rows_name_their_place() {
        for (json, words) in [
            ("[[0.5, 0.5], [-3.1, 2.2]]", "`data[0].data[1]` of the answer is [-3.1, 2.2], which are no"),
            ("[[0.2, 0.3, 0.5]]", "has 3 classes"),
            ("[[0.5], [0.5, 0.5]]", "`data[0].data[1]` of the answer has another length"),
            ("[0.5, [0.5]]", "has another length"),
            ("[[]]", "has 0 classes"),
            (r#"["high"]"#, "expected a number or a list of numbers"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    #[test]
    fn a_tag_in_the_text_is_refused() {
        let request = ScoreRequest {
            id: "s".into(),
            problem: "p".into(),
            steps: vec!["a".into(), "b<extra_0>c".into()],
            ..Default::default()
        };
        let error = Render::qwen().write(&request).err().unwrap();
        assert_eq!(error, CallError::Invalid("solution `s`: step 1 holds the step tag <extra_0>".into()));
    }
}
