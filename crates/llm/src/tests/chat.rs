//! `Chat`: the request that is written, the answers that are read, servers that know no `n`.

use crate::chat::UNKNOWN_TOKEN;
use crate::{Chat, Dialect, Endpoint, Http};
use gradus_core::contracts::{
    CallError, Constraint, FinishReason, Generate, GenerateRequest, Message, Prompt, Sampling, Usage,
};
use serde_json::{Value, json};

use crate::scripted::server::{Act, Seen, Server};

fn talk() -> GenerateRequest {
    GenerateRequest::new(Prompt::Chat(vec![Message::new("user", "2 + 2?")]), 32)
}

fn reply(texts: &[String]) -> Act {
    let choices: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}))
        .collect();
    Act::ok(&json!({"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": texts.len()}}))
}

/// Answers each sample with its seed, as many as `most` at once.
fn seeds(most: u64) -> impl Fn(usize, &Seen) -> Act {
    move |_, seen| {
        let (n, seed) = (seen.body["n"].as_u64().unwrap(), seen.body["seed"].as_u64().unwrap());
        reply(&(0..n.min(most)).map(|sample| format!("seed {}", seed + sample)).collect::<Vec<_>>())
    }
}

#[tokio::test]
async fn a_conversation_with_everything_set() {
    let server = Server::start(|_, _| {
        Act::ok(&json!({"choices": [
            {"index": 1, "message": {"content": "five"}, "finish_reason": "length",
             "logprobs": {"content": [{"token": "five", "logprob": -0.5, "id": 7}]}},
            {"index": 0, "message": {"content": "four"}, "finish_reason": "stop",
             "logprobs": {"content": [{"token": "four", "logprob": -0.25, "top_logprobs": []}]}},
        ], "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}))
    })
    .await;
    let schema = json!({"type": "object"});
    let request = GenerateRequest {
        n: 2,
        sampling: Sampling { temperature: 0.7, top_p: 0.9, top_k: 20, min_p: 0.05, repetition_penalty: 1.1 },
        stop: vec!["\n\n".into()],
        seed: 3,
        constraint: Some(Constraint::JsonSchema(schema.clone())),
        logprobs: true,
        ..talk()
    };
    let answer = Chat::new(server.open()).generate(request).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    // Through text, as f32 and f64 differ in JSON only if someone converts between them.
    let expected = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "2 + 2?"}], "n": 2, "max_tokens": 32,
        "temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1, "repeat_penalty": 1.1,
        "stop": ["\n\n"], "seed": 3, "logprobs": true,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}},
    });
    assert_eq!(seen.body.to_string(), expected.to_string());
    let [four, five] = &answer.choices[..] else { panic!("{answer:?}") };
    assert_eq!((four.text.as_str(), four.finish), ("four", FinishReason::Stop));
    assert_eq!((five.text.as_str(), five.finish), ("five", FinishReason::Length));
    assert_eq!((four.logprobs[0].id, four.logprobs[0].logprob), (UNKNOWN_TOKEN, -0.25));
    assert_eq!((five.logprobs[0].id, five.logprobs[0].token.as_str()), (7, "five"));
    assert_eq!(answer.usage, Usage { prompt_tokens: 10, completion_tokens: 2 });
}

#[tokio::test]
async fn text_goes_to_completions() {
    let server = Server::start(|_, _| {
        Act::ok(&json!({"choices": [{"index": 0, "text": " 3", "finish_reason": "length",
            "logprobs": {"tokens": [" 3"], "token_logprobs": [-1.5], "top_logprobs": null, "text_offset": [0]}}]}))
    })
    .await;
    let request = GenerateRequest { logprobs: true, ..GenerateRequest::new(Prompt::Text("1, 2,".into()), 1) };
    let answer = Chat::new(server.open()).generate(request).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body["prompt"]), ("/v1/completions", &json!("1, 2,")));
    assert_eq!((&seen.body["logprobs"], &seen.body["top_k"]), (&json!(1), &json!(-1)));
    assert_eq!(answer.choices[0].text, " 3");
    assert_eq!(answer.choices[0].logprobs[0].logprob, -1.5);
    assert_eq!(answer.usage, Usage::default());
}

#[tokio::test]
async fn a_server_without_n_is_asked_for_each_sample() {
    for (most, requests) in [(1, 4), (2, 3), (8, 1)] {
        let server = Server::start(seeds(most)).await;
        let model = Chat::new(server.open());
        let answer = model.generate(GenerateRequest { n: 4, seed: 40, ..talk() }).await.unwrap();
        let texts: Vec<&str> = answer.choices.iter().map(|choice| &*choice.text).collect();
        assert_eq!(texts, ["seed 40", "seed 41", "seed 42", "seed 43"]);
        assert_eq!(server.seen().len(), requests);
        assert_eq!(answer.usage, Usage { prompt_tokens: 10 * requests as u64, completion_tokens: 4 });
        if most == 1 {
            model.generate(GenerateRequest { n: 2, ..talk() }).await.unwrap();
            assert!(server.seen()[4..].iter().all(|seen| seen.body["n"] == 1));
        }
    }
}

#[tokio::test]
async fn a_server_that_refuses_n_is_asked_for_each_sample() {
    let server = Server::start(|number, seen| match seen.body["n"].as_u64() {
        Some(1) => seeds(1)(number, seen),
        _ => Act::Say(400, "", json!({"error": "Only one completion choice is allowed"}).to_string()),
    })
    .await;
    let answer = Chat::new(server.open()).generate(GenerateRequest { n: 3, ..talk() }).await.unwrap();
    assert_eq!(
        answer.choices.iter().map(|choice| &*choice.text).collect::<Vec<_>>(),
        ["seed 0", "seed 1", "seed 2"]
    );
    assert_eq!(server.seen().len(), 4);

    let server = Server::start(seeds(1)).await;
    Chat::new(server.open()).one_each().generate(GenerateRequest { n: 3, ..talk() }).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn openai_gets_its_own_fields_only() {
    let server = Server::start(seeds(1)).await;
    let http = Http::open(&Endpoint { dialect: Dialect::OpenAi, ..server.endpoint() }).unwrap();
    let model = Chat::new(http);
    model.generate(talk()).await.unwrap();
    let body = server.seen().remove(0).body;
    assert_eq!(body["max_completion_tokens"], 32);
    for field in ["max_tokens", "top_k", "min_p", "repetition_penalty", "repeat_penalty", "logprobs", "stop"]
    {
        assert_eq!(body.get(field), None, "{field}");
    }
    let request = GenerateRequest { sampling: Sampling { top_k: 5, ..Sampling::default() }, ..talk() };
    assert!(matches!(model.generate(request).await, Err(CallError::Invalid(_))));
}

#[tokio::test]
async fn requests_that_cannot_be_met_are_not_sent() {
    let server = Server::start(seeds(1)).await;
    let model = Chat::new(server.open());
    for bad in [
        GenerateRequest { n: 0, ..talk() },
        GenerateRequest { max_tokens: 0, ..talk() },
        GenerateRequest { stop: vec![String::new()], ..talk() },
        GenerateRequest { constraint: Some(Constraint::Regex("a+".into())), ..talk() },
    ] {
        assert!(matches!(model.generate(bad).await, Err(CallError::Invalid(_))));
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn filtered_content_is_this_request_s_refusal() {
    let server = Server::start(|_, _| {
        Act::ok(&json!({"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}))
    })
    .await;
    let Err(error @ CallError::Invalid(_)) = Chat::new(server.open()).generate(talk()).await else {
        panic!("it is refused");
    };
    assert_eq!((error.reason().as_str(), server.seen().len()), ("content filter", 1));
}

#[tokio::test]
async fn a_server_that_takes_no_seeds_gets_none_and_samples_differ_all_the_same() {
    let server = Server::start(|number, seen| {
        assert_eq!(seen.body.get("seed"), None);
        reply(&[format!("sample {number} a"), format!("sample {number} b")])
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let http = Http::open(&Endpoint { request_seed: false, ..server.endpoint() }).unwrap();
    let http = http.with_cache(crate::Cache::open(folder.path(), None).unwrap());
    let model = Chat::new(http);
    let texts = async |seed: u64| {
        let request = GenerateRequest { n: 2, seed, ..talk() };
        let answer = model.generate(request).await.unwrap();
        answer.choices.into_iter().map(|choice| choice.text).collect::<Vec<_>>()
    };
    let (first, second) = (texts(7).await, texts(9).await);
    let all: std::collections::BTreeSet<&String> = first.iter().chain(&second).collect();
    assert_eq!(all.len(), 4, "{first:?} {second:?}");
    // The cache still knows which sample is which.
    assert_eq!((texts(7).await, server.seen().len()), (first, 2));
}

#[tokio::test]
async fn broken_answers_name_the_field() {
    let cases = [
        (json!({}), "missing field `choices`"),
        (json!({"choices": []}), "`choices` of the answer is empty"),
        (json!({"choices": [{"finish_reason": "stop"}]}), "`choices[0].message` of the answer is missing"),
        (
            json!({"choices": [{"finish_reason": "stop", "message": {"content": null}}]}),
            "`choices[0].message.content` of the answer is missing",
        ),
        (
            json!({"choices": [{"message": {"content": "x"}}]}),
            "`choices[0].finish_reason` of the answer is missing",
        ),
        (json!({"choices": [{"message": {"content": "x"}, "finish_reason": "eos"}]}), "is `eos`, neither"),
        (json!({"choices": [{"message": {"content": 4}}]}), "`choices[0].message.content`: invalid type"),
        (
            json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}),
            "`choices[0].logprobs` of the answer is missing",
        ),
        (
            json!({"choices": [{"text": "x", "finish_reason": "stop", "logprobs": {"tokens": ["x"], "token_logprobs": []}}]}),
            "is 0 numbers for 1 tokens",
        ),
    ];
    let answers: Vec<Value> = cases.iter().map(|(answer, _)| answer.clone()).collect();
    let server = Server::start(move |number, _| Act::ok(&answers[number])).await;
    let model = Chat::new(server.open());
    for (answer, words) in &cases {
        let Err(CallError::Failed(error)) =
            model.generate(GenerateRequest { logprobs: true, ..talk() }).await
        else {
            panic!("{answer}");
        };
        assert!(error.contains(words), "{answer}: {error}");
    }
}
