//! Several endpoints of one model: who gets a request, who is paused, and that every request is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::scripted::server::{Act, Server, replies};
use crate::{Chat, Endpoint, Http, Key};
use futures_util::future::join_all;
use gradus_core::contracts::{CallError, Generate, GenerateRequest, Prompt};
use serde_json::{Value, json};

async fn post(http: &Http) -> Result<Value, CallError> {
    http.post("/v1/echo", &json!({"a": 1})).await.map(|(answer, _)| answer)
}

fn fine() -> Act {
    Act::ok(&json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}))
}

fn soon() -> Act {
    Act::Late(Duration::from_millis(20), "{}".into())
}

fn open(endpoints: &[Endpoint]) -> Http {
    Http::open_all(endpoints).unwrap()
}

#[tokio::test]
async fn requests_go_where_the_smallest_share_is_in_flight() {
    // Late enough that the last request arrives before the first answer, on any machine.
    let late = |_: usize, _: &_| Act::Late(Duration::from_millis(400), "{}".into());
    let (large, small) = (Server::start(late).await, Server::start(late).await);
    let http = open(&[
        Endpoint { concurrency: 30, ..large.endpoint() },
        Endpoint { concurrency: 10, ..small.endpoint() },
    ]);
    assert!(join_all((0..40).map(|_| post(&http))).await.iter().all(Result::is_ok));
    assert_eq!((large.peak(), small.peak()), (30, 10));
    // Twice as many wait for a permit, and none takes one too many.
    assert!(join_all((0..80).map(|_| post(&http))).await.iter().all(Result::is_ok));
    assert_eq!((large.peak(), small.peak()), (30, 10));
    let counters = http.by_endpoint();
    assert_eq!(counters[0].0, format!("{}/v1", large.url));
    assert_eq!(counters[0].1.requests as usize, large.seen().len());
    assert_eq!(counters[0].1.requests + counters[1].1.requests, 120);
    assert_eq!(http.counters().requests, 120);
    assert_eq!(http.latency().count, 120);
    assert!(http.latency().median >= 0.38, "{:?}", http.latency());
}

#[tokio::test]
async fn equals_take_turns() {
    let (one, two) = (Server::start(|_, _| fine()).await, Server::start(|_, _| fine()).await);
    let http = open(&[one.endpoint(), two.endpoint()]);
    for _ in 0..10 {
        post(&http).await.unwrap();
    }
    assert_eq!((one.seen().len(), two.seen().len()), (5, 5));
}

#[tokio::test]
async fn a_failure_is_tried_elsewhere_at_once() {
    for act in [Act::Say(500, "", String::new()), Act::Say(429, "retry-after: 30", String::new()), Act::Cut] {
        let bad = Server::start(move |_, _| act.clone()).await;
        let good = Server::start(|_, _| fine()).await;
        // Neither the wait between attempts nor the one that the server asks for may be noticed.
        let patient = |server: &Server| Endpoint { backoff_seconds: 60.0, ..server.endpoint() };
        let http = open(&[patient(&bad), patient(&good)]);
        let started = Instant::now();
        for _ in 0..4 {
            post(&http).await.unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(good.seen().len(), 4);
        assert_eq!(http.counters().failures, 0);
        assert_eq!(http.counters().retries as usize, bad.seen().len());
    }
}

#[tokio::test]
async fn two_that_refuse_are_not_asked_round_and_round() {
    let busy = |number, _: &_| if number < 2 { Act::Say(429, "", String::new()) } else { fine() };
    let (one, two) = (Server::start(busy).await, Server::start(busy).await);
    let endpoint = |server: &Server| Endpoint { backoff_seconds: 0.2, retries: 9, ..server.endpoint() };
    let http = open(&[endpoint(&one), endpoint(&two)]);
    post(&http).await.unwrap();
    // One of them is asked, then the other, then there is a wait.
    let both = one.seen().len() + two.seen().len();
    assert!((3..=5).contains(&both), "{both}");
}

/// A server at a known address that can be stopped and started again.
async fn again(server: Server) -> (std::net::SocketAddr, String) {
    let url = server.url.clone();
    server.stop().await;
    (url.strip_prefix("http://").unwrap().parse().unwrap(), url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dies_and_comes_back() {
    let (steady, fickle) = (Server::start(|_, _| soon()).await, Server::start(|_, _| soon()).await);
    let endpoint = |server: &Server| Endpoint { concurrency: 8, retries: 5, ..server.endpoint() };
    let http = open(&[endpoint(&steady), endpoint(&fickle)]);
    let all = |count: usize| join_all((0..count).map(|_| post(&http)));

    let work = tokio::spawn({
        let http = http.clone();
        async move { join_all((0..200).map(|_| post(&http))).await }
    });
    while fickle.seen().len() < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (address, url) = again(fickle).await;
    let answers = work.await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");

    // It is out: nothing is sent there, whatever comes, but now and then a probe.
    let sent = || http.by_endpoint()[1].1.requests;
    let before = sent();
    assert!(all(200).await.iter().all(Result::is_ok));
    assert!(sent() - before <= 3, "{} requests to a server that is out", sent() - before);

    let back = Server::bind(address, |_, _| soon()).await.unwrap();
    assert_eq!(back.url, url);
    let began = Instant::now();
    while back.seen().len() < 50 && began.elapsed() < Duration::from_secs(60) {
        assert!(all(16).await.iter().all(Result::is_ok));
    }
    assert!(back.peak() > 4, "it gets its share again");
    assert_eq!(http.counters().failures, 0);
}

#[tokio::test]
async fn if_all_are_out_requests_wait_for_the_first_to_come_back() {
    let up = Arc::new(AtomicBool::new(false));
    let rule = |up: Arc<AtomicBool>| {
        move |_: usize, _: &_| {
            if up.load(Ordering::SeqCst) { fine() } else { Act::Say(503, "", "loading".into()) }
        }
    };
    let (one, two) = (Server::start(rule(up.clone())).await, Server::start(rule(up.clone())).await);
    let http = open(&[one.endpoint(), two.endpoint()]);
    let calls = join_all((0..20).map(|_| post(&http)));
    let wake = async {
        // Long enough that three failures in a row put both out, less than any call's patience.
        tokio::time::sleep(Duration::from_millis(300)).await;
        up.store(true, Ordering::SeqCst);
    };
    let (answers, ()) = tokio::join!(calls, wake);
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(answered, 20, "{answers:?}");
}

#[tokio::test]
async fn if_none_comes_back_calls_end_and_say_why() {
    let gone = |server: Server| async {
        let endpoint = Endpoint { retries: 1, ..server.endpoint() };
        server.stop().await;
        endpoint
    };
    let one = gone(Server::start(|_, _| fine()).await).await;
    let two = gone(Server::start(|_, _| fine()).await).await;
    let http = open(&[one, two]);
    let answers = join_all((0..10).map(|_| post(&http))).await;
    for answer in answers {
        let Err(CallError::Failed(error)) = answer else { panic!("{answer:?}") };
        assert!(error.contains("cannot be reached"), "{error}");
    }
    let Err(CallError::Failed(error)) = post(&http).await else { panic!("no failure") };
    assert!(
        error.starts_with("all 2 endpoints are unavailable; the last error: http://127.0.0.1:")
            || error.contains("attempts")
    );
}

#[tokio::test]
async fn one_that_asks_to_wait_is_left_alone_while_another_is_merely_full() {
    let tired = Server::start(|_, _| Act::Say(429, "retry-after: 7200", String::new())).await;
    let busy = Server::start(|_, _| soon()).await;
    let http = open(&[
        Endpoint { concurrency: 50, ..tired.endpoint() },
        Endpoint { concurrency: 2, ..busy.endpoint() },
    ]);
    let answers = join_all((0..40).map(|_| post(&http))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(tired.seen().len() <= 40 && busy.seen().len() == 40);
}

#[tokio::test]
async fn each_endpoint_has_its_own_name_and_key_and_no_key_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let key = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        Some(Key::File(folder.path().join(name)))
    };
    let leak =
        |_: usize, _: &_| Act::Say(401, "", json!({"error": "not sesame, nor sesame-open"}).to_string());
    let one = Server::start(leak).await;
    let two = Server::start(replies(|_, _, _| "yes".into())).await;
    let http = open(&[
        Endpoint { model: "short".into(), key: key("a", "sesame"), ..one.endpoint() },
        Endpoint { model: "org/Long-Name".into(), key: key("b", "sesame-open"), ..two.endpoint() },
    ]);
    let model = Chat::new(http.clone());
    let mut shown = format!("{http:?} {model:?}");
    let mut answered = 0;
    for _ in 0..4 {
        match model.generate(GenerateRequest::new(Prompt::Text("q".into()), 4)).await {
            Ok(_) => answered += 1,
            Err(error) => shown += &format!(" {error:?} {error}"),
        }
    }
    assert_eq!(answered, 2);
    assert!(shown.contains("not [key], nor [key]") && !shown.contains("sesame"), "{shown}");
    let (one, two) = (&one.seen()[0], &two.seen()[0]);
    assert_eq!((&one.body["model"], &two.body["model"]), (&json!("short"), &json!("org/Long-Name")));
    assert!(one.head.contains("Bearer sesame\r") && two.head.contains("Bearer sesame-open\r"));
    // Everything else is the same, numbers included.
    let rest = |body: &Value| body.to_string().replacen("short", "org/Long-Name", 1);
    assert_eq!(rest(&one.body), two.body.to_string());
}

#[tokio::test]
async fn a_pace_spaces_requests() {
    let server = Server::start(|_, _| fine()).await;
    let started = Instant::now();
    let http = open(&[Endpoint { requests_per_minute: Some(1200.0), ..server.endpoint() }]);
    assert!(join_all((0..11).map(|_| post(&http))).await.iter().all(Result::is_ok));
    // Ten gaps of 50 ms; a slow machine makes them longer, nothing makes them shorter.
    assert!(started.elapsed() >= Duration::from_millis(490));

    // 7 tokens each, so that ten answers are a debt of 0.7 s for the next.
    let started = Instant::now();
    let http = open(&[Endpoint { tokens_per_minute: Some(6000.0), ..server.endpoint() }]);
    for _ in 0..11 {
        post(&http).await.unwrap();
    }
    assert!(started.elapsed() >= Duration::from_millis(690));
}
