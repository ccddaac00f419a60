//! How a solution is written for a server, and which rows of the server's answer are its steps'.
//!
//! A server answers with one row per step tag (vLLM's `STEP` pooling) or with one row per token. Whoever knows the
//! prompt's tokens can read both; whoever sends text can only read the first.

use std::fmt;
use std::sync::Arc;

use gradus_core::contracts::{CallError, Message, ScoreRequest};

/// One prompt of a solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolingPrompt {
    /// What is sent.
    pub input: PoolingInput,
    /// Which rows of the answer are read.
    pub reads: Reads,
}

/// A prompt as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolingInput {
    /// Text that the server cuts into tokens.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
    /// A conversation that the server's chat template writes out. It travels alone: the protocol has no lists of them.
    Chat {
        /// The turns.
        messages: Vec<Message>,
        /// Whether the assistant's turn is opened at the end.
        add_generation_prompt: bool,
    },
}

/// Which rows of a prompt's answer are the steps', in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// All of them, one per step tag.
    Tags,
    /// The last one, of a server that answers with one row per token.
    Last,
    /// Those at known tokens.
    Tokens {
        /// Tokens of the prompt.
        count: usize,
        /// The tokens at which steps are read.
        positions: Vec<usize>,
        /// All step tags among the tokens; none for a prompt without tags.
        tags: Vec<usize>,
    },
}

impl Reads {
    /// The rows to take out of `found` rows.
    pub(super) fn rows(&self, found: usize) -> Result<Vec<usize>, String> {
        let (count, positions, tags) = match self {
            Self::Tags => return Ok((0..found).collect()),
            Self::Last => {
                return match found.checked_sub(1) {
                    Some(last) => Ok(vec![last]),
                    None => {
                        Err("no rows came back: start the server so that it reads every token".to_owned())
                    }
                };
            }
            Self::Tokens { count, positions, tags } => (*count, positions, tags),
        };
        if found == count {
            return Ok(positions.clone());
        }
        let at_tag = |position: &usize| tags.iter().position(|tag| tag == position);
        if found == tags.len()
            && let Some(rows) = positions.iter().map(at_tag).collect()
        {
            return Ok(rows);
        }
        let tags = if tags.is_empty() { String::new() } else { format!(" with {} step tags", tags.len()) };
        let expected = if tags.is_empty() { "one per token" } else { "one per token or one per tag" };
        Err(format!("{found} rows came back for a prompt of {count} tokens{tags}, expected {expected}"))
    }
}

/// Which column of a row is the score. A row of one column is the score itself; more columns are probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The column for 'right', from 0 on.
    pub right: usize,
    /// Fewest columns.
    pub least: usize,
    /// Most columns.
    pub most: usize,
}

impl Default for Columns {
    /// `[p]`, or `[p_wrong, p_right]`.
    fn default() -> Self {
        Self { right: 1, least: 1, most: 2 }
    }
}

/// Writes solutions for one reward model, and says how its answers are read.
pub trait PoolingFormat: Send + Sync {
    /// The prompts of a solution; what is read in them, one after another, are the scores of its steps.
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError>;

    /// Which column of a row is the score.
    fn columns(&self) -> Columns {
        Columns::default()
    }

    /// The solution's scores, from those that were read.
    fn scores(&self, request: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        let _ = request;
        read
    }
}

/// Writes the text of a solution.
pub type Writer = Arc<dyn Fn(&ScoreRequest) -> Result<String, CallError> + Send + Sync>;

/// Two simple formats, for models without a profile.
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
}

impl PoolingFormat for Render {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
        let refuse = |what: String| Err(CallError::Invalid(format!("solution `{}`: {what}", request.id)));
        let (system, tag) = match self {
            Self::Text(writer) => {
                return Ok(vec![PoolingPrompt {
                    input: PoolingInput::Text(writer(request)?),
                    reads: Reads::Tags,
                }]);
            }
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
        let input = PoolingInput::Chat { messages, add_generation_prompt: false };
        Ok(vec![PoolingPrompt { input, reads: Reads::Tags }])
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn rows_are_per_token_or_per_tag() {
        let reads = Reads::Tokens { count: 7, positions: vec![3, 6], tags: vec![1, 3, 6] };
        assert_eq!(reads.rows(7).unwrap(), [3, 6]);
        assert_eq!(reads.rows(3).unwrap(), [1, 2]);
        let error = reads.rows(2).unwrap_err();
        assert_eq!(
            error,
            "2 rows came back for a prompt of 7 tokens with 3 step tags, expected one per token or one per tag"
        );
        let untagged = Reads::Tokens { count: 7, positions: vec![6], tags: Vec::new() };
        assert_eq!(untagged.rows(7).unwrap(), [6]);
        assert!(untagged.rows(1).unwrap_err().ends_with("of 7 tokens, expected one per token"));
        assert_eq!(Reads::Last.rows(4).unwrap(), [3]);
        assert!(Reads::Last.rows(0).unwrap_err().contains("no rows"));
    }
}
