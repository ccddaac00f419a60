//! What a real vLLM answered (`make test-vllm`), against what our server answers with the same models: the same fields, the
//! same shapes, numbers within 1e-3.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Running, config, served};

/// Ids, times, what a server says about itself, and vLLM's second form of what `logprobs` has.
const OWN: [&str; 9] = [
    "id",
    "created",
    "owned_by",
    "root",
    "parent",
    "permission",
    "max_model_len",
    "system_fingerprint",
    "prompt_logprobs",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_a_real_vllm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vllm");
    for kind in ["prm", "lm"] {
        let mut model = served(kind, "qwen2");
        model.scorer.model = Some(folder.join(kind).display().to_string());
        let server = Running::start(gradus_server::ServerConfig { models: vec![model], ..config() }).await;
        let recorded = std::fs::read_to_string(folder.join(format!("{kind}.jsonl"))).unwrap();
        assert!(recorded.lines().count() > 5);
        for line in recorded.lines() {
            let recorded: Value = serde_json::from_str(line).unwrap();
            let path = recorded["path"].as_str().unwrap();
            let ours = if recorded["body"].is_null() {
                serde_json::from_str(&server.get(path).send().await.unwrap().text().await.unwrap()).unwrap()
            } else {
                let mut body = recorded["body"].clone();
                body["model"] = json!(kind);
                server.post(path, &body).await
            };
            assert_eq!(recorded["status"], 200);
            compare(path, &ours, &recorded["answer"]);
        }
        server.ended().await;
    }
}

fn compare(place: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let (ours, theirs) = (without_parts(ours), without_parts(theirs));
            for (key, theirs) in theirs.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
                let place = format!("{place}.{key}");
                match ours.get(key) {
                    Some(ours) => compare(&place, ours, theirs),
                    None => assert!(is_empty(theirs), "{place} is missing, vLLM has {theirs}"),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{place}: {ours:?}, {theirs:?}");
            ours.iter().zip(theirs).for_each(|(ours, theirs)| compare(place, ours, theirs));
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            let far = (ours.as_f64().unwrap() - theirs.as_f64().unwrap()).abs();
            assert!(far <= 1e-3, "{place}: {ours}, vLLM has {theirs}");
        }
        (Value::String(ours), Value::String(theirs)) => {
            assert_eq!(ours.replace(PART, ""), theirs.replace(PART, ""), "{place}");
        }
        (ours, theirs) => assert_eq!(ours, theirs, "{place}"),
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Null) || *value == json!([]) || *value == json!({})
}

/// What stands for a part of a character. vLLM's completions write nothing for it, so that offsets and names differ.
const PART: char = '\u{fffd}';

/// Lists of log-probabilities without what stands for parts of characters; other objects as they are.
fn without_parts(object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    let Some(tokens) = object.get("tokens").and_then(Value::as_array) else { return object };
    if tokens.iter().any(|token| token.as_str().is_some_and(|token| token.trim_matches(PART).is_empty())) {
        object.remove("text_offset");
    }
    if let Some(Value::Array(tops)) = object.get_mut("top_logprobs") {
        for top in tops.iter_mut().filter_map(Value::as_object_mut) {
            top.retain(|token, _| !token.trim_matches(PART).is_empty());
        }
    }
    object
}
