//! The cache: what is kept, what is asked again, and what is never written.

use std::path::{Path, PathBuf};

use crate::cache::Entry;
use crate::scripted::server::{Act, Server, replies};
use crate::{Cache, Chat, Endpoint, Http, Key};
use futures_util::future::join_all;
use gradus_core::contracts::{CallError, Generate, GenerateRequest, Message, Prompt};
use rusqlite::Connection;
use serde_json::{Value, json};

fn open(endpoint: &Endpoint, folder: &Path) -> Http {
    Http::open(endpoint).unwrap().with_cache(Cache::open(folder, None).unwrap())
}

/// The database of a cache, for tests that look into it or damage it.
fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("answers.sqlite")).unwrap()
}

fn count(folder: &Path) -> usize {
    database(folder).query_row("SELECT count(*) FROM answers", [], |row| row.get::<_, i64>(0)).unwrap()
        as usize
}

/// An answer of about a kilobyte that cannot be compressed.
fn random(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1000];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn entry(cache: &Cache, number: usize) -> Entry {
    cache.entry("/v1/x", "", format!("{{\"number\": {number}}}").as_bytes())
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
async fn a_damaged_row_is_asked_for_again_and_mended() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    let http = open(&server.endpoint(), folder.path());
    let model = Chat::new(http.clone());
    let whole = model.generate(ask("q")).await.unwrap();
    let damages = [
        "UPDATE answers SET answer = substr(answer, 1, length(answer) / 2)",
        "UPDATE answers SET answer = x''",
        "UPDATE answers SET answer = 'text'",
        "UPDATE answers SET answer = 7",
        "UPDATE answers SET length = length + 1",
        "UPDATE answers SET length = -1",
        "UPDATE answers SET length = 'long'",
        "UPDATE answers SET checksum = zeroblob(32)",
        "UPDATE answers SET used = 'never'",
        "UPDATE keys SET id = id + 1",
        "UPDATE keys SET id = 'first'",
        "UPDATE keys SET key = zeroblob(32)",
        "DELETE FROM answers",
        "DELETE FROM keys",
    ];
    for (asked, damage) in damages.into_iter().enumerate() {
        assert!(database(folder.path()).execute(damage, []).unwrap() > 0, "{damage}");
        assert_eq!(model.generate(ask("q")).await.unwrap(), whole, "{damage}");
        assert_eq!(server.seen().len(), asked + 2, "{damage}");
        database(folder.path()).execute("DELETE FROM keys WHERE key = zeroblob(32)", []).unwrap();
    }
    assert_eq!(http.counters().cached, 0);
    model.generate(ask("q")).await.unwrap();
    assert_eq!(http.counters().cached, 1);
    // The key in the row is only needed to remove it, and damage there is not even noticed.
    database(folder.path()).execute("UPDATE answers SET key = zeroblob(32)", []).unwrap();
    model.generate(ask("q")).await.unwrap();
    assert_eq!(http.counters().cached, 2);
}

#[test]
fn a_file_that_is_no_cache_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.sqlite");
    let refused = || {
        let before = std::fs::read(&path).unwrap();
        let error = Cache::open(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        error
    };
    std::fs::write(&path, "no database at all, but some text. ".repeat(300)).unwrap();
    assert!(refused().ends_with("it is damaged, or no response cache; move it away to start a new one"));
    std::fs::remove_file(&path).unwrap();
    database(folder.path()).execute_batch("CREATE TABLE other(x); PRAGMA user_version = 1").unwrap();
    assert!(refused().ends_with("it is no response cache; move it away or name another folder"));
    std::fs::remove_file(&path).unwrap();

    drop(Cache::open(folder.path(), None).unwrap());
    let sound = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&[0; 64], &sound[64..]].concat()).unwrap();
    assert!(refused().contains("move it away"));
    std::fs::write(&path, &sound).unwrap();
    database(folder.path()).pragma_update(None, "user_version", 2).unwrap();
    assert!(refused().contains("it has version 2, this program knows version 1"));
}

#[tokio::test]
async fn damaged_pages_are_absent_answers_and_an_error_when_written() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    {
        let model = Chat::new(open(&server.endpoint(), folder.path()));
        model.generate(ask("q")).await.unwrap();
    }
    let path = folder.path().join("answers.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    for asked in 2..4 {
        let Err(CallError::Failed(error)) = model.generate(ask("q")).await else { panic!("no failure") };
        assert!(error.contains("answers.sqlite is damaged, move it away"), "{error}");
        assert_eq!(server.seen().len(), asked);
    }
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
        assert_eq!(count(folder.path()), 0);
    }
    model.generate(one()).await.unwrap();
    assert_eq!(count(folder.path()), 1);
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_an_error_that_names_it() {
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    database(folder.path()).execute_batch("DROP TABLE answers").unwrap();
    let Err(CallError::Failed(error)) = model.generate(ask("q")).await else { panic!("no failure") };
    let name = folder.path().display().to_string();
    assert!(error.contains(&name) && error.contains("cannot be kept in the cache's folder"), "{error}");

    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Cache::open(file.path(), None).unwrap_err().to_string();
    assert!(error.contains(&file.path().display().to_string()), "{error}");

    // A folder where the file should be stops even the superuser.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("answers.sqlite")).unwrap();
    let error = Cache::open(folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("answers.sqlite cannot be used: "), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_folder_still_answers_what_it_has() {
    use std::os::unix::fs::PermissionsExt;
    let (server, folder) = (echo().await, tempfile::tempdir().unwrap());
    Chat::new(open(&server.endpoint(), folder.path())).generate(ask("kept")).await.unwrap();
    let allow =
        |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let model = Chat::new(open(&server.endpoint(), folder.path()));
    model.generate(ask("kept")).await.unwrap();
    assert_eq!(server.seen().len(), 1);
    // The superuser may write in spite of the permissions, and then there is nothing to complain about.
    let is_free = std::fs::create_dir(folder.path().join("probe")).is_ok();
    let new = join_all((0..8).map(|number| model.generate(ask(&format!("new {number}"))))).await;
    allow(0o755);
    let refused = new.iter().filter(|answer| matches!(answer, Err(CallError::Failed(_)))).count();
    assert_eq!(refused, if is_free { 0 } else { 8 }, "{new:?}");
}

#[tokio::test]
async fn the_least_recently_used_answers_go_first() {
    let (folder, limit) = (tempfile::tempdir().unwrap(), 1 << 20);
    let size = || std::fs::metadata(folder.path().join("answers.sqlite")).unwrap().len();
    let cache = Cache::open(folder.path(), Some(limit)).unwrap();
    for number in 0..500 {
        entry(&cache, number).put(random(number)).await.unwrap();
    }
    // As if all were kept long ago: the next use is noted.
    assert_eq!(database(folder.path()).execute("UPDATE answers SET used = 0", []).unwrap(), 500);
    for number in 0..20 {
        assert_eq!(entry(&cache, number).get().await, Some(random(number)));
    }
    for number in 500..850 {
        entry(&cache, number).put(random(number)).await.unwrap();
    }
    drop(cache);
    assert!(size() <= limit, "{}", size());

    // The limit is remembered.
    let cache = Cache::open(folder.path(), None).unwrap();
    for number in 850..1000 {
        entry(&cache, number).put(random(number)).await.unwrap();
    }
    let mut kept = Vec::new();
    for number in 0..1000 {
        match entry(&cache, number).get().await {
            Some(answer) => {
                assert_eq!(answer, random(number));
                kept.push(number);
            }
            None => assert!(number >= 20),
        }
    }
    // What was used, then the latest, without a gap.
    assert_eq!(kept[..20], (0..20).collect::<Vec<_>>());
    assert_eq!(kept[20..], (1020 - kept.len()..1000).collect::<Vec<_>>());
    assert!(kept.len() > 600, "{}", kept.len());
    drop(cache);
    assert!(size() <= limit, "{}", size());
    assert_eq!(count(folder.path()), kept.len());
}

#[tokio::test]
async fn a_lower_limit_makes_the_file_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let size = || std::fs::metadata(folder.path().join("answers.sqlite")).unwrap().len();
    {
        let cache = Cache::open(folder.path(), None).unwrap();
        join_all((0..2000).map(async |number| entry(&cache, number).put(random(number)).await.unwrap()))
            .await;
    }
    let (before, limit) = (size(), 200_000);
    assert!(before > 2_000_000);
    // Each answer that is kept makes one piece of the way.
    let mut kept = 2000;
    while size() > limit {
        let cache = Cache::open(folder.path(), Some(limit)).unwrap();
        entry(&cache, kept).put(random(kept)).await.unwrap();
        kept += 1;
    }
    let cache = Cache::open(folder.path(), None).unwrap();
    assert_eq!(entry(&cache, kept - 1).get().await, Some(random(kept - 1)));
    assert_eq!(entry(&cache, 0).get().await, None);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Some(200_000)).unwrap();
    entry(&cache, 0).put(random(0)).await.unwrap();
    let large: Vec<u8> = (1..300).flat_map(random).collect();
    entry(&cache, 1).put(large).await.unwrap();
    assert_eq!(entry(&cache, 1).get().await, None);
    assert_eq!(entry(&cache, 0).get().await, Some(random(0)));
    // Compressed it is small enough.
    entry(&cache, 1).put(vec![b' '; 300_000]).await.unwrap();
    assert_eq!(entry(&cache, 1).get().await, Some(vec![b' '; 300_000]));
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
    let is_clean = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        assert!(!text.contains("sesame") && !text.contains("bearer"), "{text}");
    };
    let database = database(folder.path());
    let mut answers = database.prepare("SELECT length, answer FROM answers").unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let kept: Vec<_> = answers.query_map([], read).unwrap().map(Result::unwrap).collect();
    assert_eq!(kept.len(), 2);
    for (length, bytes) in kept {
        is_clean(&if length > 0 { zstd::bulk::decompress(&bytes, length as usize).unwrap() } else { bytes });
    }
    // The database, its log and the log's index.
    let kept = files(folder.path());
    assert_eq!(kept.len(), 3, "{kept:?}");
    for file in kept {
        is_clean(&std::fs::read(&file).unwrap());
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
    assert_eq!(count(folder.path()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_read_and_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let caches = [0, 1].map(|_| Cache::open(folder.path(), None).unwrap());
    let work = async |worker: usize| {
        for number in worker * 20..worker * 20 + 20 {
            let [one, other] = [worker, worker + 1].map(|cache| entry(&caches[cache % 2], number));
            assert_eq!(one.get().await, None);
            one.put(random(number)).await.unwrap();
            // What one has kept the other finds at once.
            assert_eq!(other.get().await, Some(random(number)));
        }
    };
    join_all((0..64).map(work)).await;
    assert_eq!(count(folder.path()), 64 * 20);
}

#[test]
fn many_open_a_new_cache_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| Cache::open(folder.path(), Some(Cache::DEFAULT_SIZE * 2)).unwrap());
            }
        });
        let vacuum: i64 =
            database(folder.path()).pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap();
        assert_eq!(vacuum, 2, "incremental");
    }
}
