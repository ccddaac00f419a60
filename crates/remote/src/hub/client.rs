//! HTTP for the hub: what a file is, and its bytes, resumed after a cut.
//!
//! A silent server is given up, a retry after a resume asks for what is missing only, sums are compared, and the
//! platform's certificates are trusted, so that a company's proxy works.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use gradus_http::{USER_AGENT, Url, cause, is_loopback, tls};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::blocking::{Client as Connections, RequestBuilder, Response};
use reqwest::{Method, StatusCode, redirect};
use serde_json::Value;

use super::{Hub, Repository};
use crate::resume::{CONNECT, silence};
use crate::{Error, Events, Result};

/// Attempts in a row that brought nothing.
const ATTEMPTS: u32 = 4;
/// What a file's path must not contain as it is in an address.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');
/// A description of a repository is never larger.
const DESCRIPTION: u64 = 64 << 20;

/// Asks the hub.
pub struct Client {
    /// Follows redirects, without the token where they lead to another host.
    following: Connections,
    /// Shows a redirect instead of following it.
    staying: Connections,
    pub(super) endpoint: String,
    pub(super) token: Option<String>,
}

/// What the hub says about a file before it sends it.
#[derive(Debug)]
pub struct Remote {
    /// The name of the file's content: a sha256 for large files, a Git hash for small ones.
    pub etag: String,
    /// Bytes.
    pub size: u64,
}

impl Client {
    /// A client of this hub.
    pub fn new(hub: &Hub) -> Result<Self> {
        Ok(Self {
            following: connections(&hub.endpoint, redirect::Policy::default())?,
            staying: connections(&hub.endpoint, redirect::Policy::none())?,
            endpoint: hub.endpoint.clone(),
            token: hub.token.clone(),
        })
    }

    /// The hub's description of a repository at a revision.
    pub fn describe(&self, repo: &Repository, revision: &str) -> Result<Value> {
        let revision_part = revision.replace('/', "%2F");
        let url = format!("{}/revision/{revision_part}?blobs=true", self.api(repo));
        let response = self.ask(|| self.following.get(&url))?;
        self.refuse(response.status(), repo, revision, None)?;
        let mut body = Vec::new();
        let read = response.take(DESCRIPTION).read_to_end(&mut body);
        read.map_err(|error| self.unreachable(&error))?;
        gradus_core::json::from_slice(&body).map_err(|_| {
            Error::Remote(format!(
                "{} does not speak the hub's protocol: its description of {} is not JSON",
                self.endpoint, repo.id
            ))
        })
    }

    /// Asks for a file's size and name without its content.
    pub fn about(&self, repo: &Repository, commit: &str, file: &str) -> Result<Remote> {
        let mut url = self.url(repo, commit, file);
        for _ in 0..5 {
            // The first answer has the headers that count; where it sends us to is another server's business, unless it
            // only moves the repository to another name.
            let response = self.ask(|| self.staying.head(&url))?;
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let moved = header("location").filter(|to| to.starts_with('/') && !to.starts_with("//"));
            if let (true, Some(to)) = (response.status().is_redirection(), moved) {
                url = format!("{}{to}", self.endpoint);
                continue;
            }
            if !response.status().is_redirection() {
                self.refuse(response.status(), repo, commit, Some(file))?;
            }
            let etag = header("x-linked-etag")
                .or_else(|| header("etag"))
                .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
            let size = header("x-linked-size").or_else(|| header("content-length"));
            let size = size.and_then(|size| size.parse().ok());
            return match (etag, size) {
                (Some(etag), Some(size)) if is_plain(&etag) => Ok(Remote { etag, size }),
                _ => Err(Error::Remote(format!(
                    "{} does not speak the hub's protocol: no usable ETag or size for {file}",
                    self.endpoint
                ))),
            };
        }
        Err(Error::Remote(format!("{} moves {file} in circles", self.endpoint)))
    }

    /// Downloads a file to `part`, going on where an earlier attempt stopped.
    pub fn download(
        &self,
        (repo, commit, file): (&Repository, &str, &str),
        size: u64,
        part: &Path,
        events: &mut Events<'_>,
    ) -> Result<()> {
        let io = |error| Error::local(part, error);
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
            let reason = match self.rest((repo, commit, file), have, size, &mut out, events)? {
                None => continue,
                Some(reason) => reason,
            };
            fruitless = if length(&out)? > have { 0 } else { fruitless + 1 };
            if fruitless == ATTEMPTS {
                let kept = format!(
                    "{} of {size} bytes are kept, and the next attempt goes on from there",
                    length(&out)?
                );
                return Err(Error::Remote(format!("{}: {file}: {reason}; {kept}", self.endpoint)));
            }
            std::thread::sleep(Duration::from_millis(100 << fruitless));
        }
    }

    /// One attempt at what is missing of a file. A reason that may pass is returned, one that will not is an error.
    fn rest(
        &self,
        (repo, commit, file): (&Repository, &str, &str),
        have: u64,
        size: u64,
        out: &mut File,
        events: &mut Events<'_>,
    ) -> Result<Option<String>> {
        let request =
            self.following.get(self.url(repo, commit, file)).header("Range", format!("bytes={have}-"));
        let mut response = match self.send(request) {
            Ok(response) => response,
            Err(error) => return Ok(Some(reason_of(&error))),
        };
        let status = response.status();
        let begins = response.headers().get("content-range").and_then(|value| value.to_str().ok());
        let begins =
            begins.and_then(|text| text.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
        let cut = |out: &File| out.set_len(0).map_err(|error| Error::Remote(format!("{file}: {error}")));
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
            status if will_pass(status) => {
                return Ok(Some(format!("the server answers {status}")));
            }
            status => {
                self.refuse(status, repo, commit, Some(file))?;
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
                return Err(Error::Remote(format!(
                    "{}: {file} is longer than the {size} bytes announced",
                    self.endpoint
                )));
            }
            out.write_all(&piece[..read])
                .map_err(|error| Error::Remote(format!("{file} cannot be written: {error}")))?;
            events.at(have);
        }
    }

    /// Where the hub's interface for a repository is.
    pub(super) fn api(&self, repo: &Repository) -> String {
        format!("{}/api/{}/{}", self.endpoint, repo.kind.plural(), repo.id)
    }

    /// Where a repository's own pages and files are.
    pub(super) fn home(&self, repo: &Repository) -> String {
        format!("{}/{}{}", self.endpoint, repo.kind.prefix(), repo.id)
    }

    fn url(&self, repo: &Repository, commit: &str, file: &str) -> String {
        format!("{}/resolve/{commit}/{}", self.home(repo), utf8_percent_encode(file, PATH))
    }

    /// Sends a request, again after answers that may pass.
    pub(super) fn ask(&self, request: impl Fn() -> RequestBuilder) -> Result<Response> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.send(request()) {
                Ok(response) if will_pass(response.status()) && attempt < ATTEMPTS => {}
                Ok(response) => return Ok(response),
                Err(error) if (error.is_connect() || error.is_request()) && attempt < ATTEMPTS => {}
                Err(error) => return Err(self.unreachable(&error)),
            }
            std::thread::sleep(Duration::from_millis(100 << attempt));
        }
    }

    /// Starts a request to an address that the hub gave; the token is not for it.
    pub(super) fn foreign(&self, method: Method, url: &str) -> RequestBuilder {
        self.following.request(method, url)
    }

    /// Starts a request that may follow redirects.
    pub(super) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.following.request(method, url)
    }

    fn send(&self, mut request: RequestBuilder) -> reqwest::Result<Response> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send()
    }

    pub(super) fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::Remote(format!(
            "{} cannot be reached: {}; HF_ENDPOINT may name a mirror",
            self.endpoint,
            reason_of(error)
        ))
    }

    /// Turns a refusal into a sentence.
    fn refuse(
        &self,
        status: StatusCode,
        repo: &Repository,
        revision: &str,
        file: Option<&str>,
    ) -> Result<()> {
        let (endpoint, id, noun) = (&self.endpoint, &repo.id, repo.kind.noun());
        let what = file.map_or_else(|| id.to_owned(), |file| format!("{file} of {id}"));
        Err(Error::Remote(match status.as_u16() {
            200..300 => return Ok(()),
            401 | 403 if self.token.is_some() => {
                format!(
                    "{endpoint} refuses {what} ({status}): the token is wrong, or its owner may not read this {noun}"
                )
            }
            // The hub answers so for what does not exist, too.
            401 | 403 => format!(
                "{endpoint} refuses {what} ({status}): it does not exist, or it needs a token in HF_TOKEN"
            ),
            404 => match file {
                Some(file) => format!("{endpoint} has no file {file} in {id} at {revision}"),
                None => format!("{endpoint} has no {noun} {id} at revision {revision}"),
            },
            _ => format!("{endpoint} answers {status} for {what}"),
        }))
    }
}

fn will_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// An ETag becomes a file name.
fn is_plain(etag: &str) -> bool {
    (1..=128).contains(&etag.len())
        && etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn connections(endpoint: &str, redirects: redirect::Policy) -> Result<Connections> {
    let address = Url::parse(endpoint)
        .map_err(|error| Error::Remote(format!("HF_ENDPOINT is no address ({error}): {endpoint}")))?;
    // The hub's answer may lead to another host, so certificates are read even where its own address needs none.
    let tls = tls(!is_loopback(&address)).map_err(|error| Error::Remote(error.to_string()))?;
    let mut client = Connections::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .redirect(redirects)
        .connect_timeout(CONNECT)
        .timeout(silence());
    if is_loopback(&address) {
        client = client.no_proxy();
    }
    client.build().map_err(|error| Error::Remote(cause(&error)))
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
