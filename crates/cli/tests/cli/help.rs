//! What the program says about itself, and about a wrong command line.

use super::Folder;

#[test]
fn help() {
    let folder = Folder::new();
    let commands = [
        "",
        "data",
        "data convert",
        "data check",
        "data stats",
        "data split",
        "data dedup",
        "data corrupt",
        "data formats",
        "steps",
        "grade",
        "synth",
        "sample",
        "annotate",
        "annotate monte-carlo",
        "annotate judge",
        "annotate reference",
        "annotate consensus",
        "annotate ensemble",
        "annotate report",
        "annotate export",
        "jobs",
        "jobs list",
        "jobs show",
        "score",
        "select",
        "solve",
        "generate",
        "embed",
        "perplexity",
        "pool",
        "pool build",
        "pool add",
        "pool stats",
        "pool search",
        "pool examples",
        "pool map",
        "models",
        "models list",
        "models pull",
        "models show",
        "models path",
        "models remove",
        "bench",
        "bench processbench",
        "bench preference",
        "bench preference build",
        "bench preference analyse",
        "bench labels",
        "bench compare",
        "completions",
    ];
    for command in commands {
        let text = folder.run(&format!("{command} --help")).succeeds();
        let name = if command.is_empty() { "gradus".to_owned() } else { command.replace(' ', "_") };
        insta::assert_snapshot!(format!("help_{name}"), text);
    }
}

#[test]
fn version() {
    assert_eq!(Folder::new().run("--version").succeeds(), format!("gradus {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn formats() {
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run("data formats").succeeds());
    let json = folder.run("data formats --json").json();
    assert_eq!(json[0]["name"], "gradus");
}

#[test]
fn completions() {
    let script = Folder::new().run("completions bash").succeeds();
    assert!(script.contains("_gradus()") && script.contains("dedup"), "{script}");
}

/// Exit code 2, and a sentence that says which option and what is right.
#[test]
fn wrong_command_lines() {
    let folder = Folder::with_world();
    let lines = [
        "",
        "data convert world.jsonl -o out.jsonl --to nonsense",
        "data convert world.jsonl",
        "data stats",
        "data stats world.jsonl --on-error maybe",
        "data split world.jsonl -o parts --parts train=0.9,test=0.2",
        "data split world.jsonl -o parts --parts train",
        "data split world.jsonl -o parts --parts train=lots",
        "data split world.jsonl -o parts --parts ../train=1",
        "data split world.jsonl -o parts --parts a=0.5,a=0.5",
        "data dedup world.jsonl --threshold 1.5",
        "synth --wrong 2",
        "synth --difficulty 3-9",
        "synth --difficulty hard",
        "synth --families algebra",
        "synth --styles terse,loud",
        "steps a.txt b.txt",
        "steps --strategy magic",
        "steps --data world.jsonl",
        "grade",
    ];
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            let done = folder.run(line);
            assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{line}");
            format!("$ gradus {line}\n{}", done.stderr)
        })
        .collect();
    assert_eq!(folder.names("."), ["world.jsonl"]);
    insta::assert_snapshot!(said.join("\n"));
}
