//! `gradus solve` with the tiny models of the engine's tests, and with a server that the test itself is. They solve
//! nothing: what is tested is that they are asked rightly, within the budget, and alike under the same seed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::Folder;
use super::engine::model;

#[test]
fn a_search_keeps_its_budget_and_follows_its_seed() {
    let folder = Folder::new();
    let model = model("qwen2");
    for (strategy, options) in [
        ("beam", "--width 2 --expansions 2 --max-steps 3 --step-tokens 24"),
        ("tree", "--trees 2 --expansions 2 --max-steps 3 --step-tokens 24"),
        ("vote", "-n 4 --max-tokens 40"),
    ] {
        let command = |seed: u64| {
            let line = format!(
                "solve 1+1? --strategy {strategy} {options} --model {model} --separator e --budget 150 --seed {seed} --json"
            );
            folder.run(&line)
        };
        let (first, again, other) = (command(1), command(1), command(2));
        assert_eq!(first.code, Some(0), "{first}");
        assert_eq!(first.stdout, again.stdout, "{strategy}");
        assert_ne!(first.stdout, other.stdout, "{strategy}");
        let outcome = first.json();
        let usage = &outcome["usage"];
        assert!((1..=150).contains(&usage["generated_tokens"].as_u64().unwrap()), "{strategy}: {usage}");
        assert!(usage["score_calls"].as_u64().unwrap() > 0, "{strategy}: {usage}");
        assert!(outcome["error"].is_null(), "{strategy}: {outcome}");
        for found in outcome["solutions"].as_array().unwrap() {
            let (steps, scores) = (found["steps"].as_array().unwrap(), found["scores"].as_array().unwrap());
            assert_eq!(steps.len(), scores.len(), "{strategy}: {found}");
            assert!(strategy == "vote" || steps.len() <= 3, "{strategy}: {found}");
        }
    }
}

#[test]
fn who_needs_no_scorer_loads_none() {
    let folder = Folder::new();
    // As a scorer, this one would be refused for its missing profile.
    let greedy = folder
        .run(&format!("solve 1+1? --strategy greedy --max-tokens 8 --model {} --json", model("qwen2")))
        .json();
    assert_eq!((&greedy["usage"]["score_calls"], &greedy["usage"]["undecided"]), (&0.into(), &0.into()));
    assert_eq!(greedy["usage"]["proposals"], 1);
    let scored = folder
        .run(&format!(
            "solve 1+1? --strategy greedy --max-tokens 8 --model {} --scorer {} --json",
            model("qwen2"),
            model("qwen2-prm")
        ))
        .json();
    assert_eq!(scored["usage"]["score_calls"], 1);
    assert_eq!(scored["solutions"][0]["steps"], greedy["solutions"][0]["steps"]);
    assert!(scored["solutions"][0]["aggregate"].is_f64(), "{scored}");
}

#[test]
fn a_dataset_is_solved_and_goes_on_where_it_was() {
    let folder = Folder::with_world();
    let command = format!(
        "solve --data world.jsonl --strategy majority -n 24 --max-tokens 160 --model {} -o solved.jsonl --json",
        model("qwen2")
    );
    let report = folder.run(&command).json();
    assert_eq!(
        (&report["problems"], &report["known"], &report["resumed"]),
        (&6.into(), &6.into(), &0.into())
    );
    let counted: u64 =
        ["right", "wrong", "unanswered", "undecided"].iter().map(|name| report[name].as_u64().unwrap()).sum();
    assert_eq!(counted, 6);
    assert!(!folder.path("solved.jsonl.journal").exists());
    let rows = folder.rows("solved.jsonl");
    let solutions: Vec<&Value> =
        rows.iter().flat_map(|row| row["solutions"].as_array().into_iter().flatten()).collect();
    assert!(!solutions.is_empty(), "24 samples of 160 tokens, and none has ended");
    assert!(solutions.iter().all(|solution| solution["metadata"]["strategy"] == "majority"));
    folder.run("data check solved.jsonl").succeeds();
    // The run, killed after its third problem: the journal has what it had found.
    let whole = folder.bytes("solved.jsonl");
    let broken = format!("{command} --budget 100 --on-error skip");
    folder.file("solved.jsonl.journal", "{\"key\": \"torn");
    assert_eq!(folder.run(&broken).json()["resumed"], 0);
    assert_ne!(folder.bytes("solved.jsonl"), whole);
    folder.run(&command).json();
    assert_eq!(folder.bytes("solved.jsonl"), whole, "the same seed, the same solutions");
}

#[test]
fn options_without_a_use_are_refused() {
    let folder = Folder::new();
    let lines = [
        "solve 1+1? --strategy greedy -n 4",
        "solve 1+1? --strategy greedy --temperature 1",
        "solve 1+1? --strategy beam --trees 2",
        "solve 1+1? --strategy tree --max-tokens 9",
        "solve 1+1? --strategy vote --step-tokens 9",
        "solve 1+1? --temperature -1",
        "solve 1+1? --endpoint http://127.0.0.1:9",
        "solve 1+1? --strategy beam --endpoint http://127.0.0.1:9 --scorer x",
    ];
    let said: Vec<String> = lines
        .iter()
        .map(|line| {
            let words: Vec<String> = line.split_whitespace().map(|word| word.replace("-1", "=-1")).collect();
            let line = words.join(" ").replace("temperature =", "temperature=");
            format!("$ gradus {line}\n{}", folder.run(&line).fails(2))
        })
        .collect();
    insta::assert_snapshot!("solve_faults", said.join("\n"));
}

/// Answers chat requests with as many samples as they ask for: 4, 4, 5, 4, 4, 5, …
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let request: Value = serde_json::from_slice(&body).unwrap();
            let said = |index: u64| format!("Add.\n\nThe answer is {}.", if index % 3 == 2 { 5 } else { 4 });
            let choice = |index: u64| json!({"index": index, "message": {"content": said(index)}, "finish_reason": "stop"});
            let choices: Vec<Value> = (0..request["n"].as_u64().unwrap_or(1)).map(choice).collect();
            let usage = json!({"prompt_tokens": 5, "completion_tokens": 8 * choices.len()});
            let answer = json!({"choices": choices, "usage": usage}).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(reader.get_mut(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    address
}

#[test]
fn a_server_proposes_and_the_majority_decides() {
    let folder = Folder::new();
    let line = format!("solve 2+2? --strategy majority -n 6 --endpoint {} --model served", serve());
    insta::assert_snapshot!("solve_endpoint", folder.run(&line).succeeds());
}
