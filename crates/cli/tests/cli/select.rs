//! `gradus select` on made-up records: what is chosen, what is counted, and what cannot be chosen from.

use super::Folder;

/// Three problems with solutions and one without. The third has no known answer.
const RECORDS: &str = r#"{"gradus":1,"problem":{"id":"half","text":"What is 2/4?","answer":"1/2"},"solutions":[{"id":"half/0","problem_id":"half","steps":["2/4","0.5"],"answer":"0.5","outcome":"correct","scores":{"prm":[0.9,0.2]}},{"id":"half/1","problem_id":"half","steps":["2/4","3"],"answer":"3","outcome":"wrong","scores":{"prm":[0.3,0.6]}},{"id":"half/2","problem_id":"half","steps":["2/4","1/2"],"answer":"\\frac12","outcome":"correct","scores":{"prm":[0.5,0.5]}}]}
{"gradus":1,"problem":{"id":"sum","text":"What is 3 + 4?","answer":"7"},"solutions":[{"id":"sum/0","problem_id":"sum","steps":["3 + 4 = 8"],"answer":"8","scores":{"prm":[0.1]}},{"id":"sum/1","problem_id":"sum","steps":["3 + 4 = 7","The answer is 7."],"scores":{"prm":[0.8,0.9]}}]}
{"gradus":1,"problem":{"id":"open","text":"What is it?"},"solutions":[{"id":"open/0","problem_id":"open","steps":["I give up."]},{"id":"open/1","problem_id":"open","steps":["It is 12."],"answer":"12","scores":{"prm":[0.4]}}]}
{"gradus":1,"problem":{"id":"alone","text":"Who solves this?"}}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("scored.jsonl", RECORDS);
    folder
}

#[test]
fn each_way_to_choose() {
    let folder = folder();
    let lines = [
        "select scored.jsonl",
        "select scored.jsonl --by vote",
        "select scored.jsonl --by vote --vote-power 8",
        "select scored.jsonl --by majority --show 1",
        "select scored.jsonl --by all --aggregation min",
        "select scored.jsonl --by best -n 1 --show 0",
    ];
    let said: Vec<String> =
        lines.iter().map(|line| format!("$ gradus {line}\n{}", folder.run(line).succeeds())).collect();
    insta::assert_snapshot!("select", said.join("\n"));
}

#[test]
fn for_machines() {
    insta::assert_snapshot!("select_json", folder().run("select scored.jsonl --json").succeeds());
}

#[test]
fn the_chosen_solutions_are_a_dataset() {
    let folder = folder();
    folder.run("select scored.jsonl --by vote -o chosen.jsonl").succeeds();
    let rows = folder.rows("chosen.jsonl");
    let chosen: Vec<&str> = rows.iter().map(|row| row["solutions"][0]["id"].as_str().unwrap()).collect();
    assert_eq!(chosen, ["half/2", "sum/1", "open/1"]);
    assert!(rows.iter().all(|row| row["solutions"].as_array().unwrap().len() == 1));
    assert_eq!(
        (&rows[1]["solutions"][0]["answer"], &rows[1]["solutions"][0]["outcome"]),
        (&"7".into(), &"correct".into())
    );
    let done = folder.run("select scored.jsonl -o -");
    assert_eq!((done.code, done.stdout.lines().count()), (Some(0), 3), "{done}");
    assert!(done.stderr.contains("3 problems with 7 solutions"), "{done}");
}

/// Many formats have one solution a record.
#[test]
fn records_of_one_problem_are_put_together() {
    let folder = folder();
    let one = |id: &str, answer: &str, score: f64| {
        format!(
            r#"{{"gradus":1,"problem":{{"id":"p","text":"1 + 1?","answer":"2"}},"solutions":[{{"id":"{id}","problem_id":"p","steps":["{answer}"],"answer":"{answer}","scores":{{"prm":[{score}]}}}}]}}"#
        )
    };
    folder.file("a.jsonl", one("a", "3", 0.2) + "\n");
    folder.file("b.jsonl", one("b", "2", 0.7) + "\n");
    let report = folder.run("select a.jsonl b.jsonl --json").json();
    assert_eq!(
        (&report["problems"], &report["n"], &report["best"]["right"]),
        (&1.into(), &2.into(), &1.0.into())
    );
    assert_eq!(report["chance"]["accuracy"], 0.5);
}

#[test]
fn what_cannot_be_chosen_from_is_said() {
    let folder = folder();
    folder.file("two.jsonl", RECORDS.replace(r#"{"prm":[0.4]}"#, r#"{"prm":[0.4],"other":[0.5]}"#));
    folder.file("unscored.jsonl", RECORDS.replace("scores", "metadata"));
    folder.file("problems.jsonl", r#"{"gradus":1,"problem":{"id":"alone","text":"Who solves this?"}}"#);
    let mut said = Vec::new();
    for (line, code) in [
        ("select two.jsonl", 2),
        ("select two.jsonl --scores prn", 2),
        ("select scored.jsonl --by all -o out.jsonl", 2),
        ("select unscored.jsonl --by majority --vote-power 2", 2),
        ("select unscored.jsonl", 3),
        ("select problems.jsonl", 3),
        ("select nothing.jsonl", 3),
    ] {
        said.push(format!("$ gradus {line}\n{}", folder.run(line).fails(code)));
    }
    for line in [
        "select scored.jsonl --aggregation sum",
        "select scored.jsonl --vote-power 0",
        "select scored.jsonl -n 0",
        "select scored.jsonl --by luck",
    ] {
        let done = folder.run(line);
        assert_eq!(done.code, Some(2));
        said.push(format!("$ gradus {line}\n{}", done.stderr.lines().next().unwrap_or_default()));
    }
    insta::assert_snapshot!("select_faults", said.join("\n"));
    folder.run("select two.jsonl --scores other --show 0").succeeds();
    folder.run("select unscored.jsonl --by majority").succeeds();
    assert!(!folder.path("out.jsonl").exists());
}

/// Model outputs name no solutions: what several runs say counts as in one file, for every command.
#[test]
fn samples_in_several_files_count_as_in_one() {
    let folder = Folder::new();
    let row = |answer: u8| {
        format!(
            "{{\"id\":\"q\",\"question\":\"What is 2 + 3 * 4?\",\"answer\":\"14\",\"model\":\"m\",\"response\":\"So.\\n\\nThe answer is {answer}.\"}}\n"
        )
    };
    let runs = [row(14) + &row(20), row(14) + &row(24), row(14)];
    for (run, rows) in (1..).zip(&runs) {
        folder.file(&format!("run{run}.jsonl"), rows);
    }
    folder.file("all.jsonl", runs.concat());
    let said = |input: &str| {
        let done = folder.run(&format!("select {input} --by majority"));
        assert_eq!(done.code, Some(0), "{done}");
        (done.stdout, done.stderr)
    };
    let three = "run1.jsonl run2.jsonl run3.jsonl";
    let (shown, noted) = said(three);
    assert!(shown.contains("3/5") && shown.contains("1 problem with 5 solutions"), "{shown}");
    assert_eq!((&shown, noted.as_str()), (&said("all.jsonl").0, ""));
    let report = folder.run(&format!("data merge {three} -o merged.jsonl --json")).json();
    assert_eq!((&report["solutions"], &report["united"]), (&5.into(), &0.into()));
    assert_eq!(folder.run(&format!("view {three} -o page.html --json")).json()["solutions"], 5);

    // Records with the ids of these solutions are about the same ones.
    let (shown, _) = said(&format!("{three} merged.jsonl"));
    assert!(shown.contains("3/5") && shown.contains("5 solutions in several files, united"), "{shown}");

    // The same file is read once, whatever it is called.
    folder.file("copy.jsonl", folder.bytes("run1.jsonl"));
    let once = said("run1.jsonl").0;
    for again in ["run1.jsonl", "./run1.jsonl", "copy.jsonl"] {
        let (shown, noted) = said(&format!("run1.jsonl {again}"));
        assert_eq!(shown, once);
        assert_eq!(noted, format!("{again}: the same file as run1.jsonl, read once\n"));
    }
}
