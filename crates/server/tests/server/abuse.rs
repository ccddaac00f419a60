//! What hostile clients, pages and networks do.

use std::time::{Duration, Instant};

use gradus_server::{Limits, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{Running, config};

/// Sends bytes as they are, and gives what comes back until the end or for two seconds.
async fn raw(server: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // A server that has refused may close before all is sent.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}").into_bytes()
}

/// What comes before a body, which is only announced.
fn head(path: &str, length: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_the_limits_are_refused() {
    let limits = Limits { body_bytes: 1 << 20, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() }).await;
    // A gigabyte that is only announced, and one that comes in pieces without an end.
    let started = Instant::now();
    let announced = raw(&server, head("/v1/steps/score", "Content-Length: 1000000000").as_bytes()).await;
    assert_eq!(status(&announced), "413", "{announced}");
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let chunked = head("/v1/steps/score", "Transfer-Encoding: chunked");
    let endless = [chunked.into_bytes(), piece.repeat(40).into_bytes()].concat();
    assert_eq!(status(&raw(&server, &endless).await), "413");
    assert!(started.elapsed() < Duration::from_secs(8));
    // A million steps fit into a body of a few megabytes.
    let server = Running::start(config()).await;
    let steps = vec!["a"; 1_000_000];
    let message = server.refused("/v1/steps/score", &json!({"problem": "p", "steps": steps}), 400).await;
    assert!(message.contains("--max-steps"), "{message}");
    let message =
        server.refused("/v1/steps/score", &json!({"problem": "p", "solutions": vec!["a"; 5000]}), 400).await;
    assert!(message.contains("--max-inputs"), "{message}");
    server.ended().await;
}

/// What many inputs share would be copied for each of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_does_not_grow_past_its_limit() {
    let limits = Limits { body_bytes: 1 << 20, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() }).await;
    let (long, many) = ("a ".repeat(100_000), vec!["a"; 100]);
    let reference = json!([{"question": long, "steps": []}]);
    let messages = json!([{"role": "user", "content": long}]);
    for (path, body) in [
        ("/v1/steps/score", json!({"problem": long, "solutions": many})),
        ("/v1/steps/score", json!({"problem": "p", "solutions": many, "references": reference})),
        ("/v1/steps/select", json!({"problem": long, "solutions": many})),
        ("/v1/steps/annotate", json!({"problem": long, "solutions": many, "method": "judge"})),
        ("/page/score", json!({"models": ["prm"], "problem": long, "solutions": many})),
        ("/v1/score", json!({"query": long, "items": many, "label_token_ids": [1]})),
        ("/v1/score", json!({"query": "q", "items": vec!["a"; 2000], "label_token_ids": vec![1; 150]})),
        (
            "/v1/completions",
            json!({"prompt": vec!["a"; 2000], "max_tokens": 1, "stop": vec!["b".repeat(4000)]}),
        ),
        ("/v1/completions", json!({"prompt": many, "max_tokens": 1, "guided_json": {"enum": vec![0; 2000]}})),
        ("/v1/completions", json!({"prompt": long, "max_tokens": 1, "echo": true, "n": 100})),
        ("/v1/offline_bon/chat/completions", json!({"messages": messages, "tts_num_trajectories": 100})),
    ] {
        let message = server.refused(path, &body, 413).await;
        assert!(message.contains("4 times --max-body-bytes"), "{path}: {message}");
    }
    for (path, body, words) in [
        (
            "/v1/score",
            json!({"query": "q", "items": ["a"], "label_token_ids": vec![1; 10_000]}),
            "more than the model's",
        ),
        ("/v1/completions", json!({"prompt": "a", "stop": vec!["b"; 65]}), "at most 64 texts"),
        ("/v1/completions", json!({"prompt": "a", "stop": "b".repeat(4097)}), "at most 4096 bytes"),
    ] {
        let message = server.refused(path, &body, 400).await;
        assert!(message.contains(words), "{path}: {message}");
    }
    // What is long and not shared, and what is shared and short, are answered.
    server.post("/v1/steps/score", &json!({"problem": "p", "solutions": many})).await;
    server.post("/v1/completions", &json!({"prompt": many, "max_tokens": 1, "stop": ["b"]})).await;
    server.ended().await;
}

/// Paths that take no place in the queue take only short bodies.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_beside_the_queue_are_short() {
    let server = Running::start(config()).await;
    let path = format!("/watch/{}", "x".repeat(2000));
    let message = server.refused("/page/ticket", &json!({"path": path}), 400).await;
    assert!(message.contains("1024 bytes"), "{message}");
    for path in ["/page/ticket", "/v1/label/next"] {
        let answer = raw(&server, head(path, "Content-Length: 2000000").as_bytes()).await;
        assert_eq!(status(&answer), "413", "{answer}");
        assert!(answer.contains("1048576 bytes (the limit of this path)"), "{answer}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_lose_their_connections() {
    let limits = Limits { read_timeout: Duration::from_millis(500), connections: 4, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() }).await;
    let asked = "GET /label.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1500);
    let mut stuck = Vec::new();
    for _ in 0..4 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        stuck.push(stream);
    }
    // All connections are taken until theirs are ended.
    let answer = tokio::time::timeout(Duration::from_secs(20), server.get("/healthz").send()).await;
    assert_eq!(answer.expect("others are answered").unwrap().status(), 200);
    drop(stuck);
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_the_clients_fault() {
    let server = Running::start(config()).await;
    let deep = format!("{{\"problem\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["", "{", "[]", "null", "{\"problem\": \"\\ud800\"}", deep.as_str()] {
        let answer = raw(&server, &post("/v1/steps/score", "", body)).await;
        assert_eq!(status(&answer), "400", "{body:.60}: {answer}");
    }
    let mut invalid = post("/v1/steps/score", "", "{\"problem\": \"??\", \"steps\": []}");
    let at = invalid.windows(2).rposition(|two| two == b"??").unwrap();
    invalid[at..at + 2].copy_from_slice(&[0xff, 0xfe]);
    assert_eq!(status(&raw(&server, &invalid).await), "400");
    let plain = b"POST /v1/steps/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    assert_eq!(status(&raw(&server, plain).await), "415");
    for path in [
        "/../../etc/passwd",
        "/page/assets/../../Cargo.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/models/..%2f..%2fetc",
        "//etc/passwd",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = raw(&server, request.as_bytes()).await;
        assert_eq!(status(&answer), "404", "{path}: {answer}");
        assert!(!answer.contains("root:"));
    }
    let wrong = b"GET /v1/steps/score HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&raw(&server, wrong).await), "405");
    // It lives on.
    assert_eq!(server.get("/healthz").send().await.unwrap().status(), 200);
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_without_end_and_slow_clients_are_cut_off() {
    let limits = Limits { read_timeout: Duration::from_millis(300), ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() }).await;
    let flood: String = (0..500).map(|number| format!("X-{number}: y\r\n")).collect();
    let answer =
        raw(&server, format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{flood}\r\n").as_bytes()).await;
    assert_eq!(status(&answer), "431", "{answer}");
    let long = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    assert!(["431", "none"].contains(&status(&raw(&server, long.as_bytes()).await)));
    // A header that never ends, and a body that never comes.
    for begun in [
        "GET /healthz HTTP/1.1\r\nHost: local",
        "POST /v1/steps/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(ended.is_ok() || status(&answer) == "408", "{begun}: the connection is still open: {answer}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_and_other_names_are_refused() {
    let server = Running::start(config()).await;
    let body = "{\"problem\": \"p\", \"steps\": [\"a\"]}";
    let asked = |host: &str, more: &str| {
        let length = body.len();
        format!("POST /v1/steps/score HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n{body}").into_bytes()
    };
    let own = server.address.to_string();
    assert_eq!(status(&raw(&server, &asked(&own, "")).await), "200");
    assert_eq!(status(&raw(&server, &asked(&own, &format!("Origin: http://{own}\r\n"))).await), "200");
    assert_eq!(status(&raw(&server, &asked("evil.example", "")).await), "403");
    for origin in ["http://evil.example", "null", "https://localhost"] {
        assert_eq!(
            status(&raw(&server, &asked(&own, &format!("Origin: {origin}\r\n"))).await),
            "403",
            "{origin}"
        );
    }
    // The question that a browser asks first is not answered with a permission.
    let preflight = format!(
        "OPTIONS /v1/steps/score HTTP/1.1\r\nHost: {own}\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    );
    let answer = raw(&server, preflight.as_bytes()).await;
    assert!(status(&answer) == "403" && !answer.to_lowercase().contains("access-control-allow"), "{answer}");
    server.ended().await;
}
