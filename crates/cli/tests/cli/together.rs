//! What belongs together stays together: samples of several models and seeds, with repetitions, joined by problem, scored,
//! chosen from and labeled; and whose labels are used where several annotators gave some.

use gradus_llm::scripted::server::{Server, replies};
use serde_json::{Value, json};

use super::Folder;

const PROBLEM: &str = r#"{"gradus":1,"problem":{"id":"p1","text":"What is 2 + 3?","answer":"5"}}
"#;

/// Five equal right answers and three different wrong ones, in this order: wrong ones first.
fn drawn(_prompt: &str, sample: usize, _seed: u64) -> String {
    let answer = [7, 8, 9, 5, 5, 5, 5, 5][sample];
    format!("Let us add.\n\nThe answer is \\boxed{{{answer}}}.")
}

fn sampled(folder: &Folder, server: &Server, model: &str, seed: u64, output: &str) {
    let line = format!(
        "sample problems.jsonl -n 8 --seed {seed} -o {output} --endpoint {} --model {model}",
        server.url
    );
    let done = folder.run_at_home(&line);
    assert_eq!(done.code, Some(0), "{done}");
}

fn solutions(row: &Value) -> &Vec<Value> {
    row["solutions"].as_array().unwrap()
}

#[test]
fn draws_count_in_votes_and_are_labeled_once() {
    let (folder, server) = (Folder::new(), Server::in_thread(replies(drawn)));
    folder.file("problems.jsonl", PROBLEM);
    sampled(&folder, &server, "tiny", 0, "a.jsonl");
    let rows = folder.rows("a.jsonl");
    assert_eq!(solutions(&rows[0]).len(), 8, "every sample is kept");
    let chosen = folder.run("select a.jsonl --by majority --json").json();
    let [row] = &chosen["choices"].as_array().unwrap()[..] else { panic!("one problem") };
    assert_eq!((&row["majority"]["answer"], &row["majority"]["votes"]), (&"5".into(), &5.into()));
    assert_eq!((&row["chance"], &chosen["majority"]["accuracy"]), (&json!(0.625), &json!(1.0)));

    let asked = server.seen().len();
    let judge = Server::in_thread(replies(|_, _, _| "Fine. \\boxed{-1}".to_owned()));
    let line = format!("annotate judge a.jsonl -o judged.jsonl --json --endpoint {} --model j", judge.url);
    let summary = folder.run_at_home(&line).json();
    assert_eq!((judge.seen().len(), asked), (4, 1), "one request for each text");
    assert_eq!((&summary["labeled"], &summary["repeated"]), (&8.into(), &4.into()));
    assert_eq!(summary["cost"]["requests"], 4);
    let judged = folder.rows("judged.jsonl");
    assert!(solutions(&judged[0]).iter().all(|solution| solution["annotations"][0]["first_error"] == "none"));
}

#[test]
fn samples_of_several_models_and_seeds_join_by_problem() {
    let (folder, server) = (Folder::new(), Server::in_thread(replies(drawn)));
    folder.file("problems.jsonl", PROBLEM);
    let files = ["qwen-0.jsonl", "qwen-1.jsonl", "llama-0.jsonl", "llama-1.jsonl"];
    for (file, (model, seed)) in files.iter().zip([("qwen", 0), ("qwen", 1), ("llama", 0), ("llama", 1)]) {
        sampled(&folder, &server, model, seed, file);
    }
    let all = files.join(" ");
    let shown = folder.run(&format!("data merge {all} -o merged.jsonl")).succeeds();
    assert!(shown.contains("1 problem with 32 solutions"), "{shown}");
    let merged = folder.rows("merged.jsonl");
    let ids: std::collections::BTreeSet<&str> =
        solutions(&merged[0]).iter().map(|solution| solution["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 32, "each sample has an id of its own");
    assert!(ids.iter().all(|id| id.starts_with("p1/qwen/") || id.starts_with("p1/llama/")), "{ids:?}");
    // Merging again changes nothing.
    folder.run(&format!("data merge merged.jsonl {all} -o again.jsonl")).succeeds();
    assert_eq!(folder.bytes("merged.jsonl"), folder.bytes("again.jsonl"));

    // Recorded scores: a wrong answer is scored highest.
    let scored: String = merged.iter().map(with_scores).collect();
    folder.file("scored.jsonl", scored);
    let chosen = folder.run("select scored.jsonl --by all --json").json();
    let row = &chosen["choices"][0];
    assert_eq!((&row["candidates"], &row["best"]["answer"]), (&32.into(), &"7".into()));
    assert_eq!((&row["vote"]["answer"], &row["vote"]["votes"]), (&"5".into(), &20.into()));
    let done = folder.run(&format!("bench best-of-n scored.jsonl {all} -o run --resamples 10 --json"));
    let report = done.json();
    let [set] = &report["numbers"]["best-of-n"]["sets"].as_array().unwrap()[..] else {
        panic!("one data set: {done}")
    };
    assert_eq!((&set["candidates"], &set["problems"]), (&32.into(), &1.into()));
    let last = |numbers: &Value| numbers.as_array().unwrap().last().unwrap()["value"].clone();
    assert_eq!((last(&set["majority"]), last(&set["chance"])), (json!(1.0), json!(0.625)));
}

/// Scores by answer.
fn with_scores(row: &Value) -> String {
    let mut row = row.clone();
    for solution in row["solutions"].as_array_mut().unwrap() {
        let score = if solution["answer"] == "7" { 0.9 } else { 0.5 };
        let steps = solution["steps"].as_array().unwrap().len();
        solution["scores"] = json!({ "prm": vec![score; steps] });
    }
    row.to_string() + "\n"
}

#[test]
fn a_preference_benchmark_is_built_from_sampled_files() {
    let folder = Folder::new();
    let problems: String = (0..4)
        .map(|n| format!("{{\"gradus\":1,\"problem\":{{\"id\":\"p{n}\",\"text\":\"What is {n} + 1?\",\"answer\":\"{}\"}}}}\n", n + 1))
        .collect();
    folder.file("problems.jsonl", problems);
    let server = Server::in_thread(replies(|prompt, sample, _| {
        let n = (0..4).find(|n| prompt.contains(&format!("What is {n} + 1?"))).unwrap();
        format!("We add.\n\nThe answer is \\boxed{{{}}}.", if sample == 0 { n + 1 } else { 77 })
    }));
    for model in ["qwen", "llama", "mistral"] {
        let line =
            format!("sample problems.jsonl -n 2 -o {model}.jsonl --endpoint {} --model {model}", server.url);
        assert_eq!(folder.run_at_home(&line).code, Some(0));
    }
    let built =
        folder.run("bench preference build qwen.jsonl llama.jsonl mistral.jsonl -o ops.jsonl --json").json();
    assert_eq!(built["families"], json!(["llama", "mistral", "qwen"]));
    assert_eq!((&built["per_class"], &built["problems"]), (&4.into(), &4.into()));
}

#[test]
fn contradictions_are_refused_in_one_sentence() {
    let folder = Folder::new();
    let record = |text: &str, step: &str| {
        format!(
            r#"{{"gradus":1,"problem":{{"id":"p","text":"{text}"}},"solutions":[{{"id":"p/0","problem_id":"p","steps":["{step}"]}}]}}"#
        )
    };
    folder.file("a.jsonl", record("Why?", "So."));
    folder.file("b.jsonl", record("Why?", "Else."));
    folder.file("c.jsonl", record("How?", "So."));
    let said = [
        folder.run("data merge a.jsonl b.jsonl -o c2.jsonl").fails(3),
        folder.run("data merge a.jsonl c.jsonl -o c2.jsonl").fails(3),
    ];
    insta::assert_snapshot!("merge_faults", said.join("\n"));
    assert!(!folder.path("c2.jsonl").exists());
}

/// One solution, labeled by a judge, by Monte Carlo and by a person, in this order.
const SEVERAL: &str = r#"{"gradus":1,"problem":{"id":"p","text":"What is 2 + 3?","answer":"5"},"solutions":[{"id":"p/0","problem_id":"p","steps":["Add.","It is 6."],"annotations":[{"labels":[{"mark":"incorrect","source":{"judge":{"model":"j","agreeing":1,"votes":1}}},null],"first_error":0},{"labels":[{"mark":"correct","value":0.5,"source":{"monte_carlo":{"successes":2,"samples":4}}},{"mark":"incorrect","value":0.0,"source":{"monte_carlo":{"successes":0,"samples":4}}}],"first_error":1}]}]}
"#;

#[test]
fn one_rule_says_whose_labels_are_used() {
    let folder = Folder::new();
    folder.file("several.jsonl", SEVERAL);
    let export = |options: &str| -> (Value, Value) {
        let line = format!("annotate export several.jsonl --to trl -o out.jsonl --json {options}");
        (folder.run(&line).json(), folder.rows("out.jsonl")[0]["labels"].clone())
    };
    let (summary, labels) = export("");
    assert_eq!(summary["labels_by"], json!({ "judge j": 1 }), "a judge is trusted more than Monte Carlo");
    assert_eq!((&summary["several_annotators"], labels), (&1.into(), json!([false])));
    let (summary, labels) = export("--annotator monte-carlo");
    assert_eq!((&summary["labels_by"], labels), (&json!({ "monte-carlo": 1 }), json!([true, false])));
    let (_, labels) = export("--annotator monte-carlo --labels soft");
    assert_eq!(labels, json!([0.5, 0.0]));
    folder.file(
        "person.jsonl",
        SEVERAL.replace(r#"{"judge":{"model":"j","agreeing":1,"votes":1}}"#, r#""human""#),
    );
    let (summary, _) = export("person.jsonl");
    assert_eq!(summary["labels_by"], json!({ "human": 1 }), "labels of both files are united");
    let sentence =
        folder.run("annotate export several.jsonl --to trl -o none.jsonl --annotator human").fails(3);
    assert!(
        sentence.ends_with(
            "no solution has training labels by human; the data has labels by judge j, monte-carlo"
        ),
        "{sentence}"
    );
    let nothing = folder.run("annotate consensus several.jsonl -o none.jsonl");
    assert_eq!(nothing.code, Some(0), "{nothing}");
    assert!(nothing.stderr.contains("no solution was kept: none.jsonl is empty"), "{nothing}");
    let shown = folder.run("annotate export several.jsonl --to trl -o out.jsonl").succeeds();
    assert!(shown.contains("1  labeled by judge j") && shown.contains("see --annotator"), "{shown}");
    let line = "bench labels person.jsonl several.jsonl --annotator judge -o run --json";
    let measured = folder.run(line).json()["numbers"]["labels"]["annotators"].clone();
    assert_eq!(measured.as_object().unwrap().keys().collect::<Vec<_>>(), ["judge j"]);
    // Converting follows the same rule.
    folder.run("data convert person.jsonl several.jsonl --to trl -o converted.jsonl").succeeds();
    assert_eq!(folder.rows("converted.jsonl")[0]["labels"], json!([false]));
}

/// Two solutions with Monte Carlo counts of 8 completions each.
fn counted(first: [u32; 2], second: [u32; 2]) -> String {
    let labels = |counts: [u32; 2]| {
        let label = |count: u32| {
            json!({ "mark": if count > 0 { "correct" } else { "incorrect" }, "value": f64::from(count) / 8.0,
                "source": { "monte_carlo": { "successes": count, "samples": 8 } } })
        };
        let first_error = counts.iter().position(|count| *count == 0);
        json!([{ "labels": counts.map(label), "first_error": first_error.map_or(json!("none"), |at| json!(at)) }])
    };
    let solution = |id: &str, counts: [u32; 2]| json!({ "id": id, "problem_id": "p", "steps": [format!("Add {id}."), "It is 6."], "annotations": labels(counts) });
    let record = json!({ "gradus": 1, "problem": { "id": "p", "text": "What is 2 + 3?", "answer": "5" },
        "solutions": [solution("p/a", first), solution("p/b", second)] });
    record.to_string() + "\n"
}

#[test]
fn consensus_keeps_soft_values_and_monte_carlo_is_relabeled_without_sampling() {
    let folder = Folder::new();
    folder.file("mc.jsonl", counted([6, 2], [5, 0]));
    let judge = |row: &str| {
        let mut row: Value = serde_json::from_str(row).unwrap();
        for solution in row["solutions"].as_array_mut().unwrap() {
            let label = |mark: &str| json!({ "mark": mark, "source": { "judge": { "model": "j", "agreeing": 1, "votes": 1 } } });
            solution["annotations"] =
                json!([{ "labels": [label("correct"), label("incorrect")], "first_error": 1 }]);
        }
        row.to_string() + "\n"
    };
    folder.file("judged.jsonl", judge(&counted([6, 2], [5, 0])));
    let kept = |mc: &str| {
        let line = format!("annotate consensus {mc} judged.jsonl -o agreed.jsonl --json");
        let summary = folder.run(&line).json();
        let rows = folder.rows("agreed.jsonl");
        (summary["kept"].clone(), rows[0]["solutions"].clone())
    };
    let (count, agreed) = kept("mc.jsonl");
    assert_eq!((count, &agreed[0]["id"]), (1.into(), &"p/b".into()), "the judge sees an error in both");
    let annotations = agreed[0]["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), 3, "the sources' labels stay: {agreed}");
    let values: Vec<&Value> =
        annotations[2]["labels"].as_array().unwrap().iter().map(|l| &l["value"]).collect();
    assert_eq!(values, [&json!(0.625), &json!(0.0)]);

    // At a threshold of 3, Monte Carlo finds the judge's error in both.
    let shown = folder.run("annotate relabel mc.jsonl --threshold 3 -o mc3.jsonl").succeeds();
    assert!(shown.contains("2 of 2 solutions relabeled: correct if more than 3 of 8 completions"), "{shown}");
    assert!(shown.contains("1 solution with another first error than before"), "{shown}");
    let (count, agreed) = kept("mc3.jsonl");
    assert_eq!((count, &agreed[0]["id"]), (2.into(), &"p/a".into()));
    // What is combined already is no annotator of a further consensus.
    let again = folder.run("annotate consensus agreed.jsonl -o again.jsonl --json").json();
    assert_eq!(again["annotators"], json!(["judge j", "monte-carlo"]));
    assert_eq!(folder.bytes("agreed.jsonl"), folder.bytes("again.jsonl"));
    // Hard or soft, from the consensus or from one source of it.
    folder.run("annotate export agreed.jsonl --to prm -o soft.jsonl").succeeds();
    let label = &folder.rows("soft.jsonl")[0]["solutions"][0]["annotations"][0]["labels"][1];
    assert_eq!((&label["mark"], &label["value"]), (&"incorrect".into(), &json!(0.25)));
    let by =
        folder.run("annotate export agreed.jsonl --to trl --annotator judge -o hard.jsonl --json").json();
    assert_eq!(by["labels_by"], json!({ "judge j": 2 }));
    // A consensus of labels that are relabeled is outdated.
    let again = folder.run("annotate relabel agreed.jsonl --threshold 0 -o back.jsonl --json").json();
    assert_eq!((&again["outdated"], &again["changed"]), (&2.into(), &1.into()));
    assert!(
        folder
            .run("annotate relabel mc.jsonl --threshold 8 -o x.jsonl")
            .fails(2)
            .contains("of 8 completions")
    );
    assert!(
        folder
            .run("annotate relabel judged.jsonl --threshold 1 -o x.jsonl")
            .fails(3)
            .contains("no solution has Monte Carlo")
    );
}

/// Somebody else's file has labels at one of two equal samples, and not at the first.
#[test]
fn labels_of_any_copy_of_a_text_are_exported() {
    let folder = Folder::new();
    let solution = |id: &str, annotations: Value| json!({"id": id, "problem_id": "p1", "steps": ["2 + 3 = 5.", "So 5."], "annotations": annotations});
    let labels =
        json!([{"labels": [{"mark": "correct", "source": "human"}, {"mark": "correct", "source": "human"}]}]);
    let row = json!({
        "gradus": 1,
        "problem": {"id": "p1", "text": "What is 2 + 3?", "answer": "5"},
        "solutions": [solution("a", json!([])), solution("b", labels)],
    });
    folder.file("labeled.jsonl", format!("{row}\n"));
    let shown = folder.run("annotate export labeled.jsonl --to trl -o trl.jsonl").succeeds();
    assert!(shown.contains("1 of 2 solutions with 2 labeled steps"), "{shown}");
    assert!(shown.contains("1  omitted: solutions with the text of an earlier one"), "{shown}");
    assert_eq!(folder.rows("trl.jsonl")[0]["labels"], json!([true, true]));
}

#[test]
fn monte_carlo_of_two_models_is_two_annotators() {
    let folder = Folder::new();
    let by = |model: &str| {
        counted([6, 2], [5, 0])
            .replace(r#""monte_carlo":{"#, &format!(r#""monte_carlo":{{"model":"{model}","#))
    };
    folder.file("a.jsonl", by("a"));
    folder.file("b.jsonl", by("b"));
    // They say the same of every solution, and are two all the same; one file twice is one.
    let summary = folder.run("annotate consensus a.jsonl b.jsonl -o agreed.jsonl --json").json();
    assert_eq!(summary["annotators"], json!(["monte-carlo a", "monte-carlo b"]));
    assert_eq!(summary["kept"], 2);
    folder.file("copy.jsonl", by("a"));
    let sentence = folder.run("annotate consensus a.jsonl copy.jsonl -o x.jsonl").fails(3);
    assert!(sentence.contains("only one annotator (monte-carlo a)"), "{sentence}");
    // A kind names all of them.
    let line = "annotate consensus a.jsonl b.jsonl --only monte-carlo -o agreed.jsonl --json";
    assert_eq!(folder.run(line).json()["kept"], 2);
    let line = "annotate export agreed.jsonl --to trl --annotator monte-carlo -o trl.jsonl --json";
    assert_eq!(folder.run(line).json()["labels_by"], json!({ "monte-carlo a": 2 }));
    // Each model's labels are relabeled, and stay its own.
    folder.run("annotate relabel agreed.jsonl --threshold 3 -o strict.jsonl").succeeds();
    let annotations = folder.rows("strict.jsonl")[0]["solutions"][0]["annotations"].clone();
    let labels: Vec<(&Value, &Value)> = annotations
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (&found["first_error"], &found["labels"][0]["source"]["monte_carlo"]["model"]))
        .collect();
    assert_eq!(labels, [(&json!(1), &json!("a")), (&json!(1), &json!("b"))]);
}

#[test]
fn json_outputs_say_their_version_and_scores_have_steps() {
    let folder = Folder::new();
    folder.file("mc.jsonl", counted([6, 2], [5, 0]));
    let model = super::model("qwen2");
    let done = folder
        .run(&format!("score mc.jsonl --model {model} --profile plain --name prm --json -o scored.jsonl"));
    let scored = done.json();
    let [first, _] = &scored["results"].as_array().unwrap()[..] else { panic!("two solutions: {done}") };
    assert_eq!((&first["solution"], first["scores"].as_array().unwrap().len()), (&"p/a".into(), 2));
    let select = folder.run("select scored.jsonl --json").json();
    let grade = folder.run("grade 1/2 0.5 --json").json();
    let graded = folder.run("grade --data scored.jsonl --json").json();
    for document in [&scored, &select, &grade, &graded] {
        assert_eq!(document["schema"], 1, "{document}");
    }
    // The same steps are scored once.
    let twice = folder.rows("scored.jsonl")[0].clone();
    let mut row = twice.clone();
    let mut copy = twice["solutions"][0].clone();
    copy["id"] = "p/c".into();
    row["solutions"].as_array_mut().unwrap().push(copy);
    folder.file("repeated.jsonl", row.to_string());
    let line =
        format!("score repeated.jsonl --model {model} --profile plain --name again --json -o again.jsonl");
    let again = folder.run(&line).json();
    assert_eq!(
        (&again["repeated"], &again["solutions"], &again["tokens"]),
        (&1.into(), &3.into(), &scored["tokens"])
    );
}
