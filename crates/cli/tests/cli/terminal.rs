//! Control characters in data, file names and servers' words: no command prints one raw.

use serde_json::Value;

use super::{Folder, model};

/// A title, a cleared screen, a C1 sequence, a carriage return, a backspace and reversed writing.
const HOSTILE: &str = "a\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\rb\u{8}\u{202e}c";

fn assert_plain(line: &str, text: &str) {
    let hidden = |letter: &char| {
        (letter.is_control() && !"\n\t".contains(*letter)) || ('\u{202a}'..='\u{202e}').contains(letter)
    };
    assert_eq!(text.chars().find(hidden), None, "{line}: {text:?}");
}

/// Puts the characters into every id, text, step, answer and model's name.
fn poison(value: &mut Value, here: bool) {
    match value {
        Value::String(text) if here => text.push_str(HOSTILE),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, here)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                poison(field, ["id", "text", "steps", "answer", "model"].contains(&name.as_str()));
            }
        }
        _ => {}
    }
}

#[test]
fn no_command_prints_control_characters_raw() {
    let folder = Folder::with_world();
    let mut rows = folder.rows("world.jsonl");
    rows.iter_mut().for_each(|row| poison(row, false));
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    folder.file("hostile.jsonl", rows.join("\n"));
    folder.file(&format!("{HOSTILE}.jsonl"), "{\"no\": \"format\"}");
    folder.file("broken.jsonl", format!("{{\"{HOSTILE}\": "));
    let mut shown = 0;
    for line in [
        "data stats hostile.jsonl",
        "data stats hostile.jsonl --json",
        "data check hostile.jsonl --show 9",
        "data dedup hostile.jsonl --show 9",
        "data convert hostile.jsonl -o converted.jsonl",
        "data stats broken.jsonl",
        "steps hostile.jsonl -o steps.jsonl",
        "grade hostile.jsonl --show 9",
        "grade hostile.jsonl --json",
        "select hostile.jsonl --show 9",
        "score hostile.jsonl --show 9",
        "annotate report hostile.jsonl",
        "pool stats hostile.jsonl",
        "pool search question --pool hostile.jsonl",
        "bench labels hostile.jsonl",
        "jobs list",
        "models list",
    ] {
        let done = folder.run(line);
        assert_plain(line, &done.stdout);
        assert_plain(line, &done.stderr);
        shown += usize::from(done.stdout.contains("\\u") || done.stderr.contains("\\u"));
    }
    assert!(shown > 2, "only {shown} commands show the data at all");
    // As an argument, and as a file's name in an error.
    let name = format!("{HOSTILE}.jsonl");
    for arguments in [["data", "stats", &name], ["data", "stats", "\u{1b}]0;x\u{7}missing.jsonl"]] {
        let done = folder.run_args(&arguments);
        assert_plain(&arguments.join(" "), &done.stdout);
        assert_plain(&arguments.join(" "), &done.stderr);
        assert!(done.stderr.contains("\\u{1b}]0;x\\u{7}"), "{}", done.stderr);
    }
}

/// Python's progress bars are drawn from these lines.
#[test]
fn progress_as_lines_reaches_its_end() {
    let folder = Folder::with_world();
    let last = |line: String, unit: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let told = folder.command(&words).env("GRADUS_PROGRESS", "json").output().unwrap().stderr;
        let told = String::from_utf8(told).unwrap();
        let lines = told.lines().filter(|line| line.starts_with('{'));
        let steps: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = steps.iter().rev().find(|step| step["progress"]["unit"] == unit).unwrap();
        (last["progress"]["done"].clone(), last["progress"]["total"].clone())
    };
    let tiny = model("qwen2");
    let score = || format!("score world.jsonl --model {tiny} --profile plain --json");
    let size = folder.bytes("world.jsonl").len();
    assert_eq!(last(score(), "bytes"), (size.into(), size.into()), "the file is read");
    assert_eq!(last(score(), "tasks"), (12.into(), 12.into()), "its solutions are scored");
    let sample = format!("sample world.jsonl --model {tiny} -n 2 --max-tokens 4 -o sampled.jsonl");
    let (done, total) = last(sample, "tasks");
    assert_eq!(done, total, "a job's tasks are done");
}
