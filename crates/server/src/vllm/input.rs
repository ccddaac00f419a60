//! A prompt as OpenAI's and vLLM's requests have it.

use gradus_core::contracts::Prompt;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// A text, token ids, or a list of either.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TextInput {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

impl TextInput {
    /// One prompt each, at most so many and none of them empty.
    pub(crate) fn prompts(self, most: usize) -> Result<Vec<Prompt>, ApiError> {
        let prompts: Vec<Prompt> = match self {
            Self::Text(text) => vec![Prompt::Text(text)],
            // An empty list is one of either kind.
            Self::Texts(texts) => texts.into_iter().map(Prompt::Text).collect(),
            Self::Tokens(tokens) => vec![Prompt::Tokens(tokens)],
            Self::TokenLists(lists) => lists.into_iter().map(Prompt::Tokens).collect(),
        };
        if prompts.is_empty() {
            return Err(ApiError::invalid("the input is empty"));
        }
        if prompts.len() > most {
            return Err(ApiError::invalid(format!(
                "{} inputs are more than {most} (--max-inputs)",
                prompts.len()
            )));
        }
        let is_empty = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => text.is_empty(),
            Prompt::Tokens(tokens) => tokens.is_empty(),
            Prompt::Chat(_) => false,
        };
        match prompts.iter().position(is_empty) {
            Some(index) => Err(ApiError::invalid(format!("input {index} is empty"))),
            None => Ok(prompts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_shapes_are_told_apart() {
        let read = |text: &str| serde_json::from_str::<TextInput>(text).unwrap().prompts(2);
        assert_eq!(read(r#""a""#).unwrap(), [Prompt::Text("a".into())]);
        assert_eq!(read(r#"["a", "b"]"#).unwrap().len(), 2);
        assert_eq!(read("[1, 2]").unwrap(), [Prompt::Tokens(vec![1, 2])]);
        assert_eq!(read("[[1], [2]]").unwrap().len(), 2);
        for bad in ["[]", r#"["a", "b", "c"]"#, r#"["a", ""]"#, "[[]]"] {
            read(bad).unwrap_err();
        }
        assert!(serde_json::from_str::<TextInput>("[-1]").is_err());
    }
}
