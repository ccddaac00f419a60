//! Projects that people label: made, looked at and exported by the program; labeled through the library, as the page does.

use gradus_core::Mark;
use gradus_label::Labeling;
use gradus_label::requests::{NextRequest, SaveRequest};
use serde_json::json;

use super::Folder;

/// Finishes the next solution of a person: wrong in the first step, or right throughout.
fn finish(labeling: &Labeling, name: &str, right: bool) {
    let task = labeling.next(&NextRequest::of(name)).unwrap().task.unwrap();
    let mut marks = vec![None; task.steps.len()];
    marks[0] = Some(Mark::Incorrect);
    if right {
        marks.fill(Some(Mark::Correct));
    }
    labeling.save(&SaveRequest { finished: true, ..task.save(name, marks) }).unwrap();
}

#[test]
fn a_project_is_made_labeled_and_exported() {
    let folder = Folder::with_world();
    let made = folder.run("label create world.jsonl -o project --people-per-item 2 --name Words").succeeds();
    assert!(made.contains("solutions of 6 problems to label in project"), "{made}");
    assert!(made.contains("gradus serve --label project"), "{made}");
    assert_eq!(folder.names("project"), ["project.json", "records.jsonl"]);
    let again = folder.run("label create world.jsonl -o project").fails(3);
    assert!(again.contains("project: is already there"), "{again}");

    let labeling = Labeling::open(&folder.path("project")).unwrap();
    for (name, right) in [("Ann", true), ("Bo", true), ("Ann", false), ("Bo", true)] {
        finish(&labeling, name, right);
    }
    // Also while it is being labeled.
    let stats = folder.run("label stats project").succeeds();
    assert!(stats.contains("Words: 2 of ") && stats.contains("2 people each"), "{stats}");
    assert!(stats.contains("Ann – Bo") && stats.contains("COHEN'S Κ"), "{stats}");
    let stats = folder.run("label stats project --json").json();
    assert_eq!((&stats["done"], &stats["people"][0]["finished"]), (&json!(2), &json!(2)));
    assert_eq!(stats["pairs"][0]["same_first_error"], json!(0.5));

    let said = folder.run("label export project -o labels.jsonl").succeeds();
    assert!(said.contains("2 labeled solutions in 6 rows written to labels.jsonl"), "{said}");
    let annotations = &folder.rows("labels.jsonl")[0]["solutions"][0]["annotations"];
    let people: Vec<_> = annotations
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|by| by["labels"][0]["source"].get("person"))
        .collect();
    assert_eq!(people, [&json!({"name": "Ann"}), &json!({"name": "Bo"})]);
    for format in ["trl", "prm800k"] {
        let summary = folder
            .run(&format!("label export project --to {format} --combine majority -o {format}.jsonl --json"))
            .json();
        assert_eq!((&summary["rows"], &summary["labeled"]), (&json!(2), &json!(2)), "{summary}");
    }
    // Labels of people are chosen by name, and compared.
    let report = folder.run("annotate report labels.jsonl --only human --json").json();
    let names: Vec<_> = report["annotators"].as_array().unwrap().iter().map(|by| &by["name"]).collect();
    assert!(names.contains(&&json!("human Ann")) && names.contains(&&json!("human Bo")), "{names:?}");
    let refused = folder.run("label stats world.jsonl").fails(3);
    assert!(refused.contains("world.jsonl"), "{refused}");
}

/// Records of labeling tools are read by every command.
#[test]
fn labeling_tools_are_read() {
    let folder = Folder::new();
    let task = json!({"data": {"problem": "What is 2 + 3?", "steps": [{"text": "2 + 3 = 6"}]}, "annotations": [
        {"completed_by": {"email": "ann@example.org"}, "result": [
            {"from_name": "mark_0", "to_name": "step_0", "type": "choices", "value": {"choices": ["-"]}}]}]});
    folder.file("tasks.json", json!([task]).to_string());
    let said = folder.run("data convert tasks.json -o ours.jsonl").succeeds();
    assert!(said.contains("1 record (label-studio)"), "{said}");
    let label = &folder.rows("ours.jsonl")[0]["solutions"][0]["annotations"][0]["labels"][0];
    assert_eq!(label["source"], json!({"person": {"name": "ann@example.org"}}));
    folder.run("data convert tasks.json -o argilla.jsonl --to argilla").succeeds();
    assert_eq!(folder.rows("argilla.jsonl")[0]["responses"]["mark_0"][0]["user_id"], "ann@example.org");
    assert!(
        folder.run("label create argilla.jsonl -o project").succeeds().contains("1 solution of 1 problem")
    );
}
