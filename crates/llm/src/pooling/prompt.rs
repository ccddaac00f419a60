//! How a solution is written for a server, and which rows of the server's answer are its steps'.
//!
//! A server answers with one row per step tag (vLLM's `STEP` pooling) or with one row per token. Whoever knows the
//! prompt's tokens can read both; whoever sends text can only read the first.

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

#[cfg(test)]
mod tests {
    use super::*;

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
