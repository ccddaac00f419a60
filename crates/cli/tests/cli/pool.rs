//! `gradus pool`, and scoring with references, with the tiny models of the engine's tests.

use std::process::Stdio;

use gradus_retrieve::pool::PoolManifest;
use serde_json::Value;

use super::{Done, Folder, model};

/// A folder with a labelled world and a pool of most of it.
fn with_pool() -> Folder {
    let folder = Folder::new();
    folder.run("synth -n 24 --solutions 2 --seed 7 -o world.jsonl").succeeds();
    folder.run("synth -n 4 --solutions 2 --seed 8 -o others.jsonl").succeeds();
    let encoder = model("bert-mean");
    folder
        .run(&format!("pool build world.jsonl -o world.pool --encoder {encoder} --dimensions 8"))
        .succeeds();
    folder
}

fn numbers(rows: &[Value], field: &str) -> Vec<u64> {
    rows.iter().map(|row| row["excluded"][field].as_u64().unwrap()).collect()
}

#[test]
fn a_pool_is_built_grows_and_says_what_is_in_it() {
    let folder = with_pool();
    let stats = folder.run("pool stats world.pool --verify --json").json();
    assert_eq!((&stats["counts"]["questions"], &stats["counts"]["solutions"]), (&24.into(), &48.into()));
    assert_eq!((&stats["kept"], &stats["dimension"]), (&8.into(), &32.into()));
    assert_eq!(
        stats["correct"].as_u64().unwrap()
            + stats["incorrect"].as_u64().unwrap()
            + stats["neutral"].as_u64().unwrap(),
        stats["counts"]["steps"].as_u64().unwrap()
    );
    let shown = folder.run("pool stats world.pool").succeeds();
    assert!(shown.contains("8 of 32") && shown.contains("48 ("), "{shown}");
    let added = folder.run("pool add others.jsonl world.jsonl --pool world.pool --json").json();
    assert_eq!((&added["counts"]["questions"], &added["before"]["questions"]), (&28.into(), &24.into()));
    assert_eq!(added["dropped"]["known_solutions"], 48);
    let text = folder.run("pool add others.jsonl --pool world.pool").succeeds();
    assert!(text.contains("0 texts embedded") && text.contains("8 solutions already in the pool"), "{text}");
    for dimensions in ["all", "60%", "500"] {
        let encoder = model("bert-cls");
        let line = format!(
            "pool build others.jsonl -o {dimensions}.pool --encoder {encoder} --dimensions {dimensions} --json"
        );
        let built = folder.run(&line).json();
        let kept = built["dimension"].as_u64().unwrap();
        assert!(if dimensions == "60%" { kept < 32 } else { kept <= 32 }, "{dimensions}: {kept}");
    }
}

/// Runs command lines at once, and those that are refused because the pool is in use once more, one after another.
fn at_once(folder: &Folder, lines: &[String]) -> Vec<Done> {
    let start = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        folder.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = lines.iter().map(start).collect();
    let ended: Vec<Done> =
        running.into_iter().map(|child| Done::from(child.wait_with_output().unwrap())).collect();
    let again = |(done, line): (Done, &String)| match done.stderr.contains("is in use by another process") {
        true => {
            done.fails(3);
            folder.run(line)
        }
        false => done,
    };
    ended.into_iter().zip(lines).map(again).collect()
}

/// Of two additions at once the one that ended first was lost.
#[test]
fn additions_at_once_lose_nothing() {
    let folder = with_pool();
    let mut lines = Vec::new();
    for seed in 31..34 {
        folder.run(&format!("synth -n 5 --solutions 1 --seed {seed} -o {seed}.jsonl")).succeeds();
        lines.push(format!("pool add {seed}.jsonl --pool world.pool"));
    }
    at_once(&folder, &lines).into_iter().for_each(|done| drop(done.succeeds()));
    let stats = folder.run("pool stats world.pool --verify=all --json").json();
    assert_eq!(stats["counts"]["questions"], 24 + 15);
    assert_eq!(stats["verified"]["checked"], stats["verified"]["total"]);
    assert_eq!(folder.names("world.pool").len(), 8, "one generation");
    assert!(!folder.path("world.pool.embedded").exists());
}

/// Two builds took each other's vectors for their own, and the checksums matched.
#[test]
fn builds_at_once_do_not_mix_their_vectors() {
    let folder = Folder::new();
    let encoder = model("bert-mean");
    let mut lines = Vec::new();
    for (seed, count) in [(7, 24), (8, 30)] {
        folder.run(&format!("synth -n {count} --solutions 2 --seed {seed} -o {seed}.jsonl")).succeeds();
        lines.push(format!(
            "pool build {seed}.jsonl -o p.pool --encoder {encoder} --dimensions all --batch-size 4"
        ));
    }
    let done = at_once(&folder, &lines);
    assert_eq!(done.iter().filter(|done| done.code == Some(0)).count(), 1, "{}{}", done[0], done[1]);
    let refused = done.into_iter().find(|done| done.code != Some(0)).unwrap().fails(3);
    assert!(refused.ends_with("is there already: add to it, or remove it first"), "{refused}");
    let shown = folder.run("pool stats p.pool --verify=all").succeeds();
    assert!(shown.contains("embedded again: all vectors match"), "{shown}");
}

/// Changes the manifest of `world.pool`, checksum included.
fn forge(folder: &Folder, change: impl FnOnce(&mut PoolManifest)) {
    let mut manifest: PoolManifest =
        serde_json::from_slice(&folder.bytes("world.pool/manifest.json")).unwrap();
    change(&mut manifest);
    manifest.checksum.clear();
    let text = serde_json::to_string(&manifest).unwrap();
    manifest.checksum = blake3::hash(text.as_bytes()).to_hex().to_string();
    folder.file("world.pool/manifest.json", serde_json::to_vec(&manifest).unwrap());
}

#[test]
fn swapped_vectors_are_found_by_embedding_again() {
    let folder = with_pool();
    let stats = folder.run("pool stats world.pool --verify --json").json();
    assert_eq!(stats["verified"]["checked"], 32);
    assert!(stats["verified"]["largest_distance"].as_f64().unwrap() < 1e-3, "{stats}");
    let mut steps = folder.bytes("world.pool/steps.f32");
    steps.rotate_left(8 * 4);
    folder.file("world.pool/steps.f32", &steps);
    forge(&folder, |manifest| {
        manifest.files.get_mut("steps").unwrap().blake3 = blake3::hash(&steps).to_hex().to_string();
    });
    // Nothing is damaged.
    folder.run("pool stats world.pool").succeeds();
    for how in ["--verify", "--verify=4 --seed 3", "--verify=all"] {
        let said = folder.run(&format!("pool stats world.pool {how}")).fails(3);
        assert!(said.contains("vectors are not those of their texts"), "{how}: {said}");
    }
    let said = folder.run("pool stats world.pool --verify=some").stderr;
    assert!(said.contains("`some` is not a number or `all`"), "{said}");
}

/// A manifest from elsewhere named files outside of its folder, which `pool add` removed.
#[test]
fn a_foreign_pool_removes_nothing() {
    let folder = with_pool();
    folder.file("thesis.tex", "years of work");
    forge(&folder, |manifest| {
        let mut entry = manifest.files["steps"].clone();
        (entry.name, entry.bytes) = ("../thesis.tex".to_owned(), 2 << 30);
        manifest.files.insert("more".to_owned(), entry);
    });
    let said = folder.run("pool add others.jsonl --pool world.pool").fails(3);
    assert!(said.contains("names \"../thesis.tex\" as the file for \"more\", which no pool has"), "{said}");
    assert_eq!(folder.bytes("thesis.tex"), b"years of work");
}

#[test]
fn neighbours_are_found_and_the_targets_own_question_never() {
    let folder = with_pool();
    let first: Value = folder.rows("world.jsonl")[3].clone();
    let question = first["problem"]["text"].as_str().unwrap();
    let run = |more: &[&str]| {
        let mut arguments = vec!["pool", "search", question, "--pool", "world.pool", "-k", "3", "--json"];
        arguments.extend(more);
        folder.run_args(&arguments).json()
    };
    let found = run(&[]);
    assert_eq!((found["questions"].as_array().unwrap().len(), &found["excluded"]["exact"]), (3, &1.into()));
    assert!(
        found["references"]["questions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|other| other["question"] != question)
    );
    let open = run(&["--allow-duplicates"]);
    assert_eq!(open["questions"][0]["question"], first["problem"]["id"]);
    assert!((open["questions"][0]["similarity"].as_f64().unwrap() - 1.0).abs() < 1e-4);
    let step = first["solutions"][0]["steps"][0].as_str().unwrap();
    let steps = run(&["--step", step, "--allow-duplicates"]);
    assert_eq!(steps["references"]["steps"][0][0]["text"], step);
    for strategy in ["tf-idf", "random"] {
        let found = run(&["--strategy", strategy]);
        assert_eq!(found["questions"].as_array().unwrap().len(), 3, "{strategy}");
    }
    // Random references need no encoder.
    let found = run(&["--strategy", "random", "--encoder", "no-such-model"]);
    assert_eq!(found["questions"].as_array().unwrap().len(), 3);
    let shown = folder.run_args(&["pool", "search", question, "--pool", "world.pool"]).succeeds();
    assert!(shown.contains("1 exact"), "{shown}");
    // A whole file in one pass: the world's questions are its own, the others' are strangers.
    let line = "pool search --data world.jsonl others.jsonl --pool world.pool -o found.jsonl --json";
    let report = folder.run(line).json();
    let rows = folder.rows("found.jsonl");
    assert_eq!((rows.len(), &report["solutions"], &report["guarded"]), (56, &56.into(), &48.into()));
    assert!(numbers(&rows[..48], "exact").iter().all(|exact| *exact >= 1));
    assert!(numbers(&rows[..48], "own").iter().all(|own| *own == 1));
    for (row, solution) in rows
        .iter()
        .zip(folder.rows("world.jsonl").iter().flat_map(|r| r["solutions"].as_array().unwrap().clone()))
    {
        assert_eq!(
            (&row["id"], row["steps"].as_array().unwrap().len()),
            (&solution["id"], solution["steps"].as_array().unwrap().len())
        );
        assert!(
            row["steps"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|step| step.as_array().unwrap())
                .all(|from| from["question"] != solution["problem_id"])
        );
    }
}

#[test]
fn scores_with_references_say_what_they_saw_and_do_not_depend_on_packing() {
    let folder = with_pool();
    let score = |name: &str, more: &str| {
        let model = model("qwen2");
        let line = format!("score others.jsonl --model {model} --name {name} -o {name}.jsonl --json {more}");
        (folder.run(&line).json(), folder.rows(&format!("{name}.jsonl")))
    };
    let (report, rows) = score("packed", "--pool world.pool");
    assert_eq!((&report["profile"], &report["retrieval"]["targets"]), (&"retrieval-prm".into(), &8.into()));
    let (apart, unpacked) = score("apart", "--pool world.pool --no-tree-packing");
    assert!(apart["tokens"].as_u64() > report["tokens"].as_u64(), "sharing saves tokens");
    let (_, plain) = score("plain", "");
    let (_, only_steps) = score("only-steps", "--pool world.pool -k 0");
    let mut differences = [0, 0];
    for (index, row) in rows.iter().enumerate() {
        for (number, solution) in row["solutions"].as_array().unwrap().iter().enumerate() {
            let of = |rows: &[Value], name: &str| rows[index]["solutions"][number]["scores"][name].clone();
            let packed = of(&rows, "packed");
            for (a, b) in packed.as_array().unwrap().iter().zip(of(&unpacked, "apart").as_array().unwrap()) {
                assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5, "{a} {b}");
            }
            differences[0] += usize::from(packed != of(&plain, "plain"));
            differences[1] += usize::from(packed != of(&only_steps, "only-steps"));
            let seen = &solution["metadata"]["retrieval"]["packed"];
            assert_eq!(seen["questions"].as_array().unwrap().len(), 2);
            assert_eq!(seen["steps"].as_array().unwrap().len(), solution["steps"].as_array().unwrap().len());
            assert!(seen["nearest"].as_f64().unwrap() <= 1.0 && solution.get("references").is_none());
        }
    }
    assert_eq!(differences, [8, 8], "references change every solution's scores");
    let shown = folder
        .run(&format!("score others.jsonl --model {} --pool world.pool --show 1", model("qwen2")))
        .succeeds();
    assert!(
        shown.contains("  reference  ") && shown.contains("nearest step") && shown.contains("leak guard"),
        "{shown}"
    );
}

#[test]
fn a_benchmark_with_references_reports_the_guard() {
    let folder = with_pool();
    let line = format!(
        "bench processbench world.jsonl --model {} --pool world.pool -o run --resamples 20 --json",
        model("qwen2")
    );
    let report = folder.run(&line).json();
    let retrieval = &report["settings"]["retrieval"];
    assert_eq!(
        (&retrieval["found"]["guarded"], &retrieval["settings"]["questions"]),
        (&48.into(), &2.into())
    );
    assert_eq!(report["counts"]["resumed"], 0);
    assert_eq!(folder.run(&line).json()["counts"]["resumed"], 48);
}

#[test]
fn examples_are_conversations_or_records_with_every_ablation() {
    let folder = with_pool();
    let examples = |name: &str, more: &str| {
        let line = format!("pool examples others.jsonl --pool world.pool -o {name}.jsonl --json {more}");
        (folder.run(&line).json(), folder.rows(&format!("{name}.jsonl")))
    };
    let (report, rows) = examples("both", "");
    assert_eq!(report["examples"].as_u64().unwrap() as usize, rows.len());
    let wrong = rows.iter().filter(|row| row["messages"][2]["content"] == "-").count();
    assert!(wrong > 0 && report["wrong"] == wrong);
    let told = |row: &Value| row["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(
        rows.iter().all(|row| told(row).starts_with("Reference Question 1:")
            && told(row).contains("\nReference Step 1:\n"))
    );
    let (_, steps) = examples("steps", "-k 0");
    assert!(
        steps
            .iter()
            .all(|row| told(row).starts_with("Target Question:")
                && told(row).contains("\nReference Step 1:\n"))
    );
    let (_, questions) = examples("questions", "-r 0 -k 1");
    assert!(questions.iter().all(|row| told(row).contains("Reference Question 1:")
        && !told(row).contains("Reference Question 2:")
        && !told(row).contains("Reference Step")));
    let (_, neither) = examples("neither", "-k 0 -r 0");
    assert!(neither.iter().all(|row| told(row).starts_with("Question:\n")));
    assert_eq!((rows.len(), rows.len()), (steps.len(), neither.len()));
    // Records carry their references, and are scored and trained on with them.
    examples("records", "--as records");
    let qwen = model("qwen2");
    folder
        .run(&format!("score records.jsonl --model {qwen} --profile retrieval-prm --name a -o a.jsonl"))
        .succeeds();
    folder
        .run(&format!("score others.jsonl --model {qwen} --pool world.pool --name b -o b.jsonl"))
        .succeeds();
    assert_eq!(folder.rows("a.jsonl").len(), folder.rows("b.jsonl").len());
    for (a, b) in folder.rows("a.jsonl").iter().zip(&folder.rows("b.jsonl")) {
        assert_eq!(a["solutions"][0]["scores"]["a"], b["solutions"][0]["scores"]["b"]);
    }
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = with_pool();
    let (encoder, scorer) = (model("bert-cls"), model("qwen2"));
    let steps = folder.bytes("world.pool/steps.f32");
    folder.file("world.pool/steps.f32", &steps[..steps.len() - 4]);
    let cut = folder.run("pool stats world.pool");
    folder.file("world.pool/steps.f32", {
        let mut s = steps.clone();
        s[9] ^= 1;
        s
    });
    let damaged = folder.run("pool stats world.pool");
    folder.file("world.pool/steps.f32", &steps);
    folder.run("pool stats world.pool").succeeds();
    folder.file("nothing.jsonl", "{\"problem\": \"What is 1 + 1?\", \"answer\": \"2\"}\n");
    let lines = [
        "pool stats nowhere.pool".to_owned(),
        format!("pool build world.jsonl -o world.pool --encoder {encoder}"),
        format!("pool build world.jsonl -o world.pool --encoder {encoder} --replace"),
        format!("pool map world.jsonl others.jsonl --encoder {encoder} --layout pca --perplexity 9"),
        format!("pool build nothing.jsonl -o new.pool --encoder {encoder}"),
        format!("pool build world.jsonl -o new.pool --encoder {encoder} --dimensions none"),
        "pool build world.jsonl -o new.pool --encoder no-such-model".to_owned(),
        format!("pool search question --pool world.pool --encoder {encoder}"),
        "pool search --pool world.pool".to_owned(),
        "pool search question --pool world.pool --near 0.1".to_owned(),
        format!("score others.jsonl --model {scorer} --pool world.pool --profile plain"),
        format!("score others.jsonl --model {scorer} --pool world.pool -k 0 -r 0"),
        format!("score others.jsonl --model {scorer} -k 3"),
        "pool examples others.jsonl --pool world.pool -o out.jsonl --profile math-shepherd".to_owned(),
        "pool examples others.jsonl --pool world.pool -o out.jsonl --as records --skip-neutral".to_owned(),
    ];
    let mut said = String::new();
    for (line, done) in [("(cut)", cut), ("(damaged)", damaged)] {
        said += &format!("{line}\n  {:?} {}\n", done.code, done.stderr.trim());
    }
    for line in &lines {
        let done = folder.run(line);
        let stderr = done
            .stderr
            .replace(&encoder, "ENCODER")
            .replace(&scorer, "SCORER")
            .replace(&model("bert-mean"), "MEAN");
        let first = stderr.trim().lines().next().unwrap_or_default().to_owned();
        said += &format!(
            "{}\n  {:?} {first}\n",
            line.replace(&encoder, "ENCODER").replace(&scorer, "SCORER"),
            done.code
        );
    }
    insta::assert_snapshot!(said);
    assert!(!folder.path("new.pool").exists());
}

#[test]
fn a_map_says_how_far_apart_datasets_are() {
    let folder = with_pool();
    let encoder = model("bert-mean");
    let line =
        format!("pool map world.jsonl others.jsonl --encoder {encoder} --questions 20 --steps 12 --json");
    let report = folder.run(&line).json();
    let pairs = report["questions"].as_array().unwrap();
    assert_eq!((pairs.len(), report["steps"].as_array().unwrap().len()), (4, 4));
    // Sets are cut to the smaller one's size.
    assert!(pairs.iter().all(|pair| pair["count"] == 4));
    assert!(report["datasets"].as_array().unwrap().iter().all(|set| set["steps"] == 12));
    let page = String::from_utf8(folder.bytes("map.html")).unwrap();
    assert!(page.contains("Question shift") && page.contains("<circle"), "a picture");
    let shown = folder
        .run(&format!(
            "pool map world.jsonl others.jsonl --encoder {encoder} --layout pca --steps 0 -o p.html"
        ))
        .succeeds();
    assert!(shown.contains("world → others") && !shown.contains("NEAREST STEP"), "{shown}");
    folder.file("empty.jsonl", "");
    let said = folder.run(&format!("pool map world.jsonl empty.jsonl --encoder {encoder}"));
    assert_eq!(said.stderr.trim().lines().count(), 1, "{}", said.stderr);
    assert_ne!(said.code, Some(0));
}
