//! What the program says about itself, and about a wrong command line.

use std::path::Path;

use super::{Folder, model};

/// The names under `Commands:` in a help text; `help` itself has none.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let entries = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = entries.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command from the root down, each with a snapshot of its own.
#[test]
fn help() {
    let folder = Folder::new();
    let mut open = vec![String::new()];
    let mut seen = 0;
    while let Some(command) = open.pop() {
        let text = folder.run(&format!("{command} --help")).succeeds();
        let found = subcommands(&text).into_iter();
        open.extend(found.map(|name| format!("{command} {name}").trim_start().to_owned()));
        let name = if command.is_empty() { "gradus".to_owned() } else { command.replace(' ', "_") };
        insta::assert_snapshot!(format!("help_{name}"), text);
        seen += 1;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let stored = names.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("cli__help__help_") && name.ends_with(".snap")
    });
    assert_eq!(stored.count(), seen, "one snapshot for each command, and none of a command that is gone");
}

/// Options that were renamed are accepted under their old names, and help does not mention these.
#[test]
fn old_spellings_are_accepted() {
    let folder = Folder::with_world();
    folder.run("synth -n 2 --wrong 0.5 -o two.jsonl").succeeds();
    folder.run("data split world.jsonl -o parts --parts a=0.5,b=0.5").succeeds();
    folder.run("steps --data --recut world.jsonl -o steps.jsonl").succeeds();
    let model = model("qwen2");
    let score = format!("score world.jsonl --model {model} --dequantise --token-budget 64 --show 0");
    folder.run(&score).succeeds();
    let solve = format!("solve 1+1? --strategy beam --width 1 --step-tokens 4 --max-steps 1 --model {model}");
    folder.run(&format!("{solve} --profile plain")).succeeds();
    let said = folder.run("annotate ensemble world.jsonl --rule majority --least 0.9").fails(2);
    assert!(said.contains("--min-confidence"), "{said}");
    assert!(folder.run("bench preference analyse --help").succeeds().contains("analyze"));
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
        "data split world.jsonl -o parts --splits train=0.9,test=0.2",
        "data split world.jsonl -o parts --splits train",
        "data split world.jsonl -o parts --splits train=lots",
        "data split world.jsonl -o parts --splits ../train=1",
        "data split world.jsonl -o parts --splits a=0.5,a=0.5",
        "data dedup world.jsonl --threshold 1.5",
        "synth --error-rate 2",
        "synth --difficulty 3-9",
        "synth --difficulty hard",
        "synth --families algebra",
        "synth --styles terse,loud",
        "steps a.txt b.txt",
        "steps --strategy magic",
        "steps --data world.jsonl",
        "grade",
        "train critic-data world.jsonl -o critic.jsonl --threshold 0.5",
        "train critic-data world.jsonl -o critic.jsonl --concurrency 2",
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
