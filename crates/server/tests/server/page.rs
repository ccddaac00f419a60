//! The page's files and fragments: nothing of anyone's data is markup, and nothing comes from elsewhere.

use gradus_core::{Problem, Record, Solution};
use gradus_label::{Project, Settings};
use gradus_server::{Keys, ServerConfig};
use serde_json::{Value, json};

use super::{Running, config};

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>";

#[tokio::test(flavor = "multi_thread")]
async fn files_are_open_and_load_nothing_from_elsewhere() {
    let keys = Keys::single("default", "a-key-of-more-than-sixteen").unwrap();
    let server = Running::start(ServerConfig { keys, ..config() }).await;
    for path in [
        "/",
        "/label",
        "/watch",
        "/page/page.css",
        "/page/records.js",
        "/page/look.js",
        "/page/watch.js",
        "/label.js",
        "/label.css",
    ] {
        let response = server.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    for path in ["/page/watch", "/v1/label/overview", "/v1/models"] {
        assert_eq!(server.get(path).send().await.unwrap().status(), 401, "{path}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pasted_and_dropped_texts_are_shown_as_text() {
    let server = Running::start(config()).await;
    let body = json!({"models": ["prm", "lm"], "problem": HOSTILE, "solutions": [format!("So $x^2$.\n\n{HOSTILE}"), "It is 5."], "answer": "5"});
    let html = server.request("/page/score", &body).send().await.unwrap().text().await.unwrap();
    assert!(html.contains("&lt;script&gt;") && html.contains("<math"), "{html}");
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    server
        .refused("/page/score", &json!({"models": ["none"], "problem": "p", "solutions": ["a"]}), 404)
        .await;

    let row = json!({"question": HOSTILE, "response": format!("One.\n\n{HOSTILE}"), "gold": "5"});
    let dropped = |path: &str, bytes: String| server.request(path, &Value::Null).body(bytes);
    let lines = format!("{row}\n{row}\n");
    let shown = dropped("/page/file?name=../../x.jsonl", lines.clone()).send().await.unwrap();
    assert_eq!(shown.status(), 200);
    let html = shown.text().await.unwrap();
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
    let scored =
        dropped("/page/file?name=x.jsonl&models=prm", lines).send().await.unwrap().text().await.unwrap();
    assert!(scored.contains("prm") && scored.len() > html.len());
    let refused = dropped("/page/file?name=x.parquet", "no parquet".to_owned()).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let message = refused.text().await.unwrap();
    assert!(!message.contains("/tmp"), "{message}");
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_survive_the_server() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("project");
    let problem =
        Problem { id: "p".into(), text: format!("What is $2 + 3$? {HOSTILE}"), ..Problem::default() };
    let solution = Solution {
        id: "s".into(),
        problem_id: "p".into(),
        steps: vec!["It is 6.".into()],
        ..Solution::default()
    };
    Project::create(&folder, vec![Record::new(problem, vec![solution])], Settings::default()).unwrap();
    let start = || Running::start(ServerConfig { label: Some(folder.clone()), ..config() });
    let server = start().await;
    let next = server.post("/v1/label/next", &json!({"annotator": "Ann"})).await;
    let task = &next["task"];
    let html = task["problem"]["html"].as_str().unwrap();
    assert!(html.contains("<math") && !html.contains("<script"), "{html}");
    let mut label = task["label"].clone();
    label["marks"] = json!(["incorrect"]);
    let save = json!({"annotator": "Ann", "item": task["item"], "revision": task["revision"], "label": label, "finished": true});
    server.post("/v1/label/save", &save).await;
    assert_eq!(server.ask("/v1/label/save", &save).await.0, 409, "it was based on an older revision");
    assert_eq!(server.ask("/v1/label/next", &json!({"annotator": ""})).await.0, 422);
    server.ended().await;
    let server = start().await;
    let text = |path: &'static str| async { server.get(path).send().await.unwrap().text().await.unwrap() };
    let overview: Value = serde_json::from_str(&text("/v1/label/overview").await).unwrap();
    assert_eq!(overview["done"], 1, "{overview}");
    let exported: Value =
        serde_json::from_str(text("/v1/label/export?format=gradus").await.lines().next().unwrap()).unwrap();
    assert_eq!(exported["solutions"][0]["annotations"][0]["first_error"], 0, "{exported}");
    assert_eq!(server.get("/v1/label/export?format=xml").send().await.unwrap().status(), 400);
    let watch = text("/page/watch").await;
    assert!(watch.contains("Jobs of this server") && watch.contains("prm"), "{watch}");
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_project_the_page_says_how_to_get_one() {
    let server = Running::start(config()).await;
    let message = server.refused("/v1/label/next", &json!({"annotator": "Ann"}), 404).await;
    assert!(message.contains("--label"), "{message}");
    server.ended().await;
}

const KEY: &str = "a-key-of-more-than-sixteen";
const READER: &str = "another-key-of-more-than-sixteen";

/// Keys of somebody who may manage jobs, and of somebody who may not.
fn two_keys(folder: &std::path::Path) -> Keys {
    let path = folder.join("keys.toml");
    let text = format!(
        "[[key]]\nname = \"boss\"\nkey = \"{KEY}\"\nmanage = true\n[[key]]\nname = \"reader\"\nkey = \"{READER}\"\n"
    );
    std::fs::write(&path, text).unwrap();
    Keys::read(&path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_started_from_the_page_with_a_key_that_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(ServerConfig { keys: two_keys(folder.path()), ..config() }).await;
    let bearer = |key: &str| format!("Bearer {key}");
    let watch = async |key: &str| {
        let asked = server.get("/page/watch").header("authorization", bearer(key)).send().await.unwrap();
        asked.text().await.unwrap()
    };
    assert!(watch(KEY).await.contains("data-generators=\"[&quot;lm&quot;]\""));
    assert!(!watch(READER).await.contains("data-generators"));
    let row = json!({"question": "What is 2 + 3?", "response": "2 + 3 = 5.\n\nSo 5.", "gold": "5"});
    let start = async |key: &str, query: &str, text: String| {
        let path = format!("/page/annotate?{query}");
        let asked = server.request(&path, &Value::Null).header("authorization", bearer(key)).body(text);
        let answer = asked.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    let query = "name=x.jsonl&method=monte_carlo&model=lm";
    let (status, refused) = start(READER, query, format!("{row}\n")).await;
    assert!(
        status == 403 && refused["error"]["message"].as_str().unwrap().contains("may not start"),
        "{refused}"
    );
    let unknown = json!({"question": "What?", "response": "That."});
    for (query, text, expected) in [
        (query, format!("{unknown}\n"), "has no answer"),
        (query, "[]".to_owned(), "no "),
        ("name=x.jsonl&method=monte_carlo&model=prm", format!("{row}\n"), "cannot generate"),
    ] {
        let (status, refused) = start(KEY, query, text).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(expected), "{message}");
    }
    let (status, job) = start(KEY, query, format!("{row}\n{row}\n")).await;
    assert_eq!((status, &job["total"]), (202, &json!(2)), "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let done = loop {
        let asked = server.get(&path).header("authorization", bearer(KEY)).send().await.unwrap();
        let job: Value = serde_json::from_str(&asked.text().await.unwrap()).unwrap();
        if job["status"] != "running" {
            break job;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(
        (&done["status"], done["result"]["records"].as_array().unwrap().len()),
        (&json!("done"), 2),
        "{done}"
    );
    assert!(watch(READER).await.contains("data-result"));
    server.ended().await;
}

/// A browser opens a page without a key: a ticket lets it in, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_a_page_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(ServerConfig { keys: two_keys(folder.path()), ..config() }).await;
    let ask = async |body: Value| {
        let asked = server.request("/page/ticket", &body).header("authorization", format!("Bearer {READER}"));
        asked.send().await.unwrap()
    };
    assert_eq!(
        server.request("/page/ticket", &json!({"path": "/watch/run/1"})).send().await.unwrap().status(),
        401
    );
    for path in ["/v1/models", "/watch/run/1?x", "/watch"] {
        assert_eq!(ask(json!({"path": path})).await.status(), 400, "{path}");
    }
    let text = ask(json!({"path": "/watch/pool/prm"})).await.text().await.unwrap();
    let opened: Value = serde_json::from_str(&text).unwrap();
    let path = opened["path"].as_str().unwrap();
    // It is let in, to hear that there is no pool; a second time it is not.
    assert_eq!(server.get(path).send().await.unwrap().status(), 400);
    assert_eq!(server.get(path).send().await.unwrap().status(), 401);
    assert_eq!(server.get("/watch/pool/prm").send().await.unwrap().status(), 401);
    server.ended().await;
}
