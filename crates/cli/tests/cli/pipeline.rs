//! Every command on a small synthetic world, as a person and as a machine would read it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Done, Folder};

#[test]
fn synth() {
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run("synth -n 6 --solutions 2 --seed 7 -o world.jsonl"));
    insta::assert_snapshot!(folder.run("synth -n 1 --solutions 1 --wrong 0 --seed 7 -o one.jsonl --json"));
    assert_eq!(folder.rows("world.jsonl").len(), 6);
    let again = folder.run("synth -n 6 --solutions 2 --seed 7");
    assert_eq!(again.stdout.as_bytes(), folder.bytes("world.jsonl"), "the same seed writes the same world");
    insta::assert_snapshot!(again.stderr);
}

/// Every container gives back the same records; a format gives back what it can express.
#[test]
fn convert() {
    let folder = Folder::with_world();
    let world = folder.rows("world.jsonl");
    for name in ["a.json", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.json.gz", "no-ending"] {
        folder.run(&format!("data convert world.jsonl -o {name}")).succeeds();
        let back = folder.run(&format!("data convert {name} -o back.jsonl"));
        assert_eq!(back.succeeds(), "6 records (gradus) → 6 rows (gradus) written to back.jsonl\n", "{name}");
        assert_eq!(folder.rows("back.jsonl"), world, "{name}");
    }
    let said: Vec<_> = ["trl", "processbench", "math-shepherd", "gsm8k"]
        .iter()
        .map(|format| {
            let there =
                folder.run(&format!("data convert world.jsonl --to {format} -o {format}.jsonl")).succeeds();
            let back = folder.run(&format!("data convert {format}.jsonl -o back.jsonl")).succeeds();
            format!("{there}{back}")
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"));
    insta::assert_snapshot!(folder.run("data convert world.jsonl --to trl -o trl.jsonl --json"));
    let problems = folder.run("data convert gsm8k.jsonl --to trl -o none.jsonl").succeeds();
    insta::assert_snapshot!("convert_problems", problems);
    let refused = folder.run("data convert world.jsonl -o a.parquet.gz").fails(3);
    assert_eq!(refused, "gradus: a.parquet.gz: Parquet files are compressed inside: leave out .gz or .zst");
    let refused = folder.run("data convert world.jsonl -o a.xlsx").fails(3);
    assert!(refused.contains(".xlsx files are not written: name it .jsonl"), "{refused}");
    assert!(!folder.path("a.xlsx").exists());
}

/// Parquet takes every format whose columns have one type each. Our own writes the first error as a number or a word.
#[test]
fn convert_parquet() {
    let folder = Folder::with_world();
    for format in ["trl", "processbench", "math-shepherd"] {
        folder.run(&format!("data convert world.jsonl --to {format} -o rows.jsonl")).succeeds();
        folder.run(&format!("data convert rows.jsonl --to {format} -o rows.parquet")).succeeds();
        folder.run(&format!("data convert rows.parquet --to {format} -o back.jsonl")).succeeds();
        assert_eq!(folder.rows("back.jsonl"), folder.rows("rows.jsonl"), "{format}");
    }

    // First errors are numbers and words, and the steps after them have no label.
    folder.run("data convert world.jsonl -o world.parquet").succeeds();
    folder.run("data convert world.parquet -o back.jsonl").succeeds();
    assert_eq!(folder.bytes("back.jsonl"), folder.bytes("world.jsonl"));
}

/// The dataset goes to standard output and nothing else does; the report goes to standard error.
#[test]
fn standard_streams() {
    let folder = Folder::with_world();
    let lines = [
        "data convert world.jsonl -o -",
        "data convert world.jsonl -o - --json",
        "data dedup world.jsonl -o -",
        "data dedup world.jsonl -o - --json",
        "grade --data world.jsonl -o -",
        "grade --data world.jsonl -o - --json",
        "steps --data world.jsonl -o -",
        "steps --data --recut world.jsonl -o -",
        "steps --data world.jsonl -o - --json",
        "synth -n 6 -o -",
        "synth -n 6 -o - --json",
    ];
    for line in lines {
        let done = folder.run(line);
        assert_eq!(done.code, Some(0), "{line}");
        assert_eq!(done.stdout.lines().count(), 6, "{line}: {}", done.stdout);
        for row in done.stdout.lines() {
            serde_json::from_str::<Value>(row).unwrap();
        }
        if line.ends_with("--json") {
            serde_json::from_str::<Value>(&done.stderr).unwrap_or_else(|_| panic!("{line}"));
        } else {
            assert!(!done.stderr.is_empty(), "{line}");
        }
    }
    let piped = folder.run_reading("data convert - -o -", "world.jsonl");
    assert_eq!(piped.stdout.as_bytes(), folder.bytes("world.jsonl"));
}

#[test]
fn check() {
    let folder = Folder::with_world();
    insta::assert_snapshot!(folder.run("data check world.jsonl"));
    let row =
        r#"{"gradus":1,"problem":{"id":"p","text":"1 + 1?"},"solutions":[{"id":"s","problem_id":"p"}]}"#;
    folder.file("odd.jsonl", format!("{row}\n{{\"gradus\":1,\n{row}\n"));
    insta::assert_snapshot!("check_odd", folder.run("data check odd.jsonl"));
    insta::assert_snapshot!("check_odd_json", folder.run("data check odd.jsonl --json"));
    insta::assert_snapshot!("check_odd_short", folder.run("data check odd.jsonl --show 1"));
}

#[test]
fn stats() {
    let folder = Folder::with_world();
    insta::assert_snapshot!("stats", folder.run("data stats world.jsonl"));
    insta::assert_snapshot!("stats_json", folder.run("data stats world.jsonl --json"));
    folder.file("one.jsonl", r#"{"question": "1 + 1?", "answer": "1 + 1 = 2\n#### 2"}"#);
    insta::assert_snapshot!("stats_one", folder.run("data stats one.jsonl"));
}

#[test]
fn split() {
    let folder = Folder::with_world();
    insta::assert_snapshot!("split", folder.run("data split world.jsonl -o new/parts --parts a=0.5,b=0.5"));
    let parts = folder.rows("new/parts/a.jsonl").len() + folder.rows("new/parts/b.jsonl").len();
    assert_eq!(parts, 6);
    // A split of a split with the same seed: the place of a problem is the same.
    let again = folder.run("data split new/parts/a.jsonl -o again --splits c=0.5,d=0.5").succeeds();
    assert!(again.contains("no records for d: "), "{again}");
    insta::assert_snapshot!("split_json", folder.run("data split world.jsonl -o new/parts --json"));
}

#[test]
fn dedup() {
    let folder = Folder::with_world();
    insta::assert_snapshot!("dedup_none", folder.run("data dedup world.jsonl"));
    folder.file("twice.jsonl", [folder.bytes("world.jsonl"), folder.bytes("world.jsonl")].concat());
    insta::assert_snapshot!("dedup", folder.run("data dedup twice.jsonl --show 2"));
    insta::assert_snapshot!("dedup_json", folder.run("data dedup twice.jsonl --json"));
    insta::assert_snapshot!("dedup_against", folder.run("data dedup world.jsonl --against twice.jsonl"));
    insta::assert_snapshot!("dedup_output", folder.run("data dedup twice.jsonl -o once.jsonl --show 0"));
    assert_eq!(folder.rows("once.jsonl"), folder.rows("world.jsonl"));
}

/// Files with a solution per row: a problem's other solutions are no duplicates of it.
#[test]
fn dedup_keeps_the_solutions_of_a_problem() {
    let folder = Folder::new();
    let row = |steps: &str| {
        format!("{{\"prompt\": \"1 + 1?\", \"completions\": [\"{steps}\"], \"labels\": [true]}}\n")
    };
    folder.file("trl.jsonl", row("2") + &row("So 2") + &row("2"));
    let found = folder.run("data dedup trl.jsonl -o once.jsonl --json").json();
    let counts = ["records", "exact", "kept", "solutions_removed"].map(|name| found[name].as_u64().unwrap());
    assert_eq!(counts, [3, 1, 2, 1]);
    let steps: Vec<_> =
        folder.rows("once.jsonl").iter().map(|row| row["solutions"][0]["steps"][0].clone()).collect();
    assert_eq!(steps, ["2", "So 2"]);
    let shown = folder.run("data dedup trl.jsonl -o once.jsonl").succeeds();
    assert!(shown.contains("1 solution removed with them"), "{shown}");
}

/// What a format has no place for is counted.
#[test]
fn convert_counts_what_is_lost() {
    let folder = Folder::new();
    folder.file(
        "trl.jsonl",
        r#"{"prompt": "1 + 1?", "completions": ["1 + 1 = 2", "So 2"], "labels": [true, true]}"#,
    );
    for format in ["outputs", "best-of-n", "many-models"] {
        let line = format!("data convert trl.jsonl --to {format} -o lost.jsonl");
        assert_eq!(folder.run(&format!("{line} --json")).json()["dropped"]["step labels"], 2, "{format}");
        let shown = folder.run(&line).succeeds();
        assert!(shown.contains("\n2 omitted: step labels"), "{shown}");
    }
    let kept = folder.run("data convert trl.jsonl --to trl -o same.jsonl --json").json();
    assert_eq!(kept["dropped"], serde_json::json!({}));
    let row = r#"{"gradus": 1, "problem": {"id": "p", "text": "1 + 1?", "context": ["It is late."]}, "solutions": [{
        "id": "p/0", "problem_id": "p", "steps": ["2"], "annotations": [{"labels": [{"mark": "correct"}],
        "first_error": "none"}]}]}"#;
    folder.file("context.jsonl", row.replace('\n', ""));
    for format in ["trl", "chat"] {
        let line = format!("annotate export context.jsonl --to {format} -o out.jsonl --json");
        assert_eq!(folder.run(&line).json()["left_out"]["context passages"], 1, "{format}");
    }
}

#[test]
fn grade() {
    let folder = Folder::with_world();
    insta::assert_snapshot!("grade", folder.run("grade --data world.jsonl"));
    assert_eq!(folder.run("grade -5 -5.0 --json").json()["verdict"], "equal");
    assert_eq!(folder.run("grade --json 5 -5").json()["verdict"], "different");
    insta::assert_snapshot!("grade_json", folder.run("grade --data world.jsonl --json"));
    let row = r#"{"problem": "1 + 1?", "gold_answer": "2", "candidates": [
        {"steps": ["So \\boxed{3}"], "correct": true}, {"steps": ["Hm."], "correct": false}]}"#;
    folder.file("wrong.jsonl", row.replace('\n', ""));
    insta::assert_snapshot!("grade_disagreement", folder.run("grade --data wrong.jsonl -o graded.jsonl"));
    assert_eq!(folder.rows("graded.jsonl")[0]["solutions"][0]["outcome"], "wrong");

    let answer = |gold, answer| folder.run_args(&["grade", gold, answer]).to_string();
    assert_eq!(answer("\\frac{1}{2}", "0.5"), "equal\n-- exit 0");
    assert_eq!(answer("72", "73"), "different\n-- exit 0");
    insta::assert_snapshot!("grade_answer_json", folder.run("grade 72 73 --json"));
    folder.file("solution.txt", "We add.\nThe answer is 72.");
    folder.file("problem.jsonl", r#"{"question": "1 + 1?", "answer": "1 + 1 = 2\n#### 2"}"#);
    insta::assert_snapshot!("grade_nothing", folder.run("grade --data problem.jsonl"));
    insta::assert_snapshot!("grade_solution", folder.run_reading("grade 72", "solution.txt"));
}

#[test]
fn steps() {
    let folder = Folder::with_world();
    folder.file("solution.txt", "Step 1: We add 3 and 4.\nStep 2: That is 7.\n");
    insta::assert_snapshot!("steps", folder.run("steps solution.txt"));
    insta::assert_snapshot!("steps_json", folder.run_reading("steps --json", "solution.txt"));
    insta::assert_snapshot!("steps_data", folder.run("steps --data world.jsonl -o cut.jsonl"));
    insta::assert_snapshot!("steps_recut", folder.run("steps --data --recut world.jsonl -o cut.jsonl"));
    insta::assert_snapshot!("steps_data_json", folder.run("steps --data world.jsonl -o cut.jsonl --json"));
}

/// Records that cannot be read are left out when asked: the first few are named, and all are counted.
#[test]
fn skipped_records() {
    let folder = Folder::with_world();
    let world = String::from_utf8(folder.bytes("world.jsonl")).unwrap();
    let broken = world.lines().map(|line| format!("{line}\n{{\"gradus\": 1, \n")).collect::<String>();
    folder.file("broken.jsonl", broken);
    folder.file("one.jsonl", format!("{world}nonsense\n"));
    insta::assert_snapshot!("skip", folder.run("data convert broken.jsonl --on-error skip -o whole.jsonl"));
    assert_eq!(folder.bytes("whole.jsonl"), folder.bytes("world.jsonl"));
    insta::assert_snapshot!("skip_one", folder.run("data convert one.jsonl --on-error skip -o whole.jsonl"));
    for line in [
        "data convert broken.jsonl -o whole.jsonl --json",
        "data stats broken.jsonl --json",
        "data split broken.jsonl -o parts --json",
        "data dedup broken.jsonl --json",
        "grade --data broken.jsonl --json",
        "steps --data broken.jsonl -o whole.jsonl --json",
    ] {
        let json = folder.run(&format!("{line} --on-error skip")).json();
        assert_eq!(json["skipped"], 6, "{line}");
    }
    for line in ["data stats", "data split -o parts", "data dedup", "grade -o graded.jsonl --data"] {
        let done = folder.run(&format!("{line} one.jsonl --on-error skip"));
        assert!(done.stderr.starts_with("skipped one.jsonl:7: "), "{line}: {done}");
    }
}

/// `gradus … | head -1` ends well and without noise.
#[test]
fn closed_pipe() {
    let folder = Folder::with_world();
    for line in ["synth -n 2000", "completions bash", "data stats world.jsonl --json"] {
        let arguments: Vec<_> = line.split_whitespace().collect();
        let mut child =
            folder.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::with_capacity(1, child.stdout.take().unwrap());
        output.read_until(b'\n', &mut Vec::new()).unwrap();
        drop(output);
        let mut noise = String::new();
        child.stderr.take().unwrap().read_to_string(&mut noise).unwrap();
        assert_eq!((child.wait().unwrap().code(), noise.as_str()), (Some(0), ""), "{line}");
    }
}

/// A full disk is an error, not a success with half the output.
#[test]
fn full_disk() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let folder = Folder::with_world();
    let done: Done =
        folder.command(&["data", "convert", "world.jsonl", "-o", "-"]).stdout(full).output().unwrap().into();
    assert_eq!(done.fails(3), "gradus: standard output: No space left on device");
}

/// Wrong copies of references, in other layouts too, and of the right steps of labelled solutions: everything is well labelled.
#[test]
fn corrupt() {
    let folder = Folder::new();
    let problem = r#"{"gradus":1,"problem":{"id":"p","text":"Mira bakes 5 trays of 12 rolls and sells 45. How many are left?","reference":["Mira bakes 5*12 = 60 rolls.","After selling 45 there are 60-45 = 15 rolls left."],"answer":"15"},"solutions":[]}"#;
    folder.file("references.jsonl", problem);
    let report =
        folder.run("data corrupt references.jsonl --layouts 2 --copies 2 -o made.jsonl --json").json();
    assert_eq!(
        (&report["kept"], &report["wrong"], &report["short"]),
        (&3.into(), &6.into(), &0.into()),
        "{report}"
    );
    folder.run("data check made.jsonl").succeeds();
    folder.run("synth -n 6 --solutions 2 --seed 7 -o world.jsonl").succeeds();
    let command = "data corrupt world.jsonl --solutions --copies 1 --kinds number -o again.jsonl --json";
    let report = folder.run(command).json();
    assert_eq!((&report["kept"], &report["by_kind"]["number"]), (&12.into(), &report["wrong"]), "{report}");
    folder.run("data check again.jsonl").succeeds();
    folder
        .file("unlabelled.jsonl", problem.replace("[]}", r#"[{"id":"s","problem_id":"p","steps":["60"]}]}"#));
    let report = folder.run("data corrupt unlabelled.jsonl --solutions -o kept.jsonl --json").json();
    assert_eq!((&report["kept"], &report["without_right_steps"]), (&1.into(), &1.into()), "{report}");
    folder.file(
        "fixed.jsonl",
        problem.replace(
            r#"Mira bakes 5*12 = 60 rolls.","After selling 45 there are 60-45 = 15 rolls left."#,
            "Yes.",
        ),
    );
    folder.file(
        "both.jsonl",
        [folder.bytes("references.jsonl"), b"\n".to_vec(), folder.bytes("fixed.jsonl")].concat(),
    );
    let report = folder.run("data corrupt both.jsonl --only-wrong -o wrong.jsonl --json").json();
    assert_eq!((&report["problems"], &report["unchanged"]), (&1.into(), &1.into()), "{report}");
    // One solution twice under one id, with other labels each time: every copy has an id of its own.
    let labelled = |second: &str| {
        let first_error = if second == "correct" { "\"none\"" } else { "1" };
        format!(
            r#"{{"id":"s","problem_id":"p","steps":["5*12 = 60 rolls.","60-45 = 15 rolls."],"annotations":[{{"labels":[{{"mark":"correct","source":"human"}},{{"mark":"{second}","source":"human"}}],"first_error":{first_error}}}]}}"#
        )
    };
    let twice = format!("[{},{}]}}", labelled("correct"), labelled("incorrect"));
    folder.file("twice.jsonl", problem.replace("[]}", &twice));
    folder.run("data corrupt twice.jsonl --solutions --only-wrong -o copies.jsonl").succeeds();
    let copies = folder.rows("copies.jsonl").remove(0);
    let ids: Vec<&str> =
        copies["solutions"].as_array().unwrap().iter().map(|copy| copy["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["s/wrong-0", "s/wrong-1", "s/wrong-2", "s/wrong-3"]);
    let nothing = folder.run("data corrupt references.jsonl --solutions -o none.jsonl");
    assert_eq!(nothing.code, Some(3), "{nothing}");
    assert!(
        nothing.stderr.contains("no problem in the input has a solution that can be corrupted"),
        "{nothing}"
    );
}

/// Rated continuations of the same steps: joined into paragraphs alike, and each label of what they share once.
#[test]
fn continuations_become_paragraphs_with_labels_once() {
    let folder = Folder::new();
    let step = |number: usize| format!("Step {number} says something of about sixty characters, no more.");
    let rows = (0..8).flat_map(|problem| {
        (0..5).map(move |length| {
            let prefix: Vec<String> = (0..length).map(step).collect();
            let wrong = step(length).replace("something", "nothing");
            json!({
                "problem": format!("Problem number {problem}?"),
                "prefix": prefix, "prefix_ratings": vec![1; length],
                "candidates": [{"step": step(length), "rating": 1}, {"step": wrong, "rating": -1}],
            })
        })
    });
    let rows: String = rows.map(|row| row.to_string() + "\n").collect();
    folder.file("prefixes.jsonl", rows);
    folder.run("data merge prefixes.jsonl -o merged.jsonl").succeeds();
    // 8 problems × 5 prefixes × 2 candidates; of the 160 + 80 labels 80 are of different steps.
    let once = folder.run("data convert merged.jsonl --labels-once -o once.jsonl --json").json();
    assert_eq!((&once["repeated_labels"], once.get("merged")), (&json!(160), None));
    let line = "data convert merged.jsonl --merge-steps --labels-once --json";
    let report = folder.run(&format!("{line} -o paragraphs.jsonl")).json();
    assert!(report["merged"].as_u64().unwrap() > 20, "{report}");
    let again = folder.run(&format!("{line} -o again.jsonl")).json();
    assert_eq!(
        (&again["merged"], folder.bytes("again.jsonl")),
        (&report["merged"], folder.bytes("paragraphs.jsonl"))
    );
    let other = folder.run(&format!("{line} --seed 1 -o other.jsonl")).json();
    assert_ne!(folder.bytes("other.jsonl"), folder.bytes("paragraphs.jsonl"), "{other}");
    // Both kinds of paragraphs can be used together: a solution that was joined in another way is another solution.
    folder.run("data merge merged.jsonl paragraphs.jsonl other.jsonl -o all.jsonl").succeeds();
    for record in folder.rows("paragraphs.jsonl") {
        for pair in record["solutions"].as_array().unwrap().chunks(2) {
            let steps = |index: usize| pair[index]["steps"].as_array().unwrap().clone();
            let (right, wrong) = (steps(0), steps(1));
            assert_eq!(right.len(), wrong.len());
            assert_eq!(right[..right.len() - 1], wrong[..wrong.len() - 1]);
            let annotation = &pair[1]["annotations"][0];
            assert_eq!(annotation["first_error"], json!(wrong.len() - 1));
            assert_eq!(annotation["labels"][wrong.len() - 1]["mark"], "incorrect");
        }
    }
    let done = folder.run("data convert merged.jsonl --seed 3 -o x.jsonl");
    assert!(done.code == Some(2) && done.stderr.contains("--merge-steps"), "{done}");
}
