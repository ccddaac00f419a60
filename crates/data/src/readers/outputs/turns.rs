//! Conversations: the last turn of the assistant is a solution, and what was asked before it the problem.
//!
//! ```json
//! {"messages": [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "It is 5."}]}
//! {"conversations": [{"from": "human", "value": "What is 2 + 3?"}, {"from": "gpt", "value": "It is 5."}]}
//! ```
//!
//! System turns are not part of the problem. A content may be a list of parts, whose texts are joined.

use serde_json::Value;

use gradus_core::Metadata;

/// Names of a list of turns.
const NAMES: [&str; 5] = ["messages", "conversations", "conversation", "turns", "chat"];

/// Who says a turn, and what.
struct Turn {
    speaker: Speaker,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    System,
    User,
    Assistant,
}

/// The field with the turns of a conversation that ends with the assistant.
pub(crate) fn field(row: &Metadata) -> Option<&'static str> {
    NAMES.into_iter().find(|name| row.get(*name).is_some_and(|value| split(value).is_some()))
}

/// Problem and solution of a conversation; none where the value is none, or the assistant has not the last word.
pub(crate) fn split(value: &Value) -> Option<(String, String)> {
    let mut turns = read(value)?;
    let last = turns.pop().filter(|turn| turn.speaker == Speaker::Assistant)?;
    Some((asked(turns)?, last.text))
}

/// What a list of turns asks, such as a prompt in the form of messages.
pub(crate) fn prompt(value: &Value) -> Option<String> {
    asked(read(value)?)
}

/// What the assistant says in a message or in a list of messages.
pub(crate) fn reply(value: &Value) -> Option<String> {
    if value.is_object() {
        let turn = read_turn(value)?;
        return (turn.speaker == Speaker::Assistant).then_some(turn.text);
    }
    let last = read(value)?.pop()?;
    (last.speaker == Speaker::Assistant).then_some(last.text)
}

/// The question in a prompt that a chat template has been applied to: the last turn of the user.
pub(crate) fn without_template(prompt: &str) -> &str {
    for (user, end) in [
        ("<|im_start|>user\n", "<|im_end|>"),
        ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
        // What is left of ChatML when special tokens are not decoded.
        ("user\n", "\nassistant"),
    ] {
        let Some(start) = prompt.rfind(user) else { continue };
        let begins_line = start == 0 || prompt[..start].ends_with('\n') || user.starts_with('<');
        let rest = &prompt[start + user.len()..];
        if let Some(length) = rest.find(end).filter(|_| begins_line) {
            return rest[..length].trim();
        }
    }
    prompt
}

/// One question stands for itself; several turns are told apart by who says them.
fn asked(turns: Vec<Turn>) -> Option<String> {
    let mut turns: Vec<Turn> = turns.into_iter().filter(|turn| turn.speaker != Speaker::System).collect();
    if turns.last()?.speaker != Speaker::User {
        return None;
    }
    if turns.len() == 1 {
        return turns.pop().map(|turn| turn.text);
    }
    let lines = turns.into_iter().map(|turn| match turn.speaker {
        Speaker::Assistant => format!("Assistant: {}", turn.text),
        Speaker::User | Speaker::System => format!("User: {}", turn.text),
    });
    Some(lines.collect::<Vec<_>>().join("\n\n"))
}

fn read(value: &Value) -> Option<Vec<Turn>> {
    let turns = value.as_array().filter(|turns| !turns.is_empty())?;
    turns.iter().map(read_turn).collect()
}

fn read_turn(turn: &Value) -> Option<Turn> {
    let speaker = turn.get("role").or_else(|| turn.get("from"))?.as_str()?;
    let speaker = match speaker {
        "system" | "developer" => Speaker::System,
        "user" | "human" => Speaker::User,
        "assistant" | "gpt" | "model" | "chatgpt" | "bot" => Speaker::Assistant,
        _ => return None,
    };
    let text = content(turn.get("content").or_else(|| turn.get("value"))?)?;
    Some(Turn { speaker, text })
}

/// A message's content: a text, or the texts of its parts.
fn content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::without_template;

    #[test]
    fn the_question_is_found_in_a_templated_prompt() {
        for (prompt, question) in [
            (
                "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n",
                "1 + 1?",
            ),
            ("system\nBe brief.\nuser\n1 + 1?\nassistant\n", "1 + 1?"),
            ("user\nIs it 2,\nor 3?\nassistant\n", "Is it 2,\nor 3?"),
            ("How many users\nare there?", "How many users\nare there?"),
            ("1 + 1?", "1 + 1?"),
        ] {
            assert_eq!(without_template(prompt), question, "{prompt}");
        }
    }
}
