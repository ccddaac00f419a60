//! `gradus solve` with the tiny models of the engine's tests, and with a server that the test itself is. They solve
//! nothing: what is tested is that they are asked rightly, within the budget, and alike under the same seed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use gradus_llm::scripted::server::{Act, Server, replies};
use serde_json::{Value, json};

use super::endpoints::pooling;
use super::{Folder, model};

#[test]
fn a_search_keeps_its_budget_and_follows_its_seed() {
    let folder = Folder::new();
    let model = model("qwen2");
    for (strategy, options) in [
        ("beam", "--beam-width 2 --expansions 2 --max-steps 3 --max-step-tokens 24"),
        ("tree", "--trees 2 --expansions 2 --max-steps 3 --max-step-tokens 24"),
        ("vote", "-n 4 --max-tokens 40"),
    ] {
        let command = |seed: u64| {
            let line = format!(
                "solve 1+1? --strategy {strategy} {options} --model {model} --profile plain --separator e --budget 150 --seed {seed} --json"
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
    let chosen = |solution: &&&Value| solution["metadata"]["chosen"] == true;
    let chosen: Vec<&str> =
        solutions.iter().filter(chosen).filter_map(|found| found["id"].as_str()).collect();
    let report = folder.run("select solved.jsonl --by majority --json").json();
    let choices = report["choices"].as_array().unwrap().iter();
    let again: Vec<&str> = choices.filter_map(|choice| choice["majority"]["solution"].as_str()).collect();
    assert_eq!(chosen, again, "the same choice from the file");
    // A problem that does not fit the model ends the run, and what was found before it is kept.
    let (whole, world) = (folder.bytes("solved.jsonl"), folder.bytes("world.jsonl"));
    std::fs::remove_file(folder.path("solved.jsonl")).unwrap();
    let long = format!(r#"{{"gradus":1,"problem":{{"id":"long","text":"{}"}}}}"#, "1 + ".repeat(3000));
    folder.file("world.jsonl", [world.as_slice(), long.as_bytes()].concat());
    let said = folder.run(&command).fails(3);
    assert!(said.starts_with("gradus: long: the prompt takes") && said.contains("--on-error skip"), "{said}");
    assert!(!folder.path("solved.jsonl").exists());
    let report = folder.run(&format!("{command} --on-error skip")).json();
    assert_eq!((&report["resumed"], &report["refused"]), (&6.into(), &1.into()));
    assert_eq!(folder.bytes("solved.jsonl"), whole, "the same solutions");
    assert!(!folder.path("solved.jsonl.journal").exists());
}

#[test]
fn what_was_asked_with_seeds_is_asked_again_without() {
    let folder = Folder::new();
    let problem =
        |id: &str, text: &str| format!(r#"{{"gradus":1,"problem":{{"id":"{id}","text":"{text}"}}}}"#);
    folder.file("data.jsonl", [problem("a", "What is 2 + 3?"), problem("b", "What is 4 + 4?")].join("\n"));
    let server = Server::in_thread(|number, seen| match format!("{seen:?}").contains("4 + 4") {
        true => Act::Say(400, "", json!({"error": {"message": "stopped by our content filter"}}).to_string()),
        false => replies(|_, _, _| "The answer is 5.".to_owned())(number, seen),
    });
    let line = format!(
        "solve --data data.jsonl --strategy majority -n 2 -o solved.jsonl --endpoint {} --model served",
        server.url
    );
    assert_eq!(folder.run_at_home(&line).code, Some(3));
    assert!(folder.path("solved.jsonl.journal").exists(), "the first problem is solved");
    let resumed = |more: &str| {
        let copy = folder.bytes("solved.jsonl.journal");
        let report = folder.run_at_home(&format!("{line} {more} --on-error skip --json")).json();
        folder.file("solved.jsonl.journal", copy);
        (report["resumed"].clone(), report["refused"].clone())
    };
    assert_eq!(resumed("--no-request-seed"), (0.into(), 1.into()));
    assert_eq!(resumed(""), (1.into(), 1.into()));
}

#[test]
fn options_without_a_use_are_refused() {
    let folder = Folder::new();
    let lines = [
        "solve 1+1? --strategy greedy -n 4",
        "solve 1+1? --strategy greedy --temperature 1",
        "solve 1+1? --strategy beam --trees 2",
        "solve 1+1? --strategy tree --max-tokens 9",
        "solve 1+1? --strategy vote --max-step-tokens 9",
        "solve 1+1? --strategy majority --vote-power 2",
        "solve 1+1? --temperature=-1",
        "solve 1+1? --endpoint http://127.0.0.1:9 --profile plain",
        "solve 1+1? --strategy beam --endpoint http://127.0.0.1:9 --scorer x",
    ];
    let said: Vec<String> =
        lines.iter().map(|line| format!("$ gradus {line}\n{}", folder.run(line).fails(2))).collect();
    insta::assert_snapshot!("solve_faults", said.join("\n"));
}

/// A server. To a conversation it says 4, 4, 5, 4, 4, 5, …; in a text that it goes on with, one step after another.
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
            let answer = answer(&serde_json::from_slice(&body).unwrap()).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(reader.get_mut(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    address
}

fn answer(request: &Value) -> Value {
    let choice = |index: u64| {
        let mut choice = json!({"index": index, "finish_reason": "stop"});
        match request["prompt"].as_str() {
            None => {
                let number = if index % 3 == 2 { 5 } else { 4 };
                choice["message"] = json!({"content": format!("Add.\n\nThe answer is {number}.")});
            }
            Some(prompt) if prompt.ends_with("<|im_start|>assistant\n") => {
                choice["text"] = format!("Add, way {index}.").into();
            }
            Some(prompt) if prompt.ends_with(".\n\n") => choice["text"] = "The answer is 4.".into(),
            Some(prompt) => choice["text"] = format!("not a prompt to go on from: {prompt}").into(),
        }
        choice
    };
    let choices: Vec<Value> = (0..request["n"].as_u64().unwrap_or(1)).map(choice).collect();
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 8 * choices.len()});
    json!({"choices": choices, "usage": usage})
}

#[test]
fn a_server_proposes_and_the_majority_decides() {
    let folder = Folder::new();
    let line = format!("solve 2+2? --strategy majority -n 6 --endpoint {} --model served", serve());
    insta::assert_snapshot!("solve_endpoint", folder.run_at_home(&line).succeeds());
}

#[test]
fn a_server_is_given_the_template_and_the_steps_so_far() {
    let folder = Folder::new();
    let (address, model) = (serve(), model("qwen2"));
    let line = format!(
        "solve 2+2? --strategy beam --beam-width 2 --expansions 2 --endpoint {address} --template {model} --scorer {model} --json"
    );
    let outcome = folder.run_at_home(&line).json();
    assert_eq!(outcome["stopped"], "enough", "{outcome}");
    for found in outcome["solutions"].as_array().unwrap() {
        assert_eq!((&found["answer"], &found["complete"]), (&"4".into(), &true.into()), "{outcome}");
        assert_eq!(found["steps"].as_array().unwrap().len(), 2, "{outcome}");
        assert!(found["aggregate"].is_f64(), "{outcome}");
    }
}

#[test]
fn servers_propose_and_score() {
    let folder = Folder::with_world();
    let servers = [(); 2].map(|()| Server::in_thread(|_, seen| pooling(seen)));
    let line = format!(
        "solve --data world.jsonl --strategy best-of-n -n 3 --endpoint {0} --endpoint {0} --model served --concurrency 2 \
         --scorer-endpoint {1} --scorer-endpoint {2} --scorer prm --profile gradus -o solved.jsonl --json",
        serve(),
        servers[0].url,
        servers[1].url
    );
    let report = folder.run_at_home(&line).json();
    assert_eq!((&report["problems"], &report["scorer"]), (&6.into(), &"prm/gradus".into()), "{report}");
    assert!(servers.iter().any(|server| !server.seen().is_empty()));
    let rows = folder.rows("solved.jsonl");
    let first = &rows[0]["solutions"][0];
    assert_eq!(first["scores"]["prm/gradus"].as_array().unwrap().len(), 2, "{first}");
    let wrong = "solve 1+1? --endpoint http://127.0.0.1:9 --scorer-endpoint http://127.0.0.1:9 --scorer-api score --profile gradus";
    assert!(folder.run_at_home(wrong).fails(2).contains("omit --profile"));
}
