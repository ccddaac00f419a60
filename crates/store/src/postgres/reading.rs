//! What is read of a job's tasks: counts, results, faults, inputs and workers; and keeping the inputs.

use std::ops::Range;

use gradus_postgres::Attempt;
use tokio_postgres::Row;

use super::{Connection, number};
use crate::job::{JobId, TaskCounts, TaskFault, WorkerStatus};

const COUNTS: &str = "SELECT state, count(*) FROM gradus_tasks \
                      WHERE job = $1 AND number >= $2 AND number < $3 GROUP BY state";

const RESULTS: &str = "
SELECT number, r.result FROM gradus_tasks t JOIN gradus_results r USING (job, number)
WHERE job = $1 AND number >= $2 AND number < $3 AND t.state = 2 ORDER BY number";

const FAULTS: &str = "
SELECT number, coalesce(name, ''), attempts, fault FROM gradus_tasks
WHERE job = $1 AND number >= $2 AND fault IS NOT NULL AND state <> 2 ORDER BY number LIMIT $3";

const WORKERS: &str = "
SELECT w.worker, coalesce(l.leased, 0), w.done, extract(epoch FROM w.seen)::float8,
    extract(epoch FROM w.began)::float8
FROM gradus_workers w LEFT JOIN (
    SELECT worker, count(*) AS leased FROM gradus_tasks WHERE job = $1 AND state = 1 GROUP BY worker
) l USING (worker)
WHERE w.job = $1 AND w.worker <> '' ORDER BY w.worker COLLATE \"C\"";

const PUT_INPUTS: &str = "
INSERT INTO gradus_inputs(job, number, input)
SELECT job.id, $2 + nth - 1, input
FROM (SELECT id FROM gradus_jobs WHERE id = $1 FOR KEY SHARE) job,
    unnest($3::bytea[]) WITH ORDINALITY AS given(input, nth)
ON CONFLICT (job, number) DO UPDATE SET input = excluded.input WHERE gradus_inputs.input <> excluded.input";

const INPUTS: &str =
    "SELECT number, input FROM gradus_inputs WHERE job = $1 AND number = ANY($2) ORDER BY number";

pub(super) async fn counts(
    connection: &mut Connection,
    job: JobId,
    tasks: &Range<usize>,
) -> Attempt<TaskCounts> {
    let mut counts = TaskCounts::default();
    for row in connection.query(COUNTS, &[&job, &number(tasks.start), &number(tasks.end)]).await? {
        let tasks = row.get::<_, i64>(1) as usize;
        match row.get::<_, i16>(0) {
            1 => counts.leased = tasks,
            2 => counts.done = tasks,
            3 => counts.failed = tasks,
            _ => counts.open += tasks,
        }
    }
    Ok(counts)
}

pub(super) async fn results(
    connection: &mut Connection,
    job: JobId,
    tasks: &Range<usize>,
) -> Attempt<Vec<(usize, String)>> {
    let rows = connection.query(RESULTS, &[&job, &number(tasks.start), &number(tasks.end)]).await?;
    Ok(rows.iter().map(numbered).collect())
}

/// A task's number and its text.
fn numbered(row: &Row) -> (usize, String) {
    (row.get::<_, i64>(0) as usize, String::from_utf8_lossy(row.get(1)).into_owned())
}

pub(super) async fn faults(
    connection: &mut Connection,
    job: JobId,
    from: usize,
    limit: usize,
) -> Attempt<Vec<TaskFault>> {
    let rows = connection.query(FAULTS, &[&job, &number(from), &number(limit)]).await?;
    let fault = |row: &Row| TaskFault {
        task: row.get::<_, i64>(0) as usize,
        name: row.get(1),
        attempts: row.get::<_, i32>(2).unsigned_abs(),
        fault: row.get(3),
    };
    Ok(rows.iter().map(fault).collect())
}

pub(super) async fn workers(connection: &mut Connection, job: JobId) -> Attempt<Vec<WorkerStatus>> {
    let rows = connection.query(WORKERS, &[&job]).await?;
    let worker = |row: &Row| WorkerStatus {
        worker: row.get(0),
        leased: row.get::<_, i64>(1) as usize,
        done: row.get::<_, i64>(2) as usize,
        seen: row.get(3),
        began: row.get(4),
    };
    Ok(rows.iter().map(worker).collect())
}

pub(super) async fn put_inputs(
    connection: &mut Connection,
    job: JobId,
    first: usize,
    inputs: &[String],
) -> Attempt<()> {
    let inputs: Vec<&[u8]> = inputs.iter().map(String::as_bytes).collect();
    connection.query(PUT_INPUTS, &[&job, &number(first), &inputs]).await?;
    Ok(())
}

pub(super) async fn inputs(
    connection: &mut Connection,
    job: JobId,
    tasks: &[usize],
) -> Attempt<Vec<(usize, String)>> {
    let tasks: Vec<i64> = tasks.iter().copied().map(number).collect();
    Ok(connection.query(INPUTS, &[&job, &tasks]).await?.iter().map(numbered).collect())
}
