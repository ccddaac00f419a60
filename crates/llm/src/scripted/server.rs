//! A scripted HTTP/1.1 server on loopback for tests and measurements: it records what it is asked, answers what a rule
//! says, and misbehaves at will.
//!
//! It keeps connections open, takes thousands at once, and closes all of them when it is dropped. It is no web server:
//! no TLS, no pipelining, no chunked requests.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub use super::replies::{Faults, continuing_replies, replies};
use crate::{Endpoint, Http};

/// Connections that may wait to be accepted; clients that start together connect together.
const BACKLOG: u32 = 4096;

/// What the server does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Status, one more header line or nothing, body.
    Say(u16, &'static str, String),
    /// Status 200 with this body, after a while.
    Late(Duration, String),
    /// Closes the connection without a word.
    Cut,
    /// Promises a body and closes the connection in its middle.
    CutBody,
    /// Never answers.
    Hang,
}

impl Act {
    /// Status 200 with this body.
    pub fn ok(body: &Value) -> Self {
        Self::Say(200, "", body.to_string())
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The path, such as `/v1/chat/completions`.
    pub path: String,
    /// The request's first line and headers.
    pub head: String,
    /// The body; null if it is not JSON.
    pub body: Value,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// The running server.
///
/// ```
/// use gradus_core::contracts::{Generate, GenerateRequest, Prompt};
/// use gradus_llm::Chat;
/// use gradus_llm::scripted::server::{Server, replies};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let server = Server::start(replies(|prompt, _, seed| format!("{prompt} with seed {seed}"))).await;
/// let model = Chat::new(server.open());
/// let request = GenerateRequest { n: 2, seed: 7, ..GenerateRequest::new(Prompt::Text("a word".into()), 16) };
/// let answer = model.generate(request).await.unwrap();
/// assert_eq!(answer.choices[1].text, "a word with seed 8");
/// assert_eq!((answer.usage.prompt_tokens, answer.usage.completion_tokens), (2, 10));
/// assert_eq!(server.seen().len(), 1);
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    log: Arc<Log>,
    task: Option<JoinHandle<()>>,
    stop: tokio::task::AbortHandle,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("connections", &self.connections).finish_non_exhaustive()
    }
}

type Rule = dyn Fn(usize, &Seen) -> Act + Send + Sync;

impl Server {
    /// A server at a free port of loopback, on the caller's runtime. `rule` gets each request with its number, from 0 on
    /// in order of arrival.
    ///
    /// # Panics
    /// If loopback has no free port.
    pub async fn start(rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::bind(([127, 0, 0, 1], 0).into(), rule).await.expect("loopback has a free port")
    }

    /// A server at this address.
    pub async fn bind(
        address: SocketAddr,
        rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = listen(address)?;
        let url = format!("http://{}", listener.local_addr()?);
        let log = Arc::new(Log::default());
        let task = tokio::spawn(accept(listener, log.clone(), Arc::new(rule)));
        Ok(Self { url, log, stop: task.abort_handle(), task: Some(task) })
    }

    /// A server on a runtime and a thread of its own, for tests without a runtime.
    ///
    /// # Panics
    /// If there is no thread or no port left.
    pub fn in_thread(rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be built").block_on(async move {
                let mut server = Self::start(rule).await;
                let task = server.task.take();
                send.send(server).ok();
                if let Some(task) = task {
                    task.await.ok();
                }
            });
        });
        receive.recv().expect("the server's thread starts")
    }

    /// Ends the server and its connections, and waits until they are gone. Dropping it only tells it to end, and so does
    /// this for a server in a thread of its own.
    pub async fn stop(mut self) {
        self.stop.abort();
        if let Some(task) = self.task.take() {
            task.await.ok();
        }
    }

    /// An endpoint of this server that loses no time over failures.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            timeout_seconds: 5.0,
            retries: 3,
            backoff_seconds: 0.001,
            ..Endpoint::new(self.url.clone(), "tiny")
        }
    }

    /// [`Server::endpoint`], opened.
    ///
    /// # Panics
    /// Not for any reason that lies in the server.
    pub fn open(&self) -> Http {
        Http::open(&self.endpoint()).expect("an endpoint without a key can be opened")
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of connections so far.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Most requests that were in work at the same time.
    pub fn peak(&self) -> usize {
        self.log.peak.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.abort();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that died comes back at the same address while old connections linger.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Dropping this future drops the connections' tasks.
async fn accept(listener: TcpListener, log: Arc<Log>, rule: Arc<Rule>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    log.connections.fetch_add(1, Ordering::SeqCst);
                    stream.set_nodelay(true).ok();
                    connections.spawn(serve(stream, log.clone(), rule.clone()));
                }
                // Out of file descriptors: some will be free again.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Log>, rule: Arc<Rule>) {
    while let Some(seen) = read(&mut stream).await {
        log.peak.fetch_max(log.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let number = {
            let mut all = log.seen.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(seen.clone());
            all.len() - 1
        };
        let goes_on = perform(&mut stream, rule(number, &seen), || {
            log.now.fetch_sub(1, Ordering::SeqCst);
        })
        .await;
        if !goes_on {
            return;
        }
    }
}

/// Whether the connection stays open. `done` is called when the request is no longer in work, before anything is said.
async fn perform(stream: &mut TcpStream, act: Act, done: impl Fn()) -> bool {
    let (status, header, body, length) = match act {
        Act::Say(status, header, body) => (status, header, body, None),
        Act::Late(delay, body) => {
            tokio::time::sleep(delay).await;
            (200, "", body, None)
        }
        Act::CutBody => (200, "", "{\"half".to_owned(), Some(1000)),
        Act::Cut => {
            done();
            return false;
        }
        Act::Hang => {
            // Until the client loses its patience.
            stream.read_u8().await.ok();
            done();
            return false;
        }
    };
    done();
    let promised = length.unwrap_or(body.len());
    let line_end = if header.is_empty() { "" } else { "\r\n" };
    let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {promised}\r\n{header}{line_end}\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.is_ok() && length.is_none()
}

/// The next request; nothing once the client is gone.
async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    Some(Seen { path, head, body: serde_json::from_slice(&bytes[end..]).unwrap_or(Value::Null) })
}
