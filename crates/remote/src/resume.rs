//! A file's bytes as they come from its server, asked for again from where a connection ended.

use std::fmt::Display;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::runtime::{Builder, Runtime};

use crate::{Error, Result};

/// Attempts in a row that brought nothing.
const ATTEMPTS: u32 = 6;
/// Pieces that wait for the reader.
const PIECES: usize = 16;

/// How long a server may take to accept a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(20);

/// How long a server may be silent: `GRADUS_REMOTE_TIMEOUT` in seconds.
pub(crate) fn silence() -> Duration {
    let asked = std::env::var("GRADUS_REMOTE_TIMEOUT").ok().and_then(|text| text.trim().parse().ok());
    Duration::from_secs(asked.filter(|seconds| *seconds > 0).unwrap_or(60))
}

/// Bytes from a place on, until they end or the connection does.
pub(crate) struct Piece {
    /// The bytes.
    pub(crate) stream: Pin<Box<dyn Stream<Item = std::result::Result<Bytes, String>> + Send>>,
    /// The file's whole size, where the server says it.
    pub(crate) size: Option<u64>,
}

/// Why a server does not send a file.
pub(crate) enum Refusal {
    /// It may do so later.
    Passing(String),
    /// It will not.
    Final(Error),
}

/// A server that sends a file from any place on.
#[async_trait::async_trait]
pub(crate) trait Resumable: Send + 'static {
    /// Asks for the bytes from `at` on.
    async fn from(&mut self, at: u64) -> std::result::Result<Piece, Refusal>;
}

/// Runs a future to its end on a thread of its own, so that callers may be anywhere, also inside another runtime or in a
/// process that was forked.
pub(crate) fn wait<T, F>(work: impl FnOnce() -> F + Send) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
{
    let run = || runtime()?.block_on(work());
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|_| Err(Error::Remote("a request ended in a bug of Gradus".to_owned())))
}

fn runtime() -> Result<Runtime> {
    let failed = |error| Error::Remote(format!("no thread for requests can be started: {error}"));
    Builder::new_current_thread().enable_all().build().map_err(failed)
}

/// Pauses between attempts.
pub(crate) async fn pause(attempt: u32) {
    tokio::time::sleep(Duration::from_millis(100 << attempt.min(6))).await;
}

/// Reads a file of `size` bytes, if that is known, on a thread that is ahead of the reader.
pub(crate) fn read(
    address: impl Display,
    size: Option<u64>,
    open: impl AsyncFnOnce() -> Result<Box<dyn Resumable>> + Send + 'static,
) -> Box<dyn Read + Send> {
    let (sender, pieces) = sync_channel(PIECES);
    let address = address.to_string();
    let failed = sender.clone();
    let work = move || {
        let done = runtime().and_then(|runtime| {
            runtime.block_on(async {
                let mut source = open().await?;
                send_all(&address, size, &mut *source, &sender).await
            })
        });
        if let Err(error) = done {
            // Those who read say what they read.
            let (text, named) = (error.to_string(), format!("{address}: "));
            let _ = sender.send(Err(text.strip_prefix(&named).unwrap_or(&text).to_owned()));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("remote file".to_owned()).spawn(work) {
        let _ = failed.send(Err(format!("no thread for requests can be started: {error}")));
    }
    Box::new(Pieces { pieces, piece: Bytes::new() })
}

type Sent = std::result::Result<Bytes, String>;

async fn send_all(
    address: &str,
    mut size: Option<u64>,
    source: &mut dyn Resumable,
    sender: &SyncSender<Sent>,
) -> Result<()> {
    let (mut at, mut fruitless) = (0, 0);
    loop {
        let reason = match source.from(at).await {
            Err(Refusal::Final(error)) => return Err(error),
            Err(Refusal::Passing(reason)) => reason,
            Ok(mut piece) => {
                size = size.or(piece.size);
                loop {
                    match piece.stream.next().await {
                        Some(Ok(bytes)) if bytes.is_empty() => {}
                        Some(Ok(bytes)) => {
                            (at, fruitless) = (at + bytes.len() as u64, 0);
                            if size.is_some_and(|size| at > size) {
                                return Err(Error::new(
                                    &address,
                                    "its server sends more than the size it announced",
                                ));
                            }
                            // The reader has enough.
                            if sender.send(Ok(bytes)).is_err() {
                                return Ok(());
                            }
                        }
                        Some(Err(reason)) => break reason,
                        None if size.is_none_or(|size| at == size) => return Ok(()),
                        None => break "the connection ended early".to_owned(),
                    }
                }
            }
        };
        if size == Some(at) {
            return Ok(());
        }
        fruitless += 1;
        if fruitless == ATTEMPTS {
            let of = size.map(|size| format!(" of {size}")).unwrap_or_default();
            return Err(Error::new(&address, format!("gave up after {at}{of} bytes: {reason}")));
        }
        pause(fruitless).await;
    }
}

struct Pieces {
    pieces: Receiver<Sent>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            match self.pieces.recv() {
                Ok(Ok(piece)) => self.piece = piece,
                Ok(Err(reason)) => return Err(io::Error::other(reason)),
                // All was sent: the other side ends without a word only then.
                Err(_) => return Ok(0),
            }
        }
        let taken = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of ten bytes that sends three at a time.
    struct Scripted(Vec<Option<&'static str>>);

    #[async_trait::async_trait]
    impl Resumable for Scripted {
        async fn from(&mut self, at: u64) -> std::result::Result<Piece, Refusal> {
            if let Some(Some(reason)) = self.0.pop() {
                return Err(Refusal::Passing(reason.to_owned()));
            }
            let end = (at as usize + 3).min(10);
            let bytes = Bytes::from_static(&b"0123456789"[at as usize..end]);
            Ok(Piece { stream: Box::pin(futures_util::stream::iter([Ok(bytes)])), size: Some(10) })
        }
    }

    fn read_all(faults: Vec<Option<&'static str>>) -> io::Result<String> {
        let mut input =
            read("s3://b/k", Some(10), async move || Ok(Box::new(Scripted(faults)) as Box<dyn Resumable>));
        let mut text = String::new();
        input.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn goes_on_where_it_was_cut() {
        assert_eq!(read_all(vec![None, Some("500"), None, Some("reset")]).unwrap(), "0123456789");
    }

    #[test]
    fn gives_up_with_a_reason() {
        let error = read_all(vec![Some("503 Slow Down"); 20]).unwrap_err();
        assert_eq!(error.to_string(), "gave up after 0 of 10 bytes: 503 Slow Down");
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        assert!(wait(|| async { Ok(1) }).is_ok());
        assert!(wait::<(), _>(|| async { panic!("as a bug would") }).is_err());
    }
}
