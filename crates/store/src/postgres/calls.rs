//! The thread that owns the connection, and the calls that wait for it.
//!
//! Results that wait together are kept by one statement. Every call is such that making it twice does no harm.

use std::time::Duration;

use gradus_postgres::{Address, Call, CallError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::tasks::{self, Finished};
use super::{Line, Looked, schema};
use crate::error::{Error, Result};

/// Calls that are taken from the queue at most.
const TOGETHER: usize = 4096;

/// Bytes of results that go to the server in one statement, more or less.
const BYTES_AT_ONCE: usize = 16 << 20;

/// How long a result waits for others: those of one wave arrive within it, and a commit to the disk takes longer.
const GATHER: Duration = Duration::from_millis(1);

/// A call that waits.
pub(super) enum Waiting {
    /// A result to keep.
    Finish(Finished, oneshot::Sender<Result<(), CallError>>),
    /// Anything else.
    Other(Box<dyn Call<Looked>>),
}

/// Connects for the first time and makes the tables.
pub(super) async fn open(address: Address, patience: Duration, closing: watch::Receiver<()>) -> Result<Line> {
    let shown = address.shown.clone();
    let opened = Line::open(address, patience, closing, async |connection, address| {
        schema::TABLES.prepare(connection, address.schema.as_deref()).await
    });
    match opened.await {
        Ok((line, schema::VERSION)) => Ok(line),
        Ok((_, later)) => {
            let known = schema::VERSION;
            let why = format!(
                "its tables have version {later}, this program knows version {known}; use a newer program"
            );
            Err(Error::Connect { address: shown, why })
        }
        Err(CallError::Refused { why }) => Err(Error::Connect { address: shown, why }),
        Err(other) => Err(refused(&shown, other)),
    }
}

/// The error of a call.
pub(super) fn refused(address: &str, error: CallError) -> Error {
    let address = address.to_owned();
    match error {
        CallError::Refused { why } => Error::Server { address, why },
        CallError::Away { seconds, why } => Error::Away { address, seconds, why },
        CallError::Closed => Error::Server { address, why: "it was closed".to_owned() },
    }
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
    line.close().await;
}

/// Keeps results, and answers those who brought them.
async fn finish(
    line: &mut Line,
    results: &mut Vec<Finished>,
    callers: &mut Vec<oneshot::Sender<Result<(), CallError>>>,
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
