//! Files of model outputs in the forms in which other programs write them: scored without a conversion in between.

use serde_json::{Value, json};

use super::{Folder, model};

const TEXT: &str = "Three times four is 12.\n\nTwo more are 14.\n";

/// A file for each form, with the options it needs, and how many solutions and steps it holds.
fn shapes() -> Vec<(&'static str, String, &'static str, u64, u64)> {
    let turn = |role: &str, content: &str| json!({"role": role, "content": content});
    let lines = |row: Value| format!("{row}\n");
    let inspect = json!({"id": 1, "epoch": 1, "input": "What is 2 + 3 * 4?", "target": "14",
        "output": {"model": "m", "choices": [{"message": turn("assistant", TEXT)}]}});
    vec![
        (
            "response.jsonl",
            lines(json!({"question": "What is 2 + 3 * 4?", "response": TEXT, "answer": "14"})),
            "",
            1,
            2,
        ),
        (
            "completions.jsonl",
            lines(json!({"prompt": "What is 2 + 3 * 4?", "completions": [TEXT, "20"]})),
            "",
            2,
            3,
        ),
        (
            "target.jsonl",
            lines(json!({"input": "What is 2 + 3 * 4?", "output": TEXT, "target": "14"})),
            "",
            1,
            2,
        ),
        ("solution.jsonl", lines(json!({"problem": "What is 2 + 3 * 4?", "solution": TEXT})), "", 1, 2),
        (
            "generations.json",
            json!([{"question": "What is 2 + 3 * 4?", "generations": [TEXT, TEXT]}]).to_string(),
            "",
            2,
            4,
        ),
        (
            "messages.jsonl",
            lines(json!({"messages": [turn("user", "What is 2 + 3 * 4?"), turn("assistant", TEXT)]})),
            "",
            1,
            2,
        ),
        (
            "sharegpt.jsonl",
            lines(
                json!({"conversations": [{"from": "human", "value": "What is 2 + 3 * 4?"}, {"from": "gpt", "value": TEXT}]}),
            ),
            "",
            1,
            2,
        ),
        (
            "samples_gsm8k.jsonl",
            lines(
                json!({"doc_id": 0, "doc": {"question": "What is 2 + 3 * 4?", "answer": "#### 14"}, "target": "14",
                "arguments": {"gen_args_0": {"arg_0": "Q:"}}, "resps": [[TEXT]], "filtered_resps": ["14"]}),
            ),
            "",
            1,
            2,
        ),
        (
            "inspect.json",
            json!({"version": 2, "eval": {"task": "t"}, "samples": [inspect]}).to_string(),
            "",
            1,
            2,
        ),
        (
            "rollout.jsonl",
            lines(
                json!({"input": "user\nWhat is 2 + 3 * 4?\nassistant\n", "output": TEXT, "gts": "14", "score": 1.0, "step": 1}),
            ),
            "",
            1,
            2,
        ),
        (
            "steps.jsonl",
            lines(json!({"problem": "What is 2 + 3 * 4?", "steps": ["3 * 4 = 12", "2 + 12 = 14"]})),
            "",
            1,
            2,
        ),
        ("table.csv", format!("question,response,answer\nWhat is 2 + 3 * 4?,\"{TEXT}\",14\n"), "", 1, 2),
        ("table.tsv", format!("question\tresponse\nWhat is 2 + 3 * 4?\t\"{TEXT}\"\n"), "", 1, 2),
        ("solution.txt", TEXT.to_owned(), "--problem=Sum?", 1, 2),
        (
            "other.jsonl",
            lines(json!({"ask": "What is 2 + 3 * 4?", "reply": {"text": TEXT}})),
            "--map=problem=ask,solution=reply.text",
            1,
            2,
        ),
        (
            "ours.jsonl",
            lines(json!({"gradus": 1, "problem": {"id": "p", "text": "What is 2 + 3 * 4?"},
                "solutions": [{"id": "p/0", "problem_id": "p", "text": TEXT}]})),
            "",
            1,
            2,
        ),
    ]
}

#[test]
fn every_shape_of_outputs_is_scored() {
    let folder = Folder::new();
    let mut files = shapes();
    let (_, content, ..) = &files[0];
    folder.file("rows.jsonl", content);
    folder.run("data convert rows.jsonl --to outputs -o table.parquet").succeeds();
    files.push(("table.parquet", String::new(), "", 1, 2));
    for (name, content, options, solutions, steps) in files {
        if name != "table.parquet" {
            folder.file(name, content);
        }
        let model = model("qwen2");
        let mut words = vec!["score", name, "--model", &model, "--profile", "plain", "--json"];
        words.extend((!options.is_empty()).then_some(options));
        let done = folder.run_args(&words);
        assert_eq!(done.code, Some(0), "{name}: {done}");
        let report = done.json();
        assert_eq!(
            (&report["solutions"], &report["steps"]),
            (&json!(solutions), &json!(steps)),
            "{name}: {done}"
        );
        let is_text = name != "steps.jsonl";
        assert_eq!(done.stderr.contains("split into steps"), is_text, "{name}: {done}");
        let is_ambiguous = name == "solution.jsonl";
        assert_eq!(done.stderr.contains("--map reference=solution"), is_ambiguous, "{name}: {done}");
        let lines = usize::from(is_text) + usize::from(is_ambiguous);
        assert_eq!(done.stderr.lines().count(), lines, "{name}: {done}");
    }
}

#[test]
fn a_text_is_cut_without_loss_and_as_asked() {
    let folder = Folder::new();
    let text = "First, 3 * 4 = 12. Then add.\n\n  So 14.\n";
    folder.file("rows.jsonl", json!({"question": "What is 2 + 3 * 4?", "response": text}).to_string());
    let score = format!("score rows.jsonl --model {} --profile plain --name s -o", model("qwen2"));
    for (options, steps) in [
        ("", vec!["First, 3 * 4 = 12. Then add.", "So 14."]),
        ("--steps sentences", vec!["First, 3 * 4 = 12.", "Then add.", "So 14."]),
    ] {
        let done = folder.run(&format!("{score} scored.jsonl {options}"));
        assert_eq!(done.code, Some(0), "{done}");
        let solution = &folder.rows("scored.jsonl")[0]["solutions"][0];
        assert_eq!((&solution["steps"], &solution["text"]), (&json!(steps), &json!(text)));
        std::fs::remove_file(folder.path("scored.jsonl")).unwrap();
    }
}

#[test]
fn without_solutions_a_command_that_needs_them_fails() {
    let folder = Folder::new();
    folder.file("problems.jsonl", r#"{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}"#);
    let model = model("qwen2");
    for line in [
        format!("score problems.jsonl --model {model} --profile plain"),
        "select problems.jsonl".to_owned(),
        "grade --data problems.jsonl".to_owned(),
        format!("perplexity --data problems.jsonl --model {model}"),
        "annotate export problems.jsonl -o out.jsonl --to trl".to_owned(),
        format!("annotate judge problems.jsonl --model {model} -o out.jsonl"),
        format!("bench processbench problems.jsonl --model {model} --profile plain"),
    ] {
        let said = folder.run(&line).fails(3);
        assert!(
            said.contains("no solutions in 1 record (gsm8k)") && said.contains("--map solution="),
            "{line}: {said}"
        );
    }
    let done =
        folder.run(&format!("score problems.jsonl --map solution=answer --model {model} --profile plain"));
    assert_eq!(done.code, Some(0), "{done}");
}

#[test]
fn fields_that_nobody_knows_are_named_with_a_map() {
    let folder = Folder::new();
    folder.file("rows.jsonl", r#"{"user_query": "What is 2 + 3?", "final_text": "It is 5.", "n": 1}"#);
    let said = folder.run("data stats rows.jsonl").fails(3);
    assert!(said.contains("`user_query`, `final_text`, `n`"), "{said}");
    assert!(said.contains("--map problem=user_query,solution=final_text"), "{said}");
    folder.run("data stats rows.jsonl --map problem=user_query,solution=final_text").succeeds();
    let said = folder.run("data stats rows.jsonl --map solution=nothing,problem=user_query").fails(3);
    assert!(said.contains("`nothing`") && said.contains("`final_text`"), "{said}");
    let wrong = folder.run("data stats rows.jsonl --map problm=user_query");
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("`problm` is not one of problem, solution"),
        "{wrong}"
    );
}

#[test]
fn a_suggested_map_can_be_pasted_into_a_shell() {
    let folder = Folder::new();
    folder.file(
        "sheet.csv",
        "ID,Question Text,Model Answer,Expected,Correct?\n1,2+3?,It is 5.,5,yes\n2,2+4?,7,6,no\n",
    );
    let said = folder.run("data stats sheet.csv").fails(3);
    let map = "problem=Question Text,solution=Model Answer,answer=Expected,correct=Correct?";
    assert!(said.contains(&format!("--map '{map}'")), "{said}");
    let done = folder.run_args(&["data", "convert", "sheet.csv", "--map", map, "-o", "out.jsonl"]);
    assert_eq!(done.code, Some(0), "{done}");
    let outcomes: Vec<Value> =
        folder.rows("out.jsonl").iter().map(|row| row["solutions"][0]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["correct", "wrong"]);
}

#[test]
fn filters_of_a_log_that_disagree_are_counted() {
    let folder = Folder::new();
    let row = |filter: &str, score: f64| {
        json!({"doc_id": 0, "doc": {"question": "2+3?"}, "target": "5", "resps": [["It is 5."]],
            "filtered_resps": ["5"], "filter": filter, "exact_match": score})
    };
    let log = format!("{}\n{}\n", row("strict-match", 0.0), row("flexible-extract", 1.0));
    folder.file("samples.jsonl", log);
    let done = folder.run("data convert samples.jsonl -o out.jsonl");
    assert!(done.code == Some(0) && done.stderr.contains("the filters of 1 sample disagree"), "{done}");
    let rows = folder.rows("out.jsonl");
    assert_eq!((rows.len(), &rows[0]["solutions"][0]["outcome"]), (1, &json!("correct")));
}

#[test]
fn one_id_for_two_problems_is_reported() {
    let folder = Folder::new();
    let row = |question: &str| json!({"id": 1, "question": question, "response": "5"});
    folder.file("rows.jsonl", format!("{}\n{}\n", row("2 + 3?"), row("3 + 2?")));
    let done = folder.run("data check rows.jsonl");
    assert_eq!(done.code, Some(1), "{done}");
    assert!(done.stdout.starts_with("rows.jsonl:2: problem id `1` has another text before\n"), "{done}");
}

/// Our own format goes through every container without loss.
#[test]
fn our_records_survive_parquet_and_csv() {
    let folder = Folder::new();
    let annotation = |first_error: Value| json!({"labels": [null, {"mark": "incorrect", "source": "human"}], "first_error": first_error});
    let row = |id: &str, first_error: Value| {
        json!({"gradus": 1, "problem": {"id": id, "text": "14", "domain": "math", "metadata": {"level": 3, "tags": [], "more": {}}},
            "solutions": [{"id": format!("{id}/0"), "problem_id": id, "steps": ["a", "b"], "annotations": [annotation(first_error)],
                "scores": {id: [0.5, 1.0]}, "metadata": {id: null}}]})
    };
    let rows: Vec<String> =
        [row("p", json!(1)), row("q", json!("unknown"))].iter().map(|row| format!("{row}\n")).collect();
    folder.file("ours.jsonl", rows.concat());
    folder.run("data convert ours.jsonl -o plain.jsonl").succeeds();
    for name in ["ours.parquet", "ours.csv", "ours.tsv.gz"] {
        folder.run(&format!("data convert ours.jsonl -o {name}")).succeeds();
        folder.run(&format!("data convert {name} -o back.jsonl")).succeeds();
        assert_eq!(folder.bytes("back.jsonl"), folder.bytes("plain.jsonl"), "{name}");
    }
    assert!(folder.bytes("ours.csv").starts_with(b"gradus,problem,solutions\n"));
}
