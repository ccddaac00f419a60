//! Files of model outputs, in the forms in which other programs write them.

use std::io::Write;

use gradus_core::{Mark, Outcome, Record, Solution, StepLabel};
use gradus_data::files::{self, ReadOptions};
use gradus_data::readers::{FieldMap, Format};
use serde_json::{Value, json};

use super::Scratch;

/// The only record of one row, read by its fields.
fn record(row: &Value) -> Record {
    let (format, parsed) = super::read(row);
    assert_eq!(format, Format::Outputs, "{row}");
    parsed.record
}

/// Problem, right answer, and the text or steps of each solution.
fn said(record: &Record) -> (&str, Option<&str>, Vec<String>) {
    let texts = record.solutions.iter().map(Solution::full_text).collect();
    (&record.problem.text, record.problem.answer.as_deref(), texts)
}

#[test]
fn every_shape_is_a_problem_and_its_solutions() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": text});
    let shapes = [
        json!({"question": "2+3?", "response": "It is 5.", "answer": "5"}),
        json!({"prompt": "2+3?", "completion": "It is 5.", "ground_truth": 5}),
        json!({"prompt": [user("2+3?")], "completion": [assistant("It is 5.")], "answer": 5.0}),
        json!({"input": "2+3?", "output": "It is 5.", "target": "5"}),
        json!({"problem": "2+3?", "solution": "It is 5.", "model": "m", "answer": "5"}),
        json!({"question": "2+3?", "response": "It is 5.", "answer": "Add.\n#### 5"}),
        json!({"messages": [{"role": "system", "content": "Be brief."}, user("2+3?"), assistant("It is 5.")], "gold": "5"}),
        json!({"conversations": [{"from": "human", "value": "2+3?"}, {"from": "gpt", "value": "It is 5."}], "answer": "5"}),
        json!({"doc_id": 0, "doc": {"question": "2+3?", "answer": "#### 5"}, "target": "5", "resps": [["It is 5."]],
            "filtered_resps": ["5"], "arguments": {"gen_args_0": {"arg_0": "Q: 2+3? A:"}}, "exact_match": 1.0}),
        json!({"id": 1, "epoch": 1, "input": [user("2+3?")], "target": "5", "scores": {"match": {"value": "C"}},
            "output": {"model": "m", "choices": [{"message": assistant("It is 5.")}]}}),
        json!({"input": "system\nBe brief.\nuser\n2+3?\nassistant\n", "output": "It is 5.", "gts": "5", "score": 1.0, "step": 3}),
        json!({"problem": "2+3?", "steps": ["It is 5."], "answer": "5"}),
        json!({"instruction": "2+3?", "input": "", "output": "It is 5.", "answer": "5"}),
        json!({"Question": "2+3?", "Response": {"text": "It is 5."}, "Answer": "5"}),
    ];
    for row in &shapes {
        assert_eq!(said(&record(row)), ("2+3?", Some("5"), vec!["It is 5.".to_owned()]), "{row}");
    }
    let several = [
        json!({"question": "2+3?", "generations": ["It is 5.", "It is 6."], "answer": "5"}),
        json!({"prompt": "2+3?", "completions": ["It is 5.", "It is 6."], "answer": "5"}),
        json!({"problem": "2+3?", "responses": [{"text": "It is 5.", "correct": true}, {"content": "It is 6."}], "answer": "5"}),
        json!({"prompt": "2+3?", "completions": [[assistant("It is 5.")], [assistant("It is 6.")]], "answer": "5"}),
        json!({"doc": {"problem": "2+3?"}, "target": "5", "resps": [["It is 5.", "It is 6."]]}),
    ];
    for row in &several {
        let expected = vec!["It is 5.".to_owned(), "It is 6.".to_owned()];
        assert_eq!(said(&record(row)), ("2+3?", Some("5"), expected), "{row}");
    }
}

#[test]
fn outcomes_and_generators_come_along() {
    let rollout = record(&json!({"input": "2+3?", "output": "6", "gts": "5", "score": 0.0, "step": 3}));
    assert_eq!(rollout.solutions[0].outcome, Outcome::Wrong);
    assert_eq!(rollout.solutions[0].metadata["step"], 3);
    let row = json!({"question": "2+3?", "response": "5", "model": "m", "is_correct": true});
    let solution = &record(&row).solutions[0];
    assert_eq!((solution.generator.as_deref(), solution.outcome), (Some("m"), Outcome::Correct));
}

#[test]
fn the_words_for_right_and_wrong_are_read_and_others_refused() {
    let scratch = Scratch::new();
    let map: FieldMap = "correct=verdict".parse().unwrap();
    let read = |row: Value| {
        let path = scratch.file("rows.jsonl", row.to_string());
        let options = ReadOptions { map: Some(map.clone()), ..ReadOptions::default() };
        files::open_with(&[path], options).unwrap().next().unwrap().map(|item| item.record)
    };
    let one = |verdict: &Value| read(json!({"question": "2+3?", "response": "5", "verdict": verdict}));
    let right = json!([true, 1, 1.0, "TRUE", "1", "yes", "Y", "Correct", "right", "pass", "passed", " ✓"]);
    let wrong =
        json!([false, 0, 0.0, "False", "0.0", "no", "n", "incorrect", "Wrong", "fail", "FAILED", "✗"]);
    for (verdicts, outcome) in [(right, Outcome::Correct), (wrong, Outcome::Wrong)] {
        for verdict in verdicts.as_array().unwrap() {
            assert_eq!(one(verdict).unwrap().solutions[0].outcome, outcome, "{verdict}");
        }
    }
    for verdict in [json!(0.5), json!(2), json!(-1), json!("perhaps"), json!({}), json!([true, false])] {
        let said = one(&verdict).unwrap_err().to_string();
        assert!(said.contains("field `verdict`: expected"), "{said}");
    }
    let said = one(&json!("perhaps")).unwrap_err().to_string();
    assert!(said.contains("yes or no") && said.contains("the string \"perhaps\""), "{said}");

    // A list of verdicts is about a list of samples.
    let several =
        |verdict: Value| read(json!({"problem": "2+3?", "generations": ["5", "6", "7"], "verdict": verdict}));
    let outcomes: Vec<Outcome> = several(json!([true, "no", null]))
        .unwrap()
        .solutions
        .iter()
        .map(|solution| solution.outcome)
        .collect();
    assert_eq!(outcomes, [Outcome::Correct, Outcome::Wrong, Outcome::Unknown]);
    let said = several(json!(true)).unwrap_err().to_string();
    assert!(said.contains("a list with one outcome for each of 3 solutions, found true"), "{said}");

    // A field of a usual name that is something else is no outcome.
    let other = record(&json!({"question": "2+3?", "response": "5", "correct": "B"}));
    assert_eq!(other.solutions[0].outcome, Outcome::Unknown);
    assert_eq!(other.solutions[0].metadata["correct"], "B");
}

#[test]
fn labels_of_steps_are_read() {
    let marks = |row: &Value| -> Vec<Option<bool>> {
        let record = record(row);
        let [annotation] = record.solutions[0].annotations.as_slice() else { return Vec::new() };
        let mark = |label: &Option<StepLabel>| label.as_ref().map(|label| label.mark == Mark::Correct);
        annotation.labels.iter().map(mark).collect()
    };
    let row = |labels: Value| json!({"prompt": "2+3?", "steps": ["Add.", "It is 6."], "labels": labels});
    for labels in [json!([1, 0]), json!([1, -1]), json!([true, false]), json!(["+", "-"])] {
        assert_eq!(marks(&row(labels.clone())), [Some(true), Some(false)], "{labels}");
        let one = json!({"problem": "2+3?", "steps": ["Add.", "It is 6."], "label": labels});
        assert_eq!(marks(&one), [Some(true), Some(false)], "{labels}");
        let inside = json!({"problem": "2+3?", "steps": [{"text": "Add.", "label": labels[0]},
            {"text": "It is 6.", "label": labels[1]}]});
        assert_eq!(marks(&inside), [Some(true), Some(false)], "{labels}");
    }
    assert_eq!(marks(&row(json!([1, null]))), [Some(true), None]);
    let mut partial = row(json!([1, null]));
    partial["response"] = "Add. It is 6.".into();
    let written = Format::Outputs.write(&record(&partial)).rows.remove(0);
    assert_eq!(
        (&written["labels"], &written["steps"], &written["response"]),
        (&json!([true, null]), &partial["steps"], &partial["response"])
    );

    // What is no list of labels stays where it was.
    for other in [json!([1]), json!(["sum", "result"]), json!("wrong")] {
        let record = record(&row(other.clone()));
        assert!(record.solutions[0].annotations.is_empty(), "{other}");
        assert_eq!(record.solutions[0].metadata["labels"], other);
    }
    let scratch = Scratch::new();
    let said = scratch.outcomes(&scratch.file("rows.jsonl", row(json!([0, -1])).to_string()));
    assert_eq!(
        said,
        [
            "rows.jsonl:1: field `labels[0]`: is 0 beside -1, so neutral or wrong: ratings of 1, 0 (neutral) and -1 are \
          read from a field `ratings`"
        ]
    );
}

#[test]
fn choices_stay_in_the_question_and_the_answer_is_letter_and_text() {
    let rows = [
        json!({"question": "2+3?", "choices": ["4", "5"], "answer": 1, "subject": "abstract_algebra"}),
        json!({"question": "2+3?", "choices": {"text": ["4", "5"], "label": ["A", "B"]}, "answerKey": "B"}),
        json!({"question": "2+3?", "options": ["4", "5"], "answer": "B"}),
        json!({"question": "2+3?", "choices": ["4", "5"], "answer": "5", "response": "It is 5."}),
    ];
    for row in &rows {
        let (format, parsed) = super::read(row);
        let problem = &parsed.record.problem;
        assert_eq!(problem.text, "2+3?\nA. 4\nB. 5", "{row}");
        assert_eq!(problem.answer.as_deref(), Some("B"), "{row}");
        assert_eq!(
            [problem.accepts("B"), problem.accepts("5"), problem.accepts("(B)")],
            [Some(true); 3],
            "{row}"
        );
        assert_ne!(problem.accepts("4"), Some(true), "{row}");
        if format == Format::Problems {
            super::comes_back(row, Format::Problems);
        }
    }
}

#[test]
fn an_ambiguous_solution_is_told_and_can_be_told_otherwise() {
    let scratch = Scratch::new();
    let read = |row: &Value, options: ReadOptions| {
        let path = scratch.file("rows.jsonl", row.to_string());
        let item = files::open_with(&[path], options).unwrap().next().unwrap().unwrap();
        (item.record.solutions.len(), item.record.problem.reference.len(), item.note.unwrap_or_default())
    };
    let math = json!({"problem": "2+3?", "solution": "It is 5.", "level": "1"});
    let plain = json!({"problem": "2+3?", "solution": "It is 5."});
    let (solutions, references, note) = read(&math, ReadOptions::default());
    assert_eq!((solutions, references), (0, 1));
    assert!(note.contains("reference") && note.contains("--map solution=solution"), "{note}");
    let (solutions, references, note) = read(&plain, ReadOptions::default());
    assert_eq!((solutions, references), (1, 0));
    assert!(note.contains("generated") && note.contains("--map reference=solution"), "{note}");
    let wanted = ReadOptions { prefer_solutions: true, ..ReadOptions::default() };
    assert_eq!(read(&math, wanted).0, 1);
    let map = |text: &str| ReadOptions { map: Some(text.parse().unwrap()), ..ReadOptions::default() };
    assert_eq!(read(&math, map("solution=solution")), (1, 0, String::new()));
    assert_eq!(read(&plain, map("reference=solution")), (0, 1, String::new()));
    assert_eq!(
        read(&json!({"ask": "2+3?", "right": 5}), map("problem=ask,answer=right")),
        (0, 0, String::new())
    );
}

#[test]
fn the_box_of_a_generated_solution_is_no_gold_answer() {
    let scratch = Scratch::new();
    let gold = |answer: Option<&str>, generated: bool| {
        let mut row = json!({"problem": "2+3?", "solution": "It is $\\boxed{6}$.", "level": "1"});
        if let Some(answer) = answer {
            row["answer"] = answer.into();
        }
        let path = scratch.file("rows.jsonl", row.to_string());
        let options = ReadOptions { prefer_solutions: generated, ..ReadOptions::default() };
        files::open_with(&[path], options).unwrap().next().unwrap().unwrap().record.problem.answer
    };
    assert_eq!(gold(None, true), None);
    assert_eq!(gold(Some("5"), true).as_deref(), Some("5"));
    assert_eq!(gold(None, false).as_deref(), Some("6"), "the reference's box is");
}

#[test]
fn a_map_reads_any_fields_and_unknown_ones_are_named() {
    let scratch = Scratch::new();
    let row = json!({"id": 3, "ask": {"text": "2+3?"}, "cot": "It is 5.", "right_one": 5});
    let path = scratch.file("rows.jsonl", row.to_string());
    let map = "problem=ask.text,solution=cot,answer=right_one".parse().unwrap();
    let options = ReadOptions { map: Some(map), ..ReadOptions::default() };
    let item = files::open_with(std::slice::from_ref(&path), options).unwrap().next().unwrap().unwrap();
    assert_eq!(said(&item.record), ("2+3?", Some("5"), vec!["It is 5.".to_owned()]));
    assert_eq!(item.record.problem.id, "3");
    let row = json!({"user_question": "2+3?", "cot": "It is 5.", "expected": "5"});
    let path = scratch.file("unknown.jsonl", row.to_string());
    let said = scratch.outcomes(&path).join("\n");
    assert!(said.contains("`user_question`, `cot`, `expected`"), "{said}");
    assert!(said.contains("--map problem=user_question,solution=cot,answer=expected"), "{said}");
}

#[test]
fn bad_outputs_are_one_sentence_each() {
    let scratch = Scratch::new();
    let deep = "[".repeat(300) + &"]".repeat(300);
    let rows = [
        json!({"question": 5, "response": {"no": "text"}}).to_string(),
        json!({"question": ["2+3?"], "response": "5"}).to_string(),
        json!({"question": "2+3?", "response": [["5"]]}).to_string(),
        json!({"question": "2+3?", "responses": ["5", null]}).to_string(),
        json!({"problem": "2+3?", "steps": ["a"], "responses": 3}).to_string(),
        json!({"doc": {"question": "2+3?"}, "resps": [[[-1.5, false]]]}).to_string(),
        json!({"doc": {"question": "2+3?"}, "resps": [[["-1.5", "False"]], [["-0.5", "True"]]]}).to_string(),
        format!(r#"{{"question": "2+3?", "response": {deep}}}"#),
    ];
    let said: Vec<String> =
        rows.iter().flat_map(|row| scratch.outcomes(&scratch.file("bad.jsonl", row))).collect();
    insta::assert_snapshot!("bad_outputs", said.join("\n"));
}

#[test]
fn equal_solutions_have_ids_of_their_own() {
    let scratch = Scratch::new();
    let row = json!({"question": "2+3?", "response": "5"});
    let path = scratch.file("rows.jsonl", format!("{row}\n{row}\n"));
    let ids: Vec<String> = files::open(&[path], None)
        .unwrap()
        .map(|item| item.unwrap().record.solutions[0].id.clone())
        .collect();
    assert_eq!(format!("{}#2", ids[0]), ids[1]);
}

#[test]
fn tables_and_text_are_read() {
    let scratch = Scratch::new();
    let csv = "question,response,answer\n2+3?,\"Add, then\n\nsay \"\"5\"\".\",5\n1+1?,2,2\n";
    for (name, content) in [
        ("rows.csv", csv.to_owned()),
        ("rows.txt", csv.to_owned()),
        (
            "rows.tsv",
            "question\tresponse\tanswer\r\n2+3?\t\"Add, then\n\nsay \"\"5\"\".\"\t5\r\n1+1?\t2\t2\r\n"
                .to_owned(),
        ),
    ] {
        let path = scratch.file(name, content);
        let records: Vec<Record> =
            files::open(&[path], None).unwrap().map(|item| item.unwrap().record).collect();
        assert_eq!(
            said(&records[0]),
            ("2+3?", Some("5"), vec!["Add, then\n\nsay \"5\".".to_owned()]),
            "{name}"
        );
        assert_eq!(said(&records[1]), ("1+1?", Some("2"), vec!["2".to_owned()]), "{name}");
    }
    let bad = [
        ("cells.csv", "question,response\n2+3?\n"),
        ("quote.csv", "question,response\n2+3?,\"5\n"),
        ("twice.csv", "question,question\n2+3?,5\n"),
        ("prose.txt", "It is 5.\n"),
    ];
    let said: Vec<String> =
        bad.iter().flat_map(|(name, content)| scratch.outcomes(&scratch.file(name, content))).collect();
    insta::assert_snapshot!("bad_tables", said.join("\n"));

    let path = scratch.file("solution.txt", "Add.\n\nIt is 5.\n");
    let options = ReadOptions { problem: Some("2+3?".to_owned()), ..ReadOptions::default() };
    let item = files::open_with(&[path], options).unwrap().next().unwrap().unwrap();
    assert_eq!(super::outputs::said(&item.record), ("2+3?", None, vec!["Add.\n\nIt is 5.\n".to_owned()]));
}

/// The first record decides what a file is, even if it is the one without a solution.
#[test]
fn a_first_row_without_a_solution_or_with_a_number_is_one_of_outputs() {
    let scratch = Scratch::new();
    let row = |response: Value| json!({"question": "2+3?", "response": response, "answer": "5"});
    let path = scratch.file("null.jsonl", format!("{}\n{}\n", row(Value::Null), row("It is 5.".into())));
    assert_eq!(
        files::open(&[path], None)
            .unwrap()
            .map(|item| item.unwrap().record.solutions.len())
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(said(&record(&row(5.into()))), ("2+3?", Some("5"), vec!["5".to_owned()]));
    let csv = scratch.file("number.csv", "question,response,answer\n2+3?,5,5\nIs it?,true,true\n");
    let records: Vec<Record> = files::open(&[csv], None).unwrap().map(|item| item.unwrap().record).collect();
    assert_eq!(said(&records[0]), ("2+3?", Some("5"), vec!["5".to_owned()]));
    assert_eq!(said(&records[1]), ("Is it?", Some("true"), vec!["true".to_owned()]));
    // A reference is not taken for the solution that is missing, and a count for none.
    let both = json!({"problem": "2+3?", "response": null, "solution": "It is 5.", "level": "1"});
    assert!(record(&both).solutions.is_empty());
    let count = json!({"question": "2+3?", "answer": "5", "samples": 64});
    assert_eq!(super::read(&count).0, Format::Problems);
}

#[test]
fn logs_of_inspect_are_unpacked() {
    let scratch = Scratch::new();
    let sample = |id: u64| {
        json!({"id": id, "epoch": 1, "input": "2+3?", "target": "5",
            "output": {"model": "m", "choices": [{"message": {"role": "assistant", "content": format!("It is {id}.")}}]}})
    };
    let log = json!({"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": [sample(5), sample(6)]});
    let path = scratch.file("log.json", format!("{log:#}"));
    let archive = scratch.path("log.eval");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&archive).unwrap());
    for (name, content) in [
        ("header.json", json!({"eval": {}})),
        ("samples/5_epoch_1.json", sample(5)),
        ("samples/6_epoch_1.json", sample(6)),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content.to_string().as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    for path in [path, archive] {
        let texts: Vec<String> = files::open(std::slice::from_ref(&path), None)
            .unwrap()
            .map(|item| item.unwrap().record.solutions[0].full_text())
            .collect();
        assert_eq!(texts, ["It is 5.", "It is 6."], "{}", path.display());
    }
}

#[test]
fn a_sample_under_several_filters_is_read_once_and_right_where_one_finds_the_answer() {
    let scratch = Scratch::new();
    let row = |id: u64, said: &str, filter: &str, found: &str, score: f64| {
        json!({"doc_id": id, "doc": {"question": format!("{id}+3?")}, "target": "5", "resps": [[said]],
            "filtered_resps": [found], "filter": filter, "exact_match": score})
        .to_string()
    };
    let log = [
        row(2, "It is 5.", "strict-match", "[invalid]", 0.0),
        row(3, "#### 6", "strict-match", "6", 1.0),
        row(4, "It is 8.", "strict-match", "[invalid]", 0.0),
        row(2, "It is 5.", "flexible-extract", "5", 1.0),
        row(3, "#### 6", "flexible-extract", "6", 1.0),
        row(4, "It is 8.", "flexible-extract", "8", 0.0),
    ];
    let path = scratch.file("samples.jsonl", log.join("\n"));
    let items: Vec<files::Item> = files::open(&[path], None).unwrap().collect::<Result<_, _>>().unwrap();
    let found: Vec<_> = items
        .iter()
        .map(|item| (item.record.solutions[0].answer.as_deref(), item.record.solutions[0].outcome))
        .collect();
    assert_eq!(found, [(Some("5"), Outcome::Correct), (Some("6"), Outcome::Correct), (None, Outcome::Wrong)]);
    assert!(items.iter().all(|item| !item.record.solutions[0].id.contains('#')));
    let notes: Vec<&str> = items.iter().filter_map(|item| item.note.as_deref()).collect();
    assert_eq!(
        notes,
        ["the filters of 1 sample disagree: it is right where one of them found the right answer"]
    );
}

#[test]
fn stories_are_unpacked_into_questions() {
    let scratch = Scratch::new();
    let story = ["B is left of A."];
    let stepgame = json!({"0": {"story": story, "question": "Where is B?", "label": "left"},
        "1": {"story": story, "question": "Where is A?", "label": "right"}});
    let spartun = json!({"name": "SpaRTUN", "data": [{"story": story, "identifier": "x", "questions": [
        {"q_id": 1, "q_type": "FR", "question": "Where is B?", "answer": ["left"]},
        {"q_id": 2, "q_type": "FR", "question": "Where is A?", "answer": ["right"]}]}]});
    for file in [stepgame, spartun] {
        let path = scratch.file("stories.json", file.to_string());
        let items: Vec<files::Item> = files::open(&[path], None).unwrap().collect::<Result<_, _>>().unwrap();
        let found: Vec<_> = items
            .iter()
            .map(|item| (item.record.problem.text.as_str(), item.record.problem.answer.as_deref().unwrap()))
            .collect();
        assert_eq!(found, [("Where is B?", "left"), ("Where is A?", "right")]);
        assert!(items.iter().all(|item| item.format == Format::Spatial));
    }
}
