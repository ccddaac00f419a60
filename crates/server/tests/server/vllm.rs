//! vLLM's, SGLang's and OpenRLHF's protocols, and ThinkBooster's.

use serde_json::{Value, json};

use super::{Running, config};

#[tokio::test(flavor = "multi_thread")]
async fn pooling_takes_every_shape_of_input() {
    let server = Running::start(config()).await;
    // The tag of Qwen's PRM, twice: a row each.
    let text = "What is 2 + 3?<extra_0>It is 5.<extra_0>";
    let one =
        server.post("/pooling", &json!({"model": "prm", "task": "token_classify", "input": text})).await;
    let rows = &one["data"][0]["data"];
    assert_eq!((rows.as_array().unwrap().len(), rows[0].as_array().unwrap().len()), (2, 2), "{one}");
    let sum: f64 = rows[0].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6 && one["id"].as_str().unwrap().starts_with("pool-"));
    assert_eq!((&one["object"], &one["data"][0]["object"]), (&json!("list"), &json!("pooling")));
    let two = server.post("/pooling", &json!({"model": "prm", "input": [text, text]})).await;
    assert_eq!([&two["data"][0]["data"], &two["data"][1]["data"]], [rows, rows]);
    let raw = server.post("/pooling", &json!({"model": "prm", "input": text, "use_activation": false})).await;
    let older = server.post("/pooling", &json!({"model": "prm", "input": text, "softmax": false})).await;
    assert_eq!(raw["data"], older["data"]);
    assert_ne!(raw["data"][0]["data"], *rows);
    let messages = json!([{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "It is 5.<extra_0>"}]);
    let chat = server.post("/pooling", &json!({"model": "prm", "messages": messages})).await;
    assert_eq!(chat["data"][0]["data"].as_array().unwrap().len(), 1);
    let bytes =
        server.post("/pooling", &json!({"model": "prm", "input": text, "encoding_format": "base64"})).await;
    assert!(bytes["data"][0]["data"].is_string());
    for body in [
        json!({"model": "prm"}),
        json!({"model": "prm", "input": text, "task": "dance"}),
        json!({"model": "encoder", "input": text}),
    ] {
        server.refused("/pooling", &body, 400).await;
    }
    let classes = server.post("/classify", &json!({"model": "prm", "input": text})).await;
    assert_eq!(
        (&classes["data"][0]["num_classes"], classes["data"][0]["probs"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    // verl sends the older name.
    let logits = server.post("/classify", &json!({"model": "prm", "input": text, "activation": false})).await;
    assert_eq!(logits["data"][0]["probs"], raw["data"][0]["data"][1]);
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_path_serves_vllm_pairs_and_sglang_labels() {
    let server = Running::start(config()).await;
    let pairs = server
        .post("/v1/score", &json!({"model": "encoder", "text_1": "one", "text_2": ["one", "two three"]}))
        .await;
    assert!((pairs["data"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-5, "{pairs}");
    let newer = server
        .post("/score", &json!({"model": "encoder", "queries": "one", "documents": ["one", "two three"]}))
        .await;
    assert_eq!(newer["data"], pairs["data"]);
    let labels = json!({"model": "lm", "query": "one", "items": [" two", " three"], "label_token_ids": [5, 6], "apply_softmax": true});
    let labels = server.post("/v1/score", &labels).await;
    for row in labels["scores"].as_array().unwrap() {
        let sum: f64 = row.as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{labels}");
    }
    // The same from the log-probabilities of the next token.
    let raw = json!({"model": "lm", "query": "one", "items": [" two"], "label_token_ids": [5, 6]});
    let raw: Vec<f64> =
        serde_json::from_value(server.post("/v1/score", &raw).await["scores"][0].clone()).unwrap();
    let expected = labels["scores"][0][0].as_f64().unwrap();
    assert!((raw[0] / (raw[0] + raw[1]) - expected).abs() < 1e-5);
    server.refused("/v1/score", &json!({"problem": "p", "steps": ["a"]}), 400).await;
    server
        .refused(
            "/v1/score",
            &json!({"model": "lm", "query": "a", "items": ["b"], "label_token_ids": [99_999_999]}),
            400,
        )
        .await;
    let ranked = server
        .post(
            "/rerank",
            &json!({"model": "encoder", "query": "one", "documents": ["two three", "one"], "top_n": 1}),
        )
        .await;
    assert_eq!((&ranked["results"][0]["index"], ranked["results"].as_array().unwrap().len()), (&json!(1), 1));
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openrlhf_gets_rewards() {
    let server = Running::start(config()).await;
    let prompt = "What is 2 + 3?\n";
    let query = [
        format!("{prompt}It is 5.\n\nSo \\boxed{{5}}.<|im_end|>"),
        prompt.to_owned(),
        format!("{prompt}So \\boxed{{6}}."),
    ];
    let body = json!({"query": query, "prompts": [prompt, prompt, prompt], "labels": ["5", "5", "5"]});
    let answer = server.post("/get_reward", &body).await;
    let scored = json!({"problem": "What is 2 + 3?", "steps": ["It is 5.", "So \\boxed{5}."]});
    let expected = server.post("/v1/steps/score", &scored).await;
    assert_eq!(answer["rewards"][0], expected["solutions"][0]["score"], "{answer}");
    assert_eq!(
        (&answer["extra_logs"]["correct"], &answer["extra_logs"]["unscored"]),
        (&json!([1.0, 0.0, 0.0]), &json!([0.0, 1.0, 0.0]))
    );
    server.refused("/get_reward", &json!({"query": ["a"], "labels": ["1", "2"]}), 400).await;
    server.refused("/get_reward?aggregation=median", &json!({"query": ["a"]}), 400).await;
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thinkbooster_chooses_among_solutions() {
    let server = Running::start(config()).await;
    let body = json!({"model": "lm", "messages": [{"role": "user", "content": "Count."}], "max_tokens": 12, "seed": 1,
        "tts_num_trajectories": 3, "num_paths": 3, "tts_candidates_per_step": 2, "tts_beam_size": 2, "tts_max_steps": 2});
    for path in ["offline_bon/prm", "offline_bon", "self_consistency", "beam_search/prm", "online_bon/prm"] {
        let answer: Value = server.post(&format!("/v1/{path}/chat/completions"), &body).await;
        let found = &answer["choices"][0]["tts_metadata"];
        let trajectories = found["all_trajectories"].as_array().unwrap();
        // A random model ends no step, so that a search step by step finds nothing.
        let stepwise = path.starts_with("beam") || path.starts_with("online");
        assert!((stepwise || !trajectories.is_empty()) && found["steps"].is_array(), "{path}: {answer}");
        assert_eq!(
            found["validity_scores"].as_array().unwrap().len(),
            found["steps"].as_array().unwrap().len()
        );
        assert!(answer["choices"][0]["message"]["content"].is_string());
    }
    for path in ["luck/prm", "offline_bon/entropy", "offline_bon/lm2"] {
        let (status, _) = server.ask(&format!("/v1/{path}/chat/completions"), &body).await;
        assert!(status.is_client_error(), "{path}");
    }
    server.ended().await;
}
