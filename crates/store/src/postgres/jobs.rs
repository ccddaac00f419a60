//! Jobs: making, finding, listing and removing them.

use std::path::PathBuf;

use gradus_postgres::Attempt;
use tokio_postgres::Row;

use super::{Connection, number, text};
use crate::job::{Job, JobId, JobSpec, JobState, TaskCounts};
use crate::worker::Worker;

/// Tasks that are made in one transaction: a job may have millions, and others want to write, too.
pub(super) const MADE_AT_ONCE: usize = 100_000;

/// Seconds after which a registered job that says nothing counts as stopped: its process may be on another machine.
const SILENCE: f64 = 60.0;

const BEGIN: &str = "
INSERT INTO gradus_jobs(fingerprint, kind, command, folder, output, state, tasks)
VALUES ($1, $2, $3, $4, $5, 'running', $6)
ON CONFLICT (fingerprint) DO UPDATE SET state = 'running', command = excluded.command, folder = excluded.folder,
    output = excluded.output, tasks = excluded.tasks, updated = clock_timestamp()
RETURNING id";

/// Tokens of calls that nobody makes again.
const FORGET_CALLS: &str = "DELETE FROM gradus_calls WHERE made < now() - interval '1 day'";

/// Removes the tasks that a job should not have. Results among them are not counted any more.
const REMOVE_TASKS: &str = "
WITH removed AS (
    DELETE FROM gradus_tasks WHERE job = $1 AND (number < 0 OR number >= $2) RETURNING state
), results AS (
    DELETE FROM gradus_results WHERE job = $1 AND (number < 0 OR number >= $2)
)
INSERT INTO gradus_workers(job, worker, done)
SELECT $1, '', -count(*) FROM removed WHERE state = 2 HAVING count(*) > 0
ON CONFLICT (job, worker) DO UPDATE SET done = gradus_workers.done + excluded.done";

/// Makes those of some tasks that are not there. Counting them first is faster where all are.
const MAKE_TASKS: &str = "
INSERT INTO gradus_tasks(job, number)
SELECT job.id, number
FROM (SELECT id FROM gradus_jobs WHERE id = $1 FOR KEY SHARE) job, generate_series($2::bigint, $3::bigint - 1) number
WHERE (SELECT count(*) FROM gradus_tasks WHERE job = $1 AND number >= $2 AND number < $3) < $3 - $2
ON CONFLICT DO NOTHING";

const FIND: &str = "SELECT id FROM gradus_jobs WHERE fingerprint = $1";

const START_PROGRESS: &str = "
INSERT INTO gradus_progress(job, worker) SELECT id, $2 FROM gradus_jobs WHERE id = $1
ON CONFLICT (job) DO UPDATE SET worker = excluded.worker, done = 0, total = 0";

const ADVANCE: &str = "
WITH progress AS (UPDATE gradus_progress SET done = $2, total = $3 WHERE job = $1 AND $4)
UPDATE gradus_jobs SET updated = clock_timestamp() WHERE id = $1 RETURNING state = 'running'";

const SET_STATE: &str =
    "UPDATE gradus_jobs SET state = $2, updated = clock_timestamp() WHERE id = $1 RETURNING id";

/// One job, or all where none is named. No count reads more than what is leased or has faults, and the list of workers.
const READ: &str = "
SELECT j.id, j.fingerprint, j.kind, j.command, j.folder, j.output, j.state, j.tasks,
    extract(epoch FROM j.created)::float8 AS created,
    extract(epoch FROM greatest(j.updated, w.seen))::float8 AS updated,
    extract(epoch FROM clock_timestamp() - j.updated)::float8 AS silence,
    coalesce(w.done, 0)::bigint AS done,
    (SELECT count(*) FROM gradus_tasks WHERE job = j.id AND state = 1) AS leased,
    (SELECT count(*) FROM gradus_tasks WHERE job = j.id AND state = 3 AND fault IS NOT NULL) AS failed,
    p.worker, p.done AS progress, p.total
FROM gradus_jobs j
LEFT JOIN gradus_progress p ON p.job = j.id
LEFT JOIN LATERAL (SELECT max(seen) AS seen, sum(done) AS done FROM gradus_workers WHERE job = j.id) w ON true
WHERE $1::bigint IS NULL OR j.id = $1 ORDER BY j.id DESC";

/// In this order: a result that is being kept holds its task, so that it is there, and found, when results are deleted.
const REMOVE: [&str; 4] = [
    "SELECT id FROM gradus_jobs WHERE id = $1 FOR UPDATE",
    "DELETE FROM gradus_tasks WHERE job = $1",
    "WITH inputs AS (DELETE FROM gradus_inputs WHERE job = $1) DELETE FROM gradus_results WHERE job = $1",
    "DELETE FROM gradus_jobs WHERE id = $1",
];

/// The job with the spec's fingerprint, or a new one, running; it has no tasks too many.
pub(super) async fn begin(connection: &mut Connection, spec: &JobSpec) -> Attempt<JobId> {
    let command = serde_json::to_string(&spec.command).unwrap_or_default();
    let folder = spec.folder.to_string_lossy();
    let output = spec.output.as_ref().map(|path| text(&path.to_string_lossy()).into_owned());
    let (fingerprint, kind, command, folder) =
        (text(&spec.fingerprint), text(&spec.kind), text(&command), text(&folder));
    let tasks = number(spec.tasks);
    let row = connection.first(BEGIN, &[&fingerprint, &kind, &command, &folder, &output, &tasks]).await?;
    let id = row.map_or(0, |row| row.get(0));
    connection.query(FORGET_CALLS, &[]).await?;
    if spec.tasks > 0 {
        connection.query(REMOVE_TASKS, &[&id, &tasks]).await?;
    }
    Ok(id)
}

/// Makes those of the tasks from `first` to `end` that are not there.
pub(super) async fn make_tasks(
    connection: &mut Connection,
    id: JobId,
    first: usize,
    end: usize,
) -> Attempt<()> {
    connection.query(MAKE_TASKS, &[&id, &number(first), &number(end)]).await?;
    Ok(())
}

pub(super) async fn find(connection: &mut Connection, fingerprint: &str) -> Attempt<Option<Job>> {
    let found = connection.first(FIND, &[&text(fingerprint)]).await?;
    match found {
        Some(row) => Ok(read(connection, Some(row.get(0))).await?.pop()),
        None => Ok(None),
    }
}

pub(super) async fn start_progress(connection: &mut Connection, id: JobId, worker: &str) -> Attempt<()> {
    connection.query(START_PROGRESS, &[&id, &worker]).await?;
    Ok(())
}

pub(super) async fn advance(
    connection: &mut Connection,
    id: JobId,
    tasks: Option<(usize, usize)>,
) -> Attempt<bool> {
    let (done, total) = tasks.unwrap_or_default();
    let row = connection.first(ADVANCE, &[&id, &number(done), &number(total), &tasks.is_some()]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// False where there is no such job.
pub(super) async fn set_state(connection: &mut Connection, id: JobId, state: JobState) -> Attempt<bool> {
    Ok(connection.first(SET_STATE, &[&id, &state.name()]).await?.is_some())
}

pub(super) async fn remove(connection: &mut Connection, id: JobId) -> Attempt<()> {
    let parameters: gradus_postgres::Parameters<'_> = &[&id];
    connection.transaction("BEGIN", &REMOVE.map(|sql| (sql, parameters))).await?;
    Ok(())
}

/// One job or all, the newest first.
pub(super) async fn read(connection: &mut Connection, id: Option<JobId>) -> Attempt<Vec<Job>> {
    Ok(connection.query(READ, &[&id]).await?.iter().map(job).collect())
}

fn job(row: &Row) -> Job {
    let count = |name: &str| usize::try_from(row.get::<_, i64>(name)).unwrap_or(0);
    let worker: Option<String> = row.get("worker");
    let tasks = if worker.is_some() {
        let (done, total) = (count("progress"), count("total"));
        TaskCounts { done, open: total.saturating_sub(done), ..TaskCounts::default() }
    } else {
        let (done, leased, failed) = (count("done"), count("leased"), count("failed"));
        TaskCounts { open: count("tasks").saturating_sub(done + leased + failed), leased, done, failed }
    };
    let is_gone = worker
        .as_deref()
        .is_some_and(|worker| Worker::is_gone(worker) || row.get::<_, f64>("silence") > SILENCE);
    let command: String = row.get("command");
    Job {
        id: row.get("id"),
        kind: row.get("kind"),
        command: serde_json::from_str(&command).unwrap_or_default(),
        folder: PathBuf::from(row.get::<_, String>("folder")),
        output: row.get::<_, Option<String>>("output").filter(|output| !output.is_empty()).map(PathBuf::from),
        state: match JobState::of(row.get("state")) {
            // A killed command cannot say so itself.
            JobState::Running if is_gone => JobState::Stopped,
            state => state,
        },
        created: row.get("created"),
        updated: row.get("updated"),
        tasks,
        registered: worker.is_some(),
        fingerprint: row.get("fingerprint"),
    }
}
