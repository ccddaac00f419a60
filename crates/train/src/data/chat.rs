//! Questions and answers as conversations, for supervised fine-tuning and preference pairs.

use std::path::Path;

use gradus_core::contracts::{Message, Prompt};
use gradus_core::{Annotation, Outcome, Problem, Record};
use gradus_data::files;
use gradus_engine::text::Tokenizer;
use serde_json::Value;

use super::left_out::{Examples, LeftOut};
use super::prompt::SolvePrompt;
use super::source::DataSource;
use crate::example::Example;
use crate::{Error, Result};

/// A prompt and its target answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// Names it in messages.
    pub(crate) id: String,
    /// What comes before the answer.
    pub(crate) messages: Vec<Message>,
    /// The same for a model without a chat template, as plain text.
    pub(crate) raw: String,
    /// The answer.
    pub(crate) answer: String,
}

/// The conversations of some files. Records of any dataset format give their right solutions, each text of a problem
/// once; then come rows with `messages`, taken as they are, the last message being the answer.
pub(crate) fn read_conversations(
    source: &DataSource<'_>,
    prompt: &SolvePrompt,
) -> Result<Examples<Conversation>> {
    let format = source.format()?;
    let (mut chats, mut datasets) = (Vec::new(), Vec::new());
    for path in source.paths {
        let chat = format.is_none() && path.is_file() && is_chat(path)?;
        if chat { chats.push(path) } else { datasets.push(path.clone()) }
    }
    let (mut found, left_out) = match datasets.is_empty() {
        true => Examples::default(),
        false => DataSource { paths: &datasets, ..*source }
            .examples(|records| Ok(conversations(records, prompt)))?,
    };
    for path in chats {
        found.extend(chat_rows(path)?);
    }
    found.truncate(source.limit.unwrap_or(usize::MAX));
    Ok((found, left_out))
}

/// Whether a file's first row is a conversation.
fn is_chat(path: &Path) -> Result<bool> {
    let first = files::rows(path)?.next().transpose()?;
    Ok(first.is_some_and(|(_, row)| row.get("messages").is_some_and(Value::is_array)))
}

fn chat_rows(path: &Path) -> Result<Vec<Conversation>> {
    let mut found = Vec::new();
    for row in files::rows(path)? {
        let (line, mut row) = row?;
        let at = |message: &str| Error::Record { path: path.to_owned(), line, message: message.to_owned() };
        let messages: Result<Vec<Message>, _> = serde_json::from_value(row["messages"].take());
        let mut messages = messages
            .map_err(|error| at(&format!("field `messages`: expected role and content of each: {error}")))?;
        let last = messages.pop().filter(|message| message.role == "assistant" && !messages.is_empty());
        let answer = last
            .ok_or_else(|| at("field `messages`: expected the assistant's message last, after another"))?
            .content;
        let id = row["id"].as_str().map_or_else(|| format!("line {line}"), str::to_owned);
        let texts: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
        let raw = format!("{}\n", texts.join("\n"));
        found.push(Conversation { id, messages, raw, answer });
    }
    Ok(found)
}

/// The right solutions of records: with a right answer, and without a step that is known to be wrong. Records without
/// solutions give their reference solution.
fn conversations(records: &[Record], prompt: &SolvePrompt) -> Examples<Conversation> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for record in records {
        let ask = |id: &str, answer: String| Conversation::about(&record.problem, id, answer, prompt);
        if record.solutions.is_empty() {
            if record.problem.reference.is_empty() {
                left_out.add("problem without a solution");
            } else {
                found.push(ask(&record.problem.id, record.problem.readable_reference().join("\n")));
            }
        }
        for solution in &record.solutions {
            if solution.outcome != Outcome::Correct {
                left_out.add("solution not known to be right");
            } else if solution.annotations.iter().any(Annotation::has_error) {
                left_out.add("right answer with a wrong step");
            } else {
                found.push(ask(&solution.id, solution.full_text()));
            }
        }
    }
    (found, left_out)
}

impl Conversation {
    /// A problem and a solution of it, asked as `gradus sample` does: in the model's template, or with `--raw` as the
    /// question and a blank line.
    pub(crate) fn about(problem: &Problem, id: &str, answer: String, prompt: &SolvePrompt) -> Self {
        let raw = format!("{}\n\n", problem.question());
        Self { id: id.to_owned(), messages: prompt.messages(problem), raw, answer }
    }

    /// What a model with this tokenizer is asked.
    pub(crate) fn prompt(&self, tokenizer: &Tokenizer) -> Prompt {
        match tokenizer.has_template() {
            true => Prompt::Chat(self.messages.clone()),
            false => Prompt::Text(self.raw.clone()),
        }
    }

    /// Tokens of the prompt and of the answer, its end-of-turn token included.
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>)> {
        let end = tokenizer.eos.first().copied();
        let end = end.ok_or_else(|| Error::Model("the tokenizer has no end-of-text token".to_owned()))?;
        if !tokenizer.has_template() {
            let prompt = tokenizer.encode(&self.raw, true)?;
            let mut answer = tokenizer.encode_plain(&self.answer)?;
            answer.push(end);
            return Ok((prompt, answer));
        }
        let prompt = tokenizer.chat(&self.messages, true)?;
        let mut messages = self.messages.clone();
        messages.push(Message::new("assistant", self.answer.as_str()));
        let whole = tokenizer.chat(&messages, false)?;
        let prompt_tokens = tokenizer.encode(&prompt, false)?;
        // The template says how the answer's turn ends; tokens after that one are no targets.
        let tail = whole.strip_prefix(&prompt).and_then(|tail| tail.split_once(self.answer.trim()));
        let mut answer = tokenizer.encode_plain(self.answer.trim())?;
        let closing = tokenizer.encode(tail.map_or("", |(_, closing)| closing), false)?;
        let closed = closing.iter().position(|token| tokenizer.eos.contains(token));
        answer.extend(closed.map_or(&[end][..], |at| &closing[..=at]));
        Ok((prompt_tokens, answer))
    }

    /// The example; every token of the conversation is a target when `answer_only` is false.
    pub(crate) fn example(&self, tokenizer: &Tokenizer, answer_only: bool) -> Result<Example<u32>> {
        let (prompt, answer) = self.tokens(tokenizer)?;
        let (prompt, targets) = if answer_only {
            (prompt, answer)
        } else {
            let (first, rest) = prompt.split_at(1.min(prompt.len()));
            (first.to_vec(), [rest, &answer].concat())
        };
        Ok(Example::continuations(self.id.as_str(), &prompt, &[targets]).0)
    }
}
