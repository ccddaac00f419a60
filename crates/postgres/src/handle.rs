//! A line on a thread of its own. A thread and not a task: calls come from several runtimes, some of which live for one
//! call only.

use std::pin::Pin;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::address::Address;
use crate::connection::{Attempt, Connection};
use crate::line::{CallError, Line};

/// A call that can be made several times and is answered once.
pub trait Call<S = ()>: Send {
    /// Makes it.
    fn attempt<'a>(
        &'a mut self,
        connection: &'a mut Connection<S>,
    ) -> Pin<Box<dyn Future<Output = Attempt<()>> + 'a>>;
    /// Answers whoever made it.
    fn answer(self: Box<Self>, outcome: Result<(), CallError>);
}

/// A call by a function.
pub struct By<T, F> {
    /// What is called.
    pub function: F,
    /// What it gave.
    pub value: Option<T>,
    /// Who waits.
    pub caller: oneshot::Sender<Result<T, CallError>>,
}

impl<S, T: Send, F: AsyncFn(&mut Connection<S>) -> Attempt<T> + Send> Call<S> for By<T, F> {
    fn attempt<'a>(
        &'a mut self,
        connection: &'a mut Connection<S>,
    ) -> Pin<Box<dyn Future<Output = Attempt<()>> + 'a>> {
        Box::pin(async move {
            self.value = Some((self.function)(connection).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<(), CallError>) {
        let value = match (outcome, self.value) {
            (Ok(()), Some(value)) => Ok(value),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return,
        };
        // Whoever asked may have gone: nobody needs the answer then.
        let _ = self.caller.send(value);
    }
}

/// A connection that a thread owns. Calls are made one after the other.
pub struct Handle<S = ()> {
    address: String,
    /// None once it is being closed.
    calls: Option<mpsc::UnboundedSender<Box<dyn Call<S>>>>,
    closing: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Makes the calls that wait, unless the server is away, and closes the connection.
impl<S> Drop for Handle<S> {
    fn drop(&mut self) {
        self.calls = None;
        self.closing = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

impl<S> std::fmt::Debug for Handle<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Handle").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<S: Default + Send + 'static> Handle<S> {
    /// Connects; calls wait that long for a server that is away. With no patience, the first error of the connection ends
    /// the call.
    pub async fn open(address: Address, patience: Duration) -> Result<Self, CallError> {
        let shown = address.shown.clone();
        let (calls, mut waiting) = mpsc::unbounded_channel::<Box<dyn Call<S>>>();
        let (closing, is_closing) = watch::channel(());
        let (connected, outcome) = oneshot::channel();
        let refuse = |error: std::io::Error| CallError::Refused { why: error.to_string() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refuse)?;
        let thread = std::thread::Builder::new().name("postgres".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async move {
                let opened = Line::open(address, patience, is_closing, async |_, _| Ok(())).await;
                let (mut line, outcome) = match opened {
                    Ok((line, ())) => (line, Ok(())),
                    Err(error) => {
                        let _ = connected.send(Err(error));
                        return;
                    }
                };
                if connected.send(outcome).is_err() {
                    return;
                }
                while let Some(mut call) = waiting.recv().await {
                    let outcome = line.run(async |connection| call.attempt(connection).await).await;
                    call.answer(outcome);
                }
                line.close().await;
            });
        });
        let thread = thread.map_err(refuse)?;
        outcome.await.map_err(|_| CallError::Closed)??;
        Ok(Self { address: shown, calls: Some(calls), closing: Some(closing), thread: Some(thread) })
    }

    /// The address without the password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a call on the thread that owns the connection, several times if need be.
    pub fn run<T: Send + 'static, F>(
        &self,
        function: F,
    ) -> impl Future<Output = Result<T, CallError>> + Send + use<T, S, F>
    where
        F: AsyncFn(&mut Connection<S>) -> Attempt<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let call: Box<dyn Call<S>> = Box::new(By { function, value: None, caller });
        let is_sent = self.calls.as_ref().is_some_and(|calls| calls.send(call).is_ok());
        async move {
            if !is_sent {
                return Err(CallError::Closed);
            }
            answer.await.map_err(|_| CallError::Closed)?
        }
    }
}
