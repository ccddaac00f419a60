//! Models behind servers in every command: several endpoints, several solutions in one request, a killed run that
//! resumes, and options that are refused in one sentence.

use std::process::Stdio;
use std::time::{Duration, Instant};

use gradus_llm::scripted::server::{Act, Seen, Server, replies};
use serde_json::{Value, json};

use super::Folder;

/// The tag of the profile `gradus`, after each step.
const TAG: &str = "<file_sep>";

/// The prompts of a request to `/pooling`.
fn prompts(seen: &Seen) -> Vec<&str> {
    match &seen.body["input"] {
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        text => text.as_str().into_iter().collect(),
    }
}

/// A reward model with the profile `gradus` behind `/pooling`: every step is right with the same probability.
pub(super) fn pooling(seen: &Seen) -> Act {
    if seen.path != "/pooling" {
        return Act::Say(404, "", json!({ "error": { "message": "no such path" } }).to_string());
    }
    let prompts = prompts(seen);
    let rows = |(index, text): (usize, &&str)| json!({ "index": index, "data": vec![[0.25, 0.75]; text.matches(TAG).count()] });
    let data: Vec<Value> = prompts.iter().enumerate().map(rows).collect();
    Act::ok(&json!({ "data": data, "usage": { "prompt_tokens": 10 * prompts.len() } }))
}

fn server() -> Server {
    Server::in_thread(|_, seen| pooling(seen))
}

/// Each solution of a file with its scores of this name.
fn scored(folder: &Folder, file: &str, name: &str) -> usize {
    let rows = folder.rows(file);
    let solutions = rows.iter().flat_map(|row| row["solutions"].as_array().unwrap());
    let has = |solution: &&Value| {
        let scores = solution["scores"][name].as_array();
        scores.is_some_and(|scores| scores.len() == solution["steps"].as_array().unwrap().len())
    };
    solutions.filter(has).count()
}

#[test]
fn two_endpoints_score_and_solutions_travel_together() {
    let folder = Folder::with_world();
    let servers = [server(), server()];
    let line = format!(
        "score world.jsonl --endpoint {} --endpoint {} --model prm --profile gradus -o scored.jsonl --json",
        servers[0].url, servers[1].url
    );
    let report = folder.run_at_home(&line).json();
    assert_eq!(
        (&report["model"], &report["profile"], &report["solutions"], &report["tokens"]),
        (&json!("prm"), &json!("gradus"), &json!(12), &json!(120))
    );
    assert_eq!(scored(&folder, "scored.jsonl", "prm/gradus"), 12);
    assert!(!folder.path("scored.jsonl.journal").exists());
    let seen: Vec<Seen> = servers.iter().flat_map(Server::seen).collect();
    assert!(servers.iter().all(|server| !server.seen().is_empty()), "both share the work");
    assert!(seen.len() <= 6, "{} requests for 12 solutions", seen.len());
    assert_eq!(seen.iter().map(|seen| prompts(seen).len()).sum::<usize>(), 12, "nothing is asked twice");
    // The same prompts again come from the cache.
    folder.run_at_home(&line.replace("scored.jsonl", "again.jsonl")).json();
    assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), seen.len());
    assert_eq!(folder.bytes("again.jsonl"), folder.bytes("scored.jsonl"));
}

#[test]
fn a_run_over_an_endpoint_is_alone_and_resumes_when_killed() {
    let folder = Folder::with_world();
    let last = folder.rows("world.jsonl")[5]["problem"]["text"].as_str().unwrap().to_owned();
    let hanging =
        Server::in_thread(move |_, seen| match prompts(seen).iter().any(|text| text.contains(&last)) {
            true => Act::Hang,
            false => pooling(seen),
        });
    let line = |server: &Server, output: &str| {
        format!(
            "score world.jsonl --endpoint {} --model prm --profile gradus --no-cache -o {output} --json",
            server.url
        )
    };
    let command = line(&hanging, "scored.jsonl");
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut child = folder.command(&words).env("GRADUS_HOME", folder.path("home")).spawn().unwrap();
    let (journal, begun) = (folder.path("scored.jsonl.journal"), Instant::now());
    let kept = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    while kept() < 8 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} solutions are kept", kept());
        std::thread::sleep(Duration::from_millis(10));
    }
    // A second run into the same output asks for nothing and leaves the first one's journal alone.
    let other = server();
    let refused = folder.run_at_home(&line(&other, "scored.jsonl")).fails(3);
    assert!(refused.contains("scored.jsonl.journal: is in use by another process"), "{refused}");
    assert_eq!((other.seen().len(), kept()), (0, 8));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!folder.path("scored.jsonl").exists());
    // The model's name identifies it, so another server of it goes on.
    let report = folder.run_at_home(&line(&other, "scored.jsonl")).json();
    assert_eq!((&report["solutions"], &report["resumed"]), (&json!(12), &json!(8)));
    assert_eq!(other.seen().iter().map(|seen| prompts(seen).len()).sum::<usize>(), 4);
    folder.run_at_home(&line(&other, "whole.jsonl")).json();
    assert_eq!(folder.bytes("scored.jsonl"), folder.bytes("whole.jsonl"));
}

/// A file of problems with so many solutions each; the steps of a solution have its number.
fn many_solutions(folder: &Folder, problems: usize, solutions: usize) {
    let mut text = String::new();
    for problem in 0..problems {
        let solution = |number: usize| {
            json!({ "id": format!("{problem}-{number}"), "problem_id": problem.to_string(),
                    "steps": [format!("Solution {problem}-{number}."), "So it is."] })
        };
        let solutions: Vec<Value> = (0..solutions).map(solution).collect();
        let problem = json!({ "id": problem.to_string(), "text": format!("Problem {problem}?") });
        text += &json!({ "gradus": 1, "problem": problem, "solutions": solutions }).to_string();
        text += "\n";
    }
    folder.file("many.jsonl", text);
}

fn journaled(folder: &Folder) -> usize {
    std::fs::read_to_string(folder.path("scored.jsonl.journal")).map_or(0, |text| text.lines().count())
}

/// A problem with many solutions is asked about in several calls, whose scores are kept as they come.
#[test]
fn a_kill_in_the_middle_of_a_problem_costs_what_was_in_flight() {
    let folder = Folder::new();
    many_solutions(&folder, 1, 40);
    let hanging =
        Server::in_thread(|_, seen| match prompts(seen).iter().any(|text| text.contains("Solution 0-39.")) {
            true => Act::Hang,
            false => pooling(seen),
        });
    let line = format!(
        "score many.jsonl --endpoint {} --model prm --profile gradus --no-cache -o scored.jsonl",
        hanging.url
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut child = folder.command(&words).env("GRADUS_HOME", folder.path("home")).spawn().unwrap();
    let begun = Instant::now();
    while journaled(&folder) < 32 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} solutions are kept", journaled(&folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_other_calls_found_is_kept_when_one_fails() {
    let folder = Folder::new();
    many_solutions(&folder, 2, 8);
    let server =
        Server::in_thread(|_, seen| match prompts(seen).iter().any(|text| text.contains("Solution 0-")) {
            true => Act::Late(Duration::from_millis(500), "no JSON".to_owned()),
            false => pooling(seen),
        });
    let line = format!(
        "score many.jsonl --endpoint {} --model prm --profile gradus --no-cache --retries 0 -o scored.jsonl",
        server.url
    );
    folder.run_at_home(&line).fails(3);
    assert_eq!(journaled(&folder), 8);
}

#[test]
fn what_cannot_work_is_refused_in_one_sentence() {
    let folder = Folder::with_world();
    let endpoint = "score world.jsonl --endpoint http://127.0.0.1:9 --model prm --retries 0";
    for (options, code, words) in [
        ("--profile math-shepherd", 2, "--tokenizer"),
        ("--profile nonsense", 3, "nonsense"),
        ("--api score --profile gradus", 2, "omit --profile"),
        ("--api chat", 2, "gives no scores"),
        ("--api completions", 2, "--tokenizer"),
        ("--key-env NO_SUCH_KEY", 3, "NO_SUCH_KEY"),
        ("--prices nowhere.toml", 3, "--prices"),
        ("--profile gradus -o scored.jsonl", 3, "Rerun to resume"),
    ] {
        let said = folder.run_at_home(&format!("{endpoint} {options}")).fails(code);
        assert!(said.contains(words), "{options}: {said}");
        assert!(!folder.path("scored.jsonl").exists(), "{options}");
    }
    // A server that answers nothing any more ends the run also where single solutions may fail.
    let skip = format!("{endpoint} --profile gradus --on-error skip -o scored.jsonl");
    let done = folder.run_at_home(&skip);
    assert_eq!(done.code, Some(3), "{done}");
    assert!(done.stderr.contains("Stopped after 8 consecutive failures"), "{done}");
    assert!(!folder.path("scored.jsonl").exists());
    // What belongs to a local model, or needs an endpoint, is no option here.
    for options in ["--adapter x", "--precision f32", "--no-tree-packing"] {
        let done = folder.run_at_home(&format!("{endpoint} {options}"));
        assert_eq!(done.code, Some(2), "{done}");
    }
    assert_eq!(folder.run_at_home("score world.jsonl --requests-per-minute 5").code, Some(2));
    let local = "omit them with --endpoint";
    for (line, words) in [
        ("score world.jsonl --endpoint http://127.0.0.1:9 --model m --max-batch-tokens 64", local),
        ("score world.jsonl --endpoint http://127.0.0.1:9 --model m --device cpu", local),
        ("generate hi --endpoint http://127.0.0.1:9 --model m --device cpu", local),
        ("embed hi --endpoint http://127.0.0.1:9 --model m --max-batch-tokens 64", local),
        ("bench processbench world.jsonl --endpoint http://127.0.0.1:9 --model m --device cpu", local),
        ("generate hi --concurrency 2", "use it with --endpoint"),
        ("embed hi --concurrency 2", "use it with --endpoint"),
        ("perplexity hi --concurrency 2", "use it with --endpoint"),
    ] {
        let said = folder.run_at_home(line).fails(2);
        assert!(said.contains(words), "{line}: {said}");
    }
}

#[test]
fn a_benchmark_over_two_endpoints_with_a_profile() {
    let folder = Folder::with_world();
    let servers = [server(), server()];
    let line = format!(
        "bench processbench world.jsonl --endpoint {} --endpoint {} --model prm --profile gradus --concurrency 2 -o run --json",
        servers[0].url, servers[1].url
    );
    let report = folder.run_at_home(&line).json();
    assert_eq!((&report["judge"], &report["settings"]["profile"]), (&json!("prm/gradus"), &json!("gradus")));
    assert_eq!((&report["counts"]["samples"], &report["counts"]["undecided"]), (&json!(12), &json!(0)));
    let asked: usize = servers.iter().map(|server| server.seen().len()).sum();
    let again = folder.run_at_home(&line).json();
    assert_eq!(again["counts"]["resumed"], 12);
    assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), asked);
    let refused =
        format!("bench processbench world.jsonl --endpoint {} --api chat --profile gradus", servers[0].url);
    assert!(folder.run_at_home(&refused).fails(2).contains("omit --profile"));
}

#[test]
fn text_and_vectors_come_from_servers_too() {
    let folder = Folder::new();
    let chat = Server::in_thread(replies(|prompt, sample, _| format!("{prompt} is {sample}")));
    let line = format!("generate 1+1? --endpoint {} --model m -n 2", chat.url);
    let said = folder.run_at_home(&line).succeeds();
    assert!(said.contains("── sample 1 ──\n") && said.contains("is 1"), "{said}");
    let one = folder.run_at_home(&format!("generate 1+1? --endpoint {} --model m", chat.url)).succeeds();
    assert!(one.ends_with("is 0\n"), "{one}");
    let vectors = Server::in_thread(|_, seen| {
        let texts = seen.body["input"].as_array().map_or(1, Vec::len);
        let data: Vec<Value> =
            (0..texts).map(|index| json!({ "index": index, "embedding": [1.0, index] })).collect();
        Act::ok(&json!({ "data": data, "usage": { "prompt_tokens": texts } }))
    });
    let line = format!("embed a b --endpoint {} --model m", vectors.url);
    let rows: Vec<Value> =
        folder.run_at_home(&line).succeeds().lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(
        rows,
        [json!({ "text": "a", "embedding": [1.0, 0.0] }), json!({ "text": "b", "embedding": [1.0, 1.0] })]
    );
}

#[test]
fn servers_in_a_file_come_and_go() {
    let folder = Folder::with_world();
    let busy = Server::in_thread(|_, _| Act::Say(503, "", "busy".to_owned()));
    let other = server();
    let list = folder.path("servers.txt");
    std::fs::write(&list, format!("# where the model is\n{}\n", busy.url)).unwrap();
    let line =
        "score world.jsonl --endpoints servers.txt --model prm --profile gradus -o scored.jsonl --json";
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&words);
    command.env("GRADUS_HOME", folder.path("home")).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while busy.seen().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Half a list changes nothing.
    std::fs::write(&list, "http").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    std::fs::write(&list, format!("{}\n", other.url)).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("servers.txt:1: expected the address of a server"), "{said}");
    assert!(said.contains("servers.txt: 1 server came, 1 server went"), "{said}");
    assert_eq!(scored(&folder, "scored.jsonl", "prm/gradus"), 12);
    assert_eq!(other.seen().iter().map(|seen| prompts(seen).len()).sum::<usize>(), 12);
    let line = line.replace("--model prm ", "").replace("scored.jsonl", "other.jsonl");
    assert!(folder.run_at_home(&line).fails(2).contains("name their model with --model"));
}
