//! What a job works on: records, each with tasks of its own.

use std::ops::Range;

use anyhow::{Context, Result};
use gradus_core::Record;
use gradus_store::{JobId, Store};
use serde::de::DeserializeOwned;

/// Records whose results are fetched and assembled together.
const TOGETHER: usize = 256;

/// The records of a job. Tasks are numbered through: those of a record follow those of the record before.
pub(crate) trait JobRecords<T> {
    /// How many records there are.
    fn len(&self) -> usize;
    /// The first task of the record at `index`; for [`JobRecords::len`], how many tasks there are.
    fn first_task(&self, index: usize) -> usize;
    /// What a worker on another machine needs to do a task, as text.
    fn input(&self, task: usize) -> Result<String>;
    /// What to call a task that failed.
    fn name(&self, task: usize) -> String;
    /// The record at `index` as it is written, from the results of its tasks; none where it is left out. It is asked for
    /// once in a run.
    fn assemble(&self, index: usize, results: Vec<Option<T>>) -> Result<Option<Record>>;

    /// The tasks of some records.
    fn tasks(&self, records: &Range<usize>) -> Range<usize> {
        self.first_task(records.start)..self.first_task(records.end)
    }
}

/// Assembles some records from what the store has, in their order.
pub(super) async fn assemble<T: DeserializeOwned>(
    store: &dyn Store,
    job: JobId,
    records: &impl JobRecords<T>,
    range: Range<usize>,
    mut each: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    for first in range.clone().step_by(TOGETHER) {
        let together = first..range.end.min(first + TOGETHER);
        let tasks = records.tasks(&together);
        let mut results: Vec<Option<T>> = tasks.clone().map(|_| None).collect();
        for (task, result) in store.results(job, tasks.clone()).await? {
            let result = serde_json::from_str(&result)
                .with_context(|| format!("job {job}: the result of task {task} is invalid"))?;
            results[task - tasks.start] = Some(result);
        }
        let mut results = results.into_iter();
        for index in together {
            let count = records.tasks(&(index..index + 1)).len();
            if let Some(record) = records.assemble(index, results.by_ref().take(count).collect())? {
                each(record)?;
            }
        }
    }
    Ok(())
}
