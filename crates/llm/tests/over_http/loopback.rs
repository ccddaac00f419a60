//! A small HTTP/1.1 server on loopback: it records what it is asked, answers what the test says, and misbehaves at will.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gradus_llm::{Endpoint, Http};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with a request.
pub(crate) enum Act {
    /// Status, one more header line or nothing, body.
    Say(u16, &'static str, String),
    /// The same, after a while.
    Late(Duration, String),
    /// Closes the connection without a word.
    Cut,
    /// Promises a body and closes the connection in its middle.
    CutBody,
}

impl Act {
    pub(crate) fn ok(body: &Value) -> Self {
        Self::Say(200, "", body.to_string())
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Log>,
}

type Rule = dyn Fn(usize, &Seen) -> Act + Send + Sync;

impl Server {
    /// `rule` gets each request with its number, from 0 on in order of arrival.
    pub(crate) async fn start(rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Log::default());
        let rule: Arc<Rule> = Arc::new(rule);
        let shared = log.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, shared.clone(), rule.clone()));
            }
        });
        Self { url, log }
    }

    /// An endpoint of this server that loses no time.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            timeout_seconds: 5.0,
            retries: 3,
            backoff_seconds: 0.001,
            ..Endpoint::new(self.url.clone(), "tiny")
        }
    }

    pub(crate) fn open(&self) -> Http {
        Http::open(&self.endpoint()).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Most requests that were in work at the same time.
    pub(crate) fn peak(&self) -> usize {
        self.log.peak.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Log>, rule: Arc<Rule>) {
    while let Some(seen) = read(&mut stream).await {
        log.peak.fetch_max(log.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let number = {
            let mut all = log.seen.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        let act = rule(number, &seen);
        let (status, header, body) = match act {
            Act::Say(status, header, body) => (status, header, body),
            Act::Late(delay, body) => {
                tokio::time::sleep(delay).await;
                (200, "", body)
            }
            Act::Cut => (0, "", String::new()),
            Act::CutBody => (200, "", "{\"half".to_owned()),
        };
        log.now.fetch_sub(1, Ordering::SeqCst);
        let length = if body == "{\"half" { 1000 } else { body.len() };
        let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
        let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\n{header}\r\n");
        if status == 0
            || stream.write_all(format!("{head}{body}").as_bytes()).await.is_err()
            || length != body.len()
        {
            return;
        }
    }
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
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Some(Seen { path, head, body: serde_json::from_slice(&bytes[end..]).unwrap() })
}
