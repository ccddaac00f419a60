//! What every store must do: tests that each store runs, by the macro at the end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use crate::job::{JobSpec, JobState, TaskFailure};
use crate::store::Store;
use crate::task_runner::{RunSummary, StopReason, TaskError, TaskEvent, TaskRunnerSettings, run_tasks};
use crate::worker::Worker;

/// Where a store is kept.
pub(crate) trait Place {
    /// Opens it, once more if it is open.
    async fn open(&self) -> Box<dyn Store>;
    /// Puts the last sign of life of every job two minutes back.
    async fn silence(&self);
}

pub(crate) fn spec(tasks: usize) -> JobSpec {
    JobSpec {
        kind: "test".to_owned(),
        fingerprint: "f".to_owned(),
        command: vec!["annotate".to_owned()],
        tasks,
        ..JobSpec::default()
    }
}

/// Whether every task has a result.
pub(crate) fn is_complete(summary: &RunSummary) -> bool {
    summary.stop.is_none() && summary.failed == 0
}

pub(crate) fn workers() -> TaskRunnerSettings {
    TaskRunnerSettings { concurrency: 4, ..TaskRunnerSettings::default() }
}

pub(crate) fn failure(why: &str) -> TaskFailure {
    TaskFailure { name: "a task".to_owned(), why: why.to_owned() }
}

/// What a task is called.
pub(crate) fn named(task: usize) -> String {
    format!("t{task}")
}

pub(crate) async fn twice(task: usize) -> std::result::Result<String, TaskError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok((2 * task).to_string())
}

/// A worker of this machine that is no more.
pub(crate) fn dead() -> Worker {
    let this = Worker::this().to_string();
    Worker::parse(&format!("{}:1", this.rsplit_once(':').unwrap().0)).unwrap()
}

/// A worker of another machine.
pub(crate) fn elsewhere() -> Worker {
    Worker::parse("other:1:1").unwrap()
}

pub(crate) async fn a_job_goes_on_in_another_process(place: &impl Place) {
    let first = place.open().await;
    let job = first.begin(spec(20)).await.unwrap();
    let seen = RefCell::new(0);
    let stop_after_five = |event: TaskEvent<'_>| {
        *seen.borrow_mut() += usize::from(matches!(event, TaskEvent::Done { .. }));
        *seen.borrow() < 5
    };
    let ended = run_tasks(&*first, job.id, &workers(), twice, named, stop_after_five).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Requested));
    assert!((5..=8).contains(&ended.done), "those in flight are finished: {ended:?}");
    drop(first);

    let second = place.open().await;
    let again = second.begin(spec(20)).await.unwrap();
    assert_eq!((again.id, again.tasks.done), (job.id, ended.done));
    let rest = run_tasks(&*second, job.id, &workers(), twice, named, |_| true).await.unwrap();
    assert!(is_complete(&rest));
    assert_eq!(ended.done + rest.done, 20);
    let expected: Vec<(usize, String)> = (0..20).map(|task| (task, (2 * task).to_string())).collect();
    assert_eq!(second.results(job.id, 0..usize::MAX).await.unwrap(), expected);
}

pub(crate) async fn trouble_that_passes_is_tried_again_and_the_other_is_not(place: &impl Place) {
    let store = place.open().await;
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
    let ended = run_tasks(&*store, job.id, &workers(), each, named, |_| true).await.unwrap();
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

pub(crate) async fn when_nothing_works_it_stops_with_the_last_words(place: &impl Place) {
    let store = place.open().await;
    let job = store.begin(spec(1000)).await.unwrap();
    let down = |_| async { Err(TaskError::Retryable("cannot be reached".to_owned())) };
    let ended = run_tasks(&*store, job.id, &workers(), down, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::ConsecutiveFailures("cannot be reached".to_owned())));
    let tasks = store.job(job.id).await.unwrap().tasks;
    assert_eq!((tasks.open + tasks.failed, tasks.leased), (1000, 0), "nothing stays taken");
}

pub(crate) async fn an_error_of_all_tasks_stops_at_once_and_fails_none(place: &impl Place) {
    let store = place.open().await;
    let job = store.begin(spec(1000)).await.unwrap();
    let refused = |_| async { Err(TaskError::Fatal("wrong key".to_owned())) };
    let ended = run_tasks(&*store, job.id, &workers(), refused, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Fatal("wrong key".to_owned())));
    let tasks = store.job(job.id).await.unwrap().tasks;
    assert_eq!((tasks.open, tasks.failed, tasks.leased), (1000, 0, 0));
}

pub(crate) async fn a_cancelled_job_stops_and_can_be_resumed(place: &impl Place) {
    let store = place.open().await;
    let job = store.begin(spec(200)).await.unwrap();
    let other = place.open().await;
    let each = |task: usize| {
        let (other, job) = (&other, &job);
        async move {
            if task == 10 {
                other.set_state(job.id, JobState::Cancelled).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(String::new())
        }
    };
    let ended = run_tasks(&*store, job.id, &workers(), each, named, |_| true).await.unwrap();
    assert_eq!(ended.stop, Some(StopReason::Cancelled));
    assert!(ended.done < 200);
    assert_eq!(store.job(job.id).await.unwrap().state, JobState::Cancelled);
    store.begin(spec(200)).await.unwrap();
    assert!(is_complete(&run_tasks(&*store, job.id, &workers(), twice, named, |_| true).await.unwrap()));
}

pub(crate) async fn a_job_that_another_worker_has_ended_is_no_cancelled_one(place: &impl Place) {
    let store = place.open().await;
    let job = store.begin(spec(1)).await.unwrap();
    store.finish(job.id, &Worker::this(), 0, String::new()).await.unwrap();
    store.set_state(job.id, JobState::Done).await.unwrap();
    assert!(is_complete(&run_tasks(&*store, job.id, &workers(), twice, named, |_| true).await.unwrap()));
}

pub(crate) async fn leases_end_by_death_or_time_and_a_late_result_changes_nothing(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(3)).await.unwrap().id;
    let this = Worker::this();
    assert_eq!(store.claim(id, &this, 2, 60.0).await.unwrap(), Some(vec![0, 1]));
    assert_eq!(store.claim(id, &this, 9, -1.0).await.unwrap(), Some(vec![2]), "taken, and late at once");
    assert_eq!(store.claim(id, &this, 9, 60.0).await.unwrap(), Some(vec![2]));
    store.finish(id, &Worker::this(), 2, "first".to_owned()).await.unwrap();
    store.finish(id, &Worker::this(), 2, "second".to_owned()).await.unwrap();
    assert!(!store.give_back(id, 2, failure("late"), 3).await.unwrap());
    assert_eq!(store.results(id, 0..usize::MAX).await.unwrap(), [(2, "first".to_owned())]);
    store.finish(id, &this, 0, String::new()).await.unwrap();
    store.finish(id, &this, 1, String::new()).await.unwrap();
}

pub(crate) async fn leases_of_workers_that_are_gone_end_at_once(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(4)).await.unwrap().id;
    assert_eq!(store.claim(id, &dead(), 1, 60.0).await.unwrap(), Some(vec![0]));
    assert_eq!(store.claim(id, &elsewhere(), 1, 60.0).await.unwrap().unwrap().len(), 1);
    let mut taken = store.claim(id, &Worker::this(), 9, 60.0).await.unwrap().unwrap();
    taken.extend(store.claim(id, &elsewhere(), 9, 60.0).await.unwrap().unwrap());
    let expected = if cfg!(target_os = "linux") { 3 } else { 2 };
    assert_eq!(taken.len(), expected, "all but what a living worker elsewhere has: {taken:?}");
    assert!(store.renew(id, &elsewhere(), 60.0).await.unwrap());
    assert!(store.renew(id, &elsewhere(), -1.0).await.unwrap(), "its leases have ended now");
    assert_eq!(store.claim(id, &Worker::this(), 9, 60.0).await.unwrap().unwrap().len(), 4 - expected);
}

pub(crate) async fn many_results_at_once_are_all_kept(place: &impl Place) {
    let store = place.open().await;
    let job = store.begin(spec(3000)).await.unwrap();
    let many = TaskRunnerSettings { concurrency: 1000, ..TaskRunnerSettings::default() };
    assert!(is_complete(&run_tasks(&*store, job.id, &many, twice, named, |_| true).await.unwrap()));
    assert_eq!(store.results(job.id, 0..usize::MAX).await.unwrap().len(), 3000);
    store.set_state(job.id, JobState::Done).await.unwrap();
    let jobs = store.jobs().await.unwrap();
    assert_eq!((jobs.len(), jobs[0].state, jobs[0].tasks.done), (1, JobState::Done, 3000));
    store.remove(job.id).await.unwrap();
    assert!(store.job(job.id).await.unwrap_err().to_string().contains(&format!("no job {}", job.id)));
}

pub(crate) async fn a_registered_command_is_found_again_and_stops_with_its_process(place: &impl Place) {
    let store = place.open().await;
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

    store.register(spec(0), &dead()).await.unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(store.job(id).await.unwrap().state, JobState::Stopped);
    }
    store.register(spec(0), &elsewhere()).await.unwrap();
    assert_eq!(store.job(id).await.unwrap().state, JobState::Running);
    place.silence().await;
    assert_eq!(store.job(id).await.unwrap().state, JobState::Stopped);
    store.remove(id).await.unwrap();
    assert!(store.jobs().await.unwrap().is_empty());
}

pub(crate) async fn the_number_of_tasks_is_what_the_spec_says(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(20)).await.unwrap().id;
    assert!(is_complete(&run_tasks(&*store, id, &workers(), twice, named, |_| true).await.unwrap()));
    let fewer = store.begin(spec(5)).await.unwrap();
    assert_eq!((fewer.id, fewer.tasks.done, fewer.tasks.total()), (id, 5, 5));
    let more = store.begin(spec(8)).await.unwrap();
    assert_eq!((more.tasks.done, more.tasks.open), (5, 3));
    assert_eq!(store.verify(id).await.unwrap(), 0);
    assert!(is_complete(&run_tasks(&*store, id, &workers(), twice, named, |_| true).await.unwrap()));
    assert_eq!(store.results(id, 3..7).await.unwrap().len(), 4);
    assert_eq!(store.counts(id, 0..usize::MAX).await.unwrap().done, 8);
}

pub(crate) async fn texts_are_kept_as_they_are(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(4)).await.unwrap().id;
    let texts = ["", "\0 and 'quotes' \\", "{\"π\": \"\u{1f980}\"}"].map(str::to_owned);
    for (task, text) in texts.iter().enumerate() {
        store.finish(id, &Worker::this(), task, text.clone()).await.unwrap();
    }
    let expected: Vec<(usize, String)> = texts.iter().cloned().enumerate().collect();
    assert_eq!(store.results(id, 0..usize::MAX).await.unwrap(), expected);
    assert_eq!(store.verify(id).await.unwrap(), 0);
    store.put_inputs(id, 0, texts.to_vec()).await.unwrap();
    assert_eq!(store.inputs(id, vec![0, 1, 2]).await.unwrap(), expected);
    store.give_back(id, 3, failure("a\0b"), 1).await.unwrap();
    assert!(store.faults(id, 0, 9).await.unwrap()[0].fault.starts_with('a'));
}

pub(crate) async fn inputs_are_kept_for_others(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(30_000)).await.unwrap().id;
    let inputs: Vec<String> = (0..30_000).map(|task| format!("{{\"task\": {task}}}")).collect();
    store.put_inputs(id, 0, inputs[..10].to_vec()).await.unwrap();
    store.put_inputs(id, 5, inputs[5..].to_vec()).await.unwrap();
    store.put_inputs(id, 7, vec!["other".to_owned()]).await.unwrap();
    store.put_inputs(id, 7, Vec::new()).await.unwrap();
    let other = place.open().await;
    let read = other.inputs(id, vec![29_999, 7, 0, 40_000, 6, 6]).await.unwrap();
    let expected = [(0, &*inputs[0]), (6, &inputs[6]), (7, "other"), (29_999, &inputs[29_999])];
    assert_eq!(read, expected.map(|(task, input)| (task, input.to_owned())));
    store.remove(id).await.unwrap();
    assert!(other.inputs(id, vec![0]).await.unwrap().is_empty());
    assert!(other.put_inputs(id, 0, inputs[..1].to_vec()).await.is_ok(), "a removed job keeps nothing");
    assert!(other.inputs(id, vec![0]).await.unwrap().is_empty());
}

pub(crate) async fn workers_are_told_apart(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(6)).await.unwrap().id;
    assert!(store.workers(id).await.unwrap().is_empty());
    let this = Worker::this();
    assert_eq!(store.claim(id, &this, 3, 60.0).await.unwrap(), Some(vec![0, 1, 2]));
    assert_eq!(store.claim(id, &elsewhere(), 2, 60.0).await.unwrap(), Some(vec![3, 4]));
    for worker in [&this, &elsewhere()] {
        store.finish(id, worker, 0, "once".to_owned()).await.unwrap();
    }
    store.finish(id, &this, 1, String::new()).await.unwrap();
    store.finish(id, &elsewhere(), 3, String::new()).await.unwrap();
    let mut told = store.workers(id).await.unwrap();
    assert!(told.is_sorted_by(|a, b| a.worker < b.worker));
    told.sort_by_key(|status| status.worker != this.to_string());
    let counts: Vec<(usize, usize)> = told.iter().map(|status| (status.leased, status.done)).collect();
    assert_eq!(counts, [(1, 2), (1, 1)], "{told:?}");
    assert!(told.iter().all(|status| status.seen > 1e9));
    assert_eq!(store.job(id).await.unwrap().tasks.done, 3);
}

pub(crate) async fn calls_for_a_job_that_is_removed_do_no_harm(place: &impl Place) {
    let store = place.open().await;
    let id = store.begin(spec(3)).await.unwrap().id;
    let this = Worker::this();
    store.claim(id, &this, 2, 60.0).await.unwrap();
    store.remove(id).await.unwrap();
    assert_eq!(store.claim(id, &this, 2, 60.0).await.unwrap(), None);
    assert!(!store.renew(id, &this, 60.0).await.unwrap());
    store.finish(id, &this, 0, String::new()).await.unwrap();
    assert!(!store.advance(id, None).await.unwrap());
    assert!(store.set_state(id, JobState::Done).await.is_err() && store.remove(id).await.is_err());
    assert!(store.results(id, 0..usize::MAX).await.unwrap().is_empty());
    assert!(store.workers(id).await.unwrap().is_empty());
    assert_eq!(store.begin(spec(3)).await.unwrap().tasks.open, 3);
}

/// Tests of the contract for a place: `contract_tests!(async function that makes the place, or none to skip)`.
macro_rules! contract_tests {
    ($make:path) => {
        $crate::contract_tests::contract_tests! { $make:
            a_job_goes_on_in_another_process
            trouble_that_passes_is_tried_again_and_the_other_is_not
            when_nothing_works_it_stops_with_the_last_words
            an_error_of_all_tasks_stops_at_once_and_fails_none
            a_cancelled_job_stops_and_can_be_resumed
            a_job_that_another_worker_has_ended_is_no_cancelled_one
            leases_end_by_death_or_time_and_a_late_result_changes_nothing
            leases_of_workers_that_are_gone_end_at_once
            many_results_at_once_are_all_kept
            a_registered_command_is_found_again_and_stops_with_its_process
            the_number_of_tasks_is_what_the_spec_says
            texts_are_kept_as_they_are
            inputs_are_kept_for_others
            workers_are_told_apart
            calls_for_a_job_that_is_removed_do_no_harm
        }
    };
    ($make:path: $($name:ident)*) => {
        $(#[tokio::test]
        async fn $name() {
            if let Some(place) = $make().await {
                $crate::contract_tests::$name(&place).await;
                place.remove().await;
            }
        })*
    };
}
pub(crate) use contract_tests;
