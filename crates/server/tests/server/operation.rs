//! Keys, limits, the queue, cancellation, draining, metrics, TLS.

use std::time::Duration;

use gradus_server::{Keys, Limits, ServerConfig};
use serde_json::json;

use super::{Running, config, served};

const KEY: &str = "a-key-of-more-than-sixteen";

#[tokio::test(flavor = "multi_thread")]
async fn without_the_key_nothing_is_answered() {
    let keys = Keys::single("default", KEY).unwrap();
    let server = Running::start(ServerConfig { keys, ..config() }).await;
    let body = json!({"problem": "p", "steps": ["a"]});
    let with =
        |key: &str| server.request("/v1/steps/score", &body).header("authorization", format!("Bearer {key}"));
    assert_eq!(with(KEY).send().await.unwrap().status(), 200);
    assert_eq!(with("wrong").send().await.unwrap().status(), 401);
    let message = server.refused("/v1/steps/score", &body, 401).await;
    assert!(!message.contains(KEY));
    for path in ["/v1/models", "/metrics", "/openapi.json", "/v1/jobs"] {
        assert_eq!(server.get(path).send().await.unwrap().status(), 401, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(path).send().await.unwrap().status(), 200, "{path}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_needs_a_key() {
    let open = ServerConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config() };
    let refused = gradus_server::Server::open(open).await.err().unwrap().to_string();
    assert!(refused.contains("give a key"), "{refused}");
}

/// A request that takes a while, as long as nobody stops it.
fn slow() -> serde_json::Value {
    json!({"model": "lm", "prompt": "one", "max_tokens": 200, "n": 64, "seed": 1, "stream": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_queue_is_429_and_a_client_that_leaves_frees_its_place() {
    let limits = Limits { queue: 1, ..Limits::default() };
    let server =
        Running::start(ServerConfig { limits, models: vec![served("lm", "qwen2")], ..config() }).await;
    let first = server.request("/v1/completions", &slow()).send().await.unwrap();
    assert_eq!(first.status(), 200);
    let second = server
        .request("/v1/completions", &json!({"model": "lm", "prompt": "one", "max_tokens": 1}))
        .send()
        .await
        .unwrap();
    assert_eq!((second.status().as_u16(), second.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    drop(first);
    let patience = std::time::Instant::now();
    loop {
        let again = server
            .request("/v1/completions", &json!({"model": "lm", "prompt": "one", "max_tokens": 1}))
            .send()
            .await
            .unwrap();
        if again.status() == 200 {
            break;
        }
        assert!(patience.elapsed() < Duration::from_secs(10), "the place is still taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        server.metric("gradus_running_sequences{model=\"lm\"}").await,
        0.0,
        "nothing is generated for nobody"
    );
    assert!(server.metric("gradus_request_failure{path=\"/v1/completions\",status=\"429\"}").await >= 1.0);
    server.ended().await;
}

/// A client that keeps its connections sends the header, then the body; what is refused in between must not break it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_leaves_its_connection_usable() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let limits = Limits { queue: 1, ..Limits::default() };
    let server =
        Running::start(ServerConfig { limits, models: vec![served("lm", "qwen2")], ..config() }).await;
    let _running = server.request("/v1/completions", &slow()).send().await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let body = json!({"model": "lm", "prompt": "word ".repeat(20_000)}).to_string();
    for status in ["429", "429"] {
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    server.ended().await;
}

/// A server whose requests may take this long, and work for minutes.
async fn with_timeout(timeout: Duration) -> (Running, serde_json::Value) {
    let limits = Limits { timeout, inputs: usize::MAX, generated_tokens: usize::MAX, ..Limits::default() };
    let server =
        Running::start(ServerConfig { limits, models: vec![served("lm", "qwen2")], ..config() }).await;
    (server, json!({"model": "lm", "prompt": "one", "max_tokens": 200, "n": 2000, "seed": 1}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_its_time() {
    let (server, body) = with_timeout(Duration::from_millis(50)).await;
    let message = server.refused("/v1/completions", &body, 504).await;
    assert!(message.contains("--timeout"), "{message}");
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_takes_too_long_says_so_and_ends() {
    let (server, mut body) = with_timeout(Duration::from_secs(3)).await;
    body["stream"] = json!(true);
    let stream = server.request("/v1/completions", &body).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let text = stream.text().await.unwrap();
    assert!(text.contains("--timeout") && text.ends_with("data: [DONE]\n\n"), "{text}");
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_requests_finish_when_the_server_stops() {
    let mut server = Running::start(ServerConfig { models: vec![served("lm", "qwen2")], ..config() }).await;
    let body = json!({"model": "lm", "prompt": "one", "max_tokens": 100, "n": 32, "seed": 1});
    let running = tokio::spawn(server.request("/v1/completions", &body).send());
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop();
    let response = running.await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.text().await.unwrap().contains("finish_reason"));
    let url = server.url("/healthz");
    server.ended().await;
    assert!(
        reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_metrics_and_the_document() {
    let server = Running::start(config()).await;
    let answer = server
        .request("/v1/steps/score", &json!({"problem": "p", "steps": ["a"]}))
        .header("x-request-id", "mine-7")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["x-request-id"], "mine-7");
    let other = server.get("/healthz").send().await.unwrap();
    assert!(other.headers()["x-request-id"].to_str().unwrap().starts_with("req-"));
    assert_eq!(server.metric("gradus_request_success{path=\"/v1/steps/score\"}").await, 1.0);
    for name in ["tokenization", "queue", "inference"] {
        let line = format!("gradus_request_{name}_duration_seconds_count{{model=\"prm\"}}");
        assert!(server.metric(&line).await >= 1.0, "{line}");
    }
    assert_eq!(server.metric("gradus_queue_size").await, 0.0);
    let document: serde_json::Value =
        serde_json::from_str(&server.get("/openapi.json").send().await.unwrap().text().await.unwrap())
            .unwrap();
    for path in ["/v1/steps/score", "/pooling", "/v1/chat/completions", "/get_reward"] {
        assert!(document["paths"][path]["post"].is_object(), "{path}");
    }
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&gradus_server::openapi()).unwrap()["paths"],
        document["paths"]
    );
    server.ended().await;
}
