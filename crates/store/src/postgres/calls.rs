//! The thread that owns the connection, and the calls that wait for it.
//!
//! A thread and not a task: calls come from several runtimes, some of which live for one call only. Results that wait
//! together are kept by one statement. A call that meets a lost connection is made again on a new one, until the server
//! has been away for too long; every call is such that making it twice does no harm.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::address::Address;
use super::connection::{Attempt, Connection, Outlook, outlook, refused, unusable, why};
use super::schema;
use super::tasks::{self, Finished};
use crate::error::{Error, Result};

/// Calls that are taken from the queue at most.
const TOGETHER: usize = 4096;

/// Bytes of results that go to the server in one statement, more or less.
const BYTES_AT_ONCE: usize = 16 << 20;

/// How long a server is tried that cuts the first connection.
const CUT: Duration = Duration::from_secs(10);

/// How long a result waits for others: those of one wave arrive within it, and a commit to the disk takes longer.
const GATHER: Duration = Duration::from_millis(1);

/// Pauses before a call is made again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// A call that waits.
pub(super) enum Waiting {
    /// A result to keep.
    Finish(Finished, oneshot::Sender<Result<()>>),
    /// Anything else.
    Other(Box<dyn Call>),
}

/// A call that can be made several times and is answered once.
pub(super) trait Call: Send {
    fn attempt<'a>(
        &'a mut self,
        connection: &'a mut Connection,
    ) -> Pin<Box<dyn Future<Output = Attempt<()>> + 'a>>;
    fn answer(self: Box<Self>, outcome: Result<()>);
}

/// A call by a function.
pub(super) struct By<T, F> {
    pub(super) function: F,
    pub(super) value: Option<T>,
    pub(super) caller: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: AsyncFn(&mut Connection) -> Attempt<T> + Send> Call for By<T, F> {
    fn attempt<'a>(
        &'a mut self,
        connection: &'a mut Connection,
    ) -> Pin<Box<dyn Future<Output = Attempt<()>> + 'a>> {
        Box::pin(async move {
            self.value = Some((self.function)(connection).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let value = match (outcome, self.value) {
            (Ok(()), Some(value)) => Ok(value),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return,
        };
        // Whoever asked may have gone: nobody needs the answer then.
        let _ = self.caller.send(value);
    }
}

/// The way to the server: a connection, or what it takes to make one.
pub(super) struct Line {
    address: Address,
    connection: Option<Connection>,
    /// How long the server may be away.
    patience: Duration,
    /// Since when it is.
    away: Option<Instant>,
    /// Ends when the store is closed.
    closing: watch::Receiver<()>,
}

impl Line {
    /// Connects for the first time and makes the tables. A server that is starting or has too many connections is waited
    /// for, and one that cuts the connection for a while; one that is not there is not: the address may be wrong.
    pub(super) async fn open(
        address: Address,
        patience: Duration,
        closing: watch::Receiver<()>,
    ) -> Result<Self> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            match open(&address).await {
                Ok((connection, schema::VERSION)) => {
                    return Ok(Self { address, connection: Some(connection), patience, away: None, closing });
                }
                Ok((_, later)) => {
                    let known = schema::VERSION;
                    let why = format!(
                        "its tables have version {later}, this program knows version {known}; use a newer program"
                    );
                    return Err(Error::Connect { address: address.shown, why });
                }
                Err(error)
                    if (error.code().is_some() || error.is_closed())
                        && outlook(&error) != Outlook::Lasts
                        && began.elapsed() + pause < if error.is_closed() { CUT } else { patience } =>
                {
                    sleep(pause).await;
                    pause = (2 * pause).min(PAUSES.1);
                }
                Err(error) => return Err(unusable(&error, &address)),
            }
        }
    }

    /// Makes a call until it succeeds or cannot.
    async fn run(&mut self, mut call: impl AsyncFnMut(&mut Connection) -> Attempt<()>) -> Result<()> {
        let mut pause = PAUSES.0;
        loop {
            let error = match self.attempt(&mut call).await? {
                Ok(()) => {
                    self.away = None;
                    return Ok(());
                }
                Err(error) => error,
            };
            match outlook(&error) {
                Outlook::Lasts => return Err(refused(&error, &self.address)),
                Outlook::Again => {}
                Outlook::Reconnect => self.connection = None,
            }
            let away = self.away.get_or_insert_with(Instant::now).elapsed();
            if away + pause > self.patience {
                let address = self.address.shown.clone();
                return Err(Error::Away {
                    address,
                    seconds: self.patience.as_secs(),
                    why: why(&error, &self.address),
                });
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.closing.changed() => return Err(self.closed()),
            }
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// Makes a call once, on a new connection if need be.
    async fn attempt(
        &mut self,
        call: &mut impl AsyncFnMut(&mut Connection) -> Attempt<()>,
    ) -> Result<Attempt<()>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let made = tokio::select! {
                    made = Connection::open(&self.address) => made,
                    _ = self.closing.changed() => return Err(self.closed()),
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

    fn closed(&self) -> Error {
        closed(&self.address.shown)
    }
}

/// The error of a store that is closed.
pub(super) fn closed(address: &str) -> Error {
    Error::Server { address: address.to_owned(), why: "it was closed".to_owned() }
}

/// A connection, and the version of the tables there.
async fn open(address: &Address) -> Attempt<(Connection, i32)> {
    let mut connection = Connection::open(address).await?;
    let version = schema::prepare(&mut connection, address.schema.as_deref()).await?;
    Ok((connection, version))
}

/// Makes calls until the store is closed and none waits.
pub(super) async fn serve(mut line: Line, mut waiting: mpsc::UnboundedReceiver<Waiting>) {
    let mut taken = Vec::new();
    while waiting.recv_many(&mut taken, TOGETHER).await > 0 {
        if taken.iter().any(|call| matches!(call, Waiting::Finish(..))) {
            sleep(GATHER).await;
            while taken.len() < TOGETHER
                && let Ok(call) = waiting.try_recv()
            {
                taken.push(call);
            }
        }
        let (mut results, mut callers, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut others = Vec::new();
        for call in taken.drain(..) {
            match call {
                Waiting::Other(call) => others.push(call),
                Waiting::Finish(finished, caller) => {
                    bytes += finished.result.len();
                    results.push(finished);
                    callers.push(caller);
                    if bytes > BYTES_AT_ONCE {
                        finish(&mut line, &mut results, &mut callers).await;
                        bytes = 0;
                    }
                }
            }
        }
        finish(&mut line, &mut results, &mut callers).await;
        for mut call in others {
            let outcome = line.run(async |connection| call.attempt(connection).await).await;
            call.answer(outcome);
        }
    }
    if let Some(connection) = line.connection {
        connection.close().await;
    }
}

/// Keeps results, and answers those who brought them.
async fn finish(
    line: &mut Line,
    results: &mut Vec<Finished>,
    callers: &mut Vec<oneshot::Sender<Result<()>>>,
) {
    if results.is_empty() {
        return;
    }
    let outcome = line.run(async |connection| tasks::finish(connection, results).await).await;
    results.clear();
    for caller in callers.drain(..) {
        let _ = caller.send(outcome.clone());
    }
}
