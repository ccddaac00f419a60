//! Annotation jobs that are cancelled, run out of disk, are shared by two processes, and are killed again and again.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gradus_llm::scripted::server::{Act, Faults, Server, replies};

use super::annotate::{DATA, answer, asking, folder, jobs};
use super::{Done, Folder};

#[test]
fn a_cancelled_job_is_resumed_from_anywhere() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    assert_eq!(asking(&folder, &server, "annotate judge data.jsonl -o judge.jsonl").code, Some(0));
    assert!(jobs(&folder, "cancel 1").fails(3).contains("is done"));
    std::fs::remove_file(folder.path("judge.jsonl")).unwrap();
    let elsewhere = Folder::new();
    let resumed = Command::new(crate::program())
        .args(["jobs", "resume", "1"])
        .current_dir(elsewhere.path("."))
        .env_remove("GRADUS_JOBS")
        .env("GRADUS_HOME", folder.path("home"))
        .output()
        .unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
    assert!(folder.path("judge.jsonl").exists());
    // It still knows its own command.
    let again = jobs(&folder, "resume 1");
    assert!(again.stderr.contains("gradus annotate judge data.jsonl"), "{again}");
    assert_eq!(again.code, Some(0), "{again}");
    assert!(jobs(&folder, "show 7").fails(3).contains("there is no job 7"));
}

/// A disk of 300 KB, where this process may mount one; says so where it may not.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn a_full_disk_is_one_sentence_and_the_job_goes_on_elsewhere() {
    let (folder, server) = (folder(), Server::in_thread(replies(answer)));
    let many: String = (0..400)
        .map(|number| DATA.lines().next().unwrap().replace("p1", &format!("q{number}")) + "\n")
        .collect();
    folder.file("many.jsonl", &many);
    let disk = folder.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        Command::new("mount").args(arguments).arg(&disk).output().is_ok_and(|done| done.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=300k", "tmpfs"]) {
        eprintln!("skipped: no disk can be mounted here");
        return;
    }
    let line = "annotate judge many.jsonl -o judge.jsonl --jobs disk/jobs.sqlite --no-cache";
    let full = asking(&folder, &server, line);
    assert!(mount(&["-o", "remount,size=20m"]));
    let sentence = full.fails(3);
    assert!(
        sentence.contains("disk/jobs.sqlite cannot be written") && sentence.contains("full"),
        "{sentence}"
    );
    let done = asking(&folder, &server, &format!("{line} --json"));
    Command::new("umount").arg(&disk).status().unwrap();
    assert_eq!(done.code, Some(0), "{done}");
    let done = done.json();
    assert_eq!(done["labeled"], 400);
    assert!(done["resumed"].as_u64().unwrap() > 0, "what was kept before is not done again: {done}");
}

#[test]
fn two_processes_share_a_job() {
    let folder = folder();
    let line = DATA.lines().next().unwrap();
    let many: String = (0..200).map(|number| line.replace("p1", &format!("q{number}")) + "\n").collect();
    folder.file("many.jsonl", &many);
    let rule = replies(answer);
    let server = Server::in_thread(move |number, seen| match rule(number, seen) {
        Act::Say(200, _, body) => Act::Late(Duration::from_millis(20), body),
        other => other,
    });
    let url = &server.url;
    let line = format!(
        "annotate judge many.jsonl -o judge.jsonl --endpoint {url} --model tiny --no-cache --concurrency 4 --json"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let start = || {
        let mut command = folder.command(&words);
        command
            .env_remove("GRADUS_JOBS")
            .env("GRADUS_HOME", folder.path("home"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let (first, second) = (start(), start());
    for child in [first, second] {
        let done = Done::from(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.json()["labeled"].clone()), (Some(0), 200.into()), "{done}");
    }
    assert_eq!(server.seen().len(), 200, "nothing is asked twice");
}

/// A job belongs to its process: another job does not write into its output, and it ends when the process is killed.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_job_is_stopped_and_its_output_free() {
    let folder = folder();
    let hanging = Server::in_thread(|_, _| Act::Hang);
    for line in ["sample data.jsonl -n 1 -o out.jsonl", "annotate judge data.jsonl -o judged.jsonl"] {
        let command = format!("{line} --endpoint {} --model tiny --no-cache", hanging.url);
        let words: Vec<&str> = command.split_whitespace().collect();
        let (before, begun) = (hanging.seen().len(), Instant::now());
        let mut child = folder
            .command(&words)
            .env_remove("GRADUS_JOBS")
            .env("GRADUS_HOME", folder.path("home"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while hanging.seen().len() == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was asked");
            std::thread::sleep(Duration::from_millis(10));
        }
        let listed = |nth: usize| jobs(&folder, "list --json").json()[nth].clone();
        assert_eq!(listed(0)["state"], "running");
        let id = listed(0)["id"].clone();
        let server = Server::in_thread(replies(answer));
        let other = asking(&folder, &server, &format!("{line} --seed 1")).fails(3);
        assert!(other.contains(&format!("is in use by job {id}: wait until it has finished")), "{other}");
        assert!(server.seen().is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(listed(1)["state"], "stopped", "of the same output, the one that was killed");
        let other = asking(&folder, &server, &format!("{line} --seed 1"));
        assert_eq!(other.code, Some(0), "{other}");
    }
}

/// A run that is killed two hundred times, against a server of which one in ten requests fails and some hang, writes what a
/// run writes that is left alone.
#[test]
fn two_hundred_kills_change_nothing() {
    const RECORDS: usize = 2000;
    let kills: usize = std::env::var("GRADUS_KILLS").map_or(200, |kills| kills.parse().unwrap());
    let folder = folder();
    let lines: Vec<&str> = DATA.lines().collect();
    let many: String = (0..RECORDS)
        .map(|number| {
            let line = lines[number % 2]
                .replace("\"p1", &format!("\"p1-{number}"))
                .replace("\"p2", &format!("\"p2-{number}"));
            line.replace("What is", &format!("Question {number}: what is")) + "\n"
        })
        .collect();
    folder.file("many.jsonl", &many);
    let judging = |home: &str, output: &str, url: &str, more: &str| {
        let line = format!(
            "annotate judge many.jsonl -o {output} --votes 3 --endpoint {url} --model tiny --concurrency 8 --timeout 0.5 --retries 20 {more}"
        );
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = folder.command(&words);
        command.env_remove("GRADUS_JOBS").env("GRADUS_HOME", folder.path(home));
        command
    };
    let calm = Server::in_thread(replies(answer));
    let done = Done::from(judging("calm", "calm.jsonl", &calm.url, "").output().unwrap());
    assert_eq!(done.code, Some(0), "{done}");

    let faults = Faults { seed: 1, share_failing: 0.1, share_hanging: 0.002, ..Faults::default() };
    let rule = replies(answer);
    let slow = move |number: usize, seen: &_| match rule(number, seen) {
        // Slow enough for two hundred kills on the way, fast enough for something to be done between two of them.
        Act::Say(200, _, body) => Act::Late(Duration::from_millis(60), body),
        other => other,
    };
    let stormy = Server::in_thread(faults.around(slow));
    let mut killed = 0;
    let mut random = 12345_u64;
    let begun = Instant::now();
    loop {
        let mut command = judging("stormy", "stormy.jsonl", &stormy.url, "");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let life = Duration::from_millis(random >> 33 & 255);
        if killed < kills {
            std::thread::sleep(life);
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                killed += 1;
            }
            child.wait().unwrap();
        } else {
            assert!(child.wait().unwrap().success());
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "{killed} kills take too long");
    }
    assert_eq!(killed, kills);
    // Nothing is paid for twice but what was in flight, eight at a time; one in ten had to be asked for again.
    let asked = stormy.seen().len();
    assert!(asked * 9 / 10 <= RECORDS + 8 * kills, "{asked} requests for {RECORDS} records");
    assert_eq!(folder.bytes("stormy.jsonl"), folder.bytes("calm.jsonl"));
    let list = Done::from(
        folder
            .command(&["jobs", "list", "--json"])
            .env_remove("GRADUS_JOBS")
            .env("GRADUS_HOME", folder.path("stormy"))
            .output()
            .unwrap(),
    );
    let list = list.json();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["tasks"]["done"]), (1, &RECORDS.into()));
}
