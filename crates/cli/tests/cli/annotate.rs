//! `gradus sample` and `gradus annotate` against a scripted server: what is asked, what comes out, what it costs, and what
//! happens when things go wrong.

use std::path::Path;

use gradus_llm::scripted::server::{Act, Server, continuing_replies, replies};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Done, Folder};

/// Two problems with reference solutions and a labeled solution each.
pub(super) const DATA: &str = r#"{"gradus":1,"problem":{"id":"p1","text":"What is 2 + 3?","answer":"5","reference":["2 + 3 = 5"]},"solutions":[{"id":"p1/a","problem_id":"p1","steps":["Add 2 and 3.","2 + 3 = 5","The answer is 5."],"outcome":"correct","annotations":[{"labels":[{"mark":"correct","source":"human"},{"mark":"correct","source":"human"},{"mark":"correct","source":"human"}],"first_error":"none"}]}]}
{"gradus":1,"problem":{"id":"p2","text":"What is 4 + 4?","answer":"8","reference":["4 + 4 = 8"]},"solutions":[{"id":"p2/a","problem_id":"p2","steps":["Add 4 and 4.","4 + 4 = 9","The answer is 9."],"outcome":"wrong","annotations":[{"labels":[{"mark":"correct","source":"human"},{"mark":"incorrect","source":"human"},null],"first_error":1}]}]}
"#;

/// A model that solves what it is asked, judges rightly, and compares rightly.
pub(super) fn answer(prompt: &str, sample: usize, _seed: u64) -> String {
    if prompt.contains("<paragraph_0>") {
        let index = if prompt.contains("4 + 4 = 9") { 1 } else { -1 };
        return format!("I looked at every paragraph. \\boxed{{{index}}}");
    }
    if prompt.contains("[O1]") {
        let wrong = prompt.rsplit("Solution to label").next().unwrap().contains("4 + 4 = 9");
        let entry = |step: usize, label: i32| {
            let errors = if label == 1 { "[]" } else { r#"["NUMERIC"]"# };
            format!(
                r#""O{step}":{{"explanation":"See R1.","context":[],"outputs":[],"references":["R1"],"errors":{errors},"label":{label}}}"#
            )
        };
        let label = if wrong { -1 } else { 1 };
        return format!("{{{},{},{}}}", entry(1, 1), entry(2, label), entry(3, label));
    }
    let gold = if prompt.contains("2 + 3") { 5 } else { 8 };
    if prompt.contains("4 + 4 = 9") {
        return "So it is \\boxed{9}.".to_owned();
    }
    // Every other sample is wrong.
    format!("Let us add.\n\nThe answer is \\boxed{{{}}}.", if sample.is_multiple_of(2) { gold } else { 7 })
}

/// A folder whose jobs and answers are its own.
pub(super) fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("data.jsonl", DATA);
    folder
}

pub(super) fn asking(folder: &Folder, server: &Server, line: &str) -> Done {
    folder.run_at_home(&format!("{line} --endpoint {} --model tiny", server.url))
}

pub(super) fn jobs(folder: &Folder, line: &str) -> Done {
    folder.run_at_home(&format!("jobs {line}"))
}

/// Times differ from run to run.
fn timeless(text: &str) -> String {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        for unit in [" s per ", " s, p99 ", " s ago"] {
            if let Some(at) = rest.find(unit) {
                let start = rest[..at].rfind(|c: char| !number(c)).map_or(0, |at| at + 1);
                out += &rest[..start];
                out += "[time]";
                rest = &rest[at..];
            }
        }
        if rest.contains(" s, p99 ") {
            rest = rest.split(" s, p99 ").next().unwrap();
        }
        out += rest;
        out.push('\n');
    }
    out
}

#[test]
fn every_annotator_against_a_server() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let run = |line: &str| {
        let done = asking(&folder, &server, line);
        assert_eq!(done.code, Some(0), "{done}");
        timeless(&done.stdout)
    };
    let mut shown = run("sample data.jsonl -n 4 -o sampled.jsonl");
    shown += &run("annotate monte-carlo data.jsonl -o mc.jsonl --samples 4");
    shown += &run("annotate judge data.jsonl -o judge.jsonl --votes 3");
    shown += &run("annotate reference data.jsonl -o reference.jsonl");
    assert_snapshot!("annotators", shown);

    let sampled = folder.rows("sampled.jsonl");
    let solutions = sampled[0]["solutions"].as_array().unwrap();
    assert_eq!(solutions.len(), 4, "every sample is a solution");
    assert_eq!((&solutions[0]["outcome"], &solutions[1]["outcome"]), (&"correct".into(), &"wrong".into()));
    for name in ["mc", "judge", "reference"] {
        let rows = folder.rows(&format!("{name}.jsonl"));
        let firsts: Vec<&Value> =
            rows.iter().map(|row| &row["solutions"][0]["annotations"][1]["first_error"]).collect();
        assert_eq!(firsts, [&Value::from("none"), &Value::from(1)], "{name}");
    }

    let mut shown =
        folder.run("annotate consensus mc.jsonl judge.jsonl reference.jsonl -o agreed.jsonl").succeeds();
    shown += &folder.run("annotate ensemble mc.jsonl judge.jsonl --rule majority").succeeds();
    shown += &folder.run("annotate report mc.jsonl judge.jsonl reference.jsonl --resamples 20").succeeds();
    shown += &folder.run("annotate export agreed.jsonl --to trl -o trl.jsonl").succeeds();
    assert_snapshot!("combined", shown);
    // Steps by what they are aligned with: all six with the reference's step, five with a true label.
    let labels = folder.run("bench labels reference.jsonl -o labels --json").json();
    let found = &labels["numbers"]["labels"]["annotators"]["reference tiny"]["by_alignment"];
    let cases: Vec<&Value> = found.as_array().unwrap().iter().map(|case| &case["alignment"]).collect();
    assert_eq!(cases, ["one_to_one", "reference_step"]);
    assert_eq!((&found[1]["steps"], &found[1]["with_truth"]), (&json!(6), &json!(5)));
    assert_eq!(found[1]["accuracy"]["share"], 1.0);
    assert!((found[1]["labeled_wrong"]["share"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9);
    let page = String::from_utf8(folder.bytes("labels/report.html")).unwrap();
    assert!(page.contains("reference tiny: by alignment"));
    let row = &folder.rows("trl.jsonl")[1];
    assert_eq!(row["completions"].as_array().unwrap().len(), 2, "up to and including the error: {row}");
    assert_eq!(row["labels"], serde_json::json!([true, false]));

    // A reference-guided annotator judges every step on its own: its labels after an error are labels.
    let exported = |rule: &[&str]| {
        let arguments =
            ["annotate", "export", "reference.jsonl", "--annotator", "reference tiny", "--to", "trl"];
        folder.run_args(&[&arguments[..], &["-o", "all.jsonl"], rule].concat()).succeeds();
        folder.rows("all.jsonl")[1]["labels"].clone()
    };
    assert_eq!(exported(&[]), serde_json::json!([true, false, false]));
    assert_eq!(exported(&["--labels-after-error", "drop"]), serde_json::json!([true, false]));
}

#[test]
fn the_same_command_costs_nothing_again() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let line = "annotate judge data.jsonl -o judge.jsonl --json";
    let first = asking(&folder, &server, line).json();
    let asked = server.seen().len();
    assert_eq!((asked, &first["traffic"]["requests"]), (2, &2.into()));
    let again = asking(&folder, &server, line).json();
    assert_eq!((server.seen().len(), &again["resumed"], &again["labeled"]), (asked, &2.into(), &2.into()));
    assert_eq!(again["cost"]["prompt_tokens"], first["cost"]["prompt_tokens"]);
    // Another output is the same work; a forgotten job has its answers in the cache.
    jobs(&folder, "remove 1").succeeds();
    let cached = asking(&folder, &server, "annotate judge data.jsonl -o other.jsonl --json").json();
    assert_eq!((server.seen().len(), &cached["traffic"]["from_cache"]), (asked, &2.into()));
    assert_eq!(folder.bytes("judge.jsonl"), folder.bytes("other.jsonl"));
    let fresh =
        asking(&folder, &server, "annotate judge data.jsonl -o other.jsonl --seed 1 --no-cache --json");
    assert_eq!((server.seen().len(), fresh.json()["resumed"].clone()), (asked + 2, 0.into()));
}

#[test]
fn what_a_model_garbles_is_undecided_counted_and_kept() {
    let garbled = Server::in_thread(replies(|_, _, _| "I cannot say.".to_owned()));
    let folder = folder();
    let judged = asking(&folder, &garbled, "annotate judge data.jsonl -o judge.jsonl --json").json();
    assert_eq!((&judged["labeled"], &judged["undecided"]), (&0.into(), &2.into()));
    assert_eq!(judged["undecided_by_reason"]["no index in \\boxed{}"], 2);
    let compared =
        asking(&folder, &garbled, "annotate reference data.jsonl -o reference.jsonl --json").json();
    assert_eq!(compared["undecided_by_reason"]["the answer is not JSON"], 2);
    assert_eq!(compared["cost"]["requests"], 6, "each was asked three times");
    let sampled =
        asking(&folder, &garbled, "annotate monte-carlo data.jsonl -o mc.jsonl --samples 4 --json").json();
    assert_eq!(sampled["notes"]["completions without an answer"], 8);
    let shown = jobs(&folder, "show 1 --undecided").succeeds();
    assert!(shown.contains("I cannot say.") && shown.contains("2 done (2 undecided)"), "{shown}");
    let list = jobs(&folder, "list").succeeds();
    assert_eq!(list.lines().count(), 4, "{list}");
}

/// A judge that says, in the words that it is asked for, that the second step of 4 + 4 = 9 is wrong.
fn verdict(prompt: &str, sample: usize, _seed: u64) -> String {
    let wrong = prompt.contains("4 + 4 = 9");
    if prompt.contains("<conclusion>") {
        let (analyses, verdict) = if wrong { (2, "Incorrect") } else { (3, "Correct") };
        let analyses: String =
            (1..=analyses).map(|n| format!("<analysis_{n}>So.</analysis_{n}>\n")).collect();
        return format!("{analyses}<conclusion>\n{verdict}\n</conclusion>");
    }
    if prompt.contains("<verdict>") {
        let verdict = if wrong { "wrong</verdict>\n<step>1</step>" } else { "correct</verdict>" };
        return format!("<critique>So.</critique>\n<verdict>{verdict}");
    }
    // The first of several votes is wrong.
    let index = if wrong { 1 } else { -1 };
    format!("\\boxed{{{}}}", if sample == 0 && prompt.contains("critique") { 0 } else { index })
}

#[test]
fn protocols_are_the_same_for_annotators_and_benchmarks() {
    for protocol in ["gradus", "processbench", "qwen", "critic"] {
        let (folder, server) = (folder(), Server::in_thread(replies(verdict)));
        let line = format!("annotate judge data.jsonl -o judge.jsonl --protocol {protocol} --votes 3 --json");
        let judged = asking(&folder, &server, &line).json();
        assert_eq!((&judged["labeled"], &judged["with_error"]), (&2.into(), &1.into()), "{protocol}");
        let annotation = folder.rows("judge.jsonl")[1]["solutions"][0]["annotations"][1].clone();
        assert_eq!(annotation["first_error"], 1, "{protocol}");
        let name = if protocol == "gradus" { "tiny".to_owned() } else { format!("tiny/{protocol}") };
        let votes = if protocol == "processbench" { 2 } else { 3 };
        let source = json!({"judge": {"model": name, "agreeing": votes, "votes": 3}});
        assert_eq!(annotation["labels"][0]["source"], source, "{protocol}");

        let asked = server.seen().len();
        let line =
            format!("bench processbench data.jsonl --critic --protocol {protocol} --votes 3 -o run --json");
        let report = asking(&folder, &server, &line).json();
        assert_eq!(report["numbers"]["processbench"]["average_accuracy"]["value"], 1.0, "{protocol}");
        let settings = &report["settings"];
        assert_eq!((&settings["protocol"], &settings["votes"]), (&protocol.into(), &3.into()));
        let seen = server.seen();
        let (labeling, judging) = seen.split_at(asked);
        assert_eq!(judging.len(), 2, "{protocol}: each solution is one request");
        for body in judging.iter().map(|seen| &seen.body) {
            let same = |other: &Value| {
                let fields = ["messages", "n", "max_tokens", "temperature", "top_p"];
                fields.iter().all(|field| other[field] == body[field])
            };
            assert!(labeling.iter().any(|seen| same(&seen.body)), "{protocol}: {body}");
        }
    }
    let folder = folder();
    let refused = folder.run("bench processbench data.jsonl --protocol qwen").fails(2);
    assert!(refused.contains("add --critic"), "{refused}");
}

#[test]
fn a_server_that_refuses_everything_ends_the_run_and_leaves_no_results() {
    let folder = folder();
    for (status, words) in [(401, "wrong key"), (404, "The model `tiny` does not exist")] {
        let refusing =
            Server::in_thread(move |_, _| Act::Say(status, "", json!({"error": words}).to_string()));
        for line in [
            "annotate judge data.jsonl -o judge.jsonl --skip-failed",
            "annotate monte-carlo data.jsonl -o mc.jsonl --skip-failed",
            "bench processbench data.jsonl --critic -o run",
        ] {
            let sentence = asking(&folder, &refusing, line).fails(3);
            assert!(sentence.contains(&format!("answered {status}")), "{sentence}");
            assert!(sentence.contains(words), "{sentence}");
        }
        assert!(refusing.seen().len() <= 5, "nobody asks again: {}", refusing.seen().len());
    }
    for name in ["judge.jsonl", "mc.jsonl", "run/report.json"] {
        assert!(!folder.path(name).exists(), "{name}");
    }
    let server = Server::in_thread(replies(verdict));
    let judged = asking(&folder, &server, "annotate judge data.jsonl -o judge.jsonl --json").json();
    assert_eq!((&judged["labeled"], &judged["resumed"]), (&2.into(), &0.into()));
    let line = "bench processbench data.jsonl --critic -o run --json";
    let counts = asking(&folder, &server, line).json()["counts"].clone();
    assert_eq!((&counts["undecided"], &counts["resumed"]), (&0.into(), &0.into()));
}

#[test]
fn refusals_of_single_solutions_are_counted_by_reason() {
    let rule = |words: &'static str| {
        move |number: usize, seen: &_| match format!("{seen:?}").contains("4 + 4") {
            true => Act::Say(400, "", json!({"error": {"message": words}}).to_string()),
            false => replies(verdict)(number, seen),
        }
    };
    let long = "This model's maximum context length is 4096 tokens, you requested 5000";
    for (words, reason) in [(long, "context too long"), ("stopped by our content filter", "content filter")] {
        let (folder, server) = (folder(), Server::in_thread(rule(words)));
        let line = "annotate judge data.jsonl -o judge.jsonl --json";
        let refused = asking(&folder, &server, line).fails(3);
        assert!(refused.contains("1 of 2 tasks failed") && refused.contains(words), "{refused}");
        let judged = asking(&folder, &server, &format!("{line} --skip-failed")).json();
        assert_eq!((&judged["labeled"], &judged["failed"]), (&1.into(), &1.into()));
        assert_eq!(judged["failed_by_reason"], json!({reason: 1}));
        let line = "bench processbench data.jsonl --critic -o run --json";
        let counts = asking(&folder, &server, line).json()["counts"].clone();
        assert_eq!(counts["reasons"], json!({format!("refused: {reason}"): 1}));
        // A server that takes none of them is no annotator.
        folder.file("one.jsonl", DATA.lines().nth(1).unwrap());
        let none = asking(&folder, &server, "annotate judge one.jsonl -o none.jsonl --skip-failed").fails(3);
        assert!(none.contains("1 of 1 tasks failed"), "{none}");
        assert!(!folder.path("none.jsonl").exists());
    }
}

#[test]
fn rollouts_continue_the_solution_where_the_server_can() {
    let line = "annotate monte-carlo data.jsonl -o mc.jsonl --samples 4";
    let (continuing, continues) = (folder(), Server::in_thread(continuing_replies(answer)));
    let summary = asking(&continuing, &continues, &format!("{line} --json")).json();
    assert_eq!(summary["continuation"], "turn");
    let firsts = |folder: &Folder| -> Vec<Value> {
        let rows = folder.rows("mc.jsonl");
        rows.iter().map(|row| row["solutions"][0]["annotations"][1]["first_error"].clone()).collect()
    };
    assert_eq!(firsts(&continuing), [json!("none"), json!(1)]);
    let seen = continues.seen();
    let (probes, rollouts) = seen.split_at(3);
    assert!(probes.iter().all(|seen| seen.body["max_tokens"] == 1));
    for body in rollouts.iter().map(|seen| &seen.body) {
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["role"], &body["continue_final_message"]), (&"assistant".into(), &true.into()));
        assert!(last["content"].as_str().unwrap().starts_with("Add "), "{last}");
    }

    let (asked, ignores) = (folder(), Server::in_thread(replies(answer)));
    let done = asking(&asked, &ignores, line);
    assert_eq!(done.code, Some(0), "{done}");
    assert!(done.stderr.contains("tiny ignores continue_final_message: it is asked in words"), "{done}");
    assert_eq!(firsts(&asked), firsts(&continuing));
    let last = ignores.seen().pop().unwrap().body;
    assert_eq!((last["messages"].as_array().unwrap().len(), last.get("continue_final_message")), (1, None));
}

#[test]
fn a_server_that_takes_no_seeds_labels_all_the_same_and_the_labels_say_so() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let summary =
        asking(&folder, &server, "annotate judge data.jsonl -o j.jsonl --no-request-seed --json").json();
    assert_eq!((&summary["labeled"], &summary["unseeded"]), (&2.into(), &true.into()));
    assert!(server.seen().iter().all(|seen| seen.body.get("seed").is_none()));
    let annotations = folder.rows("j.jsonl")[0]["solutions"][0]["annotations"].clone();
    assert_eq!((annotations[0].get("unseeded"), &annotations[1]["unseeded"]), (None, &true.into()));
    // With seeds it is other work.
    let seeded = asking(&folder, &server, "annotate judge data.jsonl -o j.jsonl --json").json();
    assert_eq!((seeded["resumed"].clone(), seeded.get("unseeded")), (0.into(), None));
    assert!(server.seen().last().unwrap().body["seed"].is_u64());
}

#[test]
fn what_determines_labels_is_part_of_the_job() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let exemplars = |question: &str| {
        format!(
            "instructions = ''\n[[exemplars]]\nname = 'x'\nquestion = '{question}'\nreference = ['r']\n\
             solution = ['a']\n[[exemplars.steps]]\nexplanation = 'e'\nlabel = 1\n"
        )
    };
    folder.file("own.toml", exemplars("What is 1 + 1?"));
    let label = |data: &str, more: &str| {
        let line = format!("annotate reference {data} -o out.jsonl --json {more}");
        asking(&folder, &server, &line).json()["resumed"].clone()
    };
    assert_eq!((label("data.jsonl", ""), label("data.jsonl", "")), (0.into(), 2.into()));
    // Another domain has other instructions.
    folder.file("qa.jsonl", DATA.replace("\"answer\"", "\"domain\":\"qa\",\"answer\""));
    assert_eq!(label("qa.jsonl", ""), 0);
    assert_eq!((label("data.jsonl", "--exemplars own.toml"), label("data.jsonl", "")), (0.into(), 2.into()));
    folder.file("own.toml", exemplars("What is 2 + 1?"));
    assert_eq!(label("data.jsonl", "--exemplars own.toml"), 0);
}

#[test]
fn what_determines_outcomes_is_part_of_the_job() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let sample = |data: &str| {
        let line = format!("sample {data} -n 2 -o out.jsonl --json");
        let summary = asking(&folder, &server, &line).json();
        (summary["resumed"].clone(), summary["right"].clone())
    };
    assert_eq!((sample("data.jsonl"), sample("data.jsonl")), ((0.into(), 2.into()), (2.into(), 2.into())));
    // Every other sample says 7.
    folder.file("aliases.jsonl", DATA.replace("\"answer\"", "\"aliases\":[\"7\"],\"answer\""));
    assert_eq!(sample("aliases.jsonl"), (0.into(), 4.into()));
}

#[test]
fn an_endpoint_that_is_down_is_one_sentence_and_a_job_that_goes_on() {
    let folder = folder();
    let line =
        "annotate judge data.jsonl -o judge.jsonl --retries 1 --endpoint http://127.0.0.1:9 --model tiny";
    let sentence = folder.run_at_home(line).fails(3);
    assert!(
        sentence.contains("cannot be reached")
            && sentence.contains("Rerun the command or `gradus jobs resume 1`"),
        "{sentence}"
    );
    assert!(!folder.path("judge.jsonl").exists());
    let list = jobs(&folder, "list --json").json();
    assert_eq!((&list[0]["state"], &list[0]["tasks"]["done"]), (&"stopped".into(), &0.into()));
    // The same model elsewhere is the same work.
    let server = Server::in_thread(replies(answer));
    assert_eq!(asking(&folder, &server, "annotate judge data.jsonl -o judge.jsonl").code, Some(0));
    let list = jobs(&folder, "list --json").json();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["state"]), (1, &"done".into()));
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_anything_is_paid_for() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    std::fs::create_dir(folder.path("taken")).unwrap();
    for (output, expected) in [
        ("taken", "is a folder"),
        ("data.jsonl/judge.jsonl", "cannot make the folder data.jsonl"),
        ("-", "set a file with -o"),
    ] {
        let sentence = asking(&folder, &server, &format!("annotate judge data.jsonl -o {output}")).fails(3);
        assert!(sentence.contains(expected), "{sentence}");
    }
    #[cfg(target_os = "linux")]
    {
        // Not even root writes there.
        let sentence = asking(&folder, &server, "annotate judge data.jsonl -o /proc/judge.jsonl").fails(3);
        assert!(sentence.contains("cannot write to /proc"), "{sentence}");
        let sentence =
            asking(&folder, &server, "annotate judge data.jsonl -o j.jsonl --jobs /proc/jobs.sqlite")
                .fails(3);
        assert!(sentence.contains("/proc/jobs.sqlite cannot be used"), "{sentence}");
    }
    assert_eq!(server.seen().len(), 0);
}

/// Labels that are taken as true are an annotator where they are named as one.
#[test]
fn injected_labels_can_be_an_annotator() {
    let folder = folder();
    folder.file("injected.jsonl", DATA.replace("\"human\"", "\"injected\""));
    let judged = DATA.replace("\"human\"", r#"{"judge":{"model":"m","agreeing":1,"votes":1}}"#);
    folder.file("judged.jsonl", judged);
    let one = folder.run("annotate consensus injected.jsonl judged.jsonl").fails(3);
    assert!(one.contains("only one annotator (judge m)") && one.contains("--only human, injected"), "{one}");
    let consensus =
        ["annotate", "consensus", "injected.jsonl", "judged.jsonl", "--json", "-o", "agreed.jsonl"];
    let named = ["--only", "injected", "--only", "judge m"];
    let found = folder.run_args(&[&consensus[..], &named].concat()).json();
    assert_eq!((&found["kept"], &found["annotators"][0]), (&2.into(), &"injected".into()));
    let report = folder.run("annotate report injected.jsonl --only injected --json").json();
    assert_eq!(report["annotators"][0]["decided"], 2);
    let usual = folder.run("annotate report injected.jsonl judged.jsonl --json").json();
    assert_eq!(
        usual["annotators"].as_array().unwrap().len(),
        1,
        "truth is what annotators are compared with"
    );
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = folder();
    folder
        .file("problems.jsonl", r#"{"gradus":1,"problem":{"id":"p1","text":"What is 2 + 3?","answer":"5"}}"#);
    folder.file("bad.md", "Judge {{ problm }}");
    folder.file("open.md", "Judge {% if problem %}");
    folder.file("bad.toml", "instructions = ''\n[[exemplars]]\nname = 'x'\nquestion = 'q'\nreference = ['r']\nsolution = ['a', 'b']\n[[exemplars.steps]]\nexplanation = 'e'\nlabel = 1\n");
    folder.file("prices.toml", "currency = 'USD'\n[models.tiny]\nprompt = -1\ncompletion = 1\n");
    let judged = DATA.replace("\"human\"", r#"{"judge":{"model":"m","agreeing":1,"votes":1}}"#);
    folder.file("judged.jsonl", &judged);
    folder.file("other.jsonl", judged.replace("Add 2 and 3.", "Add three to two."));
    let endpoint = "--endpoint http://127.0.0.1:9 --model tiny --retries 0";
    let mut shown = String::new();
    for line in [
        "annotate judge problems.jsonl -o out.jsonl",
        "annotate judge data.jsonl -o out.jsonl --votes 2 --temperature 0",
        "annotate judge data.jsonl -o out.jsonl --prompt open.md",
        &format!("annotate judge data.jsonl -o out.jsonl --prompt bad.md {endpoint}"),
        "annotate monte-carlo data.jsonl -o out.jsonl --threshold 8",
        "annotate monte-carlo data.jsonl -o out.jsonl --labels soft --search binary",
        "annotate reference data.jsonl -o out.jsonl --exemplars bad.toml",
        &format!("annotate judge data.jsonl -o out.jsonl --prices prices.toml {endpoint}"),
        &format!("annotate judge data.jsonl -o out.jsonl --key-env NO_SUCH_KEY {endpoint}"),
        "annotate judge data.jsonl -o out.jsonl --raw",
        "annotate reference data.jsonl -o out.jsonl --system hello",
        "annotate judge data.jsonl -o out.jsonl --endpoint ftp://x",
        "annotate judge data.jsonl -o out.jsonl --key-env KEY",
        "annotate consensus data.jsonl",
        "annotate consensus judged.jsonl",
        "annotate report judged.jsonl other.jsonl",
        "annotate report judged.jsonl --only nobody",
        "annotate report data.jsonl --from-scores prm",
        "annotate report data.jsonl --from-scores prm:0.5",
        "annotate ensemble judged.jsonl --rule majority --min-confidence 0.9",
        "annotate export problems.jsonl --to trl -o out.jsonl",
        "sample data.jsonl -o out.jsonl --temperature 0",
        "jobs show 7",
    ] {
        let done = folder.run_at_home(line);
        shown += &format!("$ gradus {line}\n{done}\n\n");
        assert!(matches!(done.code, Some(2 | 3)), "{line}: {done}");
        assert!(!folder.path("out.jsonl").exists(), "{line}");
    }
    assert_snapshot!(shown);
}

#[test]
fn a_key_appears_nowhere() {
    const KEY: &str = "sk-open-sesame-4711";
    let server = Server::in_thread(|number, seen| {
        assert!(seen.head.contains(KEY), "the key is sent");
        if number.is_multiple_of(2) {
            // Servers like to repeat the key that they refuse.
            return Act::Say(500, "", format!("{{\"error\": {{\"message\": \"bad key {KEY}\"}}}}"));
        }
        replies(answer)(number, seen)
    });
    let folder = folder();
    let run = |line: &str, url: &str| {
        let line = format!("{line} --endpoint {url} --key-env SECRET");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = folder.command(&words);
        Done::from(
            command
                .env_remove("GRADUS_JOBS")
                .env("GRADUS_HOME", folder.path("home"))
                .env("SECRET", KEY)
                .output()
                .unwrap(),
        )
    };
    let fine = run("annotate judge data.jsonl -o judge.jsonl --model tiny --retries 3", &server.url);
    assert_eq!(fine.code, Some(0), "{fine}");
    let refused =
        Server::in_thread(|_, _| Act::Say(401, "", format!("{{\"error\": {{\"message\": \"no: {KEY}\"}}}}")));
    let failed = run("annotate judge data.jsonl -o n.jsonl --seed 2", &refused.url);
    assert!(failed.stderr.contains("[key]"), "{failed}");
    for done in [&fine, &failed] {
        assert!(!done.to_string().contains("sesame"), "{done}");
    }
    let mut looked_at = 0;
    look(folder.path(".").as_path(), &mut |path| {
        let bytes = std::fs::read(path).unwrap();
        looked_at += 1;
        assert!(!bytes.windows(6).any(|window| window == b"sesame"), "{}", path.display());
    });
    assert!(looked_at >= 4, "jobs, answers and output were looked at");
}

fn look(folder: &Path, each: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { look(&path, each) } else { each(&path) }
    }
}
