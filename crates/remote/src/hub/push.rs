//! Sends files to the hub as one commit, as `huggingface_hub` does: large ones by Git LFS, small ones in the commit.
//!
//! A commit names its parent, so that a commit of somebody else in between is noticed. Files that the hub has already are
//! not sent again: a push that was cut goes on where it was.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::blocking::{Body, Response};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Client, Hub, Repository, apart, is_relative};
use crate::{Error, Events, Expected, Result, sum};

/// Files named in one request.
const BATCH: usize = 200;
/// What the hub sees of a file to tell whether it is text.
const SAMPLE: u64 = 512;
/// Commits of others that may come in between.
const ATTEMPTS: u32 = 5;

/// A file to send.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The file on this machine.
    pub from: PathBuf,
    /// Its path in the repository.
    pub path: String,
}

/// How a commit is made.
#[derive(Debug, Clone)]
pub struct Commit<'a> {
    /// The first line of its message.
    pub message: String,
    /// What is there of a single file.
    pub expected: &'a Expected,
    /// Whether a repository that is made for it is private.
    pub private: bool,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The commit.
    pub commit: String,
    /// Where a browser shows the repository.
    pub page: String,
}

struct Checked<'a> {
    upload: &'a Upload,
    size: u64,
    sha256: String,
    is_large: bool,
}

/// Sends files as one commit to a repository, which is made where there is none.
pub fn push(repo: &Repository, uploads: &[Upload], commit: &Commit<'_>) -> Result<Pushed> {
    let hub = Hub::from_env()?;
    apart(|| {
        if hub.offline {
            return Err(Error::Remote("HF_HUB_OFFLINE is set, so nothing is sent to the hub".to_owned()));
        }
        if hub.token.is_none() {
            let message = "sending files to the hub needs a token that may write, in HF_TOKEN";
            return Err(Error::Remote(message.to_owned()));
        }
        Push { client: &Client::new(&hub)?, repo }.run(uploads, commit)
    })
}

/// The commit of a revision, where the repository has it.
pub(super) fn commit_of(client: &Client, repo: &Repository) -> Result<Option<String>> {
    let url = format!("{}/revision/{}", client.api(repo), repo.revision.replace('/', "%2F"));
    let answer = client.ask(|| client.request(Method::GET, &url))?;
    if answer.status() == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let about = json_of(client, repo, answer)?;
    let commit = about["sha"].as_str().filter(|commit| is_relative(commit)).map(str::to_owned);
    commit
        .map(Some)
        .ok_or_else(|| Error::Remote(format!("{} gives no commit of {}", client.endpoint, repo.id)))
}

/// What the hub calls the content of a file at a commit, where there is such a file.
pub(super) fn file_of(
    client: &Client,
    repo: &Repository,
    commit: &str,
    path: &str,
) -> Result<Option<String>> {
    let url = format!("{}/paths-info/{commit}", client.api(repo));
    let answer =
        client.ask(|| client.request(Method::POST, &url).json(&json!({"paths": [path], "expand": false})))?;
    let found = json_of(client, repo, answer)?;
    let file = found.as_array().and_then(|files| files.iter().find(|file| file["path"] == path));
    Ok(file.and_then(|file| file["lfs"]["oid"].as_str().or(file["oid"].as_str())).map(str::to_owned))
}

fn json_of(client: &Client, repo: &Repository, answer: Response) -> Result<Value> {
    let status = answer.status();
    let body: Value = answer.json().unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let (endpoint, id, noun) = (&client.endpoint, &repo.id, repo.kind.noun());
    let said = body["error"].as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200);
    let said: String = said.collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(Error::Remote(match status.as_u16() {
        401 | 403 => format!("{endpoint} does not let this token write to the {noun} {id} ({status}){said}"),
        409 | 412 => return Err(Error::changed(&format!("{endpoint}/{}{id}", repo.kind.prefix()))),
        _ => format!("{endpoint} answers {status} for the {noun} {id}{said}"),
    }))
}

struct Push<'a> {
    client: &'a Client,
    repo: &'a Repository,
}

impl Push<'_> {
    fn run(&self, uploads: &[Upload], commit: &Commit<'_>) -> Result<Pushed> {
        self.make_repository(commit.private)?;
        let mut files = Vec::new();
        for upload in uploads {
            let size =
                std::fs::metadata(&upload.from).map_err(|error| Error::local(&upload.from, error))?.len();
            let sha256 = sum::sha256(&upload.from, &mut Events::new(&mut |_| ()))?;
            files.push(Checked { upload, size, sha256, is_large: false });
        }
        for files in files.chunks_mut(BATCH) {
            self.ask_how(files)?;
            self.send_large(files)?;
        }
        for _ in 0..ATTEMPTS {
            let parent = commit_of(self.client, self.repo)?;
            if let ([file], Some(parent)) = (files.as_slice(), &parent) {
                let there = file_of(self.client, self.repo, parent, &file.upload.path)?;
                let is_expected = match (commit.expected, &there) {
                    (Expected::Anything, _) | (Expected::Nothing, None) => true,
                    (Expected::Version(version), Some(there)) => version.etag.as_ref() == Some(there),
                    _ => false,
                };
                if !is_expected && there.as_ref() != Some(&file.sha256) {
                    return Err(Error::changed(&file.upload.path));
                }
            }
            match self.commit(&files, &commit.message, parent.as_deref()) {
                Err(Error::Changed(_)) => {}
                done => return done,
            }
        }
        Err(Error::changed(&self.repo.id))
    }

    /// Makes the repository, and the branch, where they are missing.
    fn make_repository(&self, private: bool) -> Result<()> {
        let (client, repo) = (self.client, self.repo);
        let api = client.api(repo);
        let answer = client.ask(|| client.request(Method::GET, &api))?;
        if answer.status() == StatusCode::NOT_FOUND {
            let (owner, name) = repo.id.split_once('/').unwrap_or(("", &repo.id));
            let body =
                json!({"type": repo.kind.noun(), "name": name, "organization": owner, "private": private});
            let url = format!("{}/api/repos/create", client.endpoint);
            let answer = client.ask(|| client.request(Method::POST, &url).json(&body))?;
            // Somebody else may have made it meanwhile.
            if answer.status() != StatusCode::CONFLICT {
                json_of(client, repo, answer)?;
            }
        } else {
            json_of(client, repo, answer)?;
        }
        if repo.revision == "main" || commit_of(client, repo)?.is_some() {
            return Ok(());
        }
        let url = format!("{api}/branch/{}", repo.revision.replace('/', "%2F"));
        let answer = client.ask(|| client.request(Method::POST, &url).json(&json!({})))?;
        if answer.status() == StatusCode::CONFLICT { Ok(()) } else { json_of(client, repo, answer).map(drop) }
    }

    /// Asks which files go by LFS.
    fn ask_how(&self, files: &mut [Checked<'_>]) -> Result<()> {
        let mut named = Vec::new();
        for file in files.iter() {
            let from = &file.upload.from;
            let mut sample = Vec::new();
            let input = File::open(from).map_err(|error| Error::local(from, error))?;
            input.take(SAMPLE).read_to_end(&mut sample).map_err(|error| Error::local(from, error))?;
            named.push(json!({"path": file.upload.path, "size": file.size, "sample": BASE64.encode(sample)}));
        }
        let url =
            format!("{}/preupload/{}", self.client.api(self.repo), self.repo.revision.replace('/', "%2F"));
        let body = json!({"files": named});
        let answer = self.client.ask(|| self.client.request(Method::POST, &url).json(&body))?;
        let answer = json_of(self.client, self.repo, answer)?;
        for file in files {
            let how =
                answer["files"].as_array().into_iter().flatten().find(|how| how["path"] == file.upload.path);
            let how = how.ok_or_else(|| {
                Error::Remote(format!(
                    "{} does not say how it takes {}",
                    self.client.endpoint, file.upload.path
                ))
            })?;
            if how["shouldIgnore"] == true {
                let message = "the repository's .gitignore leaves it out: rename it or change that file";
                return Err(Error::new(&file.upload.path, message));
            }
            // Only small files may be part of a commit's own text.
            file.is_large = how["uploadMode"] == "lfs";
        }
        Ok(())
    }

    /// Sends large files that the hub does not have.
    fn send_large(&self, files: &[Checked<'_>]) -> Result<()> {
        let large: Vec<_> = files.iter().filter(|file| file.is_large).collect();
        if large.is_empty() {
            return Ok(());
        }
        let objects: Vec<_> =
            large.iter().map(|file| json!({"oid": file.sha256, "size": file.size})).collect();
        let body = json!({
            "operation": "upload", "transfers": ["basic", "multipart"], "objects": objects, "hash_algo": "sha256",
            "ref": {"name": self.repo.revision},
        });
        let url = format!("{}.git/info/lfs/objects/batch", self.client.home(self.repo));
        let answer = self.client.ask(|| {
            let accepted = "application/vnd.git-lfs+json";
            let request = self.client.request(Method::POST, &url).header("Accept", accepted);
            request.header("Content-Type", accepted).body(body.to_string())
        })?;
        let answer = json_of(self.client, self.repo, answer)?;
        for object in answer["objects"].as_array().into_iter().flatten() {
            let Some(file) = large.iter().find(|file| object["oid"] == file.sha256.as_str()) else {
                continue;
            };
            if let Some(message) = object["error"]["message"].as_str() {
                return Err(Error::new(&file.upload.path, format!("the hub does not take it: {message}")));
            }
            let actions = &object["actions"];
            let Some(href) = actions["upload"]["href"].as_str() else { continue };
            self.send(file, href, &actions["upload"]["header"])?;
            if let Some(verify) = actions["verify"]["href"].as_str() {
                let body = json!({"oid": file.sha256, "size": file.size});
                let answer = self.client.ask(|| self.client.request(Method::POST, verify).json(&body))?;
                json_of(self.client, self.repo, answer)?;
            }
        }
        Ok(())
    }

    /// Sends one large file, in parts where the hub gives addresses for them.
    fn send(&self, file: &Checked<'_>, href: &str, header: &Value) -> Result<()> {
        let number =
            |value: &Value| value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64());
        let Some(chunk) = number(&header["chunk_size"]).filter(|chunk| *chunk > 0) else {
            return self.put(file, href, 0, file.size).map(drop);
        };
        let mut parts = Vec::new();
        for (at, begin) in (0..file.size).step_by(chunk as usize).enumerate() {
            let number = at + 1;
            let address = header.as_object().into_iter().flatten();
            let address =
                address.filter(|(name, _)| name.parse() == Ok(number)).find_map(|(_, url)| url.as_str());
            let address = address.ok_or_else(|| {
                Error::new(&file.upload.path, format!("the hub gives no address for part {number}"))
            })?;
            let etag = self.put(file, address, begin, chunk.min(file.size - begin))?;
            parts.push(json!({"partNumber": number, "etag": etag}));
        }
        let body = json!({"oid": file.sha256, "parts": parts});
        let answer = self.client.ask(|| self.client.foreign(Method::POST, href).json(&body))?;
        json_of(self.client, self.repo, answer).map(drop)
    }

    /// Sends bytes of a file to an address that the hub has signed. The token stays here.
    fn put(&self, file: &Checked<'_>, href: &str, begin: u64, length: u64) -> Result<String> {
        let from = &file.upload.from;
        let mut attempt = 0;
        loop {
            let mut input = File::open(from).map_err(|error| Error::local(from, error))?;
            input.seek(SeekFrom::Start(begin)).map_err(|error| Error::local(from, error))?;
            let body = Body::sized(input.take(length), length);
            let reason = match self.client.foreign(Method::PUT, href).body(body).send() {
                Ok(answer) if answer.status().is_success() => {
                    let etag = answer.headers().get("etag").and_then(|value| value.to_str().ok());
                    return Ok(etag.unwrap_or_default().to_owned());
                }
                Ok(answer) => format!("the server answers {}", answer.status()),
                Err(error) => self.client.unreachable(&error).to_string(),
            };
            attempt += 1;
            if attempt == ATTEMPTS {
                return Err(Error::new(&file.upload.path, format!("was not sent: {reason}")));
            }
            std::thread::sleep(std::time::Duration::from_millis(100 << attempt));
        }
    }

    fn commit(&self, files: &[Checked<'_>], message: &str, parent: Option<&str>) -> Result<Pushed> {
        let mut header = json!({"summary": message, "description": ""});
        if let Some(parent) = parent {
            header["parentCommit"] = parent.into();
        }
        let mut lines = json!({"key": "header", "value": header}).to_string();
        for file in files {
            let (path, from) = (&file.upload.path, &file.upload.from);
            let line = if file.is_large {
                let value = json!({"path": path, "algo": "sha256", "oid": file.sha256, "size": file.size});
                json!({"key": "lfsFile", "value": value})
            } else {
                let bytes = std::fs::read(from).map_err(|error| Error::local(from, error))?;
                json!({"key": "file", "value": {"path": path, "encoding": "base64", "content": BASE64.encode(bytes)}})
            };
            lines.push('\n');
            lines.push_str(&line.to_string());
        }
        let url = format!("{}/commit/{}", self.client.api(self.repo), self.repo.revision.replace('/', "%2F"));
        let answer = self.client.ask(|| {
            let request =
                self.client.request(Method::POST, &url).header("Content-Type", "application/x-ndjson");
            request.body(lines.clone())
        })?;
        let answer = json_of(self.client, self.repo, answer)?;
        let commit = answer["commitOid"].as_str().unwrap_or_default().to_owned();
        Ok(Pushed { commit, page: self.client.home(self.repo) })
    }
}
