//! Tables that are made and brought up to date by whoever comes first.

use crate::connection::{Attempt, Connection};

/// Held while tables are made: programs that start together do it one after the other. Any number that others do not use.
pub const LOCK: i64 = 7_238_107_134_521;

/// Some tables of one version.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// The table that holds the version.
    pub version_table: &'static str,
    /// What leads from each version to the next, from none on.
    pub migrations: &'static [&'static str],
}

impl Tables {
    /// The version that this program knows.
    pub const fn known(&self) -> i32 {
        self.migrations.len() as i32
    }

    /// Makes the tables that are missing, in the schema of that name where there is one. The version that is there then: a
    /// later one than [`Self::known`] is left alone.
    pub async fn prepare<S: Default>(
        &self,
        connection: &mut Connection<S>,
        schema: Option<&str>,
    ) -> Attempt<i32> {
        // Most programs find everything in place, and need no right to make tables.
        let found = self.version(connection).await?;
        if found >= self.known() {
            return Ok(found);
        }
        let begun = connection.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")).await;
        let made = match begun {
            Ok(()) => self.migrate(connection, schema).await,
            Err(error) => Err(error),
        };
        connection.batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        made
    }

    /// The version of the tables; 0 where there are none.
    pub async fn version<S: Default>(&self, connection: &mut Connection<S>) -> Attempt<i32> {
        let Self { version_table, .. } = self;
        let there = format!("SELECT to_regclass('{version_table}') IS NOT NULL");
        if !connection.first(&there, &[]).await?.is_some_and(|row| row.get(0)) {
            return Ok(0);
        }
        let version = connection.first(&format!("SELECT max(version) FROM {version_table}"), &[]).await?;
        Ok(version.and_then(|row| row.get(0)).unwrap_or(0))
    }

    async fn migrate<S: Default>(
        &self,
        connection: &mut Connection<S>,
        schema: Option<&str>,
    ) -> Attempt<i32> {
        let (Self { version_table, migrations }, known) = (self, self.known());
        if let Some(schema) = schema {
            connection.batch(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"")).await?;
        }
        connection
            .batch(&format!("CREATE TABLE IF NOT EXISTS {version_table}(version integer NOT NULL)"))
            .await?;
        let found = self.version(connection).await?;
        for migration in migrations.iter().skip(found.max(0) as usize) {
            connection.batch(migration).await?;
        }
        if found < known {
            connection
                .batch(&format!("DELETE FROM {version_table}; INSERT INTO {version_table} VALUES ({known})"))
                .await?;
        }
        Ok(found.max(known))
    }
}
