//! Jobs whose output is shards: they appear as soon as their tasks are done, survive kills, and are never mixed with others.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gradus_llm::scripted::server::{Act, Server, replies};
use serde_json::Value;

use super::Folder;
use super::annotate::{DATA, answer, asking, folder};

/// A file with so many problems, of which the last half has its solutions in rows of their own.
fn many(folder: &Folder, problems: usize) {
    let line = DATA.lines().nth(1).unwrap();
    let rows: String = (0..problems)
        .flat_map(|number| {
            let row = line.replace("p2", &format!("q{number}"));
            let second = row.replace(&format!("q{number}/a"), &format!("q{number}/b")).replace("= 9", "= 8");
            if number < problems / 2 { vec![row] } else { vec![row, second] }
        })
        .map(|row| row + "\n")
        .collect();
    folder.file("many.jsonl", &rows);
}

fn manifest(folder: &Folder) -> Value {
    serde_json::from_slice(&folder.bytes("out/labels.manifest.json")).unwrap()
}

/// The shards, one after another.
fn all(folder: &Folder) -> Vec<u8> {
    let mut paths: Vec<_> = std::fs::read_dir(folder.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

const SHARDED: &str = "annotate judge many.jsonl -o out/labels.jsonl --shard-size 4";

#[test]
fn shards_are_the_file_in_pieces_and_are_read_as_one() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    many(&folder, 10);
    asking(&folder, &server, "annotate judge many.jsonl -o whole.jsonl").succeeds();
    let said = asking(&folder, &server, &SHARDED.replace("out/", "other/"));
    assert!(said.stdout.contains("written to other/labels.manifest.json"), "{said}");
    let shown = asking(&folder, &server, &format!("{SHARDED} --json")).json();
    assert_eq!((&shown["solutions"], &shown["labeled"]), (&15.into(), &15.into()));
    assert_eq!(all(&folder), folder.bytes("whole.jsonl"));
    let listed = manifest(&folder);
    assert_eq!(listed["complete"], true);
    let files: Vec<&str> =
        listed["shards"].as_array().unwrap().iter().map(|shard| shard["file"].as_str().unwrap()).collect();
    let names = ["labels-00000-of-00003.jsonl", "labels-00001-of-00003.jsonl", "labels-00002-of-00003.jsonl"];
    assert_eq!(files, names);
    assert_eq!(listed["shards"][2]["records"], 2);
    let hash = blake3::hash(&folder.bytes("out/labels-00001-of-00003.jsonl")).to_string();
    assert_eq!(listed["shards"][1]["blake3"], hash);
    // The next command reads the folder as one dataset.
    let stats = folder.run("data stats out --json").json();
    assert_eq!((&stats["problems"], &stats["solutions"]), (&10.into(), &15.into()));

    // What is lost or damaged is written again, and nothing is asked again.
    let asked = server.seen().len();
    std::fs::remove_file(folder.path("out/labels-00000-of-00003.jsonl")).unwrap();
    std::fs::write(folder.path("out/labels-00002-of-00003.jsonl"), "damaged").unwrap();
    let again = asking(&folder, &server, &format!("{SHARDED} --json")).json();
    assert_eq!((&again["labeled"], &again["resumed"]), (&15.into(), &15.into()));
    assert_eq!((all(&folder), server.seen().len()), (folder.bytes("whole.jsonl"), asked));
}

#[test]
fn shards_of_other_work_are_not_mixed_in() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    many(&folder, 10);
    asking(&folder, &server, SHARDED).succeeds();
    let before = all(&folder);
    let other = asking(&folder, &server, &format!("{SHARDED} --seed 1 --temperature 0.5 --votes 3")).fails(3);
    assert!(other.contains("labels.manifest.json lists shards of other work"), "{other}");
    let smaller = asking(&folder, &server, &SHARDED.replace("--shard-size 4", "--shard-size 5")).fails(3);
    assert!(smaller.contains("lists shards of other work"), "{smaller}");
    std::fs::remove_file(folder.path("out/labels.manifest.json")).unwrap();
    let stale = asking(&folder, &server, &SHARDED.replace("--shard-size 4", "--shard-size 5")).fails(3);
    assert!(stale.contains("-of-00003.jsonl is a shard of other work"), "{stale}");
    folder.file("out/labels.manifest.json", "{}");
    let damaged = asking(&folder, &server, SHARDED).fails(3);
    assert!(damaged.contains("labels.manifest.json: is no list of shards"), "{damaged}");
    assert_eq!(all(&folder), before);
    let none = asking(&folder, &server, &SHARDED.replace("--shard-size 4", "--shard-size 0"));
    assert!(none.code == Some(2) && none.stderr.contains("--shard-size"), "{none}");
}

#[test]
fn a_killed_run_leaves_whole_shards_and_the_next_one_writes_the_rest() {
    let folder = folder();
    many(&folder, 40);
    let calm = Server::in_thread(replies(answer));
    asking(&folder, &calm, "annotate judge many.jsonl -o whole.jsonl --jobs calm.sqlite --no-cache")
        .succeeds();
    // It answers what the first shards need, and then nothing more.
    let is_stuck = Arc::new(AtomicBool::new(true));
    let (rule, stuck) = (replies(answer), is_stuck.clone());
    let server = Server::in_thread(move |number, seen| {
        if number >= 12 && stuck.load(Ordering::Relaxed) { Act::Hang } else { rule(number, seen) }
    });
    let line = format!("{SHARDED} --concurrency 2 --no-cache --endpoint {} --model tiny", server.url);
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&words);
    command.env_remove("GRADUS_JOBS").env("GRADUS_HOME", folder.path("home"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A shard counts once the manifest lists it: one that a kill catches before that is written again, with the same bytes.
    let (listed, begun) = (folder.path("out/labels.manifest.json"), Instant::now());
    while !listed.exists() || manifest(&folder)["shards"].as_array().unwrap().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no shard before the end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let first = folder.path("out/labels-00001-of-00010.jsonl");
    child.kill().unwrap();
    child.wait().unwrap();
    let before = std::fs::metadata(&first).unwrap().modified().unwrap();
    is_stuck.store(false, Ordering::Relaxed);
    let done = folder.run_at_home(&format!("{line} --json")).json();
    assert_eq!((&done["labeled"], &done["solutions"]), (&60.into(), &60.into()));
    assert!(done["resumed"].as_u64().unwrap() >= 8, "{done}");
    assert_eq!(all(&folder), folder.bytes("whole.jsonl"));
    assert_eq!(std::fs::metadata(&first).unwrap().modified().unwrap(), before, "it is not written again");
}

#[test]
fn a_shard_with_failed_tasks_is_written_again_when_they_succeed() {
    let folder = folder();
    many(&folder, 8);
    let is_broken = Arc::new(AtomicBool::new(true));
    let (rule, broken) = (replies(answer), is_broken.clone());
    let server = Server::in_thread(move |number, seen| {
        let is_hit = broken.load(Ordering::Relaxed) && seen.body.to_string().contains("q5");
        if is_hit { Act::Say(400, "", "{\"error\": \"too long\"}".to_owned()) } else { rule(number, seen) }
    });
    let lines = folder.rows("many.jsonl");
    let rows: String = lines
        .iter()
        .map(|row| {
            let mut row = row.clone();
            let id = row["problem"]["id"].as_str().unwrap().to_owned();
            row["problem"]["text"] = format!("{id}: what is 4 + 4?").into();
            row.to_string() + "\n"
        })
        .collect();
    folder.file("many.jsonl", &rows);
    let line = format!("{SHARDED} --skip-failed --json");
    let first = asking(&folder, &server, &line).json();
    assert_eq!((&first["labeled"], &first["failed"]), (&10.into(), &2.into()), "{first}");
    assert_eq!(manifest(&folder)["shards"][1]["failed"], 2);
    is_broken.store(false, Ordering::Relaxed);
    let second = asking(&folder, &server, &line).json();
    assert_eq!((&second["labeled"], &second["failed"]), (&12.into(), &0.into()), "{second}");
    assert_eq!(manifest(&folder)["shards"][1].get("failed"), None);
    asking(&folder, &server, "annotate judge many.jsonl -o whole.jsonl --jobs other.sqlite").succeeds();
    assert_eq!(all(&folder), folder.bytes("whole.jsonl"));
}
