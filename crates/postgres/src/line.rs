//! Calls that are made again: a call that meets a lost connection is made on a new one, until the server has been away for
//! too long. Every call must be such that making it twice does no harm.

use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::address::Address;
use crate::connection::{Attempt, Connection, Outlook, outlook, why};

/// How long a server is tried that cuts the first connection.
const CUT: Duration = Duration::from_secs(10);

/// Pauses before a call is made again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Why a call has no answer, in words that hold no password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The server refused it, or cannot be connected to.
    #[error("{why}")]
    Refused {
        /// Why, and what to do.
        why: String,
    },
    /// The server has been away for too long.
    #[error("it could not be reached for {seconds} s: {why}")]
    Away {
        /// How long it was waited for.
        seconds: u64,
        /// Why.
        why: String,
    },
    /// Whoever made the call has closed the line.
    #[error("it was closed")]
    Closed,
}

/// The way to the server: a connection, or what it takes to make one.
pub struct Line<S = ()> {
    address: Address,
    connection: Option<Connection<S>>,
    /// How long the server may be away.
    patience: Duration,
    /// Since when it is.
    away: Option<Instant>,
    /// Ends when its owner is closed.
    closing: watch::Receiver<()>,
}

impl<S: Default> Line<S> {
    /// Connects for the first time and does what `prepare` says. A server that is starting or has too many connections is
    /// waited for, and one that cuts the connection for a while; one that is not there is not: the address may be wrong.
    pub async fn open<T>(
        address: Address,
        patience: Duration,
        closing: watch::Receiver<()>,
        prepare: impl AsyncFn(&mut Connection<S>, &Address) -> Attempt<T>,
    ) -> Result<(Self, T), CallError> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        let open = async || {
            let mut connection = Connection::open(&address).await?;
            let prepared = prepare(&mut connection, &address).await?;
            Ok((connection, prepared))
        };
        loop {
            let error: tokio_postgres::Error = match open().await {
                Ok((connection, prepared)) => {
                    let line = Self { address, connection: Some(connection), patience, away: None, closing };
                    return Ok((line, prepared));
                }
                Err(error) => error,
            };
            let longest = if error.is_closed() { CUT } else { patience };
            let may_pass = (error.code().is_some() || error.is_closed()) && outlook(&error) != Outlook::Lasts;
            if !may_pass || began.elapsed() + pause >= longest {
                return Err(CallError::Refused { why: why(&error, &address) });
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// Makes a call until it succeeds or cannot.
    pub async fn run(
        &mut self,
        mut call: impl AsyncFnMut(&mut Connection<S>) -> Attempt<()>,
    ) -> Result<(), CallError> {
        let mut pause = PAUSES.0;
        loop {
            let error = match self.attempt(&mut call).await? {
                Ok(()) => {
                    self.away = None;
                    return Ok(());
                }
                Err(error) => error,
            };
            let why = || why(&error, &self.address);
            match outlook(&error) {
                Outlook::Lasts => return Err(CallError::Refused { why: why() }),
                Outlook::Again => {}
                Outlook::Reconnect => self.connection = None,
            }
            let away = self.away.get_or_insert_with(Instant::now).elapsed();
            if away + pause > self.patience {
                return Err(CallError::Away { seconds: self.patience.as_secs(), why: why() });
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.closing.changed() => return Err(CallError::Closed),
            }
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        if let Some(connection) = self.connection {
            connection.close().await;
        }
    }

    /// Makes a call once, on a new connection if need be.
    async fn attempt(
        &mut self,
        call: &mut impl AsyncFnMut(&mut Connection<S>) -> Attempt<()>,
    ) -> Result<Attempt<()>, CallError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let made = tokio::select! {
                    made = Connection::open(&self.address) => made,
                    _ = self.closing.changed() => return Err(CallError::Closed),
                };
                match made {
                    Ok(connection) => connection,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let outcome = call(&mut connection).await;
        self.connection = Some(connection);
        Ok(outcome)
    }
}
