//! `gradus view`: pages of datasets, of several files together, of runs; what is left out is said.

use super::{Done, Folder};

const SCORED: &str = r#"{"gradus":1,"problem":{"id":"half<b>","text":"What is $\\frac{2}{4}$?","answer":"1/2"},"solutions":[{"id":"h/0","problem_id":"half<b>","steps":["$\\frac{2}{4} = 0.5$","So 0.5."],"answer":"0.5","scores":{"one":[0.9,0.2]}}]}
{"gradus":1,"problem":{"id":"sum","text":"What is 3 + 4?","answer":"7"},"solutions":[{"id":"s/0","problem_id":"sum","text":"3 + 4 = 8.\n\nThe answer is 8."}]}
{"gradus":1,"problem":{"id":"alone","text":"Who solves this?"}}
"#;
const OTHER: &str = r#"{"gradus":1,"problem":{"id":"half<b>","text":"What is $\\frac{2}{4}$?","answer":"1/2"},"solutions":[{"id":"h/0","problem_id":"half<b>","steps":["$\\frac{2}{4} = 0.5$","So 0.5."],"answer":"0.5","scores":{"two":[0.8,0.7]}}]}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("scored.jsonl", SCORED);
    folder.file("other.jsonl", OTHER);
    folder
}

/// Standard output of a run that went well; how texts were cut is a note.
#[track_caller]
fn said(done: Done) -> String {
    assert_eq!(done.code, Some(0), "{done}");
    done.stdout
}

fn text(folder: &Folder, name: &str) -> String {
    String::from_utf8(folder.bytes(name)).unwrap()
}

#[test]
fn a_page_lies_beside_its_file() {
    let folder = folder();
    let said = said(folder.run("view scored.jsonl"));
    assert!(said.contains("3 problems with 2 solutions written to scored.view.html"), "{said}");
    let page = text(&folder, "scored.view.html");
    for shown in [
        "<title>scored.jsonl</title>",
        "<mfrac>",
        "half&lt;b&gt;",
        "correct answer",
        "wrong answer",
        "No solutions.",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    // The text was cut into steps.
    assert!(page.contains("The answer is 8.</div>"), "{page}");
    assert!(!page.contains("half<b>"));
}

#[test]
fn scores_of_several_files_stand_side_by_side() {
    let folder = folder();
    said(folder.run("view scored.jsonl other.jsonl -o both.html --threshold 0.75"));
    let page = text(&folder, "both.html");
    assert!(page.contains("scores</span> one") && page.contains("scores</span> two"));
    assert!(page.contains("below 0.75 are suspected"));
    assert!(page.contains("Most probable first error"));
    said(folder.run("view scored.jsonl -o posterior.html --prior 2"));
    assert!(text(&folder, "posterior.html").contains("most probable first one by the scores (prior 2)"));
    let done = folder.run("view scored.jsonl -o -");
    assert!(done.stdout.starts_with("<!doctype html>") && done.stderr.contains("3 problems"), "{done}");
}

#[test]
fn what_is_left_out_is_said() {
    let folder = folder();
    let short = said(folder.run("view scored.jsonl --limit 1"));
    assert!(
        short.contains("1 problem with 1 solution")
            && short.contains("2 more records are left out: raise --limit"),
        "{short}"
    );
    assert!(text(&folder, "scored.view.html").contains("The first 1 of 3 records are shown."));
    let json = said(folder.run("view scored.jsonl --limit 1 --json"));
    assert!(json.contains("\"left_out\": 2"), "{json}");
    folder.file("bad.jsonl", format!("{SCORED}{{\"gradus\":1}}\n"));
    assert_eq!(folder.run("view bad.jsonl").code, Some(3));
    let skipped = said(folder.run("view bad.jsonl --on-error skip"));
    assert!(skipped.contains("1 record skipped"), "{skipped}");
}

#[test]
fn runs_and_reports_have_pages_of_their_own() {
    let folder = folder();
    std::fs::create_dir(folder.path("run")).unwrap();
    folder.file("run/metrics.jsonl", "{\"step\":1,\"split\":\"train\",\"time\":1.0,\"loss\":0.5}\n");
    folder.run("view run").succeeds();
    assert!(text(&folder, "run/curves.html").contains("<svg"));
    std::fs::create_dir_all(folder.path("report")).unwrap();
    folder.file("report/report.json", "{}");
    folder.file("report/report.html", "");
    for input in ["report", "report/report.json"] {
        let said = folder.run(&format!("view {input}")).fails(3);
        assert!(said.contains("its page is report/report.html"), "{said}");
    }
    assert!(folder.run("view -").fails(2).contains("set -o"));
}
