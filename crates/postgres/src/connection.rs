//! One connection to the server: statements that are prepared once, transactions in one round trip, and which errors pass.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::address::Address;

/// What became of one attempt at a call.
pub type Attempt<T> = std::result::Result<T, tokio_postgres::Error>;

/// A statement's parameters.
pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection, with what its user remembers for as long as it lasts.
pub struct Connection<S = ()> {
    client: Client,
    /// Carries the bytes; ends with the client.
    carrier: JoinHandle<()>,
    prepared: HashMap<String, Statement>,
    /// What its user remembers.
    pub state: S,
}

impl<S: Default> Connection<S> {
    /// Connects.
    pub async fn open(address: &Address) -> Attempt<Self> {
        let (client, connection) = address.config.connect(address.tls.clone()).await?;
        let carrier = tokio::spawn(async move {
            // The client's next call has the error, too.
            let _ = connection.await;
        });
        Ok(Self { client, carrier, prepared: HashMap::new(), state: S::default() })
    }

    /// The client, for what is used once: copies, and statements that are not worth preparing.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        drop(self.client);
        let _ = self.carrier.await;
    }

    /// Runs statements without parameters or rows.
    pub async fn batch(&mut self, statements: &str) -> Attempt<()> {
        self.client.batch_execute(statements).await
    }

    /// The rows of one statement, which is a transaction of its own.
    pub async fn query(&mut self, sql: &str, parameters: Parameters<'_>) -> Attempt<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, parameters).await
    }

    /// The first row of one statement.
    pub async fn first(&mut self, sql: &str, parameters: Parameters<'_>) -> Attempt<Option<Row>> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }

    /// The rows of each of these statements, which are one transaction and one round trip.
    pub async fn transaction(
        &mut self,
        begin: &str,
        calls: &[(&str, Parameters<'_>)],
    ) -> Attempt<Vec<Vec<Row>>> {
        let mut statements = Vec::new();
        for (sql, _) in calls {
            statements.push(self.prepare(sql).await?);
        }
        let queries = calls.iter().zip(&statements);
        let queries = queries.map(|((_, parameters), statement)| self.client.query(statement, parameters));
        // They are sent in this order. After a failed statement the server refuses the others, and COMMIT undoes all.
        let (begun, rows, ended) = tokio::join!(
            biased;
            self.client.batch_execute(begin),
            join_all(queries),
            self.client.batch_execute("COMMIT")
        );
        begun?;
        let rows = rows.into_iter().collect::<Attempt<_>>()?;
        ended?;
        Ok(rows)
    }

    /// A statement that is prepared when it is used first.
    pub async fn prepare(&mut self, sql: &str) -> Attempt<Statement> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// What is to be done after an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The same call on the same connection may succeed: another transaction was in the way.
    Again,
    /// The connection is lost, or the server is not ready: a new connection may succeed.
    Reconnect,
    /// It will not pass.
    Lasts,
}

/// What is to be done after this error.
pub fn outlook(error: &tokio_postgres::Error) -> Outlook {
    if let Some(code) = error.code() {
        return match *code {
            SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE => Outlook::Again,
            SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::CANNOT_CONNECT_NOW
            | SqlState::TOO_MANY_CONNECTIONS => Outlook::Reconnect,
            // Class 08 is connections; 57 is what an operator does: the above, and closing idle sessions.
            ref code if code.code().starts_with("08") || code.code() == "57P05" => Outlook::Reconnect,
            _ => Outlook::Lasts,
        };
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            // A certificate that is refused is told as InvalidData.
            let is_refused = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
            return if is_refused { Outlook::Lasts } else { Outlook::Reconnect };
        }
        cause = inner.source();
    }
    let is_timeout = error.to_string().contains("timeout");
    if error.is_closed() || is_timeout { Outlook::Reconnect } else { Outlook::Lasts }
}

/// Why it failed and what to do, in words that hold no password.
pub fn why(error: &tokio_postgres::Error, address: &Address) -> String {
    let Some(said) = error.as_db_error() else {
        let cause = error.source().map(|source| format!(": {}", gradus_http::cause(source)));
        let advice = "check that the server runs and that its host and port are right";
        return format!("{error}{}; {advice}", cause.unwrap_or_default());
    };
    let database = || address.config.get_dbname().unwrap_or("NAME");
    let advice = match *said.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password of the address".to_owned()
        }
        SqlState::INVALID_CATALOG_NAME => format!("create it with `createdb {}`", database()),
        SqlState::INSUFFICIENT_PRIVILEGE => "let its owner grant this user CREATE on the schema".to_owned(),
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "it is read-only; name the server that takes writes".to_owned()
        }
        SqlState::INVALID_SCHEMA_NAME => "name a schema of the database".to_owned(),
        ref code => format!("SQLSTATE {}", code.code()),
    };
    format!("{}; {advice}", said.message())
}
