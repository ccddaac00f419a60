//! Damage in the rows of a job: what is found costs its task, which is done again.
//!
//! Each result has a hash beside it, which the server computes when it keeps the result and again here: results do not
//! travel for it. Tasks that are missing or too many are seen to when a job begins.

use gradus_postgres::Attempt;

use super::{Connection, number};
use crate::job::JobId;

/// Tasks that are checked by one statement.
pub(super) const CHECKED_AT_ONCE: usize = 50_000;

const FIND: &str = "
SELECT t.number FROM gradus_tasks t LEFT JOIN gradus_results r ON r.job = t.job AND r.number = t.number
WHERE t.job = $1 AND t.number >= $2 AND t.number < $3 AND t.state = 2
AND (r.hash IS NULL OR r.hash <> substring(sha256(int8send(t.number) || r.result) FOR 16))";

const OPEN: &str = "
WITH opened AS (
    UPDATE gradus_tasks SET state = 0, attempts = 0
    WHERE job = $1 AND number = ANY($2) AND state = 2 RETURNING number
), results AS (
    DELETE FROM gradus_results WHERE job = $1 AND number IN (SELECT number FROM opened)
)
INSERT INTO gradus_workers(job, worker, done) SELECT $1, '', -count(*) FROM opened HAVING count(*) > 0
ON CONFLICT (job, worker) DO UPDATE SET done = gradus_workers.done + excluded.done";

/// Held while results are counted, so that no two counts correct the same error.
const LOCK: &str = "SELECT id FROM gradus_jobs WHERE id = $1 FOR NO KEY UPDATE";

/// Makes the sum of what workers have done what it is: somebody may have changed rows by hand.
const RECOUNT: &str = "
INSERT INTO gradus_workers(job, worker, done)
SELECT j.id, '', there.number - counted.number
FROM gradus_jobs j,
    (SELECT count(*) AS number FROM gradus_tasks WHERE job = $1 AND state = 2) there,
    (SELECT coalesce(sum(done), 0)::bigint AS number FROM gradus_workers WHERE job = $1) counted
WHERE j.id = $1 AND there.number <> counted.number
ON CONFLICT (job, worker) DO UPDATE SET done = gradus_workers.done + excluded.done";

/// Those of some tasks whose result is damaged.
pub(super) async fn find(
    connection: &mut Connection,
    job: JobId,
    first: usize,
    end: usize,
) -> Attempt<Vec<i64>> {
    let rows = connection.query(FIND, &[&job, &number(first), &number(end)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Opens these tasks.
pub(super) async fn open(connection: &mut Connection, job: JobId, tasks: &[i64]) -> Attempt<()> {
    connection.query(OPEN, &[&job, &tasks]).await?;
    Ok(())
}

pub(super) async fn recount(connection: &mut Connection, job: JobId) -> Attempt<()> {
    connection.transaction("BEGIN", &[(LOCK, &[&job]), (RECOUNT, &[&job])]).await?;
    Ok(())
}
