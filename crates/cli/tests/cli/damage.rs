//! One damaged byte in what a command keeps for the next run: it costs its line, is said once, and the output is that of
//! an undisturbed run.

use gradus_llm::scripted::server::{Server, replies};

use super::annotate::{answer, asking, folder};
use super::{Folder, model};

/// A problem that no tiny model can take: a run ends there and keeps what it has.
fn too_long() -> String {
    let step = "1 + ".repeat(3000);
    format!(
        r#"{{"gradus":1,"problem":{{"id":"long","text":"{step}"}},"solutions":[{{"id":"long/a","problem_id":"long","steps":["{step}"]}}]}}"#
    )
}

/// The sentences about damage.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains("damaged")).collect()
}

/// Flips a byte of a file.
fn flip(folder: &Folder, name: &str, place: usize) {
    let mut bytes = folder.bytes(name);
    bytes[place] ^= 1;
    folder.file(name, bytes);
}

/// Where to damage a journal: a key, a value and the line break of its first, middle and last line.
fn places(journal: &[u8]) -> Vec<usize> {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    let lines = starts.len() - 1;
    [0, lines / 2, lines - 1]
        .into_iter()
        .flat_map(|line| {
            let (start, end) = (starts[line], starts[line + 1] - 1);
            let found =
                start + journal[start..end].windows(8).position(|window| window == b"\"found\":").unwrap();
            [start, start + 10, found + 10, end - 3]
        })
        .collect()
}

/// A command whose journal lies beside its output.
fn damaged_journal(command: &str) {
    let folder = Folder::with_world();
    let world = folder.bytes("world.jsonl");
    folder.run(&format!("{command} -o whole.jsonl --json")).json();
    folder.file("world.jsonl", [world.as_slice(), too_long().as_bytes()].concat());
    let refused = folder.run(&format!("{command} -o out.jsonl"));
    assert_eq!(refused.code, Some(3), "{refused}");
    let journal = folder.bytes("out.jsonl.journal");
    let lines = journal.split(|byte| *byte == b'\n').count() - 1;
    assert!(lines > 3);
    for place in places(&journal) {
        folder.file("world.jsonl", [world.as_slice(), too_long().as_bytes()].concat());
        folder.file("out.jsonl.journal", &journal);
        flip(&folder, "out.jsonl.journal", place);
        let told = folder.run(&format!("{command} -o out.jsonl")).stderr;
        let sentence = "out.jsonl.journal: 1 damaged line skipped; its result is computed again";
        assert_eq!(said(&told), [sentence], "byte {place}");
        let kept = String::from_utf8(folder.bytes("out.jsonl.journal")).unwrap();
        assert_eq!(kept.lines().filter(|line| !line.trim().is_empty()).count(), lines, "byte {place}");
        folder.file("world.jsonl", &world);
        let done = folder.run(&format!("{command} -o out.jsonl --json"));
        assert_eq!(said(&done.stderr), [""; 0], "byte {place}");
        assert!(done.json()["resumed"].as_u64().unwrap() as usize >= lines, "byte {place}: {done}");
        assert_eq!(folder.bytes("out.jsonl"), folder.bytes("whole.jsonl"), "byte {place}");
    }
}

#[test]
fn of_scores() {
    damaged_journal(&format!("score world.jsonl --name tiny --model {}", model("qwen2")));
}

#[test]
fn of_found_solutions() {
    damaged_journal(&format!(
        "solve --data world.jsonl --strategy majority -n 2 --max-tokens 8 --model {}",
        model("qwen2")
    ));
}

#[test]
fn of_judgments() {
    let folder = Folder::with_world();
    let command = format!("bench processbench world.jsonl --model {} -o run --json", model("qwen2"));
    let whole = folder.run(&command).json();
    let samples = whole["counts"]["samples"].as_u64().unwrap();
    let lines = folder.bytes("run/judged.jsonl");
    for place in places(&lines) {
        folder.file("run/judged.jsonl", &lines);
        flip(&folder, "run/judged.jsonl", place);
        let done = folder.run(&command);
        assert_eq!(
            said(&done.stderr),
            ["run/judged.jsonl: 1 damaged line skipped; its result is computed again"]
        );
        let report = done.json();
        assert_eq!(
            (&report["numbers"], &report["counts"]["resumed"]),
            (&whole["numbers"], &(samples - 1).into())
        );
        let again = folder.run(&command);
        assert_eq!((said(&again.stderr).len(), &again.json()["counts"]["resumed"]), (0, &samples.into()));
    }
}

#[test]
fn of_results_in_the_job_database() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let run =
        |output: &str| asking(&folder, &server, &format!("sample data.jsonl -n 2 -o {output} --no-cache"));
    assert_eq!(run("whole.jsonl").code, Some(0));
    let asked = server.seen().len();
    let database = folder.bytes("home/jobs.sqlite");
    let places = database.windows(11).enumerate().filter(|(_, window)| *window == b"Let us add.");
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for (number, place) in places.into_iter().enumerate() {
        folder.file("home/jobs.sqlite", &database);
        flip(&folder, "home/jobs.sqlite", place);
        let done = run("out.jsonl");
        assert_eq!(said(&done.stderr).len(), 1, "{done}");
        assert!(done.stderr.contains("1 damaged task skipped; its result is computed again"), "{done}");
        assert_eq!(server.seen().len(), asked + number + 1, "only that one is asked for again");
        assert_eq!(folder.bytes("out.jsonl"), folder.bytes("whole.jsonl"));
        assert_eq!(said(&run("out.jsonl").stderr), [""; 0]);
        assert_eq!(server.seen().len(), asked + number + 1);
    }
}

#[test]
fn of_a_cached_answer() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let run = |output: &str| {
        let _ = std::fs::remove_file(folder.path("home/jobs.sqlite"));
        asking(&folder, &server, &format!("annotate judge data.jsonl -o {output}"))
    };
    assert_eq!(run("whole.jsonl").code, Some(0));
    let asked = server.seen().len();
    assert_eq!(folder.names("home/answers"), ["answers.sqlite"]);
    // Answers are compressed: each begins with the mark of zstd.
    let cache = folder.bytes("home/answers/answers.sqlite");
    let place = cache.windows(4).position(|window| window == [0x28, 0xb5, 0x2f, 0xfd]).unwrap();
    flip(&folder, "home/answers/answers.sqlite", place + 20);
    let done = run("out.jsonl");
    assert!(
        said(&done.stderr).len() == 1 && done.stderr.contains("damaged; its request is sent again"),
        "{done}"
    );
    assert_eq!(server.seen().len(), asked + 1);
    assert_eq!(folder.bytes("out.jsonl"), folder.bytes("whole.jsonl"));
    assert_eq!(said(&run("out.jsonl").stderr), [""; 0]);
    assert_eq!(server.seen().len(), asked + 1);
}
