//! OpenAI's protocol.

use serde_json::{Value, json};

use super::{Running, config};

fn chunks(events: &str) -> Vec<Value> {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_by_kind() {
    let server = Running::start(config()).await;
    let list: Value =
        serde_json::from_str(&server.get("/v1/models").send().await.unwrap().text().await.unwrap()).unwrap();
    let kinds: Vec<(&str, &str)> = (list["data"].as_array().unwrap().iter())
        .map(|card| (card["id"].as_str().unwrap(), card["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("prm", "reward"), ("lm", "language"), ("encoder", "embedding")]);
    assert_eq!(server.get("/v1/models/lm").send().await.unwrap().status().as_u16(), 200);
    assert_eq!(server.get("/v1/models/none").send().await.unwrap().status().as_u16(), 404);
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_says_what_the_whole_says() {
    let server = Running::start(config()).await;
    let mut body = json!({
        "model": "lm", "messages": [{"role": "user", "content": [{"type": "text", "text": "Count."}]}],
        "max_tokens": 12, "seed": 3, "n": 2, "logprobs": true, "top_logprobs": 3,
    });
    let whole = server.post("/v1/chat/completions", &body).await;
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let response = server.request("/v1/chat/completions", &body).send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let events = response.text().await.unwrap();
    assert!(events.trim_end().ends_with("data: [DONE]"), "{events}");
    let chunks = chunks(&events);
    for index in [0, 1] {
        let choice = &whole["choices"][index];
        let own = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let parts = || chunks.iter().filter(own).map(|chunk| &chunk["choices"][0]);
        let text: String = parts().filter_map(|part| part["delta"]["content"].as_str()).collect();
        assert_eq!(choice["message"]["content"], text);
        assert!(parts().any(|part| part["finish_reason"] == choice["finish_reason"]));
        let tokens: usize =
            parts().filter_map(|part| Some(part["logprobs"]["content"].as_array()?.len())).sum();
        let content = choice["logprobs"]["content"].as_array().unwrap();
        assert_eq!(content.len(), tokens);
        for token in content {
            let top = token["top_logprobs"].as_array().unwrap();
            let best = top[0]["logprob"].as_f64().unwrap();
            assert!(top.len() == 3 && token["logprob"].as_f64().unwrap() <= best + 1e-6, "{token}");
        }
    }
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
    // A conversation whose last turn is continued.
    let messages = json!([{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2,"}]);
    let go_on = json!({"model": "lm", "messages": messages, "max_tokens": 4, "temperature": 0,
        "continue_final_message": true, "add_generation_prompt": false});
    let new_turn = json!({"model": "lm", "messages": messages, "max_tokens": 4, "temperature": 0});
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let (go_on, new_turn) = (
        server.post("/v1/chat/completions", &go_on).await,
        server.post("/v1/chat/completions", &new_turn).await,
    );
    assert!(tokens(&go_on) < tokens(&new_turn), "{go_on} {new_turn}");
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_enforced_and_tools_are_refused() {
    let server = Running::start(config()).await;
    let ask = |more: Value| {
        let mut body = json!({"model": "lm", "messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "seed": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false});
    let format =
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}});
    let answer = server.post("/v1/chat/completions", &ask(format)).await;
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).unwrap()["a"].is_boolean(), "{text}");
    for (more, words) in [
        (json!({"tools": [{"type": "function", "function": {"name": "f"}}]}), "tools"),
        (json!({"frequency_penalty": 1.0}), "frequency_penalty"),
        (json!({"temperature": -1}), "temperature"),
        (json!({"top_logprobs": 2}), "logprobs"),
        (json!({"messages": []}), "messages"),
        (json!({"model": "prm"}), "cannot generate text"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "text"),
    ] {
        let message = server.refused("/v1/chat/completions", &ask(more), 400).await;
        assert!(message.contains(words), "{message}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_echo_with_log_probabilities() {
    let server = Running::start(config()).await;
    let body =
        json!({"model": "lm", "prompt": ["one two", "three"], "max_tokens": 0, "echo": true, "logprobs": 1});
    let answer = server.post("/v1/completions", &body).await;
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!((choices.len(), &choices[0]["text"]), (2, &json!("one two")));
    let logprobs = &choices[0]["logprobs"];
    let tokens: String =
        logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(tokens, "one two");
    assert!(logprobs["token_logprobs"][0].is_null() && logprobs["token_logprobs"][1].as_f64().unwrap() < 0.0);
    // Token ids are the same prompt.
    let text = json!({"model": "lm", "prompt": [5, 6, 7], "max_tokens": 3, "temperature": 0});
    let lists = json!({"model": "lm", "prompt": [[5, 6, 7]], "max_tokens": 3, "temperature": 0});
    let (text, lists) =
        (server.post("/v1/completions", &text).await, server.post("/v1/completions", &lists).await);
    assert_eq!(text["choices"], lists["choices"]);
    assert_eq!(text["usage"]["prompt_tokens"], 3);
    server.refused("/v1/completions", &json!({"model": "lm", "prompt": [4_000_000]}), 400).await;
    server.refused("/v1/completions", &json!({"model": "lm", "prompt": "a", "suffix": "b"}), 400).await;
    let stream = json!({"model": "lm", "prompt": "a", "max_tokens": 4, "temperature": 0, "stream": true});
    let events = server.request("/v1/completions", &stream).send().await.unwrap().text().await.unwrap();
    assert!(
        events.contains("[DONE]")
            && chunks(&events).iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "length")
    );
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_as_numbers_and_as_bytes() {
    use base64::Engine as _;
    let server = Running::start(config()).await;
    let mut body = json!({"model": "encoder", "input": ["one", "two"]});
    let numbers = server.post("/v1/embeddings", &body).await;
    body["encoding_format"] = json!("base64");
    let bytes = server.post("/v1/embeddings", &body).await;
    for index in [0, 1] {
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(bytes["data"][index]["embedding"].as_str().unwrap())
            .unwrap();
        let decoded: Vec<f32> =
            decoded.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        let expected: Vec<f32> = serde_json::from_value(numbers["data"][index]["embedding"].clone()).unwrap();
        assert_eq!(decoded, expected);
    }
    server.refused("/v1/embeddings", &json!({"model": "encoder", "input": []}), 400).await;
    server.refused("/v1/embeddings", &json!({"model": "encoder", "input": "a", "dimensions": 3}), 400).await;
    // A reward model's vector is its reward, as SGLang answers verl.
    let reward = server.post("/v1/embeddings", &json!({"model": "prm", "input": "one two"})).await;
    let classes = server.post("/classify", &json!({"model": "prm", "input": "one two"})).await;
    assert_eq!(reward["data"][0]["embedding"][0], classes["data"][0]["probs"][1]);
    server.ended().await;
}
