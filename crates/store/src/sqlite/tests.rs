use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::task_runner::{RunSummary, StopReason, TaskError, TaskEvent, TaskRunnerSettings, run_tasks};

fn spec(tasks: usize) -> JobSpec {
    JobSpec {
        kind: "test".to_owned(),
        fingerprint: "f".to_owned(),
        command: vec!["annotate".to_owned()],
        tasks,
        ..JobSpec::default()
    }
}

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(&folder.path().join("a/jobs.sqlite")).unwrap()
}

/// Whether every task has a result.
fn is_complete(summary: &RunSummary) -> bool {
    summary.stop.is_none() && summary.failed == 0
}

fn workers() -> TaskRunnerSettings {
    TaskRunnerSettings { concurrency: 4, ..TaskRunnerSettings::default() }
}

fn failure(why: &str) -> TaskFailure {
    TaskFailure { name: "a task".to_owned(), why: why.to_owned() }
}

/// What a task is called.
fn named(task: usize) -> String {
    format!("t{task}")
}

async fn twice(task: usize) -> std::result::Result<String, TaskError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok((2 * task).to_string())
}

#[tokio::test]
async fn a_job_goes_on_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(&folder);
    let job = first.begin(spec(20)).await.unwrap();
    let seen = RefCell::new(0);
    let stop_after_five = |event: TaskEvent<'_>| {
        *seen.borrow_mut() += usize::from(matches!(event, TaskEvent::Done { .. }));
        *seen.borrow() < 5
    };
    let ended = run_tasks(&first, job.id, &workers(), twice, named, stop_after_five).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Requested));
    assert!((5..=8).contains(&ended.done), "those in flight are finished: {ended:?}");
    drop(first);

    let second = open(&folder);
    let again = second.begin(spec(20)).await.unwrap();
    assert_eq!((again.id, again.tasks.done), (job.id, ended.done));
    let rest = run_tasks(&second, job.id, &workers(), twice, named, |_| true).await.unwrap();
    assert!(is_complete(&rest));
    assert_eq!(ended.done + rest.done, 20);
    let expected: Vec<(usize, String)> = (0..20).map(|task| (task, (2 * task).to_string())).collect();
    assert_eq!(second.results(job.id, 0..usize::MAX).await.unwrap(), expected);
}

#[tokio::test]
async fn trouble_that_passes_is_tried_again_and_the_other_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(6)).await.unwrap();
    let tries: RefCell<HashMap<usize, u32>> = RefCell::default();
    let each = |task: usize| {
        let count = *tries.borrow_mut().entry(task).and_modify(|count| *count += 1).or_insert(1);
        async move {
            match task {
                1 if count < 3 => Err(TaskError::Retryable("busy".to_owned())),
                2 => Err(TaskError::Retryable("always busy".to_owned())),
                3 => Err(TaskError::Permanent("too long".to_owned())),
                _ => Ok(String::new()),
            }
        }
    };
    let ended = run_tasks(&store, job.id, &workers(), each, named, |_| true).await.unwrap();
    assert_eq!((ended.done, ended.failed, ended.retries, is_complete(&ended)), (4, 2, 4, false));
    let faults = store.faults(job.id, 0, 100).await.unwrap();
    let told: Vec<(&str, u32, &str)> =
        faults.iter().map(|fault| (&*fault.name, fault.attempts, &*fault.fault)).collect();
    assert_eq!(told, [("t2", 3, "always busy"), ("t3", 1, "too long")]);
    assert_eq!(store.faults(job.id, 3, 100).await.unwrap(), faults[1..]);
    assert_eq!(store.faults(job.id, 0, 1).await.unwrap(), faults[..1]);
    let counts = store.counts(job.id, 2..5).await.unwrap();
    assert_eq!((counts.open, counts.leased, counts.done, counts.failed), (0, 0, 1, 2));
    assert_eq!(store.results(job.id, 2..5).await.unwrap(), [(4, String::new())]);
    assert_eq!(store.reopen(job.id).await.unwrap(), 2);
    assert_eq!(store.job(job.id).await.unwrap().tasks.open, 2);
}

#[tokio::test]
async fn when_nothing_works_it_stops_with_the_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(1000)).await.unwrap();
    let down = |_| async { Err(TaskError::Retryable("cannot be reached".to_owned())) };
    let ended = run_tasks(&store, job.id, &workers(), down, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::ConsecutiveFailures("cannot be reached".to_owned())));
    let tasks = store.job(job.id).await.unwrap().tasks;
    assert_eq!((tasks.open + tasks.failed, tasks.leased), (1000, 0), "nothing stays taken");
}

#[tokio::test]
async fn an_error_of_all_tasks_stops_at_once_and_fails_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(1000)).await.unwrap();
    let refused = |_| async { Err(TaskError::Fatal("wrong key".to_owned())) };
    let ended = run_tasks(&store, job.id, &workers(), refused, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Fatal("wrong key".to_owned())));
    let tasks = store.job(job.id).await.unwrap().tasks;
    assert_eq!((tasks.open, tasks.failed, tasks.leased), (1000, 0, 0));
}

#[tokio::test]
async fn a_cancelled_job_stops_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(200)).await.unwrap();
    let other = open(&folder);
    let each = |task: usize| {
        let other = &other;
        async move {
            if task == 10 {
                other.set_state(1, JobState::Cancelled).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(String::new())
        }
    };
    let ended = run_tasks(&store, job.id, &workers(), each, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Cancelled));
    assert!(ended.done < 200);
    assert_eq!(store.job(job.id).await.unwrap().state, JobState::Cancelled);
    store.begin(spec(200)).await.unwrap();
    assert!(is_complete(&run_tasks(&store, job.id, &workers(), twice, named, |_| true).await.unwrap()));
}

#[tokio::test]
async fn a_job_that_another_worker_has_ended_is_no_cancelled_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(1)).await.unwrap();
    store.finish(job.id, 0, String::new()).await.unwrap();
    store.set_state(job.id, JobState::Done).await.unwrap();
    assert!(is_complete(&run_tasks(&store, job.id, &workers(), twice, named, |_| true).await.unwrap()));
}

#[tokio::test]
async fn leases_end_by_death_or_time_and_a_late_result_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = store.begin(spec(3)).await.unwrap().id;
    let this = Worker::this();
    assert_eq!(store.claim(id, &this, 2, 60.0).await.unwrap(), Some(vec![0, 1]));
    assert_eq!(store.claim(id, &this, 9, -1.0).await.unwrap(), Some(vec![2]), "taken, and late at once");
    assert_eq!(store.claim(id, &this, 9, 60.0).await.unwrap(), Some(vec![2]));
    store.finish(id, 2, "first".to_owned()).await.unwrap();
    store.finish(id, 2, "second".to_owned()).await.unwrap();
    assert!(!store.give_back(id, 2, failure("late"), 3).await.unwrap());
    assert_eq!(store.results(id, 0..usize::MAX).await.unwrap(), [(2, "first".to_owned())]);
    // A worker of this machine that is no more.
    let dead = format!("{}:1", this.to_string().rsplit_once(':').unwrap().0);
    store.run(move |t| t.execute("UPDATE tasks SET worker = ?1 WHERE number = 0", [dead])).await.unwrap();
    let expected = if cfg!(target_os = "linux") { vec![0] } else { vec![] };
    assert_eq!(store.claim(id, &this, 9, 60.0).await.unwrap(), Some(expected));
}

#[tokio::test]
async fn many_results_at_once_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let job = store.begin(spec(3000)).await.unwrap();
    let many = TaskRunnerSettings { concurrency: 1000, ..TaskRunnerSettings::default() };
    assert!(is_complete(&run_tasks(&store, job.id, &many, twice, named, |_| true).await.unwrap()));
    assert_eq!(store.results(job.id, 0..usize::MAX).await.unwrap().len(), 3000);
    store.set_state(job.id, JobState::Done).await.unwrap();
    let jobs = store.jobs().await.unwrap();
    assert_eq!((jobs.len(), jobs[0].state, jobs[0].tasks.done), (1, JobState::Done, 3000));
    store.remove(job.id).await.unwrap();
    assert!(store.job(job.id).await.unwrap_err().to_string().contains("no job 1"));
}

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

#[tokio::test]
async fn a_registered_command_is_found_again_and_stops_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let this = Worker::this();
    let (id, before) = store.register(spec(0), &this).await.unwrap();
    assert!(before.is_none());
    assert!(store.advance(id, Some((3, 10))).await.unwrap());
    let job = store.job(id).await.unwrap();
    assert!(job.registered && job.state == JobState::Running);
    assert_eq!((job.tasks.done, job.tasks.total()), (3, 10));

    store.set_state(id, JobState::Cancelled).await.unwrap();
    assert!(!store.advance(id, Some((4, 10))).await.unwrap());
    let (again, before) = store.register(spec(0), &this).await.unwrap();
    let before = before.unwrap();
    assert_eq!((again, before.state, before.tasks.done), (id, JobState::Cancelled, 4));
    let tasks = store.job(id).await.unwrap().tasks;
    assert_eq!((tasks.done, tasks.total()), (0, 0), "the new run counts from the start");

    let dead = this.to_string().rsplit_once(':').map(|(process, _)| format!("{process}:1")).unwrap();
    let killed = store.run(move |t| t.execute("UPDATE progress SET worker = ?1", [dead]));
    killed.await.unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(store.job(id).await.unwrap().state, JobState::Stopped);
    }
    let elsewhere = store.run(|t| t.execute("UPDATE progress SET worker = 'other:1:1'", []));
    elsewhere.await.unwrap();
    assert_eq!(store.job(id).await.unwrap().state, JobState::Running);
    let silent = store.run(|t| t.execute("UPDATE jobs SET updated = updated - 120", []));
    silent.await.unwrap();
    assert_eq!(store.job(id).await.unwrap().state, JobState::Stopped);
    store.remove(id).await.unwrap();
    assert!(store.jobs().await.unwrap().is_empty());
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
    store.finish(id, 0, "0".to_owned()).await.unwrap();
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
