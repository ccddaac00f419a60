//! `LogProbs` of `Chat`, with answers in the shapes of vLLM, llama-cpp-python and llama.cpp's server.

use crate::Chat;
use crate::chat::UNKNOWN_TOKEN;
use crate::scripted::server::{Act, Server};
use gradus_core::contracts::{CallError, LogProbs, LogProbsRequest, Message, Prompt, Usage};
use serde_json::{Value, json};

fn request(prompt: &str, continuation: &str) -> LogProbsRequest {
    LogProbsRequest { prompt: Prompt::Text(prompt.into()), continuation: continuation.into() }
}

async fn judged(choice: Value) -> Result<Vec<(String, f32)>, CallError> {
    let answer = json!({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}});
    let server = Server::start(move |_, _| Act::ok(&answer)).await;
    let answer = Chat::new(server.open()).logprobs(request("1 + 1", " = 2")).await?;
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/completions");
    assert_eq!(
        seen.body,
        json!({"model": "tiny", "prompt": "1 + 1 = 2", "max_tokens": 1, "temperature": 0.0, "echo": true, "logprobs": 1})
    );
    assert_eq!(answer.usage, Usage { prompt_tokens: 5, completion_tokens: 1 });
    Ok(answer.tokens.into_iter().map(|token| (token.token, token.logprob)).collect())
}

fn expected() -> Vec<(String, f32)> {
    vec![(" =".into(), -0.5), (" 2".into(), -0.25)]
}

#[tokio::test]
async fn vllm_counts_the_beginning_of_text() {
    let choice = json!({"index": 0, "text": "1 + 1 = 2.", "finish_reason": "length", "stop_reason": null, "logprobs": {
        "text_offset": [0, 3, 4, 6, 8, 10, 12], "tokens": ["<s>", "1", " +", " 1", " =", " 2", "."],
        "token_logprobs": [null, -3.0, -2.0, -1.0, -0.5, -0.25, -0.125],
        "top_logprobs": [null, {"1": -3.0}, {" +": -2.0}, {" 1": -1.0}, {" =": -0.5}, {" 2": -0.25}, {".": -0.125}]},
        "prompt_logprobs": null});
    assert_eq!(judged(choice).await.unwrap(), expected());
}

#[tokio::test]
async fn llama_cpp_python_leaves_it_out() {
    let choice = json!({"index": 0, "text": "1 + 1 = 2", "finish_reason": "stop", "logprobs": {
        "tokens": ["1", " +", " 1", " =", " 2"], "text_offset": [0, 1, 3, 5, 7],
        "token_logprobs": [null, -2.0, -1.0, -0.5, -0.25],
        "top_logprobs": [null, {" +": -2.0}, {" 1": -1.0}, {" =": -0.5}, {" 2": -0.25}]}});
    assert_eq!(judged(choice).await.unwrap(), expected());
}

#[tokio::test]
async fn llama_cpp_s_list_serves_if_it_has_the_prompt() {
    let entry = |token: &str, logprob: Value, id: u32| json!({"id": id, "token": token, "bytes": [], "logprob": logprob, "top_logprobs": []});
    let choice = |content: &[Value]| json!({"index": 0, "text": "…", "finish_reason": "length", "logprobs": {"content": content}});
    let all = [
        entry("1", Value::Null, 5),
        entry(" +", json!(-2.0), 6),
        entry(" 1", json!(-1.0), 7),
        entry(" =", json!(-0.5), 8),
        entry(" 2", json!(-0.25), 9),
        entry(".", json!(-0.125), 10),
    ];
    assert_eq!(judged(choice(&all)).await.unwrap(), expected());
    // What its versions without `echo` answer: the generated token alone.
    let Err(CallError::Invalid(error)) = judged(choice(&all[5..])).await else { panic!("no failure") };
    assert!(error.contains("does not repeat it"), "{error}");
}

#[tokio::test]
async fn what_a_server_cannot_score_is_refused() {
    let server = Server::start(|_, seen| match seen.body["prompt"].as_str().unwrap() {
        "echo" => Act::Say(400, "", json!({"error": {"message": "Only no echo is supported"}}).to_string()),
        "none" => Act::ok(&json!({"choices": [{"text": "", "logprobs": null}]})),
        _ => Act::ok(
            &json!({"choices": [{"logprobs": {"tokens": ["ab", "c"], "token_logprobs": [null, -1.0]}}]}),
        ),
    })
    .await;
    let model = Chat::new(server.open());
    let talk =
        LogProbsRequest { prompt: Prompt::Chat(vec![Message::new("user", "q")]), continuation: "a".into() };
    let error = model.logprobs(talk).await.unwrap_err();
    let words = "a chat server cannot score a given text: use a text prompt or a local model";
    assert_eq!(error, CallError::Invalid(words.into()));
    assert_eq!(server.seen().len(), 0);
    let nothing = model.logprobs(request("a", "")).await.unwrap();
    assert_eq!((nothing.tokens.len(), server.seen().len()), (0, 0));

    for (prompt, continuation, words) in
        [("ec", "ho", "Only no echo"), ("no", "ne", "`choices[0].logprobs`"), ("a", "bc", "partly prompt")]
    {
        let error = model.logprobs(request(prompt, continuation)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let fine = model.logprobs(request("ab", "c")).await.unwrap();
    assert_eq!((fine.tokens[0].id, fine.sum()), (UNKNOWN_TOKEN, -1.0));
}
