//! Benchmarks, on the synthetic world: recorded scores, tiny models, a server on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Folder, model, real_data};

/// The world with scores of two made-up reward models: one finds every first error, one is never sure.
fn scored_world() -> Folder {
    let folder = Folder::new();
    folder.run("synth -n 30 --solutions 2 --seed 7 -o world.jsonl").succeeds();
    let mut text = String::new();
    for (row, mut record) in folder.rows("world.jsonl").into_iter().enumerate() {
        for solution in record["solutions"].as_array_mut().unwrap() {
            let steps = solution["steps"].as_array().unwrap().len();
            let first = solution["annotations"][0]["first_error"].as_u64();
            let perfect = (0..steps).map(|step| if first == Some(step as u64) { 0.1 } else { 0.9 });
            let unsure = (0..steps).map(|step| 0.3 + 0.1 * ((7 * row + 3 * step) % 5) as f64);
            solution["scores"] =
                json!({ "perfect": perfect.collect::<Vec<_>>(), "unsure": unsure.collect::<Vec<_>>() });
        }
        text += &(record.to_string() + "\n");
    }
    folder.file("scored.jsonl", text);
    folder
}

fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" in ") {
        Some((before, after)) if after.ends_with(" s") => format!("{before} in … s"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An adapter, a profile or a pool describes a judge: without a model's name, too.
#[test]
fn a_judge_that_is_described_but_not_named_is_asked() {
    let folder = scored_world();
    let adapter = model("llama-lora");
    let command = format!("bench best-of-n scored.jsonl --limit 2 --adapter {adapter} -o run --json");
    let report = folder.run(&command).json();
    let scorers = report["numbers"]["best-of-n"]["sets"][0]["scorers"].as_array().unwrap();
    let names: Vec<&str> = scorers.iter().map(|scorer| scorer["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["llama + llama-lora/plain"]);
    for (options, words) in [
        ("--pool nowhere", "nowhere"),
        ("--profile nonsense", "profile `nonsense`"),
        ("--adapter nowhere", "nowhere"),
        ("--precision f32", "name it with --model"),
    ] {
        for benchmark in ["best-of-n", "labels"] {
            let done = folder.run(&format!("bench {benchmark} scored.jsonl {options} -o other"));
            assert!(done.code != Some(0) && done.stderr.contains(words), "{benchmark} {options}: {done}");
        }
    }
}

#[test]
fn recorded_scores_are_measured() {
    let folder = scored_world();
    let report = folder.run("bench processbench scored.jsonl --scores perfect -o perfect --json").json();
    assert_eq!((&report["schema"], &report["benchmark"]), (&json!(1), &json!("processbench")));
    let numbers = &report["numbers"]["processbench"];
    assert_eq!(numbers["average_f1"], json!({ "value": 1.0, "interval": [1.0, 1.0] }));
    assert_eq!(numbers["steps"]["roc_auc"], 1.0);
    assert_eq!(report["counts"]["undecided"], 0);
    assert_eq!(report["inputs"][0]["blake3"].as_str().unwrap().len(), 64);
    let shown = folder.run("bench processbench scored.jsonl --scores unsure -o unsure").succeeds();
    insta::assert_snapshot!(timeless(&shown));
    assert_eq!(
        folder.names("unsure"),
        ["facts.jsonl", "judged.jsonl", "lm-eval.json", "report.html", "report.json"]
    );
    let as_lm_eval: serde_json::Value =
        serde_json::from_slice(&folder.bytes("perfect/lm-eval.json")).unwrap();
    assert_eq!(as_lm_eval["results"]["processbench"]["f1,none"], 1.0);
    assert_eq!(as_lm_eval["n-samples"]["processbench"]["effective"], report["counts"]["samples"]);
    let page = String::from_utf8(folder.bytes("unsure/report.html")).unwrap();
    for part in
        ["F1 by subset", "Reliability", "F1 at other thresholds", "solutions judged wrongly", "BLAKE3"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "no network at view time");
}

/// Both rules are measured on the same scores, and a number is fitted on held-out labels.
#[test]
fn the_rule_that_does_not_decide_is_shown_and_a_number_is_fitted() {
    let folder = scored_world();
    let command = "bench processbench scored.jsonl --scores unsure -o run --json";
    let usual = folder.run(command).json();
    let posterior = folder.run(&format!("{command} --rule posterior")).json();
    assert_eq!(usual["settings"]["decision"], json!({"rule": "threshold", "threshold": 0.5}));
    assert_eq!(posterior["settings"]["decision"], json!({"rule": "posterior", "prior": 1.0}));
    let (one, other) = (&usual["numbers"]["processbench"], &posterior["numbers"]["processbench"]);
    assert_eq!(
        (&one["other_rule"]["average"], &other["other_rule"]["average"]),
        (&other["average_f1"], &one["average_f1"])
    );
    assert_eq!(
        (one["sweep"].as_array().unwrap().len(), one["prior_sweep"].as_array().unwrap().len()),
        (19, 41)
    );
    assert_eq!(one["sweep"], other["sweep"]);

    let fitted =
        folder.run("bench processbench scored.jsonl --scores unsure -o fit --rule posterior --fit mine.toml");
    assert!(fitted.fails(2).contains("these scores name none"));
    folder.run("bench processbench scored.jsonl --scores unsure -o fit --fit nowhere").fails(2);
    let text = String::from_utf8(folder.bytes("scored.jsonl")).unwrap();
    folder.file("named.jsonl", text.replace("\"unsure\"", "\"m/brief\""));
    let line =
        "bench processbench named.jsonl --scores m/brief -o named --rule posterior --fit mine.toml --json";
    let report = folder.run(line).json();
    let fitted = &report["settings"]["fitted"];
    let prior = fitted["prior"].as_f64().unwrap();
    let mine = String::from_utf8(folder.bytes("mine.toml")).unwrap();
    assert!(mine.contains(&format!("[decision]\nrule = \"posterior\"\nprior = {prior:?}\n")), "{mine}");
    let swept = report["numbers"]["processbench"]["prior_sweep"].as_array().unwrap();
    let f1 = |at: f64| swept.iter().find(|point| point["prior"] == at).unwrap()["average"].as_f64().unwrap();
    assert!(swept.iter().all(|point| point["average"].as_f64().unwrap() <= f1(prior)));

    // What is measured is not what is fitted on.
    let official = r#"{"id":"gsm8k-0","problem":"p","steps":["a"],"label":-1,"final_answer_correct":true,"generator":"g"}"#;
    folder.file("official.json", format!("[{official}]"));
    let said = folder.run("bench processbench official.json --scores x --fit mine.toml").fails(2);
    assert!(said.contains("would choose by what is measured"), "{said}");
    // That is known by the ids: other data may be in a file with a subset's name.
    folder.file("math.jsonl", folder.bytes("named.jsonl"));
    folder.run("bench processbench math.jsonl --scores m/brief -o math --fit again.toml --json").json();
    assert!(folder.path("again.toml").exists());
    for (line, words) in [
        ("prmbench scored.jsonl --scores unsure --prior 2", "each step is judged on its own"),
        ("best-of-n scored.jsonl --threshold 0.3", "looks for no first error"),
        ("labels scored.jsonl --rule posterior", "each step is judged on its own"),
        ("processbench scored.jsonl --critic --threshold 0.3", "names the first error itself"),
    ] {
        let said = folder.run(&format!("bench {line} -o refused")).fails(2);
        assert!(said.contains(words), "{line}: {said}");
    }
    let drift =
        folder.run("bench drift scored.jsonl --scores unsure --rule posterior -o drift --json").json();
    assert_eq!(drift["numbers"]["drift"]["decision"]["rule"], "posterior");
}

#[test]
fn runs_are_compared() {
    let folder = scored_world();
    folder.run("bench processbench scored.jsonl --scores unsure -o unsure").succeeds();
    folder.run("bench processbench scored.jsonl --scores perfect -o perfect").succeeds();
    let found = folder.run("bench compare unsure perfect --json").json();
    let differences = found["others"][0]["differences"].as_array().unwrap();
    let of = |number: &str| differences.iter().find(|found| found["number"] == number).unwrap();
    assert!(of("all/f1")["difference"]["value"].as_f64().unwrap() > 0.3);
    assert!(of("all/f1")["p"].as_f64().unwrap() < 0.01);
    let same = folder.run("bench compare perfect perfect").succeeds();
    assert!(same.contains("60 samples in both"), "{same}");
    assert!(folder.path("perfect/compare.html").exists());
    // Folders of one name are told apart.
    folder.run("bench processbench scored.jsonl --scores unsure -o unsure/run").succeeds();
    folder.run("bench processbench scored.jsonl --scores perfect -o perfect/run").succeeds();
    let named = folder.run("bench compare unsure/run perfect/run").succeeds();
    assert!(named.contains("perfect/run vs. unsure/run"), "{named}");
    // A text that two people labeled is there twice, and each label is compared with itself.
    let labeled = |id: &str, last: &str, first: serde_json::Value| {
        json!({ "gradus": 1, "problem": { "id": id, "text": "1 + 1 + 1?" }, "solutions": [{ "id": "same", "problem_id": id,
            "steps": ["1 + 1 = 2", "2 + 1 = 4"], "scores": { "mine": [0.9, 0.1] }, "annotations": [{ "first_error": first, "labels": [{ "mark": "correct", "source": "human" }, { "mark": last, "source": "human" }] }] }] })
    };
    folder.file(
        "twice.jsonl",
        format!("{}\n{}\n", labeled("a", "incorrect", json!(1)), labeled("b", "correct", json!("none"))),
    );
    folder.run("bench processbench twice.jsonl --scores mine -o twice").succeeds();
    let found = folder.run("bench compare twice twice --json").json();
    let other = &found["others"][0];
    assert_eq!(
        (&other["paired"], &other["only_first"], &other["only_other"]),
        (&json!(2), &json!(0), &json!(0))
    );
    for difference in other["differences"].as_array().unwrap() {
        assert_eq!(difference["difference"]["value"], json!(0.0), "{difference}");
    }
    // The same data in a file of another name.
    std::fs::copy(folder.path("scored.jsonl"), folder.path("copy.jsonl")).unwrap();
    folder.run("bench processbench copy.jsonl --scores perfect -o copied").succeeds();
    let apart = folder.run("bench compare perfect copied").fails(3);
    for words in ["60 samples in common", "(scored; copy)", "--reuse copied"] {
        assert!(apart.contains(words), "{apart}");
    }
    folder.run("bench drift scored.jsonl --scores perfect -o drift").succeeds();
    let mixed = folder.run("bench compare perfect drift");
    assert_eq!(mixed.code, Some(3));
    assert!(mixed.stderr.contains("only runs of one benchmark can be compared"), "{}", mixed.stderr);
}

#[test]
fn a_local_model_goes_on_where_it_was_killed() {
    let folder = Folder::new();
    folder.run("synth -n 200 --solutions 2 --seed 3 -o world.jsonl").succeeds();
    let line = format!(
        "bench processbench world.jsonl --model {} --profile plain -o run --json --max-batch-tokens 128",
        model("qwen2")
    );
    let words: Vec<&str> = line.split(' ').collect();
    let mut child = folder.command(&words).stdout(std::process::Stdio::null()).spawn().unwrap();
    let judged = || std::fs::read_to_string(folder.path("run/judged.jsonl")).unwrap_or_default();
    while judged().lines().count() < 10 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = judged();
    let kept = text.matches('\n').count();
    assert!(kept >= 10);
    let report = folder.run(&line).json();
    assert_eq!((&report["counts"]["samples"], &report["counts"]["resumed"]), (&json!(400), &json!(kept)));
    // Another benchmark of the same judge on the same data uses its answers, in a folder of its own.
    let drift = line.replace("processbench", "drift");
    assert_eq!(folder.run(&drift).code, Some(2));
    let drift = folder.run(&(drift.replace("-o run", "-o drift") + " --reuse run")).json();
    assert_eq!(drift["counts"]["resumed"], 400);
    // Another threshold asks nothing anew and the opinions are the same.
    let again = folder.run(&format!("{line} --threshold 0.3")).json();
    assert_eq!(again["counts"]["resumed"], 400);
    let whole = folder.run(&line.replace("-o run", "-o whole")).json();
    assert_eq!(whole["numbers"], report["numbers"], "a killed run ends with the numbers of one that was not");
}

#[test]
fn a_critic_that_cannot_be_read_is_undecided_and_wrong() {
    let folder = Folder::with_world();
    let line = format!(
        "bench processbench world.jsonl --critic --model {} --max-tokens 4 -o run --json",
        model("qwen2")
    );
    let report = folder.run(&line).json();
    assert_eq!((&report["counts"]["undecided"], &report["counts"]["truncated"]), (&json!(12), &json!(12)));
    assert_eq!(report["counts"]["reasons"]["cut off before a verdict"], 12);
    assert_eq!(report["numbers"]["processbench"]["average_accuracy"]["value"], 0.0);
}

#[test]
fn best_of_n_by_recorded_scores() {
    let folder = scored_world();
    let shown = folder.run("bench best-of-n scored.jsonl -o run").succeeds();
    insta::assert_snapshot!(timeless(&shown));
    assert_eq!(folder.rows("run/groups.jsonl").len(), 30);
    let page = String::from_utf8(folder.bytes("run/report.html")).unwrap();
    for part in ["scored: scores by outcome", "perfect: min score of right and wrong answers"] {
        assert!(page.contains(part), "{part}");
    }
}

/// As `select` does: an answer is found in the text, and graded where the data has no outcome.
#[test]
fn best_of_n_grades_what_has_no_outcome() {
    let folder = Folder::new();
    let solution = |n: u8, text: &str, score: f64| json!({ "id": format!("q/{n}"), "problem_id": "q", "steps": [text], "scores": { "prm": [score] } });
    let solutions = [
        solution(0, "The answer is 14.", 0.9),
        solution(1, "The answer is 20.", 0.2),
        solution(2, "The answer is 14.", 0.3),
        solution(3, "I give up.", 0.1),
    ];
    let problem = json!({ "id": "q", "text": "What is 2 + 3 * 4?", "answer": "14" });
    let record = json!({ "gradus": 1, "problem": problem, "solutions": solutions });
    folder.file("scored.jsonl", record.to_string() + "\n");
    let report = folder.run("bench best-of-n scored.jsonl -o run --resamples 10 --json").json();
    let set = &report["numbers"]["best-of-n"]["sets"][0];
    assert_eq!((&set["graded"], &set["unknown_outcomes"]), (&json!(3), &json!(1)));
    let chosen = folder.run("select scored.jsonl --by all --json").json();
    let last = |numbers: &Value| numbers.as_array().unwrap().last().unwrap()["value"].clone();
    for choice in ["pass", "majority", "chance"] {
        assert_eq!(last(&set[choice]), chosen[choice]["accuracy"], "{choice}");
    }
    assert_eq!((last(&set["majority"]), last(&set["chance"])), (json!(1.0), json!(0.5)));
}

#[test]
fn labels_against_injected_ones() {
    let folder = scored_world();
    let report = folder.run("bench labels scored.jsonl --scores perfect -o run --json").json();
    let perfect = &report["numbers"]["labels"]["annotators"]["perfect"];
    assert_eq!((&perfect["steps"]["accuracy"], &perfect["first_errors"]["f1"]), (&json!(1.0), &json!(1.0)));
}

/// Four models answer each problem; the first two are of one family.
fn many_models(folder: &Folder) {
    let mut text = String::new();
    for problem in 0..12 {
        let wrong = problem % 2 == 1;
        let answer = if wrong { "13" } else { "14" };
        let output = format!(
            "```json\n{{\"reasoning\": \"3 * 4 = 12. So it is {answer}.\", \"answer\": \"{answer}\"}}\n```"
        );
        let by =
            |model: &str| json!({ "model": model, "output": output, "answer": answer, "correct": !wrong });
        let models = ["Llama-3-8B", "Llama-3-70B", "Qwen2-7B", "gpt-4o"].map(by);
        let record = json!({ "id": format!("p{problem}"), "question": "What is 2 + 3 * 4?", "gold": "14", "solutions": models });
        text += &(record.to_string() + "\n");
    }
    folder.file("many.jsonl", text);
}

#[test]
fn a_preference_benchmark_is_built_and_run() {
    let folder = Folder::new();
    many_models(&folder);
    let shown = folder.run("bench preference build many.jsonl -o ops.jsonl").succeeds();
    insta::assert_snapshot!(shown);
    let rows = folder.rows("ops.jsonl");
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row["solutions"].as_array().unwrap().len() == 3));
    let line = format!("bench preference ops.jsonl --model {} --profile plain -o run --json", model("qwen2"));
    let report = folder.run(&line).json();
    let numbers = &report["numbers"]["preference"];
    assert_eq!(numbers["generators"].as_array().unwrap().len(), 3);
    assert_eq!(numbers["perplexity"]["solutions"], 36);
    let analyzed = folder.run("bench preference analyze run").succeeds();
    assert!(analyzed.contains("BI over deciles of perplexity"), "{analyzed}");
    assert!(folder.path("run/analysis.html").exists());
    let known = folder.run(&format!("perplexity --data ops.jsonl --model {} -o with.jsonl", model("qwen2")));
    known.succeeds();
    folder.run("bench preference analyze run --perplexities with.jsonl").succeeds();
}

/// Answers `/v1/steps/score` with 0.9 for every step, and refuses problems that mention 'refuse'.
fn score_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or_default() == 0 {
                            return;
                        }
                        if let Some((_, number)) = line.to_lowercase().split_once("content-length:") {
                            length = number.trim().parse().unwrap();
                        }
                        if line.trim().is_empty() {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let request: Value = serde_json::from_slice(&body).unwrap();
                    let scored = |steps: &Value| vec![0.9; steps.as_array().unwrap().len()];
                    let grouped = request["solutions"].as_array().map(|solutions| {
                        let step = |score: f64| json!({ "score": score });
                        let each = solutions.iter().map(|solution| {
                            let steps: Vec<Value> =
                                scored(&solution["steps"]).into_iter().map(step).collect();
                            json!({ "steps": steps })
                        });
                        json!({ "solutions": each.collect::<Vec<_>>() })
                    });
                    let (status, answer) = match request["problem"].as_str().unwrap().contains("refuse") {
                        true => ("400 Bad Request", json!({ "error": { "message": "I refuse" } })),
                        false => {
                            let one = || json!({ "scores": scored(&request["steps"]) });
                            ("200 OK", grouped.unwrap_or_else(one))
                        }
                    };
                    let answer = answer.to_string();
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        answer.len()
                    );
                    stream.write_all((head + &answer).as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

#[test]
fn a_servers_failures_count_against_it() {
    let folder = Folder::with_world();
    let mut rows = folder.rows("world.jsonl");
    rows[0]["problem"]["text"] = json!("refuse this");
    rows[0]["problem"]["context"] = json!([]);
    let text: String = rows.iter().map(|row| row.to_string() + "\n").collect();
    folder.file("world.jsonl", text);
    let line = format!(
        "bench processbench world.jsonl --endpoint {} --api score --model served -o run --json",
        score_server()
    );
    let report = folder.run_at_home(&line).json();
    assert_eq!((&report["counts"]["samples"], &report["counts"]["undecided"]), (&json!(12), &json!(2)));
    let reasons = report["counts"]["reasons"].as_object().unwrap();
    assert!(reasons.keys().any(|reason| reason.contains("I refuse")), "{reasons:?}");
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = scored_world();
    folder.file("bare.jsonl", "{\"gradus\":1,\"problem\":{\"id\":\"p\",\"text\":\"?\"}}\n");
    let lines = [
        "bench processbench scored.jsonl --scores nonsense",
        "bench processbench bare.jsonl",
        "bench prmbench scored.jsonl --scores perfect",
        "bench best-of-n world.jsonl",
        "bench labels world.jsonl",
        "bench preference build scored.jsonl -o ops.jsonl",
        "bench preference build scored.jsonl -o ops.jsonl --count 99",
        "bench preference analyze nowhere",
        "bench compare nowhere nowhere",
        "bench processbench scored.jsonl --endpoint ftp://x --model m",
    ];
    let mut said = String::new();
    for line in lines {
        let done = folder.run(line);
        assert_eq!(done.code, Some(3), "{line}: {}", done.stderr);
        assert_eq!(done.stderr.trim().lines().count(), 1, "{line}: {}", done.stderr);
        said += &format!("$ gradus {line}\n{}", done.stderr);
    }
    insta::assert_snapshot!(said);
}

/// The numbers that papers print for these models are near: `qwen_prm` chooses best on GSM8K by its last score, say.
#[test]
fn real_best_of_n() {
    let Some(data) = real_data() else { return };
    let folder = Folder::new();
    let path = data.join("best_of_n/math500_n32.jsonl.gz");
    let report =
        folder.run_args(&["bench", "best-of-n", path.to_str().unwrap(), "-o", "run", "--json"]).json();
    let set = &report["numbers"]["best-of-n"]["sets"][0];
    assert_eq!((&set["problems"], &set["candidates"]), (&json!(252), &json!(8064)));
    let last = |figures: &Value| figures.as_array().unwrap().last().unwrap()["value"].as_f64().unwrap();
    let pass = last(&set["pass"]);
    for choice in set["scorers"][0]["choices"].as_array().unwrap() {
        assert!(last(&set["chance"]) < last(&choice["best"]) && last(&choice["best"]) < pass);
    }
}
