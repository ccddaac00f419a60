//! `continues_turns`: servers that continue a turn, ignore the request to, refuse it, or do it by themselves.

use gradus_core::contracts::{CallError, Generate, GenerateRequest, Message, Prompt};
use serde_json::json;

use crate::scripted::server::{Act, Seen, Server, continuing_replies, replies};
use crate::{Chat, Dialect, Endpoint, Http, continues_turns};

async fn found(rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Result<(), &'static str> {
    let server = Server::start(rule).await;
    let found = continues_turns(&server.open()).await.unwrap();
    assert!(server.seen().iter().all(|seen| seen.body["max_tokens"] == 1));
    found
}

#[tokio::test]
async fn servers_are_told_apart_by_the_length_of_the_prompt() {
    let yes = |_: &str, _, _| "b".to_owned();
    assert_eq!(found(continuing_replies(yes)).await, Ok(()));
    assert_eq!(found(replies(yes)).await, Err("ignores continue_final_message"));
    // One that always continues needs no field for it.
    let usage = |seen: &Seen| 10 + seen.body["messages"].as_array().unwrap().len();
    let always = move |_: usize, seen: &Seen| Act::ok(&json!({"usage": {"prompt_tokens": usage(seen)}}));
    assert_eq!(found(always).await, Ok(()));
    let refuses = |number: usize, seen: &Seen| match seen.body.get("continue_final_message") {
        Some(_) => Act::Say(422, "", json!({"detail": "extra fields not permitted"}).to_string()),
        None => replies(|_, _, _| "b".to_owned())(number, seen),
    };
    assert_eq!(found(refuses).await, Err("refuses continue_final_message"));
    let silent = |_: usize, _: &Seen| Act::ok(&json!({"choices": []}));
    assert!(found(silent).await.unwrap_err().contains("how many tokens"));
    let server = Server::start(replies(yes)).await;
    let openai = Http::open(&Endpoint { dialect: Dialect::OpenAi, ..server.endpoint() }).unwrap();
    assert!(continues_turns(&openai).await.unwrap().unwrap_err().contains("openai"));
    assert_eq!(server.seen().len(), 0);
    let closed = Server::start(|_, _| Act::Say(401, "", String::new())).await;
    assert!(matches!(continues_turns(&closed.open()).await, Err(CallError::Refused(_))));
}

#[tokio::test]
async fn a_turn_that_has_begun_is_sent_to_be_continued() {
    let server = Server::start(continuing_replies(|prompt, _, _| format!("<{prompt}>"))).await;
    let messages = vec![Message::new("user", "1 + 1?"), Message::new("assistant", "It is\n\n")];
    let request = GenerateRequest::new(Prompt::Chat(messages), 8);
    let answer = Chat::new(server.open()).generate(request).await.unwrap();
    assert_eq!(answer.choices[0].text, "<1 + 1?\nIt is\n\n>");
    let body = server.seen().remove(0).body;
    assert_eq!(
        (&body["continue_final_message"], &body["add_generation_prompt"]),
        (&json!(true), &json!(false))
    );
    let request = GenerateRequest::new(Prompt::Chat(vec![Message::new("user", "1 + 1?")]), 8);
    Chat::new(server.open()).generate(request).await.unwrap();
    assert_eq!(server.seen()[1].body.get("continue_final_message"), None);
}
