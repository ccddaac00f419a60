//! Commands that run a model, with the tiny models of the engine's tests.

use serde_json::json;

use super::{Folder, model};

#[test]
fn steps_are_scored_and_written_into_the_dataset() {
    let folder = Folder::with_world();
    let command = format!(
        "score world.jsonl --model {} --profile plain --name tiny -o scored.jsonl --json",
        model("qwen2")
    );
    let report = folder.run(&command).json();
    assert_eq!(
        (&report["solutions"], &report["refused"], &report["resumed"]),
        (&12.into(), &0.into(), &0.into())
    );
    for row in folder.rows("scored.jsonl") {
        for solution in row["solutions"].as_array().unwrap() {
            let scores = solution["scores"]["tiny"].as_array().unwrap();
            assert_eq!(scores.len(), solution["steps"].as_array().unwrap().len());
            assert!(scores.iter().all(|score| (0.0..=1.0).contains(&score.as_f64().unwrap())));
        }
    }
    assert!(!folder.path("scored.jsonl.journal").exists());
    let apart = folder.run(&format!("{command} --no-tree-packing")).json();
    assert!(apart["tokens"].as_u64() > report["tokens"].as_u64(), "sharing saves tokens");
}

#[test]
fn the_first_suspected_error_is_marked() {
    let folder = Folder::with_world();
    let shown = folder
        .run(&format!("score world.jsonl --model {} --show 1 --threshold 1.0", model("qwen2")))
        .succeeds();
    assert!(shown.contains("◄ first suspected error"), "{}", shown);
    assert!(shown.contains("most probable first error: step"), "{}", shown);
    assert!(shown.contains("12 solutions scored"), "{}", shown);
    assert!(!shown.contains('\u{1b}'), "no colours where there is no terminal");
}

/// A rule of the profile decides, the command line decides over it, and scores do not depend on either.
#[test]
fn a_profile_has_a_decision_rule() {
    let folder = Folder::with_world();
    let plain =
        std::fs::read_to_string(format!("{}/../../assets/profiles/plain.toml", env!("CARGO_MANIFEST_DIR")))
            .unwrap();
    folder.file("mine.toml", format!("{plain}\n[decision]\nrule = \"posterior\"\nprior = 1e6\n"));
    let command = format!("score world.jsonl --model {} --json", model("qwen2"));
    let usual = folder.run(&format!("{command} --profile plain")).json();
    assert_eq!(usual["decision"], json!({"rule": "threshold", "threshold": 0.5}));
    let mine = folder.run(&format!("{command} --profile mine.toml")).json();
    assert_eq!(mine["decision"], json!({"rule": "posterior", "prior": 1e6}));
    // With such a prior no solution is right.
    assert_eq!((&mine["suspected"], mine.get("threshold")), (&json!(12), None));
    for (one, other) in usual["results"].as_array().unwrap().iter().zip(mine["results"].as_array().unwrap()) {
        assert_eq!(one["scores"], other["scores"]);
        let of = |result: &serde_json::Value| -> f64 {
            let steps = result["posterior"]["steps"].as_array().unwrap();
            steps.iter().chain([&result["posterior"]["none"]]).map(|share| share.as_f64().unwrap()).sum()
        };
        assert!((of(one) - 1.0).abs() < 1e-9 && (of(other) - 1.0).abs() < 1e-9);
    }
    let over = folder.run(&format!("{command} --profile mine.toml --rule threshold")).json();
    assert_eq!(over["decision"], usual["decision"]);
    let rare = folder.run(&format!("{command} --profile plain --prior 1e-300")).json();
    assert_eq!((&rare["decision"]["rule"], &rare["suspected"]), (&json!("posterior"), &json!(0)));
    for wrong in
        ["--threshold 0.5 --prior 2", "--rule posterior --threshold 0.5", "--rule threshold --prior 2"]
    {
        let said = folder.run(&format!("{command} --profile plain {wrong}")).fails(2);
        assert!(
            said.contains("--threshold is for --rule threshold and --prior for --rule posterior"),
            "{said}"
        );
    }
}

/// The failure of one solution costs no other one its scores.
#[test]
fn the_scores_beside_a_failure_are_kept() {
    let folder = Folder::new();
    let solution = |id: &str, step: &str| {
        format!(r#"{{"id":"{id}","problem_id":"p","steps":["2 + 3 = {id}","{step}"]}}"#)
    };
    let record = |solutions: [String; 3]| {
        let solutions = solutions.join(",");
        format!(r#"{{"gradus":1,"problem":{{"id":"p","text":"What is 2 + 3?"}},"solutions":[{solutions}]}}"#)
    };
    let first = record([solution("1", " "), solution("2", "So it is."), solution("3", "So it is.")]);
    let second = record(["4", "5", "6"].map(|id| solution(id, "So it is.")));
    folder.file("data.jsonl", format!("{first}\n{second}\n"));
    let command = format!("score data.jsonl --model {} --name tiny -o scored.jsonl", model("qwen2"));
    let said = folder.run(&command).fails(3);
    assert!(said.contains("step 1 is empty"), "{said}");
    let kept = String::from_utf8(folder.bytes("scored.jsonl.journal")).unwrap();
    assert_eq!(kept.lines().count(), 5, "{kept}");
    let report = folder.run(&format!("{command} --on-error skip --json")).json();
    assert_eq!((&report["resumed"], &report["refused"]), (&5.into(), &1.into()));
}

#[test]
fn a_run_that_was_cut_short_goes_on_where_it_was() {
    let folder = Folder::with_world();
    let world = String::from_utf8(folder.bytes("world.jsonl")).unwrap();
    let broken = world.clone() + "{\"gradus\": 1, \"problem\": {\"id\": \"x\"\n";
    folder.file("world.jsonl", &broken);
    let command = format!(
        "score world.jsonl --model {} --name tiny -o scored.jsonl --json --max-batch-tokens 64",
        model("qwen2")
    );
    let failed = folder.run(&command);
    assert_eq!(failed.code, Some(3), "{}", failed.stderr);
    assert!(!folder.path("scored.jsonl").exists());
    folder.file("world.jsonl", &world);
    // What was found before the broken record is not computed again; a torn last line does no harm.
    let journal = folder.bytes("scored.jsonl.journal");
    let lines = String::from_utf8(journal.clone()).unwrap().lines().count();
    let torn = [journal.as_slice(), b"{\"key\": \"to"].concat();
    // What another model, or the same in other arithmetic, has found under this name is none of it.
    folder.file("scored.jsonl.journal", &torn);
    assert_eq!(folder.run(&format!("{command} --precision f32")).json()["resumed"], 0);
    folder.file("scored.jsonl.journal", &torn);
    let report = folder.run(&command).json();
    assert_eq!(report["resumed"], lines);
    assert_eq!(report["solutions"], 12);
    assert!(!folder.path("scored.jsonl.journal").exists());
}

#[test]
fn unusable_models_and_profiles_are_named() {
    let folder = Folder::with_world();
    let said = |command: String, code: i32| {
        let done = folder.run(&command);
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        assert_eq!(done.stderr.trim().lines().count(), 1, "one sentence: {}", done.stderr);
        done.stderr
    };
    let qwen2 = model("qwen2");
    assert!(said("score world.jsonl --model no-such-model".to_owned(), 3).contains("no-such-model"));
    assert!(
        said(format!("score world.jsonl --model {qwen2} --profile nonsense"), 3)
            .contains("one of gradus, plain")
    );
    assert!(
        said(format!("score world.jsonl --model {qwen2} --profile skywork-prm"), 3).contains("value head")
    );
    assert!(said(format!("generate hello --model {}", model("bert-mean")), 3).contains("sentence encoder"));
    assert!(said("generate hello --model gradus-prm".to_owned(), 2).contains("writes no text"));
    assert!(said(format!("generate hello --model {qwen2} --schema {{"), 2).contains("not valid JSON"));
    if !cfg!(feature = "cuda") {
        assert!(said(format!("generate hello --model {qwen2} --device cuda"), 3).contains("without CUDA"));
    }
}

#[test]
fn text_follows_its_seed_and_its_schema() {
    let folder = Folder::new();
    let command = format!(
        "generate hello --model {} -n 2 --max-tokens 12 --temperature 1 --seed 3 --json",
        model("qwen2")
    );
    let (first, second) = (folder.run(&command), folder.run(&command));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.json()["choices"].as_array().unwrap().len(), 2);
    let command =
        format!("generate hello --model {} --max-tokens 200 --regex [0-9]{{3}}-[0-9]{{4}}", model("qwen2"));
    let number = folder.run(&command).succeeds();
    let number = number.trim();
    assert!(number.len() == 8 && number.as_bytes()[3] == b'-', "{number}");
}

/// Temporary files have names of their own: two outputs `v.…` do not share one, and no file of the user's is taken.
#[test]
fn embeddings_of_like_names_do_not_meet() {
    let folder = Folder::new();
    folder.file("v.unfinished", "mine");
    let embed = |output: &str| {
        folder.command(&["embed", "one", "two", "--model", &model("bert-mean"), "-o", output]).spawn()
    };
    let children = ["v.npy", "v.jsonl"].map(|output| embed(output).unwrap());
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(folder.bytes("v.npy").starts_with(b"\x93NUMPY"));
    assert_eq!(folder.rows("v.jsonl").len(), 2);
    assert_eq!(folder.bytes("v.unfinished"), b"mine");
    assert_eq!(folder.names("."), ["v.jsonl", "v.npy", "v.unfinished"]);
}

#[test]
fn texts_become_vectors() {
    let folder = Folder::new();
    folder.run(&format!("embed one two three --model {} -o v.npy", model("bert-mean"))).succeeds();
    let bytes = folder.bytes("v.npy");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    assert_eq!((bytes.len() - 10 - u16::from_le_bytes([bytes[8], bytes[9]]) as usize), 3 * 32 * 4);
    let lines = folder.run(&format!("embed one two --model {}", model("bert-mean"))).succeeds();
    assert_eq!(lines.lines().count(), 2);
}

#[test]
fn perplexity_is_written_beside_each_solution() {
    let folder = Folder::with_world();
    let command = format!("perplexity --data world.jsonl --model {} -o p.jsonl --json", model("qwen2"));
    let report = folder.run(&command).json();
    assert_eq!(report["solutions"], 12);
    for row in folder.rows("p.jsonl") {
        assert!(row["solutions"][0]["metadata"]["perplexity"].as_f64().unwrap() > 1.0);
    }
    let text = folder.run(&format!("perplexity hello --model {}", model("qwen2"))).succeeds();
    assert!(text.starts_with("perplexity "), "{text}");
}

/// Without a model's name, the reward model that the program carries.
#[test]
#[allow(clippy::print_stderr, reason = "says that it was not run")]
fn the_own_reward_model_finds_a_wrong_sign() {
    let folder = Folder::new();
    if folder.run("models path smollm2-135m").code != Some(0) {
        eprintln!("not run: smollm2-135m has not been pulled (make models)");
        return;
    }
    let problem = r#"{"id":"p","text":"Mira bakes 5 trays of 12 rolls. She sells 45 rolls and gives the rest to 3 neighbours in equal parts. How many rolls does each neighbour get?"}"#;
    let solution = |id: &str, sign: &str| {
        format!(
            r#"{{"id":"{id}","problem_id":"p","steps":["Mira bakes 5 * 12 = 60 rolls.","After selling 45 there are 60 {sign} 45 = 15 rolls left.","Each neighbour gets 15 / 3 = 5 rolls."]}}"#
        )
    };
    let (right, wrong) = (solution("right", "-"), solution("wrong", "+"));
    folder
        .file("rolls.jsonl", format!(r#"{{"gradus":1,"problem":{problem},"solutions":[{right},{wrong}]}}"#));
    folder.run("score rolls.jsonl -o scored.jsonl").succeeds();
    let scored = &folder.rows("scored.jsonl")[0]["solutions"];
    let scores = |solution: usize| -> Vec<f64> {
        let scores = scored[solution]["scores"]["gradus-prm"].as_array().unwrap();
        scores.iter().map(|score| score.as_f64().unwrap()).collect()
    };
    assert!(scores(0).iter().all(|score| *score > 0.5), "{:?}", scores(0));
    assert!(scores(1)[0] > 0.5 && scores(1)[1] < scores(0)[1] - 0.2, "{:?} {:?}", scores(0), scores(1));
    let refused = folder.run("score rolls.jsonl --model gradus-prm --adapter .");
    assert!(refused.stderr.contains("gradus-prm is itself an adapter"), "{refused}");
    let refused = folder.run("score rolls.jsonl --model gradus-prm --profile plain");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("the profile plain does not read"),
        "{refused}"
    );
    folder.run("score rolls.jsonl --profile gradus -o again.jsonl").succeeds();
    assert_eq!(folder.bytes("again.jsonl"), folder.bytes("scored.jsonl"));
    folder.run("synth -n 2 --seed 7 -o world.jsonl").succeeds();
    let critic = folder.run("bench processbench world.jsonl --model gradus-prm --critic");
    assert!(critic.stderr.contains("writes no critiques"), "{critic}");
}
