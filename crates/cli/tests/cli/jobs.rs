//! Long commands that keep their results themselves: they are listed as jobs, stop when they are canceled, and are
//! resumed by their number.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gradus_backend::block_on;
use gradus_store::{JobSpec, SqliteStore, Store as _};
use serde_json::Value;

use super::train::prepared;
use super::{Folder, model};

/// All jobs, the oldest first.
fn jobs(folder: &Folder) -> Vec<Value> {
    let mut jobs = folder.run("jobs list --json").json().as_array().unwrap().clone();
    jobs.reverse();
    jobs
}

/// A training run that is killed or canceled before it ends, once it has a checkpoint.
fn training(folder: &Folder, line: &str) -> Child {
    let words: Vec<&str> = line.split_whitespace().collect();
    let child = folder.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let saved = || {
        let mut entries = std::fs::read_dir(folder.path("run/checkpoints")).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
    };
    while !saved() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no checkpoint");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_pool_and_embeddings_are_listed_once_they_are_there() {
    let folder = Folder::with_world();
    let build =
        format!("pool build world.jsonl -o world.pool --encoder {} --dimensions 4", model("bert-mean"));
    folder.run(&build).succeeds();
    let embed = folder.run(&format!("embed --data world.jsonl --model {} -o v.npy", model("bert-mean")));
    assert_eq!((embed.code, embed.stderr.as_str()), (Some(0), "6 texts truncated to the model's limit\n"));
    // Prints only, and fails at once: no jobs.
    folder.run(&format!("embed one --model {}", model("bert-mean"))).succeeds();
    folder.run(&format!("embed --data none.jsonl --model {} -o w.npy", model("bert-mean"))).fails(3);
    let listed = jobs(&folder);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let [build_job, embed_job] = [&listed[0], &listed[1]];
    assert_eq!((&build_job["kind"], &build_job["state"]), (&"pool build".into(), &"done".into()));
    assert_eq!((&build_job["output"], &build_job["tasks"]["open"]), (&"world.pool".into(), &0.into()));
    assert_eq!((&embed_job["kind"], &embed_job["tasks"]["done"]), (&"embed".into(), &6.into()));
    // The same command finds the same job, which stays done: the pool is there.
    assert!(folder.run(&build).fails(3).contains("is there already"));
    let listed = jobs(&folder);
    assert_eq!((listed.len(), &listed[0]["state"]), (2, &"done".into()));
    let shown = folder.run("jobs show 1").succeeds();
    assert!(shown.contains("command   gradus pool build world.jsonl -o world.pool"), "{shown}");
    folder.run("jobs remove 1").succeeds();
    assert!(jobs(&folder).len() == 1 && folder.path("world.pool/manifest.json").exists());
}

#[test]
fn scoring_solving_and_benchmarks_are_listed() {
    let folder = Folder::with_world();
    let tiny = model("qwen2");
    folder.run(&format!("score world.jsonl --model {tiny} --name tiny -o scored.jsonl")).succeeds();
    assert_eq!(folder.run("bench processbench scored.jsonl --scores tiny -o bench").code, Some(0));
    let solve = format!(
        "solve --data world.jsonl -o solved.jsonl --model {tiny} --strategy majority -n 2 --max-tokens 4"
    );
    let solved = folder.run(&solve);
    let listed = jobs(&folder);
    let found: Vec<_> = listed.iter().map(|job| job["kind"].as_str().unwrap()).collect();
    assert_eq!(found, ["score", "bench processbench", "solve"], "{solved}");
    assert!(listed.iter().all(|job| job["state"] == "done"), "{listed:?}");
    assert_eq!((&listed[0]["output"], &listed[0]["tasks"]["done"]), (&"scored.jsonl".into(), &12.into()));
}

#[test]
fn a_killed_training_run_is_stopped_and_resumed_by_its_number() {
    let folder = prepared();
    let mut child = training(&folder, "train prm prm.toml -o run --set steps.total=150");
    let listed = jobs(&folder);
    assert_eq!((&listed[0]["kind"], &listed[0]["state"]), (&"train prm".into(), &"running".into()));
    assert!(folder.run("jobs resume 1").fails(3).contains("job 1 is running"));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "the run ended before it was killed");
    assert_eq!(jobs(&folder)[0]["state"], "stopped");
    let resumed = folder.run("jobs resume 1");
    assert_eq!(resumed.code, Some(0), "{resumed}");
    let listed = jobs(&folder);
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &"done".into()));
    assert_eq!((&listed[0]["tasks"]["done"], &listed[0]["tasks"]["open"]), (&150.into(), &0.into()));
    assert_eq!(listed[0]["command"][0], "train", "it still knows its own command");
    assert!(folder.path("run/adapter").exists());
}

#[test]
fn a_cancelled_training_run_stops_soon() {
    let folder = prepared();
    let mut child = training(&folder, "train prm prm.toml -o run --set steps.total=5000");
    let told = folder.run("jobs cancel 1").succeeds();
    assert!(told.contains("stops after its current step"), "{told}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(jobs(&folder)[0]["state"], "cancelled");
}

#[test]
fn a_command_runs_without_a_job_database() {
    let folder = Folder::new();
    let embed = ["embed", "one", "--model", &model("bert-mean"), "-o", "v.jsonl"];
    let done = folder.command(&embed).env("GRADUS_JOBS", "/proc/jobs.sqlite").output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("not listed in `gradus jobs`") && folder.path("v.jsonl").exists(), "{said}");
}

/// Puts a job with this command into a database.
fn plant(database: &Path, fingerprint: &str, command: &[&str], folder: &Path) {
    let store = SqliteStore::open(database).unwrap();
    let spec = JobSpec {
        kind: "score".to_owned(),
        fingerprint: fingerprint.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        folder: folder.to_owned(),
        ..JobSpec::default()
    };
    block_on(store.begin(spec)).unwrap().unwrap();
}

#[test]
fn a_job_that_no_command_wrote_is_refused() {
    let folder = Folder::new();
    let (database, here) = (folder.1.path().join("jobs.sqlite"), folder.path("."));
    for (number, (command, place, sentence)) in [
        (&["jobs", "resume", "1"][..], here.as_path(), "`gradus jobs resume 1` is no command of a job"),
        (&["jobs", "resume", "1", "--yes"], &here, "is no command of a job"),
        (&["models", "pull", "x"], &here, "is no command of a job"),
        (&["/bin/sh", "-c", "id\u{1b}[2J"], &here, r#"`gradus /bin/sh -c "id\u{1b}[2J"` is no command"#),
        (&[], &here, "its command cannot be read"),
        (&["score", "a\0b"], &here, "its command is not plain text"),
        (&["score", "x.jsonl"], Path::new("not/absolute"), "is not an absolute path"),
        (
            &["score", "x.jsonl"],
            Path::new("/no/such/folder"),
            "cannot enter the job's folder /no/such/folder",
        ),
        (&["score", "x.jsonl"], Path::new("/\0"), "cannot enter the job's folder"),
    ]
    .into_iter()
    .enumerate()
    {
        plant(&database, &number.to_string(), command, place);
        let said = folder.run(&format!("jobs resume {}", number + 1)).fails(3);
        assert!(said.contains(sentence) && !said.contains('\u{1b}'), "{said}");
    }
    assert_eq!(folder.run("jobs list").code, Some(0));
}

#[test]
fn a_database_from_elsewhere_is_not_run_without_a_word() {
    let folder = Folder::new();
    let embed = ["embed", "one", "--model", &model("bert-mean"), "-o", "v.jsonl"];
    let here = folder.path(".").canonicalize().unwrap();
    plant(&folder.path("gift.sqlite"), "f", &embed, &here);
    let said = folder.run("jobs resume 1 --jobs gift.sqlite").fails(3);
    assert!(said.contains("gift.sqlite is not your list of jobs; job 1 runs `gradus embed one"), "{said}");
    assert!(said.contains("add --yes to run it") && !folder.path("v.jsonl").exists(), "{said}");
    assert_eq!(folder.run("jobs resume 1 --jobs gift.sqlite --yes").code, Some(0));
    assert!(folder.path("v.jsonl").exists());
    // The list of the user's own settings is run as it is, by whatever path.
    plant(&folder.1.path().join("jobs.sqlite"), "f", &embed, &here);
    assert_eq!(folder.run("jobs resume 1").code, Some(0));
    let own = folder.1.path().join("./jobs.sqlite");
    assert_eq!(folder.run(&format!("jobs resume 1 --jobs {}", own.display())).code, Some(0));
}

#[test]
fn a_store_that_cannot_be_shared_or_reached_is_one_sentence_without_its_password() {
    let folder = Folder::new();
    let alone = folder.run("work --store jobs.sqlite").fails(2);
    assert!(alone.contains("jobs.sqlite is not shared by machines: use --store postgres://"), "{alone}");
    let away = folder.run("jobs list --store postgres://me:hidden@127.0.0.1:1/jobs").fails(3);
    assert!(away.contains("postgres://me@127.0.0.1:1/jobs") && !away.contains("hidden"), "{away}");
    assert!(away.trim_end().ends_with("its host and port are right"), "{away}");
    let wrong = folder.run("jobs list --store postgres://me:hid@den@host/jobs").fails(3);
    assert!(wrong.contains("%40") && !wrong.contains("hid@den"), "{wrong}");
}
