//! A job's output: one file when all tasks are done, or shards, each as soon as its own tasks are.

use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use gradus_data::files::manifest::{ShardManifest, ShardNames};
use gradus_data::files::{Sink, Target};
use gradus_store::{JobId, Store};
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::records::{self, JobRecords};

/// How often shards are looked for whose tasks are done.
const EVERY: Duration = Duration::from_secs(1);
/// Shards that are looked at each time: tasks are taken in order, so the first ones are done first.
const LOOKED_AT: usize = 8;

/// The output of a job.
pub(super) struct JobOutput<'a> {
    path: &'a Path,
    shards: Option<Shards>,
}

struct Shards {
    names: ShardNames,
    manifest: ShardManifest,
    shards: Vec<Shard>,
}

struct Shard {
    records: Range<usize>,
    state: ShardState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardState {
    /// Some of its tasks have no result.
    Waiting,
    /// Some of its tasks failed and are tried again by the next run: it is written at the end, where they are left out.
    Failed,
    /// Written by an earlier run: its records are only counted.
    WrittenBefore,
    /// Written by this run.
    Written,
}

impl<'a> JobOutput<'a> {
    /// The output of the job with this fingerprint. Shards of an earlier run of it are kept, those of another job
    /// refused.
    pub(super) fn open(
        path: &'a Path,
        records: usize,
        shard_size: Option<usize>,
        fingerprint: &str,
    ) -> Result<Self> {
        let Some(size) = shard_size else { return Ok(Self { path, shards: None }) };
        let names = ShardNames::new(path, records.div_ceil(size).max(1));
        let place = names.manifest();
        let known = ShardManifest::read(&place)?;
        if known.as_ref().is_some_and(|known| known.job != fingerprint || known.shard_size != size) {
            bail!(
                "{} lists shards of other work: remove it and its shards, or name another output",
                place.display()
            );
        }
        let existing = names.existing()?;
        if let Some(stale) = names.stale(&existing) {
            bail!(
                "{} is a shard of other work: remove it, or name another output, since a folder is read as a whole",
                stale.display()
            );
        }
        let manifest = known.unwrap_or_else(|| ShardManifest::new(fingerprint, size));
        let shard = |number: usize| {
            let state = match manifest.intact(&names, number, &existing) {
                true => ShardState::WrittenBefore,
                false => ShardState::Waiting,
            };
            Shard { records: number * size..records.min((number + 1).saturating_mul(size)), state }
        };
        let shards = (0..names.count()).map(shard).collect();
        Ok(Self { path, shards: Some(Shards { names, manifest, shards }) })
    }

    /// Writes shards as soon as all their tasks are done, until the tasks are not running any more.
    pub(super) async fn write_as_done<T: DeserializeOwned>(
        &mut self,
        store: &dyn Store,
        job: JobId,
        records: &impl JobRecords<T>,
        is_running: &Cell<bool>,
    ) -> Result<()> {
        let Some(shards) = &mut self.shards else { return Ok(()) };
        while is_running.get() {
            sleep(EVERY).await;
            let waiting = |number: &usize| shards.shards[*number].state == ShardState::Waiting;
            let waiting: Vec<usize> = (0..shards.shards.len()).filter(waiting).take(LOOKED_AT).collect();
            for number in waiting {
                let tasks = records.tasks(&shards.shards[number].records);
                let all = tasks.len();
                let counts = store.counts(job, tasks).await?;
                if counts.done == all {
                    shards.write(number, 0, store, job, records).await?;
                } else if counts.done + counts.failed == all {
                    shards.shards[number].state = ShardState::Failed;
                }
            }
        }
        Ok(())
    }

    /// Writes what is not written yet; tasks without a result are left out.
    pub(super) async fn finish<T: DeserializeOwned>(
        &mut self,
        store: &dyn Store,
        job: JobId,
        records: &impl JobRecords<T>,
    ) -> Result<()> {
        let Some(shards) = &mut self.shards else {
            let mut sink = Sink::create(Target::new(self.path))?;
            let push = |record| Ok(sink.push(&record)?);
            records::assemble(store, job, records, 0..records.len(), push).await?;
            sink.finish()?;
            return Ok(());
        };
        for number in 0..shards.shards.len() {
            let shard = &shards.shards[number];
            match shard.state {
                ShardState::Written => {}
                ShardState::WrittenBefore => {
                    records::assemble(store, job, records, shard.records.clone(), |_| Ok(())).await?;
                }
                ShardState::Waiting | ShardState::Failed => {
                    let tasks = records.tasks(&shard.records);
                    let all = tasks.len();
                    let failed = all - store.counts(job, tasks).await?.done;
                    shards.write(number, failed, store, job, records).await?;
                }
            }
        }
        shards.manifest.complete = true;
        shards.manifest.write(&shards.names.manifest())?;
        Ok(())
    }
}

impl Shards {
    async fn write<T: DeserializeOwned>(
        &mut self,
        number: usize,
        failed: usize,
        store: &dyn Store,
        job: JobId,
        records: &impl JobRecords<T>,
    ) -> Result<()> {
        let path: PathBuf = self.names.path(number);
        let mut sink = Sink::create(Target::new(&path))?;
        let range = self.shards[number].records.clone();
        let push = |record| Ok(sink.push(&record)?);
        records::assemble(store, job, records, range, push).await?;
        // Sending a shard takes a while, in which tasks go on.
        let entry = spawn_blocking(move || sink.finish_shard(failed)).await??;
        self.manifest.add(entry);
        self.manifest.write(&self.names.manifest())?;
        self.shards[number].state = ShardState::Written;
        Ok(())
    }
}
