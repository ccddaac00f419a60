//! Files on the web: read from any server, and sent to one that takes `PUT`, such as an address that a store has signed.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use gradus_http::{USER_AGENT, Url, cause, is_loopback, tls};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, RANGE};
use reqwest::{Body, Client, StatusCode};

use crate::address::shown;
use crate::resume::{self, CONNECT, Piece, Refusal, Resumable, pause, silence, wait};
use crate::{Address, Error, RemoteFile, Result, Version};

const ATTEMPTS: u32 = 5;
/// What is read of a file at a time to send it.
const CHUNK: usize = 1 << 20;

fn client(url: &Url) -> Result<Client> {
    let failed = |error: &dyn std::fmt::Display| Error::new(&shown(url), error);
    // A redirect may lead to another host, so certificates are read even where this address needs none.
    let tls = tls(!is_loopback(url)).map_err(|error| failed(&error))?;
    let builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT)
        .read_timeout(silence());
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| failed(&cause(&error)))
}

/// What its server says about a file. One that says nothing may send it all the same.
pub(crate) fn about(url: &Url) -> Result<RemoteFile> {
    wait(|| async {
        let mut file = RemoteFile { address: Address::Web(url.clone()), size: None, version: None };
        if let Ok(answer) = client(url)?.head(url.clone()).send().await
            && answer.status().is_success()
        {
            file.size = number(answer.headers(), CONTENT_LENGTH.as_str());
            file.version = etag(answer.headers());
        }
        Ok(file)
    })
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn etag(headers: &HeaderMap) -> Option<Version> {
    let etag = headers.get(ETAG)?.to_str().ok()?.to_owned();
    Some(Version { etag: Some(etag), generation: None })
}

/// The file's bytes.
pub(crate) fn open(url: &Url, file: &RemoteFile) -> Result<Box<dyn Read + Send>> {
    let (url, version) = (url.clone(), file.version.clone());
    Ok(resume::read(shown(&url), file.size, async move || {
        let client = client(&url)?;
        Ok(Box::new(Download { client, url, version }) as Box<dyn Resumable>)
    }))
}

struct Download {
    client: Client,
    url: Url,
    version: Option<Version>,
}

#[async_trait::async_trait]
impl Resumable for Download {
    async fn from(&mut self, at: u64) -> std::result::Result<Piece, Refusal> {
        let mut request = self.client.get(self.url.clone());
        let known = self.version.as_ref().and_then(|version| version.etag.as_deref());
        if at > 0 {
            request = request.header(RANGE, format!("bytes={at}-"));
            if let Some(etag) = known.filter(|etag| !etag.starts_with("W/")) {
                request = request.header(IF_RANGE, etag);
            }
        }
        let answer = request.send().await.map_err(|error| Refusal::Passing(reason(&error)))?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Refusal::Passing(format!("the server answers {status}")));
        }
        let refuse = |message: String| Err(Refusal::Final(Error::new(&shown(&self.url), message)));
        let is_rest = status == StatusCode::PARTIAL_CONTENT;
        if !status.is_success() {
            return refuse(match status.as_u16() {
                401 | 403 => format!(
                    "the server refuses it ({status}): the address is not public, or its signature has ended"
                ),
                404 | 410 => "there is no such file".to_owned(),
                _ => format!("the server answers {status}"),
            });
        }
        let found = etag(answer.headers());
        if known.is_some() && found.is_some() && found != self.version {
            return refuse("it has changed while it was read: run the command again".to_owned());
        }
        self.version = self.version.take().or(found);
        let length = number(answer.headers(), CONTENT_LENGTH.as_str());
        let begins = answer.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let begins =
            begins.and_then(|text| text.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
        if is_rest && begins != Some(at) {
            return Err(Refusal::Passing("the server sent another part than the one asked for".to_owned()));
        }
        // A server that does not resume sends all of it again.
        let mut left = if is_rest { 0 } else { at };
        let size = length.map(|length| if is_rest { at + length } else { length });
        let stream = answer.bytes_stream().map_err(|error| reason(&error)).map(move |piece| {
            piece.map(|bytes: Bytes| {
                let skipped = left.min(bytes.len() as u64);
                left -= skipped;
                bytes.slice(skipped as usize..)
            })
        });
        Ok(Piece { stream: Box::pin(stream), size })
    }
}

fn reason(error: &reqwest::Error) -> String {
    match error.is_timeout() {
        true => "the server does not answer".to_owned(),
        false => cause(error).split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// Sends a file.
pub(crate) fn put(url: &Url, from: &Path) -> Result<()> {
    wait(|| async {
        let client = client(url)?;
        let mut attempt = 0;
        loop {
            let (file, size) = body(from)?;
            let answer = client.put(url.clone()).header(CONTENT_LENGTH, size).body(file).send().await;
            let failed = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) if answer.status().is_server_error() => {
                    format!("the server answers {}", answer.status())
                }
                Ok(answer) => {
                    let message = format!("the server does not take the file ({})", answer.status());
                    return Err(Error::new(&shown(url), message));
                }
                Err(error) => reason(&error),
            };
            attempt += 1;
            if attempt == ATTEMPTS {
                return Err(Error::new(&shown(url), format!("the file was not sent: {failed}")));
            }
            pause(attempt).await;
        }
    })
}

fn body(from: &Path) -> Result<(Body, u64)> {
    let local = |error| Error::local(from, error);
    let file = std::fs::File::open(from).map_err(local)?;
    let size = file.metadata().map_err(local)?.len();
    let chunks = futures_util::stream::try_unfold(file, async |mut file| {
        let mut chunk = vec![0; CHUNK];
        let read = file.read(&mut chunk)?;
        chunk.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(chunk), file)))
    });
    Ok((Body::wrap_stream(chunks), size))
}
