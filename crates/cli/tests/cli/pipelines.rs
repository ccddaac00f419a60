//! The pipelines of `recipes/pipelines` in their small form, with a scripted server that solves and labels, and tiny models
//! that are trained. `make test-pipelines` runs them with real ones.

use std::path::Path;
use std::process::Command;

use gradus_llm::scripted::server::{Server, continuing_replies};
use serde_json::Value;

use super::{Folder, model, program};

/// A problem that the server knows.
struct Known {
    text: String,
    reference: String,
    answer: String,
}

/// The problems of `recipes/pipelines/common.sh`.
fn known() -> Vec<Known> {
    let folder = Folder::new();
    let world = "synth -n 40 --difficulty 1-1 --families shopping --solutions 2 --seed 1 -o world.jsonl";
    folder.run(world).succeeds();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let known = |row: &Value| {
        let problem = &row["problem"];
        let steps: Vec<_> = problem["reference"].as_array().unwrap().iter().map(text).collect();
        Known {
            text: text(&problem["text"]),
            reference: steps.join("\n\n"),
            answer: text(&problem["answer"]),
        }
    };
    folder.rows("world.jsonl").iter().map(known).collect()
}

/// A model that labels every step as right and solves every other sample rightly.
fn reply(known: &[Known], prompt: &str, seed: u64) -> String {
    let labeled = prompt.rsplit("Solution to label").next().unwrap_or_default();
    let steps = (1..).take_while(|step| labeled.contains(&format!("[O{step}]"))).count();
    if steps > 0 {
        let entry = |step| {
            format!(
                r#""O{step}":{{"explanation":"See R1.","context":[],"outputs":[],"references":["R1"],"errors":[],"label":1}}"#
            )
        };
        return format!("{{{}}}", (1..=steps).map(entry).collect::<Vec<_>>().join(","));
    }
    let Some(problem) = known.iter().find(|known| prompt.contains(&known.text)) else {
        return "Yes.".to_owned();
    };
    let answer = if seed.is_multiple_of(2) { &problem.answer } else { "-1" };
    format!("{}\n\nThe answer is \\boxed{{{answer}}}.", problem.reference)
}

/// Runs a pipeline in a folder; the names of its report pages.
fn run(name: &str, folder: &Folder, server: &Server) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tiny = model("qwen2");
    let done = Command::new("sh")
        .arg(format!("recipes/pipelines/{name}.sh"))
        .current_dir(&root)
        .envs([("SMALL", "1"), ("MODEL", "scripted"), ("ENDPOINT", &server.url), ("BASE", &tiny)])
        .env("GRADUS", program())
        .env("GRADUS_HOME", folder.path("home"))
        .env("OUT", folder.path("out"))
        .env("SCORER", format!("--model {tiny} --profile brief"))
        .env("THRESHOLD", "0.5")
        .env("PROFILE", "--set prm.profile=brief --set prm.head=tokens")
        .env("QBASE", root.join("crates/engine/tests/reference/gguf/llama-q8_0.gguf"))
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{name}: {stdout}\n{stderr}");
    let mut names = folder.names("out");
    names.retain(|name| folder.path("out").join(name).join("report.html").exists());
    names
}

#[test]
fn small_pipelines_end_with_report_pages() {
    let known = known();
    let server = Server::in_thread(continuing_replies(move |prompt, _, seed| reply(&known, prompt, seed)));
    for (name, pages) in [
        ("spare", &["report"][..]),
        ("perplexity-grpo", &["report-grpo", "report-sft"]),
        ("lessons", &["report-agreed", "report-mc"]),
    ] {
        let folder = Folder::new();
        assert_eq!(run(name, &folder, &server), pages, "{name}");
        // Started again, it ends as it did, and asks for no more than whether the server continues turns.
        let asked = server.seen().len();
        assert_eq!(run(name, &folder, &server), pages, "{name}");
        let again = server.seen().split_off(asked);
        assert!(again.iter().all(|seen| seen.body["max_tokens"] == 1), "{name}: finished stages ask again");
    }
}
