//! The cache: what is kept, what is asked again, and what is never written.

use std::path::{Path, PathBuf};

use crate::scripted::server::{Act, Server, replies};
use crate::{Cache, Chat, Endpoint, Http, Key};
use futures_util::future::join_all;
use gradus_core::contracts::{CallError, Generate, GenerateRequest, Message, Prompt};
use serde_json::{Value, json};

fn open(endpoint: &Endpoint, folder: &Path) -> Http {
    Http::open(endpoint).unwrap().with_cache(Cache::open(folder).unwrap())
}

fn ask(text: &str) -> GenerateRequest {
    GenerateRequest {
        n: 2,
        seed: 7,
        ..GenerateRequest::new(Prompt::Chat(vec![Message::new("user", text)]), 16)
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

async fn echo() -> Server {
    Server::start(replies(|prompt, index, seed| format!("{prompt} {index} {seed}"))).await
}

#[tokio::test]
async fn an_answer_survives_a_restart_and_costs_nothing_again() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    let first = {
        let model = Chat::new(open(&server.endpoint(), folder.path()));
        model.generate(ask("a b")).await.unwrap()
    };
    // The server is gone, so whatever comes now comes from the disk.
    let endpoint = server.endpoint();
    server.stop().await;
    let http = open(&Endpoint { retries: 0, ..endpoint }, folder.path());
    let second = Chat::new(http.clone()).generate(ask("a b")).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(second.choices[1].text, "a b 1 8");
    let counters = http.counters();
    assert_eq!((counters.cached, counters.requests, counters.failures), (1, 0, 0));
    assert_eq!((counters.cached_prompt_tokens, counters.cached_completion_tokens), (2, 8));
    assert_eq!((counters.prompt_tokens, counters.completion_tokens), (0, 0));
    assert_eq!(http.latency().count, 0);

    for other in [GenerateRequest { seed: 8, ..ask("a b") }, ask("a c")] {
        assert!(matches!(Chat::new(http.clone()).generate(other).await, Err(CallError::Failed(_))));
    }
}

#[tokio::test]
async fn a_hit_needs_no_permit() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|number, seen| match number {
        0 => replies(|_, _, _| "yes".into())(number, seen),
        _ => Act::Hang,
    })
    .await;
    let http = open(&Endpoint { concurrency: 1, ..server.endpoint() }, folder.path());
    let model = Chat::new(http.clone());
    model.generate(ask("kept")).await.unwrap();
    tokio::select! {
        _ = model.generate(ask("hangs")) => panic!("the server hangs"),
        answer = async {
            while server.seen().len() < 2 {
                tokio::task::yield_now().await;
            }
            model.generate(ask("kept")).await
        } => { answer.unwrap(); }
    }
    assert_eq!(http.counters().cached, 1);
}

#[tokio::test]
async fn a_damaged_file_is_asked_for_again_and_mended() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    let http = open(&server.endpoint(), folder.path());
    let model = Chat::new(http.clone());
    let whole = model.generate(ask("q")).await.unwrap();
    let [file] = &files(folder.path())[..] else { panic!("{:?}", files(folder.path())) };
    let bytes = std::fs::read(file).unwrap();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (asked, damaged) in [&bytes[..bytes.len() / 2], &[], &flipped].into_iter().enumerate() {
        std::fs::write(file, damaged).unwrap();
        assert_eq!(model.generate(ask("q")).await.unwrap(), whole);
        assert_eq!(server.seen().len(), asked + 2);
        assert_eq!(std::fs::read(file).unwrap(), bytes);
    }
    assert_eq!(http.counters().cached, 0);
    model.generate(ask("q")).await.unwrap();
    assert_eq!(http.counters().cached, 1);
}

#[tokio::test]
async fn answers_that_are_of_no_use_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|number, seen| match number {
        0 => Act::Say(200, "", "no JSON".into()),
        1 => Act::ok(&json!({"choices": []})),
        2 => Act::ok(&json!({"choices": [{"message": {"content": "x"}, "finish_reason": "content_filter"}]})),
        3 => Act::Say(400, "", "{}".into()),
        _ => replies(|_, _, _| "yes".into())(number, seen),
    })
    .await;
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    let one = || GenerateRequest { n: 1, ..ask("q") };
    for _ in 0..4 {
        model.generate(one()).await.unwrap_err();
        assert!(files(folder.path()).is_empty());
    }
    model.generate(one()).await.unwrap();
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_an_error_that_names_it() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    // A file where a folder should be stops even the superuser.
    for number in 0..256 {
        std::fs::write(folder.path().join(format!("{number:02x}")), "").unwrap();
    }
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    let Err(CallError::Failed(error)) = model.generate(ask("q")).await else { panic!("no failure") };
    let name = folder.path().display().to_string();
    assert!(error.contains(&name) && error.contains("cannot be kept in the cache's folder"), "{error}");

    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Cache::open(file.path()).unwrap_err().to_string();
    assert!(error.contains(&file.path().display().to_string()), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_folder_still_answers_what_it_has() {
    use std::os::unix::fs::PermissionsExt;
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    model.generate(ask("kept")).await.unwrap();
    let allow =
        |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    model.generate(ask("kept")).await.unwrap();
    assert_eq!(server.seen().len(), 1);
    // The superuser may write in spite of the permissions, and then there is nothing to complain about.
    let is_free = std::fs::create_dir(folder.path().join("probe")).is_ok();
    let new = join_all((0..8).map(|number| model.generate(ask(&format!("new {number}"))))).await;
    allow(0o755);
    // One of eight may fall into the one sub-folder that is there.
    let refused = new.iter().filter(|answer| matches!(answer, Err(CallError::Failed(_)))).count();
    assert!(if is_free { refused == 0 } else { refused >= 6 }, "{new:?}");
}

#[tokio::test]
async fn no_key_and_no_header_is_ever_written() {
    let folder = tempfile::tempdir().unwrap();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "open-sesame").unwrap();
    let server = Server::start(|number, seen| match number {
        0 => Act::ok(&json!({"choices": [{"message": {"content": "your key is open-sesame"}, "finish_reason": "stop"}]})),
        _ => replies(|_, _, _| "yes".into())(number, seen),
    })
    .await;
    let endpoint = Endpoint { key: Some(Key::File(key.path().to_owned())), ..server.endpoint() };
    let http = open(&endpoint, folder.path());
    let model = Chat::new(http.clone());
    let one = |text| GenerateRequest { n: 1, ..ask(text) };
    assert_eq!(model.generate(one("a")).await.unwrap().choices[0].text, "your key is [key]");
    assert_eq!(model.generate(one("b")).await.unwrap().choices[0].text, "yes");
    let kept = files(folder.path());
    assert_eq!(kept.len(), 2);
    for file in kept {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.to_lowercase().contains("sesame") && !text.contains("Bearer"), "{text}");
        assert!(!format!("{http:?} {file:?}").contains("sesame"));
    }
}

#[tokio::test]
async fn the_address_counts_only_where_no_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (echo().await, echo().await);
    let from = |endpoint: Endpoint| {
        let http = open(&endpoint, folder.path());
        async move {
            http.post::<_, Value>("/v1/completions", &json!({"model": endpoint.model, "prompt": "p"})).await
        }
    };
    from(one.endpoint()).await.unwrap();
    from(two.endpoint()).await.unwrap();
    assert_eq!((one.seen().len(), two.seen().len()), (1, 0));
    from(Endpoint { model: String::new(), ..one.endpoint() }).await.unwrap();
    from(Endpoint { model: String::new(), ..two.endpoint() }).await.unwrap();
    assert_eq!((one.seen().len(), two.seen().len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_write_the_same_entry_at_once() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    // Two handles with a cache each stand for two processes.
    let models =
        [0, 1].map(|_| Chat::new(open(&Endpoint { concurrency: 32, ..server.endpoint() }, folder.path())));
    let answers = join_all((0..64).map(|number| models[number % 2].generate(ask("same")))).await;
    assert!(answers.iter().all(|answer| answer == &answers[0] && answer.is_ok()));
    assert_eq!(files(folder.path()).len(), 1);
}
