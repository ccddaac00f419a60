//! Pools on a PostgreSQL server, at the address in GRADUS_TEST_POSTGRES; `make test-store` starts one. Every command gives
//! what it gives with a folder.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Folder, model};

/// The server's address, with a schema that no other test uses.
#[expect(clippy::print_stderr, reason = "a test says that it is skipped")]
fn server() -> Option<String> {
    let Ok(url) = std::env::var("GRADUS_TEST_POSTGRES") else {
        eprintln!("skipped: GRADUS_TEST_POSTGRES is not set");
        return None;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    Some(format!("{url}?schema=test_cli_{now:x}_{}", std::process::id()))
}

fn password(url: &str) -> &str {
    url.split_once('@').unwrap().0.rsplit_once(':').unwrap().1
}

#[test]
fn every_command_gives_what_a_folder_gives() {
    let Some(url) = server() else { return };
    let (folder, encoder) = (Folder::new(), model("bert-mean"));
    folder.run("synth -n 24 --solutions 2 --seed 7 -o world.jsonl").succeeds();
    folder.run("synth -n 4 --solutions 2 --seed 8 -o others.jsonl").succeeds();
    let pools = [("folder", "world.pool".to_owned()), ("server", format!("{url}&pool=world"))];
    let scorer = model("qwen2");
    for (name, pool) in &pools {
        let built = folder
            .run(&format!("pool build world.jsonl --to {pool} --encoder {encoder} --dimensions 8 --json"))
            .json();
        assert_eq!(built["counts"]["questions"], 24);
        let added = folder.run(&format!("pool add others.jsonl --pool {pool} --json")).json();
        assert_eq!((&added["counts"]["questions"], &added["before"]["questions"]), (&28.into(), &24.into()));
        let stats = folder.run(&format!("pool stats {pool} --verify=all --json")).json();
        assert_eq!(stats["verified"]["checked"], stats["verified"]["total"]);
        folder
            .run(&format!("pool search --data world.jsonl others.jsonl --pool {pool} -o {name}.jsonl"))
            .succeeds();
        for strategy in ["tf-idf", "random"] {
            let line = format!("pool search --data others.jsonl --pool {pool} --strategy {strategy}");
            folder.run(&format!("{line} -o {name}-{strategy}.jsonl")).succeeds();
        }
        folder.run(&format!("pool examples others.jsonl --pool {pool} -o {name}-examples.jsonl")).succeeds();
        folder
            .run(&format!(
                "score others.jsonl --model {scorer} --pool {pool} --name s -o {name}-scored.jsonl"
            ))
            .succeeds();
        folder
            .run(&format!(
                "bench processbench world.jsonl --model {scorer} --pool {pool} -o {name}-run --resamples 20 --json"
            ))
            .json();
    }
    for file in [".jsonl", "-tf-idf.jsonl", "-random.jsonl", "-examples.jsonl"] {
        let [expected, found] = ["folder", "server"].map(|name| folder.bytes(&format!("{name}{file}")));
        assert!(expected == found && !found.is_empty(), "{file}");
    }
    assert_eq!(folder.rows("folder-scored.jsonl"), folder.rows("server-scored.jsonl"));
    // The password is nowhere, the report of a benchmark and the list of jobs included.
    let report = String::from_utf8(folder.bytes("server-run/report.json")).unwrap();
    assert!(report.contains("pool=world") && !report.contains(password(&url)), "{report}");
    let jobs = folder.run("jobs list --json").succeeds();
    assert!(!jobs.contains(password(&url)), "{jobs}");
    let refused =
        folder.run(&format!("pool build world.jsonl --to {url}&pool=world --encoder {encoder}")).fails(3);
    assert!(refused.contains("is there already") && !refused.contains(password(&url)), "{refused}");
    for wrong in [format!("{url}&pool=missing"), url.clone()] {
        let said = folder.run(&format!("pool search question --pool {wrong}")).fails(3);
        assert!(!said.contains(password(&url)) && said.contains("pool"), "{said}");
    }
}

/// A process that is killed leaves the old pool; the last run goes on and gives what a folder gives.
#[test]
fn a_killed_build_leaves_the_old_pool() {
    let Some(url) = server() else { return };
    let (folder, encoder) = (Folder::new(), model("bert-mean"));
    folder.run("synth -n 4 --solutions 2 --seed 8 -o few.jsonl").succeeds();
    folder.run("synth -n 160 --solutions 2 --seed 7 -o many.jsonl").succeeds();
    let pool = format!("{url}&pool=p");
    folder.run(&format!("pool build few.jsonl --to {pool} --encoder {encoder} --dimensions 4")).succeeds();
    let line = format!(
        "pool build many.jsonl --replace --to {pool} --encoder {encoder} --dimensions 4 --batch-size 4"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut kills = 0;
    for round in 0..8 {
        let mut child = folder.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(150 + 170 * round));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let questions =
            folder.run(&format!("pool stats {pool} --json")).json()["counts"]["questions"].clone();
        assert!(questions == 4 || questions == 160, "{questions}");
    }
    assert!(kills > 0);
    // The server may need a moment to notice that a process is gone.
    let mut built = folder.run(&line);
    for _ in 0..50 {
        if built.code == Some(0) {
            break;
        }
        assert!(built.stderr.contains("is in use by another process"), "{}", built.stderr);
        std::thread::sleep(Duration::from_millis(100));
        built = folder.run(&line);
    }
    folder.run(&format!("pool build many.jsonl -o many.pool --encoder {encoder} --dimensions 4")).succeeds();
    for (name, pool) in [("server", pool.as_str()), ("folder", "many.pool")] {
        folder.run(&format!("pool search --data few.jsonl --pool {pool} -o {name}.jsonl")).succeeds();
    }
    assert_eq!(folder.bytes("server.jsonl"), folder.bytes("folder.jsonl"));
}
