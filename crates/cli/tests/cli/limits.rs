//! Limits on what is read, pipes and numbers beyond reason: one sentence, never a full memory, a panic or an abort.

use std::io::Write;
use std::process::Stdio;

use super::{Done, Folder};

const RECORD: &str = r#"{"prompt": "1 + 1?", "completions": ["1 + 1 = 2"], "labels": [true]}"#;

fn run_with(folder: &Folder, variable: &str, value: &str, line: &str) -> Done {
    let words: Vec<&str> = line.split_whitespace().collect();
    Done::from(folder.command(&words).env(variable, value).output().unwrap())
}

#[test]
fn limits_come_from_the_environment() {
    let folder = Folder::new();
    folder.file("data.jsonl", RECORD);
    for (variable, value, words) in [
        (
            "GRADUS_MAX_RECORD_VALUES",
            "5",
            "the record has more than 5 JSON values: set GRADUS_MAX_RECORD_VALUES",
        ),
        ("GRADUS_MAX_RECORD_BYTES", "16", "the record has more than 16 bytes: set GRADUS_MAX_RECORD_BYTES"),
    ] {
        let said = run_with(&folder, variable, value, "data stats data.jsonl").fails(3);
        assert!(said.contains("data.jsonl:1: ") && said.contains(words), "{said}");
        assert!(run_with(&folder, variable, "1K", "data stats data.jsonl").code == Some(0));
    }
    let said = run_with(&folder, "GRADUS_MAX_EXPANSION", "a lot", "data formats").fails(2);
    let words =
        "GRADUS_MAX_EXPANSION is `a lot`: expected a whole number of at least 1, such as 1000000 or 512M";
    assert!(said.ends_with(words), "{said}");
}

#[test]
fn standard_input_and_pipes_hold_any_container() {
    let folder = Folder::with_world();
    folder.run("data convert world.jsonl -o world.parquet").succeeds();
    for name in ["world.jsonl", "world.parquet"] {
        for path in ["-", "/dev/stdin"] {
            let words = ["data", "stats", path, "--json"];
            let mut child =
                folder.command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(&folder.bytes(name)).unwrap();
            let done = Done::from(child.wait_with_output().unwrap());
            assert_eq!(done.json()["records"], 6, "{name} {path}");
        }
    }
}

#[test]
fn absurd_numbers_are_refused() {
    let folder = Folder::with_world();
    let endpoint = "--endpoint http://127.0.0.1:9 --model m --retries 0";
    for line in [
        "synth --solutions 18446744073709551615 -o x.jsonl".to_owned(),
        format!("sample world.jsonl -o x.jsonl -n 18446744073709551615 {endpoint}"),
        format!("sample world.jsonl -o x.jsonl --temperature nan {endpoint}"),
        format!("sample world.jsonl -o x.jsonl --top-p inf {endpoint}"),
        format!("annotate monte-carlo world.jsonl -o x.jsonl -k 4294967295 {endpoint}"),
        "bench labels world.jsonl -o run --resamples 1000000000000".to_owned(),
        "score world.jsonl -o x.jsonl --threshold nan".to_owned(),
        "data corrupt world.jsonl -o x.jsonl --copies 9999999999".to_owned(),
    ] {
        let done = folder.run(&line);
        assert_eq!(done.code, Some(2), "{line}: {done}");
        assert!(done.stderr.contains("invalid value"), "{line}: {done}");
    }
}
