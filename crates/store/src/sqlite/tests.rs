use std::cell::RefCell;

use super::*;
use crate::contract_tests::{Place, contract_tests, failure, is_complete, named, spec, twice, workers};
use crate::task_runner::run_tasks;

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(&folder.path().join("a/jobs.sqlite")).unwrap()
}

/// A file.
struct File(tempfile::TempDir);

impl File {
    async fn make() -> Option<Self> {
        Some(Self(tempfile::tempdir().unwrap()))
    }

    async fn remove(self) {}
}

impl Place for File {
    async fn open(&self) -> Box<dyn Store> {
        Box::new(open(&self.0))
    }

    async fn silence(&self) {
        change(&self.0, "UPDATE jobs SET updated = updated - 120");
    }
}

contract_tests!(File::make);

#[test]
fn other_files_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, "this is no database, but a text that is long enough to be looked at").unwrap();
    let error = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("file is not a database"), "{error}");
    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs(name TEXT)").unwrap();
    let error = SqliteStore::open(&other).unwrap_err().to_string();
    assert!(error.contains("not a jobs database"), "{error}");
    let later = folder.path().join("later.sqlite");
    Connection::open(&later).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    assert!(SqliteStore::open(&later).unwrap_err().to_string().contains("version 7"));
}

/// What a killed process had claimed does not keep its job running.
#[tokio::test]
async fn a_job_stops_with_its_last_worker() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = store.begin(spec(6)).await.unwrap().id;
    let state = async || store.job(id).await.unwrap().state;
    assert_eq!(state().await, JobState::Running, "nobody has claimed anything yet");
    store.claim(id, &crate::contract_tests::dead(), 2, 60.0).await.unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(state().await, JobState::Stopped);
    }
    store.claim(id, &crate::contract_tests::elsewhere(), 2, 60.0).await.unwrap();
    assert_eq!(state().await, JobState::Running);
    change(&folder, "UPDATE workers SET seen = seen - 120");
    if cfg!(target_os = "linux") {
        assert_eq!(state().await, JobState::Stopped);
    }
    store.renew(id, &Worker::this(), 60.0).await.unwrap();
    change(&folder, "UPDATE workers SET seen = seen - 120");
    if cfg!(target_os = "linux") {
        assert_eq!(state().await, JobState::Running, "however long this process says nothing");
    }
}

/// Runs a job of six tasks to its end and closes its file.
async fn finished(folder: &tempfile::TempDir) -> JobId {
    let store = open(folder);
    let job = store.begin(spec(6)).await.unwrap();
    assert!(is_complete(&run_tasks(&store, job.id, &workers(), twice, named, |_| true).await.unwrap()));
    job.id
}

/// Changes rows behind the store's back.
fn change(folder: &tempfile::TempDir, statements: &str) {
    Connection::open(folder.path().join("a/jobs.sqlite")).unwrap().execute_batch(statements).unwrap();
}

#[tokio::test]
async fn a_damaged_row_costs_its_task() {
    for damage in [
        "UPDATE tasks SET result = '5' WHERE number = 2",
        "UPDATE tasks SET result = NULL WHERE number = 2",
        "UPDATE tasks SET result = x'ff' WHERE number = 2",
        "UPDATE tasks SET hash = 'other' WHERE number = 2",
        "UPDATE tasks SET state = 'dond' WHERE number = 2",
        "UPDATE tasks SET state = x'00ff' WHERE number = 2",
        "UPDATE tasks SET state = CAST('done' AS BLOB) WHERE number = 2",
        "UPDATE tasks SET number = 99 WHERE number = 2",
        "UPDATE tasks SET number = -7 WHERE number = 2",
        "UPDATE tasks SET number = 2, result = '8' WHERE number = 2",
        "DELETE FROM tasks WHERE number = 2",
        "UPDATE tasks SET state = 'leased' WHERE number = 2",
        "UPDATE tasks SET state = 'leased', worker = 'elsewhere', lease = 1e300 WHERE number = 2",
        "UPDATE tasks SET state = 'leased', worker = 'elsewhere', lease = x'ff' WHERE number = 2",
        "UPDATE tasks SET hash = NULL, result = '{' WHERE number = 2",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let id = finished(&folder).await;
        change(&folder, damage);
        let store = open(&folder);
        let job = store.begin(spec(6)).await.unwrap();
        store.verify(id).await.unwrap();
        assert_eq!((job.id, store.job(id).await.unwrap().tasks.done), (id, 5), "{damage}");
        let asked = RefCell::new(Vec::new());
        let each = |task: usize| {
            asked.borrow_mut().push(task);
            twice(task)
        };
        assert!(
            is_complete(&run_tasks(&store, id, &workers(), each, named, |_| true).await.unwrap()),
            "{damage}"
        );
        assert_eq!(*asked.borrow(), [2], "{damage}");
        let results: Vec<String> =
            store.results(id, 0..usize::MAX).await.unwrap().into_iter().map(|(_, result)| result).collect();
        assert_eq!(results, ["0", "2", "4", "6", "8", "10"], "{damage}");
        assert_eq!(store.verify(id).await.unwrap(), 0, "{damage}");
    }
}

#[tokio::test]
async fn results_of_older_versions_are_believed() {
    let folder = tempfile::tempdir().unwrap();
    let id = finished(&folder).await;
    change(&folder, "UPDATE tasks SET hash = NULL");
    change(&folder, "ALTER TABLE tasks DROP COLUMN hash");
    let store = open(&folder);
    assert_eq!(store.begin(spec(6)).await.unwrap().tasks.done, 6);
    assert_eq!(store.verify(id).await.unwrap(), 0);
}

/// Whichever byte of the file is damaged: a sentence, or what an undisturbed run has.
#[tokio::test]
async fn damage_of_the_file_is_found_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder).await;
    let path = folder.path().join("a/jobs.sqlite");
    let whole = std::fs::read(&path).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|place| whole[*place] != 0).collect();
    let mut sound = 0;
    for place in used.iter().step_by(61) {
        let mut damaged = whole.clone();
        damaged[*place] ^= 0x15;
        let path = folder.path().join(format!("{place}.sqlite"));
        std::fs::write(&path, damaged).unwrap();
        let run = async {
            let store = SqliteStore::open(&path)?;
            let job = store.begin(spec(6)).await?;
            store.verify(job.id).await?;
            let asked = RefCell::new(0);
            let each = |task: usize| {
                *asked.borrow_mut() += 1;
                twice(task)
            };
            let summary =
                run_tasks(&store, job.id, &workers(), each, named, |_| *asked.borrow() < 50).await?;
            assert!(summary.stop.is_none(), "byte {place}: {summary:?}");
            Ok::<_, Error>((job.id, store.results(job.id, 0..usize::MAX).await?))
        };
        if let Ok((_, results)) = run.await {
            let expected: Vec<(usize, String)> = (0..6).map(|task| (task, (2 * task).to_string())).collect();
            assert_eq!(results, expected, "byte {place}");
            sound += 1;
        }
    }
    assert!(sound > 0);
}

/// A task's number is changed in its row and not in the index.
#[tokio::test]
async fn a_row_that_has_lost_its_number_is_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let id = finished(&folder).await;
    let path = folder.path().join("a/jobs.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    // Its number, no name, its state.
    let row = [&[3], &b"done"[..]].concat();
    // What SQLite no longer uses is there, too.
    let places: Vec<usize> =
        (0..bytes.len() - row.len()).filter(|at| bytes[*at..].starts_with(&row)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at] ^= 0xbf);
    std::fs::write(&path, bytes).unwrap();
    let store = open(&folder);
    store.begin(spec(6)).await.unwrap();
    store.verify(id).await.unwrap();
    let asked = RefCell::new(Vec::new());
    let each = |task: usize| {
        asked.borrow_mut().push(task);
        twice(task)
    };
    assert!(is_complete(&run_tasks(&store, id, &workers(), each, named, |_| true).await.unwrap()));
    assert_eq!(*asked.borrow(), [3]);
    let results: Vec<String> =
        store.results(id, 0..usize::MAX).await.unwrap().into_iter().map(|(_, result)| result).collect();
    assert_eq!(results, ["0", "2", "4", "6", "8", "10"]);
}

/// A row's length is wrong: it reaches into its neighbor, and writing it would damage both.
#[tokio::test]
async fn a_row_that_reaches_into_the_next_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = |name: &str| JobSpec { fingerprint: name.to_owned(), ..spec(4) };
    let id = store.begin(job("finished")).await.unwrap().id;
    run_tasks(&store, id, &workers(), twice, named, |_| true).await.unwrap();
    let id = store.begin(job("killed")).await.unwrap().id;
    store.claim(id, &Worker::this(), 3, 0.0).await.unwrap();
    store.finish(id, &Worker::this(), 0, "0".to_owned()).await.unwrap();
    store.give_back(id, 1, failure("no answer"), 1).await.unwrap();
    drop(store);
    let path = folder.path().join("a/jobs.sqlite");
    let whole = std::fs::read(&path).unwrap();
    // After the last row, which is open, comes the length of one that was written before it.
    let row = b"\x02\x03open";
    let last = whole.windows(6).rposition(|window| window == row).expect("job, number and state") + 6;
    let length = last + whole[last..].iter().position(|byte| *byte != 0).unwrap();
    for flip in [0x7f_u8, 0x05, 0x3d, 0x11] {
        let mut damaged = whole.clone();
        damaged[length] ^= flip;
        std::fs::write(&path, damaged).unwrap();
        let store = open(&folder);
        let asked = RefCell::new(0);
        let each = |task: usize| {
            *asked.borrow_mut() += 1;
            twice(task)
        };
        let run = async {
            let id = store.begin(job("killed")).await?.id;
            store.verify(id).await?;
            run_tasks(&store, id, &workers(), each, named, |_| *asked.borrow() < 50).await?;
            store.results(id, 0..usize::MAX).await
        };
        // A sentence, or every task once.
        if let Ok(results) = run.await {
            assert!(results.len() >= 3, "{flip}: {results:?}");
        }
        assert!(*asked.borrow() <= 4, "{flip}: {asked:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_closed_has_everything_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder).await;
    let names: Vec<_> =
        std::fs::read_dir(folder.path().join("a")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["jobs.sqlite"]);
}

#[tokio::test]
async fn absurd_rows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(1)).await.unwrap();
    change(
        &folder,
        "UPDATE jobs SET kind = x'ff00', command = x'c3', folder = 7, output = x'00', state = 'what', created = 'x', \
         updated = x'ff'; INSERT INTO progress VALUES (1, x'ff', -5, 9223372036854775807);",
    );
    let read = store.job(job.id).await.unwrap();
    assert_eq!((read.command.len(), read.kind.as_str(), read.tasks.done), (0, "\u{fffd}\0", 0));
    assert_eq!(store.jobs().await.unwrap().len(), 1);
    assert!(read.tasks.total() > 0);
}
