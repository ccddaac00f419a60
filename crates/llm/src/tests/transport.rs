//! `Http`: what is tried again, what is not, how many requests fly, and who sees the key.

use std::time::{Duration, Instant};

use crate::{Endpoint, Http, Key};
use futures_util::future::join_all;
use gradus_core::contracts::{CallError, Usage};
use serde_json::{Value, json};

use crate::scripted::server::{Act, Server};

async fn post(http: &Http) -> Result<Value, CallError> {
    http.post("/v1/echo", &json!({"a": 1})).await.map(|(answer, _)| answer)
}

fn fine() -> Act {
    Act::ok(&json!({"fine": true, "usage": {"prompt_tokens": 5, "completion_tokens": 2}}))
}

#[tokio::test]
async fn connections_are_reused_and_costs_added_up() {
    let server = Server::start(|_, _| fine()).await;
    let http = server.open();
    for _ in 0..5 {
        let (answer, usage): (Value, Usage) = http.post("/v1/echo", &json!({"a": 1})).await.unwrap();
        assert_eq!((&answer["fine"], usage.prompt_tokens), (&json!(true), 5));
    }
    assert_eq!(server.connections(), 1);
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body), ("/v1/echo", &json!({"a": 1})));
    assert!(seen.head.to_lowercase().contains("content-type: application/json"));
    let counters = http.counters();
    assert_eq!((counters.requests, counters.retries, counters.failures), (5, 0, 0));
    assert_eq!((counters.prompt_tokens, counters.completion_tokens), (25, 10));
    assert!(counters.seconds > 0.0 && counters.seconds < 5.0);
}

#[tokio::test]
async fn status_500_twice_then_an_answer() {
    let server =
        Server::start(|number, _| if number < 2 { Act::Say(500, "", "oops".into()) } else { fine() }).await;
    let http = server.open();
    post(&http).await.unwrap();
    assert_eq!(server.seen().len(), 3);
    let counters = http.counters();
    assert_eq!((counters.requests, counters.retries, counters.failures), (3, 2, 0));
}

#[tokio::test]
async fn status_429_waits_as_long_as_it_is_told() {
    let busy = |number, _: &_| match number {
        0 => Act::Say(429, "retry-after: 0.3", json!({"error": {"message": "slow down"}}).to_string()),
        _ => fine(),
    };
    let server = Server::start(busy).await;
    let started = Instant::now();
    post(&server.open()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_wait_beyond_the_limit_is_an_error_at_once() {
    let server = Server::start(|_, _| Act::Say(429, "retry-after: 7200", String::new())).await;
    let error = post(&server.open()).await.unwrap_err().to_string();
    assert!(error.ends_with("it asks to wait 7200 s, but `longest_wait_seconds` is 60"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn attempts_end() {
    let server = Server::start(|_, _| Act::Say(503, "", "loading".into())).await;
    let http = server.open();
    let Err(CallError::Failed(error)) = post(&http).await else { panic!("no failure") };
    assert_eq!(
        error,
        format!("{}/v1/echo answered 503 Service Unavailable: loading (4 attempts)", server.url)
    );
    assert_eq!(server.seen().len(), 4);
    assert_eq!(http.counters().failures, 1);
}

#[tokio::test]
async fn cut_connections_are_tried_again() {
    let server = Server::start(|number, _| match number {
        0 => Act::Cut,
        1 => Act::CutBody,
        _ => fine(),
    })
    .await;
    post(&server.open()).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn slow_answers_are_tried_again() {
    let late = |number, _: &_| match number {
        0 => Act::Late(Duration::from_secs(30), String::new()),
        _ => fine(),
    };
    let server = Server::start(late).await;
    let endpoint = Endpoint { timeout_seconds: 0.2, ..server.endpoint() };
    post(&Http::open(&endpoint).unwrap()).await.unwrap();
    assert_eq!(server.seen().len(), 2);

    let server = Server::start(|_, _| Act::Late(Duration::from_secs(30), String::new())).await;
    let endpoint = Endpoint { timeout_seconds: 0.05, retries: 0, ..server.endpoint() };
    let error = post(&Http::open(&endpoint).unwrap()).await.unwrap_err();
    assert_eq!(error, CallError::Failed(format!("{}/v1/echo gave no answer within 0.05 s", server.url)));
}

#[tokio::test]
async fn nobody_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let endpoint = Endpoint { retries: 1, backoff_seconds: 0.001, ..Endpoint::new(url, "m") };
    let Err(CallError::Failed(error)) = post(&Http::open(&endpoint).unwrap()).await else {
        panic!("no failure")
    };
    assert!(error.contains("cannot be reached: ") && error.ends_with("(2 attempts)"), "{error}");
}

#[tokio::test]
async fn other_statuses_are_refusals() {
    let server = Server::start(|number, _| match number {
        0 => Act::Say(400, "", json!({"error": {"message": "prompt is\ntoo long."}}).to_string()),
        1 => Act::Say(404, "", "<html>not here</html>".into()),
        _ => Act::Say(307, "location: http://elsewhere.example/v1", String::new()),
    })
    .await;
    let http = server.open();
    let url = format!("{}/v1/echo", server.url);
    for expected in [
        CallError::Invalid(format!("context too long: {url} answered 400 Bad Request: prompt is too long")),
        CallError::Refused(format!("{url} answered 404 Not Found")),
        CallError::Refused(format!(
            "{url} redirects to http://elsewhere.example/v1; put the right address into `base_url`"
        )),
    ] {
        assert_eq!(post(&http).await, Err(expected));
    }
    assert_eq!(server.seen().len(), 3);
    assert_eq!(http.counters().failures, 3);
}

#[tokio::test]
async fn an_answer_of_too_many_values_is_refused_before_it_is_parsed() {
    #[derive(Debug, serde::Deserialize)]
    struct Named {
        name: String,
    }
    let most = gradus_core::limits::Limit::RecordValues.default_value() as usize;
    let beside = |count: usize| format!(r#"{{"name": "a", "beside": [{}0]}}"#, "0,".repeat(count));
    let server = Server::start(move |number, _| match number {
        0 => Act::Say(200, "", beside(most)),
        _ => Act::Say(200, "", beside(1000)),
    })
    .await;
    let http = server.open();
    let ask = || async { http.post::<_, Named>("/named", &json!({})).await };
    let Err(CallError::Failed(error)) = ask().await else { panic!("no failure") };
    let words = "answered more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES to raise the limit";
    assert!(error.ends_with(words), "{error}");
    assert_eq!(ask().await.unwrap().0.name, "a");
}

#[tokio::test]
async fn garbage_and_missing_fields_are_failures() {
    #[derive(Debug, serde::Deserialize)]
    struct Outer {
        list: Vec<Inner>,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Inner {
        name: String,
    }
    let server = Server::start(|number, _| match number {
        0 => Act::Say(200, "", "It is four.".into()),
        1 => Act::ok(&json!({"list": [{"name": "a"}, {"nome": "b"}]})),
        2 => Act::ok(&json!({"error": {"message": "no credit left"}})),
        _ => Act::ok(&json!({"list": [{"name": "a"}]})),
    })
    .await;
    let http = server.open();
    let ask = || async { http.post::<_, Outer>("/outer", &json!({})).await };
    for words in [
        "did not answer with JSON",
        "`list[1]`: missing field `name`",
        "missing field `list`; it says: no credit left",
    ] {
        let Err(CallError::Failed(error)) = ask().await else { panic!("no failure") };
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(ask().await.unwrap().0.list[0].name, "a");
    assert_eq!(server.seen().len(), 4);
    assert_eq!(server.seen()[0].path, "/outer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_in_flight_than_allowed() {
    let server = Server::start(|number, _| match number % 7 {
        3 => Act::Say(500, "", String::new()),
        _ => Act::Late(Duration::from_millis(10), "{}".into()),
    })
    .await;
    let http = Http::open(&Endpoint { concurrency: 3, retries: 9, ..server.endpoint() }).unwrap();
    let answers = join_all((0..40).map(|_| async { post(&http.clone()).await })).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(server.peak(), 3);
    // A connection may come back to the pool a moment after the next request wants one.
    assert!(server.connections() < 20, "{}", server.connections());
    assert_eq!(http.counters().requests as usize, server.seen().len());
}

#[tokio::test]
async fn a_dropped_call_frees_its_permit() {
    let server = Server::start(|number, _| match number {
        0 => Act::Late(Duration::from_secs(30), "{}".into()),
        _ => fine(),
    })
    .await;
    let http = Http::open(&Endpoint { concurrency: 1, ..server.endpoint() }).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), post(&http)).await.is_err());
    post(&http).await.unwrap();
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = Server::start(|number, _| match number {
        0 => Act::Say(401, "", json!({"error": {"message": "Incorrect API key: open-sesame"}}).to_string()),
        1 => Act::Say(200, "", "open-sesame is no JSON".into()),
        2 => Act::Say(302, "location: http://x.example/?key=open-sesame", String::new()),
        _ => Act::Say(500, "", "stack trace with open-sesame".into()),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "open-sesame\n").unwrap();
    let endpoint = Endpoint { key: Some(Key::File(path.clone())), ..server.endpoint() };
    let http = Http::open(&endpoint).unwrap();
    let mut shown = format!("{endpoint:?} {http:?} {http:#?} {:?}", crate::Chat::new(http.clone()));
    for _ in 0..4 {
        let error = post(&http).await.unwrap_err();
        shown += &format!(" {error} {error:?}");
    }
    assert!(server.seen().iter().all(|seen| seen.head.contains("Bearer open-sesame")));
    assert!(shown.contains("Incorrect API key: [key]"), "{shown}");
    assert!(!shown.contains("sesame"), "{shown}");

    // A server that echoes the `Authorization` header wherever it can.
    let echoed = "Bearer sk-sesame-0123456789-abcdefghij";
    let escaped = echoed.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>();
    let long = "x ".repeat(140) + echoed;
    let server = Server::start(move |number, _| match number {
        0 => Act::Say(401, "", json!({"error": {"message": echoed}}).to_string()),
        1 => Act::Say(401, "", format!("{{\"error\": \"{escaped}\"}}")),
        // The message is cut after 300 characters, in the middle of the key.
        2 => Act::Say(401, "", json!({"error": {"message": long}}).to_string()),
        3 => Act::Say(200, "", format!("data: {{\"choices\": [{{\"text\": \"{echoed}\"}}]}}\n\n")),
        4 => Act::Say(200, "", format!("{{\"text\": \"{escaped}\", \"model\": \"{echoed}\"}}")),
        _ => Act::Say(302, "location: http://x.example/?k=sk-sesame%2D0123456789-abcdefghij", String::new()),
    })
    .await;
    std::fs::write(&path, "sk-sesame-0123456789-abcdefghij").unwrap();
    let http = Http::open(&Endpoint { key: Some(Key::File(path.clone())), ..server.endpoint() }).unwrap();
    for number in 0..6 {
        let shown = format!("{:?}", post(&http).await);
        for piece in ["sesame", "123456789", "abcdef", "u0073", "sk-s"] {
            assert!(!shown.contains(piece), "{number}: {shown}");
        }
        assert!(shown.contains("[key]"), "{number}: {shown}");
    }

    for (content, words) in [("", "the key is empty"), ("two\nlines", "one line of ASCII")] {
        std::fs::write(&path, content).unwrap();
        let error = Http::open(&endpoint).unwrap_err();
        assert!(error.to_string().contains(words) && !format!("{error:?}").contains("two"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(Http::open(&endpoint).unwrap_err().to_string().contains("cannot be read"));
}
