//! HTTP for the hub: what a file is, and its bytes, resumed after a cut.
//!
//! A silent server is given up, a retry after a resume asks for what is missing only, sums are compared, and the
//! platform's certificates are trusted, so that a company's proxy works.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use gradus_http::{USER_AGENT, Url, cause, is_loopback, tls};
use reqwest::blocking::{Client as Connections, RequestBuilder, Response};
use reqwest::{StatusCode, redirect};
use serde_json::Value;

use super::Events;
use super::store::Store;
use crate::{Error, Result};

/// A silent server is given up after this: before its answer, or between two pieces of it.
const SILENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(20);
/// Attempts in a row that brought nothing.
const ATTEMPTS: u32 = 4;
/// A description of a repository is never larger.
const DESCRIPTION: u64 = 64 << 20;

pub(super) struct Client {
    /// Follows redirects, without the token where they lead to another host.
    following: Connections,
    /// Shows a redirect instead of following it.
    staying: Connections,
    endpoint: String,
    token: Option<String>,
}

/// What the hub says about a file before it sends it.
#[derive(Debug)]
pub(super) struct Remote {
    /// The name of the file's content: a sha256 for large files, a Git hash for small ones.
    pub(super) etag: String,
    pub(super) size: u64,
}

impl Client {
    pub(super) fn new(store: &Store) -> Result<Self> {
        Ok(Self {
            following: connections(&store.endpoint, redirect::Policy::default())?,
            staying: connections(&store.endpoint, redirect::Policy::none())?,
            endpoint: store.endpoint.clone(),
            token: store.token.clone(),
        })
    }

    /// The hub's description of a repository at a revision.
    pub(super) fn describe(&self, id: &str, revision: &str) -> Result<Value> {
        let url = format!("{}/api/models/{id}/revision/{}", self.endpoint, revision.replace('/', "%2F"));
        let response = self.send(self.following.get(&url)).map_err(|error| self.unreachable(&error))?;
        self.refuse(response.status(), id, revision, None)?;
        let mut body = Vec::new();
        let read = response.take(DESCRIPTION).read_to_end(&mut body);
        read.map_err(|error| self.unreachable(&error))?;
        gradus_core::json::from_slice(&body).map_err(|_| {
            Error::Fetch(format!(
                "{} does not speak the hub's protocol: its description of {id} is not JSON",
                self.endpoint
            ))
        })
    }

    /// Asks for a file's size and name without its content.
    pub(super) fn about(&self, id: &str, commit: &str, file: &str) -> Result<Remote> {
        let mut url = self.url(id, commit, file);
        for _ in 0..5 {
            // The first answer has the headers that count; where it sends us to is another server's business, unless it
            // only moves the repository to another name.
            let response = self.send(self.staying.head(&url)).map_err(|error| self.unreachable(&error))?;
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let moved = header("location").filter(|to| to.starts_with('/') && !to.starts_with("//"));
            if let (true, Some(to)) = (response.status().is_redirection(), moved) {
                url = format!("{}{to}", self.endpoint);
                continue;
            }
            if !response.status().is_redirection() {
                self.refuse(response.status(), id, commit, Some(file))?;
            }
            let etag = header("x-linked-etag")
                .or_else(|| header("etag"))
                .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
            let size = header("x-linked-size").or_else(|| header("content-length"));
            let size = size.and_then(|size| size.parse().ok());
            return match (etag, size) {
                (Some(etag), Some(size)) if is_plain(&etag) => Ok(Remote { etag, size }),
                _ => Err(Error::Fetch(format!(
                    "{} does not speak the hub's protocol: no usable ETag or size for {file}",
                    self.endpoint
                ))),
            };
        }
        Err(Error::Fetch(format!("{} moves {file} in circles", self.endpoint)))
    }

    /// Downloads a file to `part`, going on where an earlier attempt stopped.
    pub(super) fn download(
        &self,
        (id, commit, file): (&str, &str, &str),
        size: u64,
        part: &Path,
        events: &mut Events<'_>,
    ) -> Result<()> {
        let io = |error| Error::io(part, error);
        let mut out = OpenOptions::new().create(true).append(true).open(part).map_err(io)?;
        let length = |out: &File| out.metadata().map(|about| about.len()).map_err(io);
        if length(&out)? > size {
            out.set_len(0).map_err(io)?;
        }
        let mut fruitless = 0;
        loop {
            let have = length(&out)?;
            events.at(have);
            if have == size {
                return out.sync_all().map_err(io);
            }
            let reason = match self.rest((id, commit, file), have, size, &mut out, events)? {
                None => continue,
                Some(reason) => reason,
            };
            fruitless = if length(&out)? > have { 0 } else { fruitless + 1 };
            if fruitless == ATTEMPTS {
                let kept = format!(
                    "{} of {size} bytes are kept, and the next pull goes on from there",
                    length(&out)?
                );
                return Err(Error::Fetch(format!("{}: {file}: {reason}; {kept}", self.endpoint)));
            }
            std::thread::sleep(Duration::from_millis(100 << fruitless));
        }
    }

    /// One attempt at what is missing of a file. A reason that may pass is returned, one that will not is an error.
    fn rest(
        &self,
        (id, commit, file): (&str, &str, &str),
        have: u64,
        size: u64,
        out: &mut File,
        events: &mut Events<'_>,
    ) -> Result<Option<String>> {
        let request =
            self.following.get(self.url(id, commit, file)).header("Range", format!("bytes={have}-"));
        let mut response = match self.send(request) {
            Ok(response) => response,
            Err(error) => return Ok(Some(reason_of(&error))),
        };
        let status = response.status();
        let begins = response.headers().get("content-range").and_then(|value| value.to_str().ok());
        let begins =
            begins.and_then(|text| text.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
        let cut = |out: &File| out.set_len(0).map_err(|error| Error::Fetch(format!("{file}: {error}")));
        let mut have = have;
        match status {
            StatusCode::PARTIAL_CONTENT if begins == Some(have) => {}
            // The server does not resume: all of it comes again.
            StatusCode::OK => {
                cut(out)?;
                have = 0;
            }
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                cut(out)?;
                return Ok(Some("the server sent another part than the one asked for".to_owned()));
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Ok(Some(format!("the server answers {status}")));
            }
            status => {
                self.refuse(status, id, commit, Some(file))?;
                return Ok(Some(format!("the server answers {status}")));
            }
        }
        let mut piece = vec![0; 1 << 16];
        loop {
            let read = match response.read(&mut piece) {
                Ok(0) if have == size => return Ok(None),
                Ok(0) => return Ok(Some(format!("the connection ended after {have} of {size} bytes"))),
                Ok(read) => read,
                Err(error) => {
                    return Ok(Some(format!(
                        "the connection broke after {have} of {size} bytes: {}",
                        cause(&error)
                    )));
                }
            };
            have += read as u64;
            if have > size {
                cut(out)?;
                return Err(Error::Fetch(format!(
                    "{}: {file} is longer than the {size} bytes announced",
                    self.endpoint
                )));
            }
            out.write_all(&piece[..read])
                .map_err(|error| Error::Fetch(format!("{file} cannot be written: {error}")))?;
            events.at(have);
        }
    }

    fn url(&self, id: &str, commit: &str, file: &str) -> String {
        format!("{}/{id}/resolve/{commit}/{file}", self.endpoint)
    }

    fn send(&self, mut request: RequestBuilder) -> reqwest::Result<Response> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send()
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::Fetch(format!(
            "{} cannot be reached: {}; HF_ENDPOINT may name a mirror",
            self.endpoint,
            reason_of(error)
        ))
    }

    /// Turns a refusal into a sentence.
    fn refuse(&self, status: StatusCode, id: &str, revision: &str, file: Option<&str>) -> Result<()> {
        let endpoint = &self.endpoint;
        let what = file.map_or_else(|| id.to_owned(), |file| format!("{file} of {id}"));
        Err(Error::Fetch(match status.as_u16() {
            200..300 => return Ok(()),
            401 | 403 if self.token.is_some() => {
                format!(
                    "{endpoint} refuses {what} ({status}): the token is wrong, or its owner may not read this model"
                )
            }
            // The hub answers so for models that do not exist, too.
            401 | 403 => format!(
                "{endpoint} refuses {what} ({status}): it does not exist, or it needs a token in HF_TOKEN"
            ),
            404 => match file {
                Some(file) => format!("{endpoint} has no file {file} in {id} at {revision}"),
                None => format!("{endpoint} has no model {id} at revision {revision}"),
            },
            _ => format!("{endpoint} answers {status} for {what}"),
        }))
    }
}

/// An ETag becomes a file name.
fn is_plain(etag: &str) -> bool {
    (1..=128).contains(&etag.len())
        && etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn connections(endpoint: &str, redirects: redirect::Policy) -> Result<Connections> {
    let address = Url::parse(endpoint)
        .map_err(|error| Error::Fetch(format!("HF_ENDPOINT is no address ({error}): {endpoint}")))?;
    // The hub's answer may lead to another host, so certificates are read even where its own address needs none.
    let tls = tls(!is_loopback(&address)).map_err(|error| Error::Fetch(error.to_string()))?;
    let mut client = Connections::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .redirect(redirects)
        .connect_timeout(CONNECT)
        .timeout(SILENCE);
    if is_loopback(&address) {
        client = client.no_proxy();
    }
    client.build().map_err(|error| Error::Fetch(cause(&error)))
}

fn reason_of(error: &(dyn std::error::Error + 'static)) -> String {
    let error_of_client = error.downcast_ref::<reqwest::Error>();
    if error_of_client.is_some_and(reqwest::Error::is_timeout) {
        return "it does not answer".to_owned();
    }
    let cause = cause(error);
    if cause.starts_with("failed to lookup address") {
        return "no such host".to_owned();
    }
    cause.split(" (os error").next().unwrap_or_default().to_owned()
}
