//! A pool in a PostgreSQL database with pgvector, for pools that outgrow one machine's memory.
//!
//! `postgres://USER@HOST/DATABASE?pool=NAME`, with the settings of [`gradus_postgres`], and
//!
//! - `pool`: the pool's name; a database holds any number of pools
//! - `search=exact`: every vector is read, even where there is an index; `search=hnsw`, the default, uses an index that is there
//! - `ef_search`: how many questions the index looks at; by default from the number of questions
//!
//! A pool is a row of `gradus_pools` and tables of its own, `gradus_pool_7_…`, which are never changed once the row names
//! them: see `schema.rs`. The server stores, finds keys and proposes neighbors (HNSW over `halfvec`); similarities, the
//! order of what is found and the leak guard are ours, on the vectors in f32. Exact search reads all vectors in order, a few
//! megabytes at a time, and gives what a folder gives, to the bit.
//!
//! What comes from the server is checked as it is read: numbers, dimensions, vectors, texts.

mod build;
mod place;
mod rows;
mod schema;
mod search;
mod staging;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use gradus_core::Record;
use gradus_postgres::{Attempt, CallError, Connection, Handle};
use tokio_postgres::Row;

use self::place::ServerPlace;
use self::schema::{Names, TABLES};
use super::manifest::PoolManifest;
use super::{Encoder, PoolBuildSummary, Progress, Settings};
use crate::error::{Error, Result};
use crate::pca::{Pca, Reduce};
use crate::source::PoolSource;

/// How long a search waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The address without its password.
pub(super) fn shown(url: &str) -> String {
    gradus_postgres::Address::without_password(url)
}

pub(super) fn open(url: &str) -> Result<Box<dyn PoolSource>> {
    Ok(Box::new(PostgresPool::open(url)?))
}

pub(super) async fn build(
    url: &str,
    records: &mut dyn Iterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    reduce: Option<&Reduce<'_>>,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    build::build(url, records, encoder, settings, reduce, watch).await
}

pub(super) async fn add(
    url: &str,
    records: &mut dyn Iterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    build::add(url, records, encoder, settings, watch).await
}

/// An open pool on a server. The tables stay while it is open, even if a new pool takes its name.
#[derive(Debug)]
pub struct PostgresPool {
    server: Server,
    names: Names,
    manifest: PoolManifest,
    components: Option<Pca>,
    /// Questions that a search through the index looks at; none for exact search.
    ef_search: Option<usize>,
}

impl PostgresPool {
    /// Opens a pool to look into it, whatever its encoder, and waits for the server on this thread, be it one of a runtime.
    pub fn open(url: &str) -> Result<Self> {
        let connect = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let refuse = |error: std::io::Error| Error::Data(format!("no thread for a server: {error}"));
            runtime.map_err(refuse)?.block_on(Self::connect(url))
        };
        // A runtime cannot be waited for in another one.
        std::thread::scope(|scope| scope.spawn(connect).join())
            .unwrap_or_else(|_| Err(Error::Data("a pool's server cannot be connected to".to_owned())))
    }

    /// Opens a pool as [`Self::open`] does.
    pub async fn connect(url: &str) -> Result<Self> {
        let server = Server::connect(ServerPlace::parse(url)?, PATIENCE).await?;
        let (names, found) = server.published().await?;
        // From here on the tables stay. Another pool may have taken the name before.
        let pool = Self::of(server, names, found)?;
        let (_, now) = pool.server.published().await?;
        if now.build == pool.names.build { Ok(pool) } else { Box::pin(Self::connect(url)).await }
    }

    fn of(mut server: Server, names: Names, found: Published) -> Result<Self> {
        server.reads = Some(names.locked());
        let Published { manifest, components, has_index, .. } = found;
        let components = match (manifest.pca, components) {
            (false, _) => None,
            (true, Some(bytes)) => {
                let values: Vec<f32> = rows::floats(&bytes);
                let (mean, components) = values.split_at(manifest.dimension.min(values.len()));
                Some(Pca { mean: mean.to_vec(), components: components.to_vec(), kept: manifest.kept })
            }
            (true, None) => return Err(server.damaged("its components are missing")),
        };
        if components.as_ref().is_some_and(|pca| !pca.is_sound(manifest.dimension)) {
            return Err(server.damaged("its components make no sense"));
        }
        let is_exact = server.place.is_exact || !has_index;
        let ef_search = server.place.ef_search;
        let ef_search =
            (!is_exact).then(|| ef_search.unwrap_or(search::ef_search(manifest.counts.questions)));
        Ok(Self { server, names, manifest, components, ef_search })
    }
}

/// What the row of a pool says.
struct Published {
    build: i64,
    manifest: PoolManifest,
    components: Option<Vec<u8>>,
    has_index: bool,
}

/// Whether this connection holds the tables that are read.
#[derive(Debug, Default)]
struct Holds(bool);

/// A server with a pool's name.
#[derive(Debug)]
struct Server {
    place: ServerPlace,
    handle: Handle<Holds>,
    /// The table by which the build that is read is locked: nobody drops its tables meanwhile.
    reads: Option<String>,
}

impl Server {
    async fn connect(place: ServerPlace, patience: Duration) -> Result<Self> {
        let opened = Handle::open(place.address.clone(), patience).await;
        let handle = opened.map_err(|error| refused(&place.shown, &error))?;
        Ok(Self { place, handle, reads: None })
    }

    fn place(&self) -> &Path {
        &self.place.shown
    }

    /// Makes a call. See [`Handle::run`].
    fn call<T: Send + 'static, F>(&self, function: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        F: AsyncFn(&mut Connection<Holds>) -> Attempt<T> + Send + 'static,
    {
        let (place, reads) = (self.place.shown.clone(), self.reads.clone());
        let answer = self.handle.run(async move |connection| {
            if let Some(table) = &reads
                && !connection.state.0
            {
                let held = connection.first(schema::HOLD, &[&schema::HELD, table]).await?;
                connection.state.0 = held.is_some_and(|row| row.get(0));
            }
            function(connection).await
        });
        async move { answer.await.map_err(|error| refused(&place, &error)) }
    }

    /// The rows of a statement whose parameter is a list of numbers.
    fn by_numbers(
        &self,
        sql: String,
        numbers: Vec<i32>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send + use<> {
        self.call(async move |connection| connection.query(&sql, &[&numbers]).await)
    }

    /// The pool that has the name now.
    async fn published(&self) -> Result<(Names, Published)> {
        let name = self.place.name.clone();
        let (version, row, others, extension) = self
            .call(async move |connection| {
                let version = TABLES.version(connection).await?;
                if version != TABLES.known() {
                    return Ok((version, None, Vec::new(), None));
                }
                let row = connection.first(schema::PUBLISHED, &[&name]).await?;
                let others = connection.query(schema::OTHERS, &[]).await?;
                let others: Vec<String> = others.iter().map(|row| row.get(0)).collect();
                Ok((version, row, others, connection.first(schema::EXTENSION, &[]).await?))
            })
            .await?;
        self.check_version(version)?;
        let Some(row) = row else {
            return Err(self.missing(&others));
        };
        let Some(extension) = extension else {
            let message =
                "its database has no pgvector any more: CREATE EXTENSION vector, and build the pool again";
            return Err(Error::pool(self.place(), message));
        };
        let manifest = PoolManifest::parse(row.get::<_, &str>(1).as_bytes(), self.place())?;
        let published =
            Published { build: row.get(0), manifest, components: row.get(2), has_index: row.get(3) };
        Ok((Names { build: published.build, extension: extension.get(0) }, published))
    }

    fn check_version(&self, version: i32) -> Result<()> {
        let known = TABLES.known();
        if version > known {
            let message = format!(
                "its tables have version {version}, this program knows version {known}; use a newer program"
            );
            return Err(Error::pool(self.place(), message));
        }
        if version == 0 {
            return Err(self.missing(&[]));
        }
        Ok(())
    }

    fn missing(&self, others: &[String]) -> Error {
        let others = match others {
            [] => "there are none in it".to_owned(),
            others => format!("there are {}", others.join(", ")),
        };
        let name = &self.place.name;
        let message = format!("there is no pool `{name}` in the database ({others}): build it first");
        Error::pool(self.place(), message)
    }

    fn damaged(&self, what: &str) -> Error {
        Error::pool(self.place(), format!("is damaged: {what}; build the pool again"))
    }
}

/// The error of a call.
fn refused(place: &Path, error: &CallError) -> Error {
    // What was open when its tables went is told apart from what is damaged.
    let is_gone = matches!(error, CallError::Refused { why } if why.ends_with("SQLSTATE 42P01"));
    let message = match error {
        _ if is_gone => {
            "its tables are gone: it was replaced or removed meanwhile; run the command again".to_owned()
        }
        // Builds have no patience.
        CallError::Away { seconds: 0, why } => {
            format!("the connection was lost: {why}; embedded texts are kept, rerun to resume")
        }
        other => other.to_string(),
    };
    Error::pool(place, message)
}
