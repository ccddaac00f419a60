//! Tasks: claims, leases, results and failures. All times are the server's.

use std::time::{Duration, Instant};

use gradus_postgres::Attempt;

use super::{Connection, number, text};
use crate::job::{JobId, TaskFailure};
use crate::worker::Worker;

/// How often a worker that finds open tasks looks for leases that have ended, and for the first open task.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A claim that the server forgets in a crash costs a task that is done twice, of which the first result stays: it need
/// not be on the disk before it is answered.
const BEGIN_CLAIM: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Says that the worker is there. It also keeps two attempts at one claim apart: the second waits for this row, and then
/// finds what the first has taken.
const BEAT: &str = "
INSERT INTO gradus_workers(job, worker) SELECT id, $2 FROM gradus_jobs WHERE id = $1 AND state = 'running'
ON CONFLICT (job, worker) DO UPDATE SET seen = clock_timestamp(), gone = false RETURNING job";

/// Takes open tasks, or finds those that the same claim took before. Numbers are given as an array, so that the table is
/// never read as a whole, whatever the planner thinks of the limit.
const TAKE: &str = "
WITH known AS MATERIALIZED (
    SELECT number FROM gradus_tasks WHERE state = 1 AND claim = $5 AND job = $1
), open AS MATERIALIZED (
    SELECT number FROM gradus_tasks
    WHERE job = $1 AND number >= $6 AND state = 0 AND NOT EXISTS (SELECT FROM known)
    AND EXISTS (SELECT FROM gradus_jobs WHERE id = $1 AND state = 'running')
    ORDER BY number LIMIT $3 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE gradus_tasks
    SET state = 1, worker = $2, claim = $5, lease = clock_timestamp() + $4 * interval '1 second'
    WHERE job = $1 AND number = ANY(ARRAY(SELECT number FROM open)) RETURNING number
)
SELECT number FROM known UNION ALL SELECT number FROM taken ORDER BY number";

/// Opens the tasks whose lease has ended, or is longer than any: that one is damaged, and would be waited for. Those that
/// the same claim has just taken stay.
const FREE_LATE: &str = "
UPDATE gradus_tasks SET state = 0, worker = NULL, lease = NULL, claim = NULL
WHERE job = $1 AND state = 1 AND number = ANY(ARRAY(
    SELECT number FROM gradus_tasks
    WHERE job = $1 AND state = 1 AND (lease IS NULL OR lease < now() OR lease > now() + interval '1 day')
    AND claim IS DISTINCT FROM $2
    FOR UPDATE SKIP LOCKED))";

/// Until the index is vacuumed, the tasks before this one are still in it, and a claim would pass over all of them.
const FIRST_OPEN: &str =
    "SELECT number FROM gradus_tasks WHERE job = $1 AND state = 0 ORDER BY number LIMIT 1";

const NOT_KNOWN_TO_BE_GONE: &str =
    "SELECT worker FROM gradus_workers WHERE job = $1 AND worker <> '' AND NOT gone";

const FREE_GONE: &str = "
WITH gone AS (UPDATE gradus_workers SET gone = true WHERE job = $1 AND worker = ANY($2))
UPDATE gradus_tasks SET state = 0, worker = NULL, lease = NULL, claim = NULL
WHERE job = $1 AND state = 1 AND worker = ANY($2)";

const RENEW: &str = "
WITH beat AS (
    INSERT INTO gradus_workers(job, worker) SELECT id, $2 FROM gradus_jobs WHERE id = $1
    ON CONFLICT (job, worker) DO UPDATE SET seen = clock_timestamp(), gone = false
), renewed AS (
    UPDATE gradus_tasks SET lease = clock_timestamp() + $3 * interval '1 second'
    WHERE job = $1 AND state = 1 AND worker = $2
)
SELECT state = 'running' FROM gradus_jobs WHERE id = $1";

/// Of several results for a task, the first stays. A worker is told to have done what was kept, in the same transaction.
const FINISH: &str = "
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (job, number) job, number, worker, result
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[]) WITH ORDINALITY
        AS given(job, number, worker, result, nth)
    ORDER BY job, number, nth
), done AS (
    UPDATE gradus_tasks t SET state = 2, worker = NULL, lease = NULL, claim = NULL, fault = NULL
    FROM given g WHERE t.job = g.job AND t.number = g.number AND t.state <> 2
    RETURNING t.job, t.number, g.worker, g.result
), kept AS (
    INSERT INTO gradus_results(job, number, result, hash)
    SELECT job, number, result, substring(sha256(int8send(number) || result) FOR 16) FROM done
    ON CONFLICT (job, number) DO UPDATE SET result = excluded.result, hash = excluded.hash
)
INSERT INTO gradus_workers(job, worker, done) SELECT job, worker, count(*) FROM done GROUP BY job, worker
ON CONFLICT (job, worker) DO UPDATE
SET seen = clock_timestamp(), done = gradus_workers.done + excluded.done";

/// A call whose token is there has happened: nothing is counted again.
const GIVE_BACK: &str = "
WITH call AS (
    INSERT INTO gradus_calls(token, job) SELECT $6::bigint, id FROM gradus_jobs WHERE id = $1
    ON CONFLICT (token) DO NOTHING RETURNING token
), given AS (
    UPDATE gradus_tasks
    SET attempts = attempts + 1, worker = NULL, lease = NULL, claim = NULL, name = $3, fault = $4,
        state = CASE WHEN attempts + 1 >= $5::bigint THEN 3 ELSE 0 END
    WHERE job = $1 AND number = $2 AND state <> 2 AND EXISTS (SELECT FROM call) RETURNING state
)
SELECT coalesce(
    (SELECT state FROM given), (SELECT state FROM gradus_tasks WHERE job = $1 AND number = $2)) IN (0, 1)";

const REOPEN: &str = "UPDATE gradus_tasks SET state = 0, attempts = 0 \
                      WHERE job = $1 AND state = 3 AND fault IS NOT NULL";

const COUNT_FAILED: &str =
    "SELECT count(*) FROM gradus_tasks WHERE job = $1 AND state = 3 AND fault IS NOT NULL";

/// A claim.
pub(super) struct Claim {
    pub(super) job: JobId,
    pub(super) worker: String,
    pub(super) limit: usize,
    pub(super) seconds: f64,
    /// Even, and no other claim's; the next one belongs to this claim, too.
    pub(super) token: i64,
}

/// A result to keep.
pub(super) struct Finished {
    pub(super) job: JobId,
    pub(super) task: usize,
    pub(super) worker: String,
    pub(super) result: String,
}

/// Takes tasks. Leases that have ended are looked for once a second, and whenever open tasks are short: they are rare, and
/// a claim is fast without them. A task that is given back meanwhile is found by the next look.
pub(super) async fn claim(connection: &mut Connection, claim: &Claim) -> Attempt<Option<Vec<usize>>> {
    let is_due = connection.state.get(&claim.job).is_none_or(|(looked, _)| looked.elapsed() >= LOOK_EVERY);
    if is_due {
        free(connection, claim).await?;
    }
    let Some(mut numbers) = take(connection, claim, claim.limit, claim.token).await? else { return Ok(None) };
    let missing = claim.limit.saturating_sub(numbers.len());
    if missing > 0 {
        if !is_due {
            free(connection, claim).await?;
        }
        let more = take(connection, claim, missing, claim.token + 1).await?;
        numbers.extend(more.unwrap_or_default());
        numbers.sort_unstable();
    }
    Ok(Some(numbers))
}

async fn take(
    connection: &mut Connection,
    claim: &Claim,
    limit: usize,
    token: i64,
) -> Attempt<Option<Vec<usize>>> {
    let Claim { job, worker, seconds, .. } = claim;
    let (limit, first) = (number(limit), connection.state.get(job).map_or(0, |(_, first)| *first));
    let rows = connection
        .transaction(
            BEGIN_CLAIM,
            &[(BEAT, &[job, worker]), (TAKE, &[job, worker, &limit, seconds, &token, &first])],
        )
        .await?;
    if rows[0].is_empty() {
        return Ok(None);
    }
    Ok(Some(rows[1].iter().map(|row| row.get::<_, i64>(0) as usize).collect()))
}

/// Opens the leases of workers that are gone, and those that have run out; finds the first open task.
async fn free(connection: &mut Connection, claim: &Claim) -> Attempt<()> {
    let job = &claim.job;
    let workers = connection.query(NOT_KNOWN_TO_BE_GONE, &[job]).await?;
    let workers = workers.iter().map(|row| row.get::<_, String>(0));
    let gone: Vec<String> =
        workers.filter(|worker| *worker != claim.worker && Worker::is_gone(worker)).collect();
    if !gone.is_empty() {
        connection.query(FREE_GONE, &[job, &gone]).await?;
    }
    connection.query(FREE_LATE, &[job, &claim.token]).await?;
    let first = connection.first(FIRST_OPEN, &[job]).await?.map_or(0, |row| row.get(0));
    connection.state.insert(*job, (Instant::now(), first));
    Ok(())
}

pub(super) async fn renew(
    connection: &mut Connection,
    job: JobId,
    worker: &str,
    seconds: f64,
) -> Attempt<bool> {
    let is_running = connection.first(RENEW, &[&job, &worker, &seconds]).await?;
    Ok(is_running.is_some_and(|row| row.get(0)))
}

pub(super) async fn finish(connection: &mut Connection, results: &[Finished]) -> Attempt<()> {
    let jobs: Vec<i64> = results.iter().map(|result| result.job).collect();
    let numbers: Vec<i64> = results.iter().map(|result| number(result.task)).collect();
    let workers: Vec<&str> = results.iter().map(|result| &*result.worker).collect();
    let bytes: Vec<&[u8]> = results.iter().map(|result| result.result.as_bytes()).collect();
    connection.query(FINISH, &[&jobs, &numbers, &workers, &bytes]).await?;
    Ok(())
}

/// Puts a task back; true if it will be tried again.
pub(super) async fn give_back(
    connection: &mut Connection,
    (job, task): (JobId, usize),
    failure: &TaskFailure,
    attempts: u32,
    token: i64,
) -> Attempt<bool> {
    let (name, fault) = (text(&failure.name), text(&failure.why));
    let (task, attempts) = (number(task), i64::from(attempts));
    let again = connection.first(GIVE_BACK, &[&job, &task, &name, &fault, &attempts, &token]).await?;
    Ok(again.and_then(|row| row.get(0)).unwrap_or(false))
}

/// Tasks that have failed.
pub(super) async fn count_failed(connection: &mut Connection, job: JobId) -> Attempt<usize> {
    let count = connection.first(COUNT_FAILED, &[&job]).await?;
    Ok(count.map_or(0, |row| row.get::<_, i64>(0) as usize))
}

pub(super) async fn reopen(connection: &mut Connection, job: JobId) -> Attempt<()> {
    connection.query(REOPEN, &[&job]).await?;
    Ok(())
}
