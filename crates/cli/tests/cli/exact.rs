//! Exact checks of arithmetic: `gradus annotate exact`, and the proofs that `gradus score` shows.

use serde_json::{Value, json};

use super::annotate::DATA;
use super::{Folder, model};

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("data.jsonl", DATA);
    folder
}

/// The exact labels of the solution in a row.
fn exact(row: &Value) -> Option<Value> {
    let annotations = row["solutions"][0]["annotations"].as_array().unwrap();
    annotations.iter().find(|found| found["labels"].to_string().contains("\"exact\"")).cloned()
}

#[test]
fn steps_are_labeled_where_arithmetic_is_proved_wrong() {
    let folder = folder();
    let shown = folder.run("annotate exact data.jsonl -o exact.jsonl").succeeds();
    assert!(shown.starts_with("1 of 6 steps proved wrong, in 1 of 2 solutions"), "{shown}");
    let rows = folder.rows("exact.jsonl");
    assert_eq!(exact(&rows[0]), None, "nothing is proved, nothing is said");
    let found = exact(&rows[1]).unwrap();
    let evidence = json!({"explanation": "4 + 4 = 8, not 9", "errors": ["NUMERIC"]});
    let wrong = json!({"mark": "incorrect", "source": "exact", "evidence": evidence});
    assert_eq!(found, json!({"labels": [null, wrong, null], "first_error": "unknown"}));
    // Labels of people stay, and a second run replaces the first one's.
    let again = folder.run("annotate exact exact.jsonl -o again.jsonl --json").json();
    assert_eq!(folder.bytes("again.jsonl"), folder.bytes("exact.jsonl"));
    let counts = ["solutions", "steps", "equalities", "right", "wrong", "undecided", "proved_steps"];
    assert_eq!(counts.map(|count| again[count].as_u64().unwrap()), [2, 6, 2, 1, 1, 0, 1]);
    let report = folder.run("annotate report exact.jsonl --only human --only exact").succeeds();
    assert!(report.contains("exact"), "{report}");
}

#[test]
fn a_proof_is_shown_beside_the_score_and_decides_where_the_profile_says_so() {
    let folder = folder();
    let plain =
        std::fs::read_to_string(format!("{}/../../assets/profiles/plain.toml", env!("CARGO_MANIFEST_DIR")))
            .unwrap();
    folder.file("mine.toml", format!("exact_checks = true\n{plain}"));
    let score = |profile: &str, more: &str| {
        let line =
            format!("score data.jsonl --model {} --threshold 0 --profile {profile} {more}", model("qwen2"));
        folder.run(&line)
    };
    // Under this threshold no score is an error.
    let shown = score("plain", "-o scored.jsonl").succeeds();
    assert!(shown.contains("proved wrong: 4 + 4 = 8, not 9"), "{shown}");
    assert!(shown.contains("1 solution with arithmetic that is proved wrong"), "{shown}");
    assert!(exact(&folder.rows("scored.jsonl")[1]).is_some());
    let without = score("plain", "--json").json();
    let with = score("mine.toml", "--json").json();
    for (answer, first) in [(&without, json!(null)), (&with, json!(1))] {
        let results = answer["results"].as_array().unwrap();
        assert_eq!((&results[0]["first_suspected"], &results[1]["first_suspected"]), (&json!(null), &first));
        assert_eq!(
            results[1]["proofs"],
            json!([{"step": 1, "start": 0, "end": 9, "proof": "4 + 4 = 8, not 9"}])
        );
        assert_eq!((&results[0]["proofs"], &answer["proved"]), (&json!([]), &json!(1)));
    }
    assert_eq!(without["results"][1]["scores"], with["results"][1]["scores"]);
}

/// The solutions of `DATA` with the labels of two judges in place of the person's.
fn judged() -> String {
    let by = |labels: &Value, model: &str| -> Value {
        let source = json!({"judge": {"model": model, "agreeing": 1, "votes": 1}});
        serde_json::from_str(&labels.to_string().replace("\"human\"", &source.to_string())).unwrap()
    };
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let annotations = &mut row["solutions"][0]["annotations"];
        *annotations = json!([by(&annotations[0], "a"), by(&annotations[0], "b")]);
        row.to_string() + "\n"
    };
    DATA.lines().map(row).collect()
}

/// Annotators agree and differ as they do without the proofs that `score` leaves in the data.
#[test]
fn exact_labels_are_no_annotator_among_others() {
    let folder = Folder::new();
    folder.file("judged.jsonl", judged());
    folder
        .run(&format!("score judged.jsonl --model {} --profile plain -o scored.jsonl", model("qwen2")))
        .succeeds();
    assert!(exact(&folder.rows("scored.jsonl")[1]).is_some());
    let rules = ["majority", "union", "intersection", "dawid-skene"];
    let ensembles = rules.map(|rule| format!("ensemble --rule {rule}"));
    for command in ["consensus".to_owned()].iter().chain(&ensembles) {
        let of = |file: &str| folder.run(&format!("annotate {command} {file} --json")).json();
        assert_eq!(of("scored.jsonl"), of("judged.jsonl"), "{command}");
    }
    let consensus = folder.run("annotate consensus scored.jsonl -o agreed.jsonl --json").json();
    assert_eq!((&consensus["kept"], &consensus["with_error"]), (&json!(2), &json!(1)));
    assert!(exact(&folder.rows("agreed.jsonl")[1]).is_some(), "the proof stays beside the consensus");
    // In a report it has its own row, and no part in others.
    let report = |file: &str| folder.run(&format!("annotate report {file} --resamples 0 --json")).json();
    let (mut with, without) = (report("scored.jsonl"), report("judged.jsonl"));
    let rows = with["annotators"].as_array_mut().unwrap();
    let own = rows.remove(rows.iter().position(|row| row["name"] == "exact").unwrap());
    assert_eq!(with, without);
    let counts = ["decided", "labels", "errors", "partial"].map(|count| own[count].clone());
    assert_eq!(counts, [json!(0), json!(1), json!(1), json!(true)]);
    let only = folder.run("annotate report scored.jsonl --only exact --json").json();
    assert_eq!(only["annotators"].as_array().unwrap().len(), 1);
    let stats = |file: &str| folder.run(&format!("data stats {file} --json")).json()["errors"].clone();
    assert_eq!(stats("scored.jsonl"), stats("judged.jsonl"));
}

/// That one step is proved wrong does not make the steps before it right, or the solution labeled.
#[test]
fn exact_labels_alone_label_no_solution() {
    let folder = Folder::new();
    let (right, wrong) = ("Then 6 * 7 = 42 rolls.", "Now 60 + 5 = 66 rolls.");
    let solution = |id: &str, steps: [&str; 2]| json!({"id": id, "problem_id": "p", "steps": steps});
    let solutions = [solution("p/0", [right, wrong]), solution("p/1", [wrong, right])];
    let problem = json!({"id": "p", "text": "How many rolls?"});
    let row = json!({"gradus": 1, "problem": problem, "solutions": solutions});
    folder.file("plain.jsonl", row.to_string());
    folder.run("annotate exact plain.jsonl -o exact.jsonl").succeeds();
    let found = exact(&folder.rows("exact.jsonl")[0]).unwrap();
    assert_eq!((&found["labels"][0], &found["first_error"]), (&Value::Null, &json!("unknown")));
    let made = folder.run("data corrupt exact.jsonl --solutions -o made.jsonl --json").json();
    assert_eq!((&made["wrong"], &made["without_right_steps"]), (&json!(0), &json!(2)));
    for command in [
        "annotate export exact.jsonl --to trl -o out.jsonl",
        "annotate export exact.jsonl --to prm -o out.jsonl",
        "annotate consensus exact.jsonl -o out.jsonl",
    ] {
        folder.run(command).fails(3);
        assert!(!folder.path("out.jsonl").exists(), "{command}");
    }
    let asked = folder.run("annotate export exact.jsonl --to prm -o out.jsonl").fails(3);
    assert!(asked.ends_with("those by exact are taken with --annotator exact --to prm"), "{asked}");
    folder.run("annotate export exact.jsonl --to trl --annotator exact -o out.jsonl").fails(3);
    let taken =
        folder.run("annotate export exact.jsonl --to prm --annotator exact -o out.jsonl --json").json();
    assert_eq!((&taken["written"], &taken["wrong"]), (&json!(1), &json!(1)));
    let stats = folder.run("data stats exact.jsonl --json").json();
    assert_eq!((&stats["errors"]["unknown"], &stats["labels"]["incorrect"]), (&json!(2), &json!(2)));
}
