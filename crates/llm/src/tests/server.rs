//! The scripted server itself: answers in OpenAI's shapes, faults, many connections, life in a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::scripted::server::{Act, Faults, Server, replies};
use crate::{Chat, Endpoint, Http};
use futures_util::future::join_all;
use gradus_core::contracts::{CallError, FinishReason, Generate, GenerateRequest, Message, Prompt, Usage};
use serde_json::{Value, json};

fn talk(text: &str) -> Prompt {
    Prompt::Chat(vec![Message::new("system", "be brief"), Message::new("user", text)])
}

#[tokio::test]
async fn samples_have_their_seeds_and_words_are_counted() {
    let server =
        Server::start(replies(|prompt, index, seed| format!("{prompt} is sample {index} of seed {seed}")))
            .await;
    let model = Chat::new(server.open());
    for prompt in [talk("this"), Prompt::Text("this".into())] {
        let system = if matches!(prompt, Prompt::Chat(_)) { 2 } else { 0 };
        let request = GenerateRequest { n: 3, seed: 5, ..GenerateRequest::new(prompt, 16) };
        let answer = model.generate(request.clone()).await.unwrap();
        assert_eq!(answer.choices[2].text, "this is sample 2 of seed 7");
        assert_eq!(answer.choices[2].finish, FinishReason::Stop);
        assert_eq!(answer.usage, Usage { prompt_tokens: 1 + system, completion_tokens: 21 });
        let short = GenerateRequest { n: 1, max_tokens: 2, ..request.clone() };
        let short = model.generate(short).await.unwrap().choices.remove(0);
        assert_eq!((short.text.as_str(), short.finish), ("this is", FinishReason::Length));
        let stopped = GenerateRequest { n: 1, stop: vec![" of".into()], ..request };
        assert_eq!(model.generate(stopped).await.unwrap().choices[0].text, "this is sample 0");
    }
    let error = server.open().post::<_, Value>("/v1/embeddings", &json!({})).await.unwrap_err();
    assert!(error.to_string().contains("this server has no /v1/embeddings"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_got_over() {
    let faults = Faults { seed: 1, share_failing: 0.3, share_garbled: 0.0, share_hanging: 0.02 };
    let server = Server::start(faults.around(replies(|prompt, _, _| prompt.to_owned()))).await;
    let endpoint = Endpoint { concurrency: 32, retries: 8, timeout_seconds: 0.5, ..server.endpoint() };
    let http = Http::open(&endpoint).unwrap();
    let model = Chat::new(http.clone());
    let answers = join_all((0..300).map(|number| {
        let request = GenerateRequest::new(talk(&format!("question {number}")), 16);
        model.generate(request)
    }))
    .await;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().unwrap().choices[0].text, format!("question {number}"));
    }
    let retries = http.counters().retries;
    assert!((60..400).contains(&retries), "{retries} retries");
    assert_eq!(http.counters().completion_tokens, 600);
}

#[tokio::test]
async fn garbage_is_one_call_s_failure() {
    let faults = Faults { share_garbled: 1.0, ..Faults::default() };
    let server = Server::start(faults.around(replies(|_, _, _| "yes".into()))).await;
    let error = Chat::new(server.open()).generate(GenerateRequest::new(talk("q"), 4)).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(words) if words.contains("did not answer with JSON")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_at_once() {
    let server = Server::start(|_, _| Act::Late(Duration::from_millis(300), "{}".into())).await;
    let http =
        Http::open(&Endpoint { concurrency: 400, timeout_seconds: 60.0, ..server.endpoint() }).unwrap();
    let body = json!({});
    let answers = join_all((0..800).map(|_| http.post::<_, Value>("/v1/x", &body))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(server.seen().len(), 800);
    // Connections are kept, so the second half opens next to none.
    assert!(server.peak() <= 400 && server.connections() < 500, "{} {}", server.peak(), server.connections());
}

#[test]
fn a_server_in_a_thread_serves_code_without_a_runtime() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let server = Server::in_thread(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Act::ok(&json!({"fine": true}))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let http = Http::open(&Endpoint { retries: 0, ..server.endpoint() }).unwrap();
    let ask = || runtime.block_on(http.post::<_, Value>("/v1/x", &json!({})));
    assert_eq!(ask().unwrap().0["fine"], true);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    drop(server);
    // It ends a moment later, and then nobody answers any more.
    let mut tries = 0;
    while ask().is_ok() {
        tries += 1;
        assert!(tries < 1000, "the server is dropped and goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
