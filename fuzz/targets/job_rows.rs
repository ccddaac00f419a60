//! Job databases with damaged bytes: a sentence, or the results of an undisturbed run. An input is a list of changes: two
//! bytes say where, one what is flipped. A result that several changes forge together with its hash is believed.

#![no_main]

mod scratch;
mod stack;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gradus_store::{
    JobSpec, Result, SqliteStore, Store as _, TaskError, TaskEvent, TaskFailure, TaskRunnerSettings, Worker,
    run_tasks,
};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

const TASKS: usize = 4;

/// How often a job may say that it waits.
const PATIENCE: usize = 4;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// A database with a finished job and one that was killed: a task is done, one leased, one failed, one open.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = FOLDER.join("whole.sqlite");
    let made = RUNTIME.block_on(async {
        let store = SqliteStore::open(&path)?;
        run(&store, "finished").await?;
        let job = store.begin(spec("killed")).await?.id;
        store.claim(job, &Worker::this(), TASKS - 1, 0.0).await?;
        store.finish(job, &Worker::this(), 0, "0".to_owned()).await?;
        let failure = TaskFailure { name: "t1".to_owned(), why: "no answer".to_owned() };
        store.give_back(job, 1, failure, 1).await
    });
    assert!(!made.expect("an undisturbed job ends"), "the task has failed");
    std::fs::read(&path).expect("it is there")
});

fn spec(fingerprint: &str) -> JobSpec {
    JobSpec {
        kind: "fuzz".to_owned(),
        fingerprint: fingerprint.to_owned(),
        tasks: TASKS,
        ..JobSpec::default()
    }
}

/// A job's results, and whether waiting for a task of another machine was given up.
struct Found {
    results: Vec<(usize, String)>,
    given_up: bool,
}

/// Runs a job to its end.
async fn run(store: &SqliteStore, fingerprint: &str) -> Result<Found> {
    store.jobs().await?;
    let job = store.begin(spec(fingerprint)).await?;
    store.verify(job.id).await?;
    store.faults(job.id, 0, usize::MAX).await?;
    let (asked, ticks) = (Cell::new(0), Cell::new(0));
    let each = |task: usize| {
        asked.set(asked.get() + 1);
        async move { Ok::<_, TaskError>(task.to_string()) }
    };
    // A lease that seems to be another machine's is waited for; here nobody waits for long.
    let watch = |event: TaskEvent<'_>| {
        ticks.set(ticks.get() + usize::from(event == TaskEvent::Tick));
        asked.get() < 100 && ticks.get() < PATIENCE
    };
    let name = |task: usize| format!("t{task}");
    run_tasks(store, job.id, &TaskRunnerSettings::default(), each, name, watch).await?;
    assert!(asked.get() < 100, "tasks are done again and again");
    let results = store.results(job.id, 0..usize::MAX).await?;
    Ok(Found { results, given_up: ticks.get() >= PATIENCE })
}

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let mut damaged = WHOLE.clone();
    let changes = bytes.as_chunks::<3>().0;
    for [low, high, flip] in changes {
        let place = usize::from(u16::from_le_bytes([*low, *high])) % damaged.len();
        damaged[place] ^= flip;
    }
    for beside in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(FOLDER.join(format!("damaged.sqlite{beside}")));
    }
    let path = FOLDER.join("damaged.sqlite");
    std::fs::write(&path, damaged).expect("the scratch file can be written");
    match RUNTIME.block_on(results(&path)) {
        Ok([finished, killed]) if changes.len() < 2 => {
            let right = |tasks: &[usize]| tasks.iter().map(|task| (*task, task.to_string())).collect::<Vec<_>>();
            assert_eq!(finished.results, right(&[0, 1, 2, 3]), "a finished job");
            let killed_is = |tasks: &[usize]| killed.results == right(tasks);
            assert!(
                killed_is(&[0, 2, 3]) || killed_is(&[0, 1, 2, 3]) || killed.given_up && killed_is(&[0, 3]),
                "a killed job: {:?}",
                killed.results
            );
        }
        Ok(_) => {}
        Err(error) => drop(error.to_string()),
    }
});

async fn results(path: &Path) -> Result<[Found; 2]> {
    let store = SqliteStore::open(path)?;
    Ok([run(&store, "finished").await?, run(&store, "killed").await?])
}
