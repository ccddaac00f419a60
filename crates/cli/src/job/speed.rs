//! How fast a job's workers are, and how long they will need.

use gradus_store::{Job, JobState, WorkerStatus};
use serde::Serialize;

use crate::terminal::progress_log::{duration, rate};
use gradus_core::count::counted;

/// A worker that was not seen for so many seconds does not count.
const SILENCE: f64 = 60.0;

/// The speed of a job that runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JobSpeed {
    /// Workers that were seen in the last minute.
    pub(crate) active_workers: usize,
    /// Tasks per second of all of them, since each began.
    pub(crate) tasks_per_second: f64,
    /// Seconds until the last task is done, at this speed.
    pub(crate) seconds_left: Option<f64>,
}

impl JobSpeed {
    /// The speed at the time `now`, in seconds since 1970; none for a job that nobody works on.
    pub(crate) fn of(job: &Job, workers: &[WorkerStatus], now: f64) -> Option<Self> {
        let active: Vec<_> = workers.iter().filter(|worker| now - worker.seen < SILENCE).collect();
        if job.state != JobState::Running || active.is_empty() {
            return None;
        }
        let speed = |worker: &&WorkerStatus| worker.done as f64 / (worker.seen - worker.began).max(1.0);
        let tasks_per_second: f64 = active.iter().map(speed).sum();
        let left = (job.tasks.open + job.tasks.leased) as f64;
        let seconds_left = (tasks_per_second > 0.0).then(|| left / tasks_per_second);
        Some(Self { active_workers: active.len(), tasks_per_second, seconds_left })
    }

    /// `4 workers, 411/s, 3 h 22 min left`.
    pub(crate) fn shown(&self) -> String {
        let mut text =
            format!("{}, {}/s", counted(self.active_workers, "worker"), rate(self.tasks_per_second));
        if let Some(left) = self.seconds_left {
            text += &format!(", {} left", duration(left));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_store::TaskCounts;

    #[test]
    fn speeds_add_up() {
        let worker = |began: f64, seen: f64, done: usize| WorkerStatus {
            worker: "m".to_owned(),
            leased: 0,
            done,
            began,
            seen,
        };
        let job = Job {
            id: 1,
            kind: "judge".to_owned(),
            fingerprint: String::new(),
            command: Vec::new(),
            folder: "/".into(),
            output: None,
            state: JobState::Running,
            tasks: TaskCounts { open: 990, leased: 10, done: 3_000, failed: 0 },
            created: 0.0,
            updated: 1_000.0,
            registered: false,
        };
        let workers = [worker(0.0, 1_000.0, 2_000), worker(500.0, 990.0, 1_470), worker(0.0, 900.0, 9)];
        let speed = JobSpeed::of(&job, &workers, 1_000.0).unwrap();
        assert_eq!((speed.active_workers, speed.tasks_per_second, speed.seconds_left), (2, 5.0, Some(200.0)));
        assert_eq!(speed.shown(), "2 workers, 5/s, 3 min left");
        assert_eq!(JobSpeed::of(&job, &workers, 2_000.0), None);
    }
}
