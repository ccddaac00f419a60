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
    assert_eq!(found, json!({"labels": [null, wrong, null], "first_error": 1}));
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
