//! Job databases with damaged bytes: a sentence, or the results of an undisturbed run. An input is a list of changes: two
//! bytes say where, one what is flipped.

#![no_main]

mod scratch;
mod stack;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gradus_store::{JobSpec, SqliteStore, Store as _, TaskError, TaskRunnerSettings, run_tasks};
use libfuzzer_sys::fuzz_target;

const TASKS: usize = 4;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);

/// A database with one finished job.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = FOLDER.join("whole.sqlite");
    work(&path).expect("an undisturbed job ends");
    std::fs::read(&path).expect("it is there")
});

fn work(path: &Path) -> gradus_store::Result<Vec<(usize, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let store = SqliteStore::open(path)?;
        let spec = JobSpec {
            kind: "fuzz".to_owned(),
            fingerprint: "f".to_owned(),
            tasks: (0..TASKS).map(|task| format!("t{task}")).collect(),
            ..JobSpec::default()
        };
        store.jobs().await?;
        let job = store.begin(spec).await?;
        store.verify(job.id).await?;
        store.faults(job.id).await?;
        let asked = Cell::new(0);
        let each = |task: usize| {
            asked.set(asked.get() + 1);
            async move { Ok::<_, TaskError>(task.to_string()) }
        };
        run_tasks(&store, job.id, &TaskRunnerSettings::default(), each, |_| asked.get() < 100).await?;
        assert!(asked.get() < 100, "tasks are done again and again");
        store.results(job.id).await
    })
}

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let mut damaged = WHOLE.clone();
    for change in bytes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % damaged.len();
        damaged[place] ^= change[2];
    }
    for beside in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(FOLDER.join(format!("damaged.sqlite{beside}")));
    }
    let path = FOLDER.join("damaged.sqlite");
    std::fs::write(&path, damaged).expect("the scratch file can be written");
    let _ = work(&path).map_err(|error| error.to_string());
});
