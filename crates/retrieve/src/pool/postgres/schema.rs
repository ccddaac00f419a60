//! The tables of pools.
//!
//! `gradus_pools` has a row for each pool, which names a build; `gradus_pool_builds` those whose tables there are, complete
//! or not; `gradus_pool_journals` the vectors that have been paid for, one table for each pool and encoder. The tables of
//! build 7 are
//!
//! | table | holds |
//! |---|---|
//! | `gradus_pool_7_questions` | number, key (BLAKE3 of the text, 128 bits), id, text |
//! | `gradus_pool_7_steps` | number, key, text: each step text once |
//! | `gradus_pool_7_solutions` | question, nth, id, steps: number · 4 + mark for each; name: a hash that tells copies |
//! | `gradus_pool_7_guard` | keys of the leak guard, and the question of each |
//! | `gradus_pool_7_question_vectors`, `…_step_vectors` | number, vector of length 1 |
//!
//! Texts and ids are bytes (UTF-8): PostgreSQL's own type cannot hold the character 0.

use gradus_postgres::{Attempt, Connection, LOCK, Tables};

use super::Holds;
use super::rows::MAX_INDEXED;

pub(super) const TABLES: Tables = Tables {
    version_table: "gradus_pool_schema",
    migrations: &["
CREATE TABLE gradus_pools(
    name text PRIMARY KEY,
    build bigint NOT NULL,
    manifest text NOT NULL,
    components bytea,
    has_index boolean NOT NULL,
    made timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE gradus_pool_builds(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    began timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE gradus_pool_journals(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    encoder bytea NOT NULL,
    UNIQUE(name, encoder)
);
"],
};

pub(super) const PUBLISHED: &str =
    "SELECT build, manifest, components, has_index FROM gradus_pools WHERE name = $1";
pub(super) const OTHERS: &str = "SELECT name FROM gradus_pools ORDER BY name LIMIT 20";
/// The schema and the version of pgvector.
pub(super) const EXTENSION: &str = "SELECT n.nspname::text, e.extversion::text FROM pg_extension e \
     JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'";

/// The first numbers of two kinds of locks: who reads the tables of a build shares one, and who drops them has it alone;
/// who builds a pool of some name has the other alone.
pub(super) const HELD: i32 = 723_810_713;
/// By the number that the server gave to a table of the build: each schema counts its builds from 1, and locks are the
/// whole database's.
pub(super) const HOLD: &str =
    "SELECT pg_try_advisory_lock_shared($1::int, coalesce(to_regclass($2::text)::oid::int, 0))";
pub(super) const DROP_LOCK: &str =
    "SELECT pg_try_advisory_xact_lock($1::int, coalesce(to_regclass($2::text)::oid::int, 0))";
pub(super) const BUILDING: i32 = 723_810_714;
/// By the name and the schema that tables are made in.
pub(super) const BUILD_LOCK: &str =
    "SELECT pg_try_advisory_lock($1::int, hashtext(coalesce(current_schema()::text, '') || '/' || $2::text))";

/// Installs pgvector where it is missing.
pub(super) async fn install_extension(connection: &mut Connection<Holds>) -> Attempt<()> {
    // Not into the schema of the tables, which may go.
    let statements = format!(
        "BEGIN; SELECT pg_advisory_xact_lock({LOCK}); CREATE EXTENSION IF NOT EXISTS vector SCHEMA public; COMMIT"
    );
    let made = connection.batch(&statements).await;
    if made.is_err() {
        connection.batch("ROLLBACK").await?;
    }
    made
}

/// The names of a build's tables, and of what pgvector brings.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) build: i64,
    /// The schema of pgvector, which the search path of an address may leave out.
    pub(super) extension: String,
}

/// The tables of a build.
pub(super) const KINDS: [&str; 6] =
    ["questions", "steps", "solutions", "guard", "question_vectors", "step_vectors"];

impl Names {
    pub(super) fn table(&self, kind: &str) -> String {
        format!("gradus_pool_{}_{kind}", self.build)
    }

    /// The table by which a build is locked.
    pub(super) fn locked(&self) -> String {
        self.table("questions")
    }

    /// A type, operator or operator class of pgvector.
    pub(super) fn of_extension(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.extension.replace('"', "\"\""))
    }

    /// What makes the tables that records are staged in.
    pub(super) fn create(&self) -> String {
        let [questions, steps, solutions, guard, ..] = KINDS.map(|kind| self.table(kind));
        format!(
            "CREATE TABLE {questions}(number int PRIMARY KEY, key bytea NOT NULL UNIQUE, id bytea NOT NULL,
                 text bytea NOT NULL);
             CREATE TABLE {steps}(number int PRIMARY KEY, key bytea NOT NULL UNIQUE, text bytea NOT NULL);
             CREATE TABLE {solutions}(question int NOT NULL, nth int NOT NULL, id bytea NOT NULL,
                 steps int[] NOT NULL, name bytea NOT NULL UNIQUE, PRIMARY KEY (question, nth));
             CREATE TABLE {guard}(key bigint NOT NULL, question int NOT NULL);"
        )
    }

    /// What makes the tables of the vectors.
    pub(super) fn create_vectors(&self, kept: usize) -> String {
        let vector = self.of_extension("vector");
        let create = |kind: &str| {
            let table = self.table(kind);
            format!("CREATE TABLE {table}(number int NOT NULL, vector {vector}({kept}) NOT NULL);")
        };
        [create("question_vectors"), create("step_vectors")].concat()
    }

    /// What makes the indexes once everything is there.
    pub(super) fn create_indexes(&self) -> String {
        let [questions, steps, solutions, guard, question_vectors, step_vectors] =
            KINDS.map(|kind| self.table(kind));
        format!(
            "ALTER TABLE {question_vectors} ADD PRIMARY KEY (number);
             ALTER TABLE {step_vectors} ADD PRIMARY KEY (number);
             CREATE INDEX ON {solutions} USING hash (id);
             CREATE INDEX ON {guard} (key) INCLUDE (question);
             ANALYZE {questions}, {steps}, {solutions}, {guard}, {question_vectors}, {step_vectors};"
        )
    }

    /// What makes the graph: as much memory as it takes, up to a gigabyte.
    pub(super) fn create_graph(&self, rows: usize, kept: usize) -> String {
        let (table, half) = (self.table("question_vectors"), self.half(kept));
        let operators = self.of_extension("halfvec_ip_ops");
        let megabytes = (rows * (2 * kept + 512) / (1 << 20)).clamp(64, 1024);
        format!(
            "BEGIN; SET LOCAL maintenance_work_mem = '{megabytes}MB';
             CREATE INDEX ON {table} USING hnsw ((vector::{half}) {operators})
                 WITH (m = 16, ef_construction = 128);
             COMMIT"
        )
    }

    /// The type that is indexed.
    pub(super) fn half(&self, kept: usize) -> String {
        format!("{}({})", self.of_extension("halfvec"), kept.min(MAX_INDEXED))
    }

    /// What drops all tables that there are.
    pub(super) fn drop(&self) -> String {
        KINDS.map(|kind| format!("DROP TABLE IF EXISTS {};", self.table(kind))).concat()
    }
}
