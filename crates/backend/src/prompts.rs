//! Prompts that a generator can go on from.
//!
//! `Prompt::Chat` opens a new turn, so a solution that has begun must follow the template's own text. An engine adds to a
//! text the token that begins every text, as servers do, so it is taken off the template's.

use std::sync::Arc;

use gradus_core::contracts::{Choice, Message, Prompt};
use gradus_core::select::search::Ask;
use gradus_engine::text::Tokenizer;

use crate::Result;

/// A chat template written out up to the assistant's turn, for one problem.
pub(crate) struct ContinuedPrompt {
    head: String,
    tokenizer: Arc<Tokenizer>,
}

impl ContinuedPrompt {
    /// The conversation that the assistant's turn follows.
    pub(crate) fn new(tokenizer: &Arc<Tokenizer>, messages: &[Message]) -> Result<Self> {
        let text = tokenizer.chat(messages, true)?;
        let added = tokenizer.encode("", true)?;
        let begins = added.first().map(|id| tokenizer.token_text(*id));
        let head = begins.and_then(|begins| text.strip_prefix(&begins).map(str::to_owned)).unwrap_or(text);
        Ok(Self { head, tokenizer: Arc::clone(tokenizer) })
    }
}

impl Ask for ContinuedPrompt {
    fn prompt(&self, _question: &str, begun: &str) -> Prompt {
        Prompt::Text(format!("{}{begun}", self.head))
    }

    fn is_end(&self, choice: &Choice) -> bool {
        ends(&self.tokenizer, choice)
    }
}

/// The problem as plain text, a blank line, and the solution.
pub(crate) struct RawPrompt {
    /// Tells the model's end tokens, where it is known.
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
}

impl Ask for RawPrompt {
    fn prompt(&self, question: &str, begun: &str) -> Prompt {
        Prompt::Text(format!("{question}\n\n{begun}"))
    }

    fn is_end(&self, choice: &Choice) -> bool {
        self.tokenizer.as_ref().is_some_and(|tokenizer| ends(tokenizer, choice))
    }
}

/// A conversation that a server's own template writes out: for whole solutions only.
pub struct ChatPrompt {
    /// The conversation.
    pub messages: Vec<Message>,
}

impl Ask for ChatPrompt {
    fn prompt(&self, _question: &str, _begun: &str) -> Prompt {
        Prompt::Chat(self.messages.clone())
    }
}

/// Whether the model itself ended a sample; a server does not say.
fn ends(tokenizer: &Tokenizer, choice: &Choice) -> bool {
    choice.tokens.last().is_some_and(|last| tokenizer.eos.contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::contracts::FinishReason;
    use std::path::Path;

    fn tokenizer(name: &str) -> Arc<Tokenizer> {
        let folder = format!("{}/../engine/tests/reference/models/{name}", env!("CARGO_MANIFEST_DIR"));
        Arc::new(Tokenizer::from_folder(Path::new(&folder)).unwrap())
    }

    /// qwen2's, which begins every text with `<s>`, and whose template writes it too.
    fn with_a_first_token() -> Arc<Tokenizer> {
        let folder = tempfile::tempdir().unwrap();
        let from = format!("{}/../engine/tests/reference/models/qwen2", env!("CARGO_MANIFEST_DIR"));
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            let text = std::fs::read_to_string(Path::new(&from).join(name)).unwrap();
            let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
            if name == "tokenizer.json" {
                let mark = serde_json::json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
                let text = |id: &str| serde_json::json!({"Sequence": {"id": id, "type_id": 0}});
                file["post_processor"] = serde_json::json!({
                    "type": "TemplateProcessing",
                    "single": [mark, text("A")],
                    "pair": [mark, text("A"), text("B")],
                    "special_tokens": {"<s>": {"id": "<s>", "ids": [291], "tokens": ["<s>"]}},
                });
            } else {
                let template = file["chat_template"].as_str().unwrap();
                file["chat_template"] = format!("{{{{- bos_token }}}}{template}").into();
            }
            std::fs::write(folder.path().join(name), file.to_string()).unwrap();
        }
        Arc::new(Tokenizer::from_folder(folder.path()).unwrap())
    }

    /// The engine encodes `Prompt::Text` with special tokens and `Prompt::Chat` by `encode_chat`.
    #[test]
    fn the_prompt_has_the_tokens_of_the_conversation() {
        let doubled = with_a_first_token();
        assert_eq!(doubled.encode("<s>", true).unwrap(), [291, 291]);
        for tokenizer in
            [tokenizer("llama"), tokenizer("mistral"), tokenizer("qwen2"), tokenizer("qwen3"), doubled]
        {
            for system in [None, Some(Message::new("system", "Be brief."))] {
                let messages: Vec<Message> =
                    system.into_iter().chain([Message::new("user", "What is 1 + 1?")]).collect();
                let ask = ContinuedPrompt::new(&tokenizer, &messages).unwrap();
                let Prompt::Text(text) = ask.prompt("", "") else { panic!("it is text") };
                let expected = tokenizer.encode_chat(&messages, true).unwrap();
                assert_eq!(tokenizer.encode(&text, true).unwrap(), expected, "{tokenizer:?}: {text:?}");
                let Prompt::Text(begun) = ask.prompt("", "Add.\n\n") else { panic!("it is text") };
                assert_eq!(begun, text + "Add.\n\n");
            }
        }
    }

    #[test]
    fn the_end_is_told_from_a_separator() {
        let tokenizer = tokenizer("qwen2");
        let messages = [Message::new("user", "What is 1 + 1?")];
        let ask = ContinuedPrompt::new(&tokenizer, &messages).unwrap();
        let choice = |tokens: Vec<u32>| Choice {
            text: "2".to_owned(),
            finish: FinishReason::Stop,
            logprobs: Vec::new(),
            tokens,
        };
        assert!(ask.is_end(&choice(vec![5, tokenizer.eos[0]])));
        assert!(!ask.is_end(&choice(vec![tokenizer.eos[0], 5])));
        assert!(!ask.is_end(&choice(Vec::new())));
    }
}
