//! Bad input: one sentence with the file, the line and the field, exit code 3, and nothing left behind.

use super::{Folder, model};

/// A record of TRL's format.
const GOOD: &str = r#"{"prompt": "1 + 1?", "completions": ["1 + 1 = 2"], "labels": [true]}"#;

/// A folder with a file for every kind of damage, and an empty folder `out`.
fn damaged() -> Folder {
    let folder = Folder::with_world();
    std::fs::create_dir(folder.path("out")).unwrap();
    std::fs::create_dir(folder.path("nothing")).unwrap();
    folder.file("nothing/README.md", "No data here.");
    for name in ["world.jsonl.gz", "world.jsonl.zst", "world.parquet"] {
        folder.run(&format!("data convert world.jsonl --to trl -o {name}")).succeeds();
        let whole = folder.bytes(name);
        folder.file(&format!("cut-{name}"), &whole[..whole.len() / 2]);
        let mut scratched = whole.clone();
        let middle = scratched.len() / 2;
        scratched[middle..middle + 16].fill(0xAA);
        folder.file(&format!("scratched-{name}"), scratched);
    }
    let candidates = |scores: &str| {
        format!(
            r#"{{"problem": "Q", "candidates": [{{"steps": ["a", "b"], "prm_scores": {{"p": {scores}}}}}]}}"#
        )
    };
    let files: [(&str, Vec<u8>); 21] = [
        ("empty.jsonl", Vec::new()),
        ("blank.jsonl", b"\n \n".to_vec()),
        ("array-cut.json", format!("[{GOOD},\n{}", &GOOD[..40]).into()),
        ("array-open.json", format!("[{GOOD},\n{GOOD}\n").into()),
        ("labels.jsonl", GOOD.replace("[true]", "[true, false]").into()),
        ("nan.jsonl", candidates("[0.5, NaN]").into()),
        ("infinity.jsonl", candidates("[-Infinity, 0.5]").into()),
        ("null-score.jsonl", candidates("[null, 0.5]").into()),
        ("score-count.jsonl", candidates("[0.5]").into()),
        (
            "latin1.jsonl",
            GOOD.replace("1 + 1?", "caf\u{1}")
                .into_bytes()
                .iter()
                .map(|&b| if b == 1 { 0xE9 } else { b })
                .collect(),
        ),
        ("unknown.jsonl", br#"{"height": 3, "width": 4}"#.to_vec()),
        ("middle.jsonl", format!("{GOOD}\n{}\n{GOOD}\n", &GOOD[..30]).into()),
        ("type.jsonl", format!("{GOOD}\n{}\n", GOOD.replace("\"1 + 1?\"", "11")).into()),
        ("label-type.jsonl", GOOD.replace("true", "\"yes\"").into()),
        ("missing-field.jsonl", br#"{"gradus": 1, "problem": {"id": "p"}}"#.to_vec()),
        ("version-2.jsonl", br#"{"gradus": 2, "problem": {"id": "p", "text": "1 + 1?"}}"#.to_vec()),
        ("no-version.jsonl", br#"{"gradus": "one", "problem": {"id": "p", "text": "1 + 1?"}}"#.to_vec()),
        ("huge.jsonl", format!(r#"{{"prompt": "{}"#, "a".repeat(20 << 20)).into()),
        ("notes.txt", b"These are my notes.\nThere are no records in them.\n".to_vec()),
        ("garbage.bin", (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect()),
        ("number.json", b"42".to_vec()),
    ];
    for (name, content) in files {
        folder.file(name, content);
    }
    folder
}

/// Every file of [`damaged`], and two that are not there or hold nothing.
const BAD: [&str; 29] = [
    "missing.jsonl",
    "nothing",
    "empty.jsonl",
    "blank.jsonl",
    "cut-world.jsonl.gz",
    "cut-world.jsonl.zst",
    "cut-world.parquet",
    "scratched-world.jsonl.gz",
    "scratched-world.jsonl.zst",
    "scratched-world.parquet",
    "array-cut.json",
    "array-open.json",
    "labels.jsonl",
    "nan.jsonl",
    "infinity.jsonl",
    "null-score.jsonl",
    "score-count.jsonl",
    "latin1.jsonl",
    "unknown.jsonl",
    "middle.jsonl",
    "type.jsonl",
    "label-type.jsonl",
    "missing-field.jsonl",
    "version-2.jsonl",
    "no-version.jsonl",
    "huge.jsonl",
    "notes.txt",
    "garbage.bin",
    "number.json",
];

#[test]
fn bad_files() {
    let folder = damaged();
    let said = BAD.map(|name| {
        let sentence = folder.run(&format!("data convert {name} -o out/result.jsonl")).fails(3);
        assert_eq!(folder.names("out"), [""; 0], "{name}");
        assert!(sentence.contains(name), "{sentence}");
        sentence
    });
    insta::assert_snapshot!(said.join("\n"));
}

/// Every command refuses alike, whatever it writes.
#[test]
fn bad_files_in_every_command() {
    let folder = damaged();
    for name in ["missing.jsonl", "empty.jsonl", "cut-world.jsonl.gz", "middle.jsonl", "unknown.jsonl"] {
        for line in [
            format!("data stats {name}"),
            format!("data stats {name} --json"),
            format!("data split {name} -o out/new"),
            format!("data dedup {name} -o out/result.parquet"),
            format!("data dedup world.jsonl --against {name} -o out/result.json"),
            format!("grade --data {name} -o out/result.jsonl.gz"),
            format!("steps --data {name} -o out/result.jsonl.zst"),
        ] {
            let sentence = folder.run(&line).fails(3);
            assert!(sentence.starts_with(&format!("gradus: {name}:")), "{line}: {sentence}");
            assert_eq!(folder.names("out"), [""; 0], "{line}");
        }
    }
    let text = folder.run("steps missing.txt").fails(3);
    assert_eq!(text, "gradus: cannot read missing.txt: No such file or directory");
    let bytes = folder.run("steps garbage.bin").fails(3);
    assert_eq!(bytes, "gradus: cannot read garbage.bin: stream did not contain valid UTF-8");
}

/// A check goes on where it can and names what it found; a file that is not there has not been checked.
#[test]
fn bad_files_checked() {
    let folder = damaged();
    folder.run("data check missing.jsonl").fails(3);
    folder.run("data check nothing").fails(3);
    let said: Vec<_> = BAD[2..]
        .iter()
        .map(|name| {
            let done = folder.run(&format!("data check {name} --show 3"));
            assert_eq!((done.code, done.stderr.as_str()), (Some(1), ""), "{name}");
            let json = folder.run(&format!("data check {name} --json")).json();
            assert!(json["unreadable"].as_u64().unwrap() > 0, "{name}: {json}");
            done.stdout
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

/// Skipping helps where single records are bad, never where a file is; nothing read is a failure too.
#[test]
fn bad_files_with_skip() {
    let folder = damaged();
    let said = BAD.map(|name| {
        let done = folder.run(&format!("data convert {name} --on-error skip -o out/{name}.jsonl"));
        let stderr = done.stderr.replace("\n", "\n    ");
        format!("{name}: exit {}\n    {}", done.code.unwrap(), stderr.trim_end())
    });
    assert_eq!(folder.names("out"), ["middle.jsonl.jsonl", "type.jsonl.jsonl"]);
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn bad_outputs() {
    let folder = Folder::with_world();
    std::fs::create_dir(folder.path("out")).unwrap();
    let lines = [
        "data convert world.jsonl -o out",
        "data convert world.jsonl -o world.jsonl/result.jsonl",
        "data convert world.jsonl -o world.jsonl/new/result.jsonl",
        "data split world.jsonl -o world.jsonl",
        "data dedup world.jsonl -o world.jsonl/result.jsonl",
        "steps --data world.jsonl -o out",
    ];
    let before = folder.bytes("world.jsonl");
    let said = lines.map(|line| format!("$ gradus {line}\n{}", folder.run(line).fails(3)));
    assert_eq!((folder.names("."), folder.names("out").len()), (vec!["out".into(), "world.jsonl".into()], 0));
    assert_eq!(folder.bytes("world.jsonl"), before);
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_missing_folder_of_an_output_is_made() {
    let folder = Folder::with_world();
    let tiny = model("qwen2");
    let vectors = model("bert-mean");
    for (line, name) in [
        ("data convert world.jsonl -o new/convert/x.jsonl".to_owned(), "new/convert/x.jsonl"),
        ("data dedup world.jsonl -o new/dedup/x.jsonl".to_owned(), "new/dedup/x.jsonl"),
        ("grade --data world.jsonl -o new/grade/x.jsonl".to_owned(), "new/grade/x.jsonl"),
        ("synth -n 2 -o new/synth/x.jsonl".to_owned(), "new/synth/x.jsonl"),
        (format!("score world.jsonl --model {tiny} -o new/score/x.jsonl"), "new/score/x.jsonl"),
        (format!("embed one --model {vectors} -o new/embed/x.npy"), "new/embed/x.npy"),
    ] {
        let done = folder.run(&line);
        assert!(matches!(done.code, Some(0 | 1)), "{done}");
        assert!(folder.path(name).is_file(), "{line}");
    }
}

/// A failed run leaves the file that was there before as it was.
#[test]
fn a_failure_keeps_the_old_output() {
    let folder = damaged();
    folder.file("out/result.jsonl", "precious");
    folder.run("data convert middle.jsonl -o out/result.jsonl").fails(3);
    assert_eq!(
        (folder.names("out"), folder.bytes("out/result.jsonl")),
        (vec!["result.jsonl".into()], b"precious".to_vec())
    );
}

#[cfg(unix)]
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_world();
    let locked = folder.path("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write anywhere");
        return;
    }
    let sentence = folder.run("data convert world.jsonl -o locked/result.jsonl").fails(3);
    assert_eq!(sentence, "gradus: locked: Permission denied");
}
