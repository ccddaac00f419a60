//! Spans of requests, sent to a collector that this test plays.

use axum::body::Bytes;
use axum::routing::post;
use gradus_server::{Server, ServerConfig};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Running, config, served};

#[tokio::test(flavor = "multi_thread")]
async fn spans_go_to_the_collector_without_texts() {
    let (sent, mut received) = mpsc::unbounded_channel::<Vec<u8>>();
    let collect = post(async move |body: Bytes| sent.send(body.to_vec()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let collector = axum::Router::new().route("/v1/traces", collect);
    tokio::spawn(async move { axum::serve(listener, collector).await });
    let server = Running::start(ServerConfig { otlp_endpoint: Some(endpoint), ..config() }).await;
    let asked = server.request("/v1/steps/split", &json!({"text": "private words\n\nof somebody"}));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let answer = asked.header("traceparent", parent).header("x-request-id", "my-id").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    // What is left is sent at the end.
    server.ended().await;
    let mut spans = Vec::new();
    while let Ok(batch) = received.try_recv() {
        spans.extend(batch);
    }
    let has = |bytes: &[u8]| spans.windows(bytes.len()).any(|window| window == bytes);
    let trace =
        [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c];
    for wanted in [&b"POST /v1/steps/split"[..], b"http.response.status_code", b"my-id", b"gradus", &trace] {
        assert!(has(wanted), "{}", String::from_utf8_lossy(wanted));
    }
    assert!(!has(b"private"));
}

/// Whoever collects may be away: requests are answered all the same, and the server ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_nothing() {
    let models = || vec![served("prm", "qwen2-prm")];
    let away = Some("http://127.0.0.1:9".to_owned());
    let server = Running::start(ServerConfig { models: models(), otlp_endpoint: away, ..config() }).await;
    server.post("/v1/steps/split", &json!({"text": "a\n\nb"})).await;
    server.ended().await;
    for (endpoint, expected) in
        [("ftp://there", "http:// or https://"), ("nowhere", "--otlp-endpoint nowhere")]
    {
        let wrong = ServerConfig { models: models(), otlp_endpoint: Some(endpoint.to_owned()), ..config() };
        let refused = Server::open(wrong).await.err().unwrap().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}
