//! A small Hugging Face hub on the loopback interface, with the faults that real ones have.
//!
//! It speaks what a download needs: the description under `/api/models/ID/revision/REV`, and files under
//! `/ID/resolve/REV/FILE` with ETag, X-Repo-Commit and ranges. Large files are sent by another host, as on the real hub:
//! a redirect from 127.0.0.1 to localhost, which must not be given the token.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest, Sha256};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong while one file's content is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The connection is cut after so many bytes.
    Cut(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
}

#[derive(Default)]
pub(crate) struct State {
    /// Name and content; what ends in `.safetensors` or `.gguf` is large.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// Files that are listed but cannot be had.
    pub(crate) missing: Vec<String>,
    /// The token without which nothing is given.
    pub(crate) token: Option<String>,
    /// One fault for each time that a large file's content is asked for.
    pub(crate) faults: VecDeque<Fault>,
    /// The content of large files is damaged on its way.
    pub(crate) damaged: bool,
    /// Ranges are ignored.
    pub(crate) without_ranges: bool,
    /// Every ETag is this.
    pub(crate) etag: Option<String>,
    /// Every answer is this page.
    pub(crate) page: Option<String>,
    /// `METHOD path range token` of every request.
    pub(crate) asked: Vec<String>,
}

pub(crate) struct Hub {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    path: String,
    begin: Option<usize>,
    token: Option<String>,
}

impl Hub {
    /// A hub that has these files, whatever model is asked for.
    pub(crate) fn start(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that goes away in the middle is no failure of the test.
                std::thread::spawn(move || answer(&stream, &state, port).ok());
            }
        });
        Self { address: format!("http://127.0.0.1:{port}"), state }
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// The requests since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.asked))
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Request { method, path, begin: None, token: None };
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "range" => {
                let begin = value.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
                request.begin = begin.and_then(|begin| begin.parse().ok());
            }
            "authorization" => request.token = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    Ok(request)
}

fn send(mut stream: &TcpStream, status: &str, headers: &[String], body: &[u8]) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for header in headers {
        text += &format!("{header}\r\n");
    }
    stream.write_all(format!("{text}\r\n").as_bytes())?;
    stream.write_all(body)
}

fn answer(stream: &TcpStream, state: &Mutex<State>, port: u16) -> std::io::Result<()> {
    let request = read(stream)?;
    let mut state = state.lock().unwrap();
    let begin = request.begin.map_or_else(String::new, |begin| format!(" from {begin}"));
    let with = request.token.as_ref().map_or_else(String::new, |token| format!(" with {token}"));
    state.asked.push(format!("{} {}{begin}{with}", request.method, request.path));
    let length = |body: &[u8]| format!("Content-Length: {}", body.len());
    if let Some(page) = &state.page {
        return send(stream, "200 OK", &[length(page.as_bytes())], page.as_bytes());
    }
    if let Some(file) = request.path.strip_prefix("/cdn/") {
        return content(stream, file, &request, state);
    }
    if state.token.is_some() && request.token != state.token {
        return send(stream, "401 Unauthorized", &["Content-Length: 0".to_owned()], b"");
    }
    if request.path.starts_with("/api/models/") {
        let siblings: Vec<_> =
            state.files.iter().map(|(name, _)| serde_json::json!({"rfilename": name})).collect();
        let about = serde_json::json!({"sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}});
        let body = about.to_string();
        return send(stream, "200 OK", &[length(body.as_bytes())], body.as_bytes());
    }
    let file = request.path.split_once(&format!("/resolve/{COMMIT}/")).map_or("", |(_, file)| file);
    let found = state.files.iter().find(|(name, _)| name == file && !state.missing.contains(name));
    let Some((name, bytes)) = found.cloned() else {
        return send(stream, "404 Not Found", &["Content-Length: 0".to_owned()], b"");
    };
    let commit = format!("X-Repo-Commit: {COMMIT}");
    let etag = |own: String| state.etag.clone().unwrap_or(own);
    if name.ends_with(".safetensors") || name.ends_with(".gguf") {
        let headers = [
            commit,
            format!("X-Linked-Etag: \"{}\"", etag(sha256(&bytes))),
            format!("X-Linked-Size: {}", bytes.len()),
            format!("Location: http://localhost:{port}/cdn/{name}"),
            "Content-Length: 0".to_owned(),
        ];
        return send(stream, "302 Found", &headers, b"");
    }
    // Any 40 digits will do for what Git calls a small file.
    let headers = [commit, format!("ETag: \"{}\"", etag(sha256(&bytes)[..40].to_owned())), length(&bytes)];
    let body = if request.method == "HEAD" { &[][..] } else { &bytes };
    send(stream, "200 OK", &headers, body)
}

/// The other host, which has large files only.
fn content(
    stream: &TcpStream,
    file: &str,
    request: &Request,
    mut state: std::sync::MutexGuard<'_, State>,
) -> std::io::Result<()> {
    let (_, mut bytes) = state.files.iter().find(|(name, _)| name == file).cloned().unwrap();
    if state.damaged {
        bytes[0] ^= 0xFF;
    }
    let fault = state.faults.pop_front();
    let begin = request.begin.filter(|_| !state.without_ranges);
    drop(state);
    let whole = bytes.len();
    let rest = &bytes[begin.unwrap_or(0).min(whole)..];
    let mut headers = vec![format!("Content-Length: {}", rest.len())];
    if let Some(begin) = begin {
        headers.push(format!("Content-Range: bytes {begin}-{}/{whole}", whole - 1));
    }
    let status = match begin {
        Some(begin) if begin >= whole => {
            return send(stream, "416 Range Not Satisfiable", &["Content-Length: 0".to_owned()], b"");
        }
        Some(_) => "206 Partial Content",
        None => "200 OK",
    };
    match fault {
        None => send(stream, status, &headers, rest),
        Some(Fault::Cut(length)) => send(stream, status, &headers, &rest[..length.min(rest.len())]),
        Some(Fault::Stall(length)) => {
            send(stream, status, &headers, &rest[..length])?;
            std::thread::sleep(Duration::from_secs(50));
            Ok(())
        }
    }
}
