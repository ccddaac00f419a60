//! `gradus train` on a tiny model: what a run leaves, that a killed one ends as if it had not been, and bad input.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Done, Folder, model};

const WORLD: &str =
    "--families geometry --styles equations --difficulty 1 --errors misread_given,wrong_operand";

/// A folder with `train.jsonl`, `eval.jsonl` and `prm.toml`, which takes 12 steps.
pub(super) fn prepared() -> Folder {
    let folder = Folder::new();
    folder.run(&format!("synth -n 24 --solutions 2 --seed 7 {WORLD} -o train.jsonl")).succeeds();
    folder.run(&format!("synth -n 6 --solutions 2 --seed 8 {WORLD} -o eval.jsonl")).succeeds();
    let recipe = format!(
        r#"
objective = "prm"
seed = 3

[model]
base = "{}"
precision = "f32"

[lora]
rank = 4
alpha = 8
dropout = 0.1
targets = ["q_proj", "v_proj"]

[data]
train = ["train.jsonl"]
eval = ["eval.jsonl"]
max_tokens = 512

[optimiser]
learning_rate = 1e-3
warmup = 2

[batch]
tokens = 512
examples = 8

[steps]
total = 12
checkpoint_every = 2

[prm]
profile = "brief"
"#,
        model("llama")
    );
    folder.file("prm.toml", recipe);
    folder
}

impl Done {
    /// The last line of a run that failed after it said where it would be: the sentence about what is wrong.
    #[track_caller]
    fn gives_up(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(3), ""), "{}", self.stderr);
        let wrong: Vec<_> = self.stderr.lines().filter(|line| line.starts_with("gradus: ")).collect();
        assert_eq!(wrong.len(), 1, "not one sentence: {}", self.stderr);
        assert_eq!(self.stderr.lines().last(), wrong.first().copied(), "it is the last: {}", self.stderr);
        wrong[0].to_owned()
    }
}

#[test]
fn a_run_and_what_is_made_of_it() {
    let folder = prepared();
    let done = folder.run("train prm prm.toml -o run --json");
    assert_eq!(done.code, Some(0), "{done}");
    let report = done.json();
    assert_eq!((&report["complete"], &report["steps"]), (&true.into(), &12.into()), "{report}");
    assert_eq!((&report["examples"], &report["held_out"]), (&48.into(), &12.into()), "{report}");
    assert!(
        report["evaluation"]["f1"].is_number() || report["evaluation"]["acc_cor"].is_number(),
        "{report}"
    );

    let names = folder.names("run");
    for name in ["README.md", "adapter", "checkpoints", "metrics.jsonl", "recipe.toml", "run.json"] {
        assert!(names.iter().any(|found| found == name), "no {name} in {names:?}");
    }
    assert_eq!(
        folder.names("run/adapter"),
        ["adapter_config.json", "adapter_model.safetensors", "gradus.json"]
    );
    let lines = folder.rows("run/metrics.jsonl");
    let steps = |split: &str| -> Vec<u64> {
        let of = lines.iter().filter(|line| line["split"] == split);
        of.map(|line| line["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps("train"), (1..=12).collect::<Vec<_>>());
    assert_eq!(steps("eval"), [2, 4, 6, 8, 10, 12]);
    let card = String::from_utf8(folder.bytes("run/README.md")).unwrap();
    assert!(card.contains("base_model") && card.contains("48"), "{card}");

    // The same command again has nothing left to do.
    let (before, again) = (
        folder.bytes("run/adapter/adapter_model.safetensors"),
        folder.run("train prm prm.toml -o run --json"),
    );
    assert_eq!(again.code, Some(0), "{again}");
    assert_eq!(folder.bytes("run/adapter/adapter_model.safetensors"), before);
    assert_eq!(folder.rows("run/metrics.jsonl").len(), lines.len());

    // The adapter scores, and differs from the base.
    let scores = |options: &str, output: &str| -> Vec<Value> {
        let base = model("llama");
        let command = format!(
            "score eval.jsonl --model {base} --profile brief --name tiny -o {output} --json {options}"
        );
        assert_eq!(folder.run(&command).json()["solutions"], 12);
        folder.rows(output).iter().map(|row| row["solutions"][0]["scores"]["tiny"].clone()).collect()
    };
    assert_ne!(scores("--adapter run/adapter", "with.jsonl"), scores("", "without.jsonl"));

    let said = folder.run("train plot run -o curves.html").succeeds();
    assert_eq!(said, "written to curves.html\n");
    let page = String::from_utf8(folder.bytes("curves.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("loss"), "no curves");
}

#[test]
fn every_reading_and_objective_runs() {
    let folder = prepared();
    let text = String::from_utf8(folder.bytes("prm.toml")).unwrap();
    for objective in ["sft", "orm", "orpo"] {
        let section = if objective == "orm" { "[orm]\nprofile = \"brief\"" } else { "" };
        let recipe = text.replace("objective = \"prm\"", &format!("objective = \"{objective}\""));
        folder.file(&format!("{objective}.toml"), recipe.replace("[prm]\nprofile = \"brief\"", section));
    }
    let classes = model("qwen2-prm");
    // The tiny tokenizer knows few words, and the prompt has many.
    let long = "--set data.max_tokens=2048 --set batch.tokens=2048";
    let lines = [
        "train prm prm.toml --set prm.loss=squared_error -o soft".to_owned(),
        "train prm prm.toml --set prm.readout=vocabulary -o vocabulary".to_owned(),
        format!(
            "train prm prm.toml --set model.base={classes} --set prm.profile=qwen2.5-math-prm --set prm.head=classes -o head"
        ),
        format!("train sft sft.toml -o sft {long}"),
        "train orm orm.toml -o orm".to_owned(),
        format!("train orpo orpo.toml -o orpo {long}"),
    ];
    for line in lines {
        let done = folder.run(&format!("{line} --set steps.total=4 --json"));
        assert_eq!(done.code, Some(0), "{line}: {done}");
        let result = done.json()["result"].as_str().unwrap().to_owned();
        let files = ["adapter_config.json", "adapter_model.safetensors", "gradus.json"];
        assert_eq!(folder.names(&result), files, "{line}");
    }
}

/// An adapter's folder says which base, profile and head belong to it; nothing else reads it.
#[test]
fn an_adapter_carries_its_base_profile_and_head() {
    let folder = prepared();
    let gradus = include_str!("../../../../assets/profiles/gradus.toml");
    // The tiny tokenizer has another special token.
    let mine = gradus.replace("name = \"gradus\"", "name = \"mine\"").replace("<file_sep>", "<extra_0>");
    folder.file("mine.toml", mine);
    let base = model("qwen2");
    let sets = "--set prm.head=classes --set prm.profile=mine.toml --set steps.total=2";
    let trained = folder.run(&format!("train prm prm.toml -o run --set model.base={base} {sets}"));
    assert_eq!(trained.code, Some(0), "{trained}");
    let json = |name: &str| -> Value { serde_json::from_slice(&folder.bytes(name)).unwrap() };
    let note = json("run/adapter/gradus.json");
    assert_eq!((&note["head"], &note["profile"]), (&"classes".into(), &"profile.toml".into()), "{note}");
    let canonical = std::fs::canonicalize(&base).unwrap().display().to_string();
    assert_eq!(json("run/adapter/adapter_config.json")["base_model_name_or_path"], canonical);
    std::fs::remove_file(folder.path("mine.toml")).unwrap();
    assert_eq!(folder.run("models show run/adapter --json").json()["trained"], note);
    let shown = folder.run("models show run/adapter").succeeds();
    for (what, value) in [("objective", "prm"), ("profile", "profile.toml"), ("head", "class head")] {
        let is_row = |line: &str| line.starts_with(what) && line.trim_end().ends_with(value);
        assert!(shown.lines().any(is_row), "{what}: {shown}");
    }

    let scores = |options: &str| -> Vec<Value> {
        let command = format!("score eval.jsonl --name tiny -o scored.jsonl --json {options}");
        let said = folder.run(&command).json();
        assert_eq!((&said["solutions"], &said["profile"]), (&12.into(), &"mine".into()), "{options}");
        folder.rows("scored.jsonl").iter().map(|row| row["solutions"][0]["scores"]["tiny"].clone()).collect()
    };
    let expected = scores("--adapter run/adapter");
    assert_eq!(scores("--model run/adapter"), expected);
    assert_eq!(scores(&format!("--model {base} --adapter run/adapter")), expected);
    let measured = folder.run("bench processbench eval.jsonl --model run/adapter -o bench");
    assert_eq!(measured.code, Some(0), "{measured}");

    // A rule that was fitted goes with the adapter; another profile has its own.
    let fit = "bench processbench eval.jsonl --adapter run/adapter -o fit --rule posterior --fit run/adapter --json";
    let fitted = folder.run(fit).json()["settings"]["fitted"].clone();
    assert_eq!(
        (&fitted["rule"], &json("run/adapter/gradus.json")["decision"]),
        (&"posterior".into(), &fitted)
    );
    let decision =
        |options: &str| folder.run(&format!("score eval.jsonl --json {options}")).json()["decision"].clone();
    assert_eq!(decision("--adapter run/adapter"), fitted);
    assert_eq!(decision("--adapter run/adapter --rule threshold")["threshold"], 0.5);
    assert_eq!(decision("--adapter run/adapter --profile run/adapter/profile.toml"), fitted);
    assert!(folder.run("models show run/adapter").succeeds().contains("posterior, prior"));
    assert_eq!(scores("--adapter run/adapter"), expected);

    let refused = |line: &str, words: &str| {
        let done = folder.run(line);
        assert!(done.code != Some(0) && done.stderr.contains(words), "{line}: {done}");
    };
    refused("score eval.jsonl --model run/adapter --profile plain", "which the profile plain does not read");
    refused("bench processbench eval.jsonl --adapter run/adapter --profile plain", "does not read");
    refused("generate hello --model run/adapter", "writes no text");
    // One adapter's number is not written into another.
    std::fs::create_dir(folder.path("other")).unwrap();
    folder.file("other/gradus.json", folder.bytes("run/adapter/gradus.json"));
    let fit = "bench processbench eval.jsonl --adapter run/adapter -o other-fit --fit other";
    refused(fit, "the scores are of another model");
    refused("score eval.jsonl --model run/adapter --adapter run/adapter", "is itself an adapter");

    // An adapter of an earlier version: the base is known, the profile must be named.
    std::fs::rename(folder.path("run/adapter/profile.toml"), folder.path("mine.toml")).unwrap();
    std::fs::remove_file(folder.path("run/adapter/gradus.json")).unwrap();
    refused("score eval.jsonl --adapter run/adapter", "name it with --profile");
    assert_eq!(scores("--adapter run/adapter --profile mine.toml"), expected);
}

/// Ends a run at ten random points; what comes out is what an uninterrupted run gives, to the bit.
#[test]
fn a_run_that_is_killed_ends_as_if_it_had_not_been() {
    let folder = prepared();
    let begun = Instant::now();
    let whole = folder.run("train prm prm.toml -o whole --set steps.total=60");
    assert_eq!(whole.code, Some(0), "{whole}");
    // At most a sixth of the run each time, so that ten of them fall into one run.
    let most = begun.elapsed().as_micros() as u64 / 6;
    let arguments = ["train", "prm", "prm.toml", "-o", "killed", "--set", "steps.total=60"];
    // A linear congruential generator: random enough to hit loading, steps, evaluations and checkpoints.
    let (mut state, mut kills, mut ended) = (20_u64, 0, 0);
    while kills < 10 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut command = folder.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros((state >> 33) % most));
        child.kill().unwrap();
        kills += usize::from(child.wait().unwrap().code().is_none());
        if folder.path("killed/adapter").exists() && kills < 10 {
            std::fs::remove_dir_all(folder.path("killed")).unwrap();
            (kills, ended) = (0, ended + 1);
            assert!(ended < 5, "runs end before they are killed ten times");
        }
    }
    let last = folder.run("train prm prm.toml -o killed --set steps.total=60");
    assert_eq!(last.code, Some(0), "{last}");
    let adapter = |run: &str| folder.bytes(&format!("{run}/adapter/adapter_model.safetensors"));
    assert_eq!(adapter("killed"), adapter("whole"));
    // The curves are the same, too: no step is missing, and none is there twice.
    let curve = |run: &str| -> Vec<Value> {
        let mut lines = folder.rows(&format!("{run}/metrics.jsonl"));
        for line in &mut lines {
            for changing in ["time", "tokens_per_second", "memory_gib"] {
                line.as_object_mut().unwrap().remove(changing);
            }
        }
        lines
    };
    assert_eq!(curve("killed"), curve("whole"));
}

/// The best checkpoint by F1, which needs solutions with and without an error.
const F1: &str = "steps.best={ metric = \"f1\", is = \"highest\" }";

#[test]
fn bad_input_is_one_sentence_and_leaves_nothing() {
    let folder = prepared();
    let text = String::from_utf8(folder.bytes("prm.toml")).unwrap();
    folder.file("typo.toml", text.replace("learning_rate", "learning_rat"));
    folder.file("sections.toml", text.clone() + "\n[sft]\nanswer_only = true\n");
    folder.file("syntax.toml", text.replace("[batch]", "[batch"));
    let good = r#"{"prompt": "1 + 1?", "completions": ["1 + 1 = 2"], "labels": [true]}"#;
    folder.file("labels.jsonl", format!("{good}\n{}\n", good.replace("[true]", "[true, false]")));
    folder.file("right.jsonl", good);
    folder.file("bare.jsonl", r#"{"gradus": 1, "problem": {"id": "p", "text": "1 + 1?"}}"#);
    folder.file(
        "words.toml",
        "name = \"words\"\ndescription = \"\"\n[input]\nkind = \"tagged\"\nbefore = \"{{ problem }}\\n\\n\"\n\
         step = \"{{ step }}\"\ntag = \"\\n\"\n[score]\nkind = \"tokens\"\npositive = \"perfectly right\"\nnegative = \"-\"\n",
    );
    folder.file(
        "tag.toml",
        "name = \"tag\"\ndescription = \"\"\n[input]\nkind = \"tagged\"\nbefore = \"{{ problem }}\\n\\n\"\n\
         step = \"{{ step }}\"\ntag = \" verdict please\"\n[score]\nkind = \"tokens\"\npositive = \"+\"\nnegative = \"-\"\n",
    );
    let lines: &[&[&str]] = &[
        &["prm", "typo.toml"],
        &["prm", "sections.toml"],
        &["prm", "syntax.toml"],
        &["prm", "missing.toml"],
        &["sft", "prm.toml"],
        &["prm", "prm.toml", "--set", "lora.ranks=3"],
        &["prm", "prm.toml", "--set", "lora.targets=[\"c_attn\"]"],
        &["prm", "prm.toml", "--set", "data.train=[\"labels.jsonl\"]"],
        &["prm", "prm.toml", "--set", "data.train=[\"bare.jsonl\"]"],
        &["prm", "prm.toml", "--set", "data.train=[\"missing.jsonl\"]"],
        &["prm", "prm.toml", "--set", "data.eval=[\"missing.jsonl\"]"],
        &["prm", "prm.toml", "--set", "data.max_tokens=16"],
        &["prm", "prm.toml", "--set", "prm.profile=words.toml"],
        &["prm", "prm.toml", "--set", "prm.profile=tag.toml"],
        &["prm", "prm.toml", "--set", "prm.profile=nonsense"],
        &["prm", "prm.toml", "--set", "prm.head=classes"],
        &["prm", "prm.toml", "--set", "model.quantised=true"],
        &["prm", "prm.toml", "--set", "model.base=no-such-model"],
        &["prm", "prm.toml", "--set", "model.adapter=nowhere"],
        &["prm", "prm.toml", "--set", "optimiser.learning_rate=-1"],
        &["prm", "prm.toml", "--set", "data.eval=[\"right.jsonl\"]", "--set", F1],
    ];
    let mut said = String::new();
    for line in lines {
        let arguments = [&["train"], *line, &["-o", "run"]].concat();
        let sentence = folder.run_args(&arguments).gives_up();
        assert!(!folder.path("run").exists(), "{line:?} left a run folder");
        said += &format!("$ gradus train {}\n{sentence}\n", line.join(" "));
    }
    insta::assert_snapshot!(said.replace(&model("llama"), "MODELS/llama"));
}

#[test]
fn a_loss_that_is_no_number_stops_the_run() {
    let folder = prepared();
    let done = folder.run(
        "train prm prm.toml -o run --set optimiser.learning_rate=1e30 --set lora.targets=['all-linear']",
    );
    let sentence = done.gives_up();
    assert!(
        sentence.contains("step 3, example `synth-7-") && sentence.contains("not a number"),
        "{sentence}"
    );
    assert!(sentence.ends_with("The run up to step 2 is saved in run"), "{sentence}");
    assert_eq!(folder.names("run/checkpoints"), ["step-000002"]);
    assert!(!folder.path("run/adapter").exists());
}

/// A run belongs to its recipe: another one is not mixed into it.
#[test]
fn another_recipe_in_the_same_folder_is_refused() {
    let folder = prepared();
    assert_eq!(folder.run("train prm prm.toml -o run --set steps.total=2").code, Some(0));
    let before = folder.bytes("run/adapter/adapter_model.safetensors");
    let sentence = folder.run("train prm prm.toml -o run --set steps.total=2 --set seed=9").gives_up();
    assert!(sentence.contains("seed"), "{sentence}");
    assert_eq!(folder.bytes("run/adapter/adapter_model.safetensors"), before);
}

/// One step over all data: sharing what solutions of a problem begin with changes nothing but the work, and a weight on wrong
/// steps changes the gradient but not the loss that is reported.
#[test]
fn solutions_of_a_problem_share_their_beginning() {
    let folder = prepared();
    let first = |name: &str, settings: &str| -> (f64, f64) {
        let settings: String = settings.split_whitespace().map(|set| format!(" --set {set}")).collect();
        let command = format!(
            "train prm prm.toml -o {name} --set steps.total=1 --set steps.checkpoint_every=1 --set lora.dropout=0{settings}"
        );
        let done = folder.run(&command);
        assert_eq!(done.code, Some(0), "{done}");
        let lines = folder.rows(&format!("{name}/metrics.jsonl"));
        let line = lines.iter().find(|line| line["split"] == "train").unwrap();
        (line["loss"].as_f64().unwrap(), line["gradient_norm"].as_f64().unwrap())
    };
    let apart = first("apart", "batch.examples=48 batch.tokens=8192");
    let shared = first("shared", "batch.examples=24 batch.tokens=8192 prm.by_problem=true");
    assert!((apart.0 - shared.0).abs() < 1e-5 * apart.0, "{apart:?} {shared:?}");
    assert!((apart.1 - shared.1).abs() < 1e-4 * apart.1, "{apart:?} {shared:?}");
    let weighed = first("weighed", "batch.examples=48 batch.tokens=8192 prm.wrong_weight=3");
    assert!(
        (apart.0 - weighed.0).abs() < 1e-9 && (apart.1 - weighed.1).abs() > 1e-3 * apart.1,
        "{apart:?} {weighed:?}"
    );
    // A ranking of right and wrong continuations is beside the loss of the labels.
    let ranked = first("ranked", "batch.examples=24 batch.tokens=8192 prm.by_problem=true prm.pair_weight=1");
    assert!(
        (ranked.0 - shared.0).abs() < 1e-9 && (ranked.1 - shared.1).abs() > 1e-3 * shared.1,
        "{ranked:?} {shared:?}"
    );
    let lines = folder.rows("ranked/metrics.jsonl");
    let pair_loss =
        lines.iter().find(|line| line["split"] == "train").unwrap()["pair_loss"].as_f64().unwrap();
    assert!((0.1..5.0).contains(&pair_loss), "{pair_loss}");
    let size = |name: &str| folder.bytes(&format!("{name}/adapter/adapter_model.safetensors")).len();
    first("half", "lora.stored=bf16");
    assert!(size("half") < size("apart") * 7 / 10, "{} {}", size("half"), size("apart"));
}

/// A recipe for PyTorch: which files it has, that the first weights are an adapter of ours, and what is not replaced.
#[test]
fn an_export_is_whole_and_its_start_scores() {
    let folder = prepared();
    let report = folder.run("train export prm.toml --to torch -o out --set steps.total=3 --json").json();
    assert_eq!((&report["objective"], &report["steps"]), (&"prm".into(), &3.into()), "{report}");
    assert_eq!((&report["examples"], &report["held_out"]), (&48.into(), &12.into()), "{report}");
    let files = [
        "README.md",
        "config.json",
        "deepspeed.json",
        "deepspeed.yaml",
        "eval.safetensors",
        "fsdp.yaml",
        "recipe.toml",
        "requirements.txt",
        "start",
        "train.py",
        "train.safetensors",
    ];
    assert_eq!(folder.names("out"), files);
    assert_eq!(
        folder.names("out/start"),
        ["adapter_config.json", "adapter_model.safetensors", "gradus.json"]
    );
    let config: Value = serde_json::from_slice(&folder.bytes("out/config.json")).unwrap();
    assert_eq!((&config["steps"]["total"], &config["optimizer"]["clip"]), (&3.into(), &1.0.into()));
    assert_eq!(
        serde_json::from_slice::<Value>(&folder.bytes("out/deepspeed.json")).unwrap()["gradient_clipping"],
        1
    );
    let scored = folder.run("score eval.jsonl --model out/start -o scored.jsonl --json").json();
    assert_eq!(scored["solutions"], 12);

    // The same command again replaces it with the same bytes; another objective has other files.
    let before = folder.bytes("out/train.safetensors");
    let said = folder.run("train export prm.toml --to torch -o out --set steps.total=3").succeeds();
    assert!(said.ends_with("written to out: README.md has the commands\n"), "{said}");
    assert_eq!(folder.bytes("out/train.safetensors"), before);
    let full = folder.run("train export prm.toml --to torch -o full --set full={} --json");
    assert_eq!(full.code, Some(0), "{full}");
    assert!(folder.names("full/start").contains(&"model.safetensors".to_owned()));

    // Nothing that is not an export's is replaced.
    std::fs::create_dir(folder.path("out/run")).unwrap();
    folder.file("mine.txt", "");
    std::fs::create_dir(folder.path("mine")).unwrap();
    folder.file("mine/config.json", "{}");
    let mut said = String::new();
    let lines = [
        "prm.toml --to torch -o out",
        "prm.toml --to torch -o mine",
        "prm.toml --to torch -o mine.txt",
        "missing.toml --to torch -o new",
        "prm.toml --to torch -o new --set lora.ranks=3",
        "prm.toml --to torch -o new --set data.max_tokens=16",
        "prm.toml --to torch -o new --set model.base=no-such-model",
        "prm.toml --to torch -o new --set prm.head=value",
    ];
    for line in lines {
        said += &format!(
            "$ gradus train export {line}\n{}\n",
            folder.run(&format!("train export {line}")).fails(3)
        );
        assert!(!folder.path("new").exists(), "{line}");
    }
    for line in ["prm.toml --to jax -o new", "prm.toml -o new", "prm.toml --to torch"] {
        let refused = folder.run(&format!("train export {line}"));
        assert_eq!(refused.code, Some(2), "{refused}");
    }
    insta::assert_snapshot!(said.replace(&model("llama"), "MODELS/llama"));
}
