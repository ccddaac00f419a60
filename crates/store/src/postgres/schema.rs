//! The tables of a PostgreSQL database, and what is done before they are used.
//!
//! Results and inputs have tables of their own, so that a change of state writes a small row. Few rows are leased or have
//! faults at a time: partial indexes find them, and those that are open, among millions. What is done is counted by
//! worker, in the transaction that keeps the results, so that nobody counts millions of rows each second.

use gradus_postgres::Tables;

/// Version of the tables. A database of a later one is refused.
pub(super) const VERSION: i32 = 1;

/// The tables.
pub(super) const TABLES: Tables = Tables { version_table: "gradus_schema", migrations: &MIGRATIONS };

/// What leads from each version to the next, from none on.
const MIGRATIONS: [&str; VERSION as usize] = ["
CREATE TABLE gradus_jobs(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL UNIQUE,
    kind text NOT NULL,
    command text NOT NULL,
    folder text NOT NULL,
    output text,
    state text NOT NULL,
    tasks bigint NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    updated timestamptz NOT NULL DEFAULT now()
);
-- States: 0 open, 1 leased, 2 done, 3 failed. `claim` is the token of the call that leased it.
-- Claims read the index of open tasks from its start: it is kept free of dead entries.
CREATE TABLE gradus_tasks(
    job bigint NOT NULL,
    number bigint NOT NULL,
    state smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
    attempts integer NOT NULL DEFAULT 0,
    lease timestamptz,
    claim bigint,
    worker text,
    name text,
    fault text,
    PRIMARY KEY(job, number)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX gradus_tasks_open ON gradus_tasks(job, number) WHERE state = 0;
CREATE INDEX gradus_tasks_leased ON gradus_tasks(job, lease) WHERE state = 1;
CREATE INDEX gradus_tasks_claims ON gradus_tasks(claim) WHERE state = 1;
CREATE INDEX gradus_tasks_faults ON gradus_tasks(job, number) WHERE fault IS NOT NULL;
CREATE TABLE gradus_results(
    job bigint NOT NULL,
    number bigint NOT NULL,
    result bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY(job, number)
);
CREATE TABLE gradus_inputs(
    job bigint NOT NULL,
    number bigint NOT NULL,
    input bytea NOT NULL,
    PRIMARY KEY(job, number)
);
-- The worker without a name holds what the sum of `done` must be corrected by: results that were damaged or removed.
CREATE TABLE gradus_workers(
    job bigint NOT NULL REFERENCES gradus_jobs(id) ON DELETE CASCADE,
    worker text NOT NULL,
    began timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen timestamptz NOT NULL DEFAULT clock_timestamp(),
    done bigint NOT NULL DEFAULT 0,
    gone boolean NOT NULL DEFAULT false,
    PRIMARY KEY(job, worker)
) WITH (fillfactor = 50);
CREATE TABLE gradus_progress(
    job bigint PRIMARY KEY REFERENCES gradus_jobs(id) ON DELETE CASCADE,
    worker text NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Calls that must not happen twice, by their tokens.
CREATE TABLE gradus_calls(
    token bigint PRIMARY KEY,
    job bigint NOT NULL REFERENCES gradus_jobs(id) ON DELETE CASCADE,
    made timestamptz NOT NULL DEFAULT now()
);
"];
