//! Builds a pool on a server, or adds to one.
//!
//! 1. Whoever builds a pool of some name holds a lock on the name, which ends with its connection; what killed builds have
//!    left is dropped.
//! 2. Records are staged in tables of their own (`staging.rs`). To add to a pool, its tables are copied first.
//! 3. Texts are embedded once each. Every request's vectors are in the journal, a table by the pool's name and the encoder,
//!    before the next ones are counted: a build that is killed goes on where it was.
//! 4. Components are fitted to the rows that a folder would take; vectors are reduced and copied; indexes are made.
//! 5. The row of `gradus_pools` is written: from then on the pool is there, whole. What it replaces is dropped when nobody
//!    reads it any more, at the latest by the next build.
//!
//! In memory are a batch of records, some thousand texts, and the rows that components are fitted to.

use std::path::Path;
use std::time::Duration;

use gradus_core::Record;
use gradus_core::contracts::Usage;
use gradus_postgres::{Attempt, Connection};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::place::ServerPlace;
use super::rows::{self, MAX_DIMENSION, MAX_INDEXED, Vector};
use super::schema::{self, Names, TABLES};
use super::staging::{Sql, Staging, copy_rows};
use super::{Holds, PostgresPool, Server};
use crate::embed::{Key, embed, key};
use crate::error::{Error, Result};
use crate::pca::{Pca, Reduce};
use crate::pool::build::fitted;
use crate::pool::draft::Dropped;
use crate::pool::manifest::{Counts, PoolManifest, VERSION};
use crate::pool::{Encoder, PoolBuildSummary, Progress, Settings, project};
use crate::source::PoolSource;

/// Texts that are fetched at once, and rows that are projected at once.
const TEXTS: usize = 8192;
const ROWS: usize = 4096;
/// How often it is tried to drop tables that somebody reads, every twentieth of a second.
const TRIES: usize = 10;

pub(super) async fn build(
    url: &str,
    records: &mut dyn Iterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    reduce: Option<&Reduce<'_>>,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    settings.check()?;
    let build = Build::begin(url, encoder, settings).await?;
    if build.published.is_some() && !settings.replace {
        let message = "is there already: add to it, or replace it with --replace";
        return Err(Error::pool(build.server.place(), message));
    }
    build.run(None, records, reduce, watch).await
}

pub(super) async fn add(
    url: &str,
    records: &mut dyn Iterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    settings.check()?;
    PostgresPool::connect(url).await?.expect(encoder)?;
    let build = Build::begin(url, encoder, settings).await?;
    // Under the lock: nobody replaces it meanwhile.
    let pool = PostgresPool::connect(url).await?;
    pool.expect(encoder)?;
    build.run(Some(pool), records, None, watch).await
}

/// A build that holds the lock of its pool.
struct Build<'a> {
    server: Server,
    encoder: &'a Encoder<'a>,
    settings: &'a Settings,
    /// The build that the name stands for now.
    published: Option<i64>,
    /// The schema of pgvector.
    extension: String,
}

impl<'a> Build<'a> {
    /// Makes the tables that all pools share, takes the lock, and drops what was left of other builds.
    async fn begin(url: &str, encoder: &'a Encoder<'a>, settings: &'a Settings) -> Result<Self> {
        // The lock ends with the connection: a lost one ends the build.
        let server = Server::connect(ServerPlace::parse(url)?, Duration::ZERO).await?;
        let schema = server.place.address.schema.clone();
        let version =
            server.call(async move |connection| TABLES.prepare(connection, schema.as_deref()).await).await?;
        server.check_version(version)?;
        let extension = extension(&server).await?;
        let name = server.place.name.clone();
        let (locked, published) = server
            .call(async move |connection| {
                let locked = connection.first(schema::BUILD_LOCK, &[&schema::BUILDING, &name]).await?;
                let row = connection.first(schema::PUBLISHED, &[&name]).await?;
                Ok((locked.is_some_and(|row| row.get(0)), row.map(|row| row.get::<_, i64>(0))))
            })
            .await?;
        if !locked {
            return Err(Error::pool(server.place(), "is in use by another process"));
        }
        let build = Self { server, encoder, settings, published, extension };
        build.drop_others(published).await?;
        Ok(build)
    }

    /// Drops the tables of this name's builds but one. Those that somebody reads stay.
    async fn drop_others(&self, kept: Option<i64>) -> Result<()> {
        let (name, extension) = (self.server.place.name.clone(), self.extension.clone());
        let drop = async move |connection: &mut Connection<Holds>| {
            // What failed may have left a transaction open.
            connection.batch("ROLLBACK").await?;
            let others = "SELECT id FROM gradus_pool_builds WHERE name = $1 AND id IS DISTINCT FROM $2";
            for row in connection.query(others, &[&name, &kept]).await? {
                let names = Names { build: row.get(0), extension: extension.clone() };
                drop_build(connection, &names).await?;
            }
            Ok(())
        };
        self.server.call(drop).await
    }

    async fn run(
        self,
        old: Option<PostgresPool>,
        records: &mut dyn Iterator<Item = Record>,
        reduce: Option<&Reduce<'_>>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<PoolBuildSummary> {
        let (name, extension) = (self.server.place.name.clone(), self.extension.clone());
        let create = async move |connection: &mut Connection<Holds>| {
            connection.batch("BEGIN").await?;
            let row = "INSERT INTO gradus_pool_builds(name) VALUES ($1) RETURNING id";
            let row = connection.query(row, &[&name]).await?;
            let names = Names { build: row[0].get(0), extension: extension.clone() };
            connection.batch(&names.create()).await?;
            connection.batch("COMMIT").await?;
            Ok(names)
        };
        let names = self.server.call(create).await?;
        let done = self.fill(&names, old.as_ref(), records, reduce, watch).await;
        // The tables of one that failed are of no use; its journal is.
        drop(old);
        let kept = if done.is_ok() { Some(names.build) } else { self.published };
        let dropped = self.drop_others(kept).await;
        let summary = done?;
        dropped?;
        self.drop_journals().await?;
        Ok(summary)
    }

    async fn fill(
        &self,
        names: &Names,
        old: Option<&PostgresPool>,
        records: &mut dyn Iterator<Item = Record>,
        reduce: Option<&Reduce<'_>>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<PoolBuildSummary> {
        let before = old.map(|pool| pool.manifest.counts).unwrap_or_default();
        let guard = old.map_or(&self.settings.guard, |pool| &pool.manifest.guard);
        if let Some(old) = old {
            self.copy_tables(&old.names, names, &["questions", "steps", "solutions", "guard"]).await?;
        }
        let mut staging = Staging {
            server: &self.server,
            names: names.clone(),
            labels: self.settings.labels.clone(),
            guard: guard.clone(),
            counts: before,
            dropped: Dropped::default(),
        };
        staging.add(records).await?;
        let (counts, dropped) = (staging.counts, staging.dropped);
        if counts.questions == 0 {
            let records = dropped.unlabeled_records + dropped.empty_questions;
            let message =
                format!("none of {records} records has a labeled or a reference solution: a pool needs some");
            return Err(Error::Data(message));
        }
        let journal = self.journal().await?;
        let embedded = self.embed(names, &journal, before, counts, watch).await?;
        let dimension = match (self.dimension(&journal).await?, old) {
            (Some(found), Some(old)) if embedded.total > 0 && found != old.manifest.dimension => {
                let expected = old.manifest.dimension;
                let message = format!(
                    "was built with vectors of {expected} dimensions, but the encoder now gives {found}"
                );
                return Err(Error::pool(self.server.place(), message));
            }
            (_, Some(old)) => old.manifest.dimension,
            (Some(found), None) => found,
            (None, None) => return Err(self.server.damaged("its journal has no vectors")),
        };
        let pca = match (old, reduce) {
            (Some(old), _) => old.components.clone(),
            (None, Some(reduce)) => Some(self.fit(names, &journal, counts, dimension, reduce).await?),
            (None, None) => None,
        };
        let kept = pca.as_ref().map_or(dimension, |pca| pca.kept);
        if kept > MAX_DIMENSION {
            let message = format!(
                "has vectors of {kept} dimensions, and pgvector holds {MAX_DIMENSION}: reduce them with --dimensions"
            );
            return Err(Error::pool(self.server.place(), message));
        }
        let create = names.create_vectors(kept);
        self.server.call(async move |connection| connection.batch(&create).await).await?;
        if let Some(old) = old {
            self.copy_tables(&old.names, names, &["question_vectors", "step_vectors"]).await?;
        }
        for (kind, first, end) in
            [("question", before.questions, counts.questions), ("step", before.step_texts, counts.step_texts)]
        {
            self.copy_vectors(names, &journal, kind, first..end, dimension, pca.as_ref()).await?;
        }
        let has_index = counts.questions >= self.settings.graph_from && kept <= MAX_INDEXED;
        let indexes = names.create_indexes();
        let graph = has_index.then(|| names.create_graph(counts.questions, kept));
        self.server
            .call(async move |connection| {
                connection.batch(&indexes).await?;
                match &graph {
                    Some(graph) => connection.batch(graph).await,
                    None => Ok(()),
                }
            })
            .await?;
        let manifest = PoolManifest {
            gradus_pool: VERSION,
            encoder: old.map_or(self.encoder.name, |old| &old.manifest.encoder).to_owned(),
            fingerprint: self.encoder.fingerprint.to_owned(),
            dimension,
            kept,
            pca: pca.is_some(),
            guard: guard.clone(),
            counts,
            files: Default::default(),
            checksum: String::new(),
        };
        self.publish(names, manifest, pca.as_ref(), has_index).await?;
        Ok(PoolBuildSummary { counts, before, dropped, embedded, dimension: kept })
    }

    /// Copies tables of another build.
    async fn copy_tables(&self, from: &Names, to: &Names, kinds: &[&str]) -> Result<()> {
        let copies = kinds
            .iter()
            .map(|kind| format!("INSERT INTO {} SELECT * FROM {};", to.table(kind), from.table(kind)));
        let copies: String = copies.collect();
        self.server.call(async move |connection| connection.batch(&copies).await).await
    }

    /// The table of this encoder's vectors.
    async fn journal(&self) -> Result<String> {
        let (name, encoder) = (self.server.place.name.clone(), key(self.encoder.fingerprint).to_vec());
        self.server
            .call(async move |connection| {
                let insert = "INSERT INTO gradus_pool_journals(name, encoder) VALUES ($1, $2) \
                              ON CONFLICT (name, encoder) DO UPDATE SET name = excluded.name RETURNING id";
                let row = connection.query(insert, &[&name, &encoder]).await?;
                let table = format!("gradus_pool_journal_{}", row[0].get::<_, i64>(0));
                // Vectors do not compress.
                let create = format!(
                    "CREATE TABLE IF NOT EXISTS {table}(key bytea PRIMARY KEY, vector bytea STORAGE EXTERNAL NOT NULL)"
                );
                connection.batch(&create).await?;
                Ok(table)
            })
            .await
    }

    /// Dimensions of the journal's vectors.
    async fn dimension(&self, journal: &str) -> Result<Option<usize>> {
        let sql = format!("SELECT min(length(vector)), max(length(vector)) FROM {journal}");
        let row = self.server.call(async move |connection| connection.first(&sql, &[]).await).await?;
        let lengths: Option<(i32, i32)> =
            row.and_then(|row| Some((row.get::<_, Option<i32>>(0)?, row.get::<_, Option<i32>>(1)?)));
        match lengths {
            None => Ok(None),
            Some((least, most)) if least == most && least > 0 && least % 4 == 0 => {
                Ok(Some(least as usize / 4))
            }
            Some(_) => Err(Error::pool(
                self.server.place(),
                format!(
                    "has vectors of several dimensions in {journal}: the encoder has changed; drop that table to start afresh"
                ),
            )),
        }
    }

    /// Embeds what the journal does not know yet of the texts that are not among the first ones.
    async fn embed(
        &self,
        names: &Names,
        journal: &str,
        before: Counts,
        counts: Counts,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Progress> {
        let (questions, steps) = (names.table("questions"), names.table("steps"));
        let sql = format!(
            "SELECT count(*), count(j.key) FROM (SELECT key FROM {questions} WHERE number >= $1
                 UNION SELECT key FROM {steps} WHERE number >= $2) texts LEFT JOIN {journal} j USING (key)"
        );
        let (first_question, first_step) = (before.questions as i32, before.step_texts as i32);
        let row = self
            .server
            .call(async move |connection| connection.query(&sql, &[&first_question, &first_step]).await)
            .await?;
        let count = |column: usize| row.first().map_or(0, |row| row.get::<_, i64>(column) as usize);
        let mut progress =
            Progress { total: count(0), resumed: count(1), done: count(1), ..Progress::default() };
        if !watch(progress) {
            return Err(Error::Stopped);
        }
        for (table, first, end) in
            [(&questions, before.questions, counts.questions), (&steps, before.step_texts, counts.step_texts)]
        {
            for start in (first..end).step_by(TEXTS) {
                let open = self.open_texts(table, journal, start, start + TEXTS).await?;
                let at_once = (self.settings.batch * self.settings.ahead).max(1);
                for open in open.chunks(at_once) {
                    self.embed_some(journal, open, &mut progress, watch).await?;
                }
            }
        }
        Ok(progress)
    }

    /// Texts without a vector, the longest first.
    async fn open_texts(
        &self,
        table: &str,
        journal: &str,
        start: usize,
        end: usize,
    ) -> Result<Vec<(Key, String)>> {
        let sql = format!(
            "SELECT t.key, t.text FROM {table} t WHERE number >= $1 AND number < $2
                 AND NOT EXISTS (SELECT FROM {journal} j WHERE j.key = t.key)
             ORDER BY length(t.text) DESC, number"
        );
        let (start, end) = (start as i32, end as i32);
        let rows =
            self.server.call(async move |connection| connection.query(&sql, &[&start, &end]).await).await?;
        let one = |row: &Row| {
            let text = std::str::from_utf8(row.get(1)).ok()?.to_owned();
            Some((Key::try_from(row.get::<_, &[u8]>(0)).ok()?, text))
        };
        let open: Option<Vec<_>> = rows.iter().map(one).collect();
        open.ok_or_else(|| self.server.damaged("a text is no UTF-8"))
    }

    async fn embed_some(
        &self,
        journal: &str,
        open: &[(Key, String)],
        progress: &mut Progress,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<()> {
        let texts: Vec<&str> = open.iter().map(|(_, text)| text.as_str()).collect();
        let (mut keys, mut vectors) = (Vec::new(), Vec::new());
        let before = progress.done;
        let mut goes_on = true;
        let embedded = embed(self.encoder.model, &texts, self.settings.batches(), |batch, answer| {
            keys.extend(batch.iter().map(|&index| open[index].0.to_vec()));
            vectors.extend(answer.values.chunks_exact(answer.dimension).map(rows::bytes_of));
            let Usage { prompt_tokens, .. } = answer.usage;
            progress.done += batch.len();
            progress.truncated += answer.truncated;
            progress.tokens += prompt_tokens;
            goes_on = watch(*progress);
            Ok(goes_on)
        })
        .await;
        let sql = format!(
            "INSERT INTO {journal} SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (key) DO NOTHING"
        );
        // Vectors that came before a failure are kept, too.
        self.server
            .call(async move |connection| connection.query(&sql, &[&keys, &vectors]).await.map(drop))
            .await?;
        embedded.map_err(|error| match error {
            Error::Encoder { done, message, .. } => {
                Error::Encoder { done: before + done, total: progress.total, message }
            }
            other => other,
        })
    }

    /// Vectors of the journal for texts by their numbers, in their order.
    async fn journaled(
        &self,
        table: &str,
        journal: &str,
        numbers: &[usize],
        dimension: usize,
    ) -> Result<Vec<f32>> {
        let sql = format!(
            "SELECT t.number, j.vector FROM {table} t JOIN {journal} j USING (key) WHERE t.number = ANY($1)
             ORDER BY t.number"
        );
        let wanted: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
        let found = self.server.by_numbers(sql, wanted).await?;
        let mut values = Vec::with_capacity(numbers.len() * dimension);
        for (row, &number) in found.iter().zip(numbers) {
            let bytes: &[u8] = row.get(1);
            if row.get::<_, i32>(0) != number as i32 || bytes.len() != 4 * dimension {
                break;
            }
            values.extend(rows::floats(bytes));
        }
        if values.len() != numbers.len() * dimension || !values.iter().all(|value| value.is_finite()) {
            let message = format!("has a wrong vector in {journal}: drop that table to start afresh");
            return Err(Error::pool(self.server.place(), message));
        }
        Ok(values)
    }

    /// Fits components to an even share of the questions' and steps' vectors, the same as in a folder.
    async fn fit(
        &self,
        names: &Names,
        journal: &str,
        counts: Counts,
        dimension: usize,
        reduce: &Reduce<'_>,
    ) -> Result<Pca> {
        let total = counts.questions + counts.step_texts;
        let taken = total.min(self.settings.fit_rows);
        let numbers: Vec<usize> = (0..taken).map(|index| index * total / taken).collect();
        let (questions, steps) =
            numbers.split_at(numbers.partition_point(|&number| number < counts.questions));
        let steps: Vec<usize> = steps.iter().map(|number| number - counts.questions).collect();
        let mut values = Vec::new();
        for (kind, numbers) in [("questions", questions), ("steps", &steps)] {
            for numbers in numbers.chunks(ROWS) {
                values.extend(self.journaled(&names.table(kind), journal, numbers, dimension).await?);
            }
        }
        fitted(values, dimension, reduce)
    }

    /// Reduces vectors of the journal and copies them to where they are searched.
    async fn copy_vectors(
        &self,
        names: &Names,
        journal: &str,
        kind: &str,
        range: std::ops::Range<usize>,
        dimension: usize,
        pca: Option<&Pca>,
    ) -> Result<()> {
        let kept = pca.map_or(dimension, |pca| pca.kept);
        let vector = names.of_extension("vector");
        for start in range.clone().step_by(ROWS) {
            let numbers: Vec<usize> = (start..range.end.min(start + ROWS)).collect();
            let texts = names.table(&format!("{kind}s"));
            let values = self.journaled(&texts, journal, &numbers, dimension).await?;
            let rows = project(values, dimension, pca);
            let rows: Vec<(i32, Vector)> = numbers
                .iter()
                .zip(rows.chunks_exact(kept))
                .map(|(&number, row)| (number as i32, Vector(row.to_vec())))
                .collect();
            let (table, vector) = (names.table(&format!("{kind}_vectors")), vector.clone());
            let copy = async move |connection: &mut Connection<Holds>| {
                let statement = connection.prepare(&format!("SELECT NULL::{vector}")).await?;
                let types = [Type::INT4, statement.columns()[0].type_().clone()];
                let rows = rows.iter().map(|(number, vector)| [number as &Sql, vector]);
                copy_rows(connection, &table, &types, rows).await
            };
            self.server.call(copy).await?;
        }
        Ok(())
    }

    /// From here on the name stands for this build.
    async fn publish(
        &self,
        names: &Names,
        manifest: PoolManifest,
        pca: Option<&Pca>,
        has_index: bool,
    ) -> Result<()> {
        let (name, build, manifest) = (self.server.place.name.clone(), names.build, manifest.sealed());
        let components = pca.map(|pca| [rows::bytes_of(&pca.mean), rows::bytes_of(&pca.components)].concat());
        let write = "INSERT INTO gradus_pools(name, build, manifest, components, has_index)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (name) DO UPDATE SET build = excluded.build, manifest = excluded.manifest,
                 components = excluded.components, has_index = excluded.has_index, made = now()";
        self.server
            .call(async move |connection| {
                connection.query(write, &[&name, &build, &manifest, &components, &has_index]).await.map(drop)
            })
            .await
    }

    /// Drops this name's journals: their vectors are in the pool, or another encoder's.
    async fn drop_journals(&self) -> Result<()> {
        let name = self.server.place.name.clone();
        let drop = async move |connection: &mut Connection<Holds>| {
            let journals = "DELETE FROM gradus_pool_journals WHERE name = $1 RETURNING id";
            connection.batch("BEGIN").await?;
            for row in connection.query(journals, &[&name]).await? {
                let id: i64 = row.get(0);
                connection.batch(&format!("DROP TABLE IF EXISTS gradus_pool_journal_{id}")).await?;
            }
            connection.batch("COMMIT").await
        };
        self.server.call(drop).await
    }
}

/// Drops a build's tables, unless somebody reads them.
async fn drop_build(connection: &mut Connection<Holds>, names: &Names) -> Attempt<()> {
    for _ in 0..TRIES {
        connection.batch("BEGIN").await?;
        let locked = connection.first(schema::DROP_LOCK, &[&schema::HELD, &names.locked()]).await?;
        if locked.is_some_and(|row| row.get(0)) {
            connection.batch(&names.drop()).await?;
            connection.query("DELETE FROM gradus_pool_builds WHERE id = $1", &[&names.build]).await?;
            return connection.batch("COMMIT").await;
        }
        // A reader that has just ended may still hold it.
        connection.batch("COMMIT; SELECT pg_sleep(0.05)").await?;
    }
    Ok(())
}

/// The schema of pgvector, which is installed where that is possible.
async fn extension(server: &Server) -> Result<String> {
    let found = async || server.call(async |connection| connection.first(schema::EXTENSION, &[]).await).await;
    let mut row = found().await?;
    if row.is_none() {
        let installed = server.call(schema::install_extension).await;
        installed.map_err(|error| without_extension(server.place(), &error))?;
        row = found().await?;
    }
    let Some(row) = row else { return Err(server.damaged("pgvector was removed meanwhile")) };
    let version: String = row.get(1);
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let numbers = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if numbers < (0, 8) {
        let message = format!("its database has pgvector {version}, and 0.8 or later is needed: update it");
        return Err(Error::pool(server.place(), message));
    }
    Ok(row.get(0))
}

fn without_extension(place: &Path, error: &Error) -> Error {
    let why = match error {
        Error::Pool { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let message = format!(
        "its database has no pgvector: install it on the server and let an administrator run CREATE EXTENSION vector ({why})"
    );
    Error::pool(place, message)
}
