//! The hub's cache on disk.
//!
//! It is the one that Python's `huggingface_hub` keeps, so a repository that either has fetched is there for both:
//!
//! ```text
//! models--org--name/refs/main             the commit
//! models--org--name/blobs/ETAG            a file's content
//! models--org--name/snapshots/COMMIT/     links to blobs, under the files' names
//! ```
//!
//! The name of a large file's blob is its sha256, and the content is compared with it. Small files are named by a Git
//! hash; of those only the size is compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Client, Hub, Repository, is_relative};
use crate::{Error, Events, Result, sum};

/// A file, its size in bytes and its sha256 in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSum {
    /// The path inside the repository, with `/` between its parts.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// The folder of a repository in the cache.
pub fn repo_folder(hub: &Hub, repo: &Repository) -> PathBuf {
    hub.cache.join(format!("{}--{}", repo.kind.plural(), repo.id).replace('/', "--"))
}

/// The folder of a repository's files at its revision, if it is there, whole or not.
pub fn snapshot(hub: &Hub, repo: &Repository) -> Option<PathBuf> {
    let folder = repo_folder(hub, repo);
    let commit = fs::read_to_string(folder.join("refs").join(&repo.revision));
    let commit = commit.map_or_else(|_| repo.revision.clone(), |commit| commit.trim().to_owned());
    let snapshot = folder.join("snapshots").join(&commit);
    (is_relative(&commit) && snapshot.is_dir()).then_some(snapshot)
}

/// Writes which commit a revision is. A revision may contain slashes and so be in folders.
pub fn name_commit(hub: &Hub, repo: &Repository, commit: &str) -> Result<()> {
    let path = repo_folder(hub, repo).join("refs").join(&repo.revision);
    fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(|error| Error::local(&path, error))?;
    Ok(gradus_durable::replace_file(&path, commit.trim().as_bytes())?)
}

/// Files of a repository at a commit, to be brought into the cache.
pub struct Fetch<'a> {
    /// Where the cache is.
    pub hub: &'a Hub,
    /// Who asks.
    pub client: &'a Client,
    /// What is asked for.
    pub repo: &'a Repository,
    /// The commit.
    pub commit: &'a str,
    /// Files come anew even where they are there.
    pub force: bool,
}

impl Fetch<'_> {
    /// The folder of the files.
    pub fn snapshot(&self) -> PathBuf {
        repo_folder(self.hub, self.repo).join("snapshots").join(self.commit)
    }

    /// Brings one file into the cache unless it is there, and sums it up.
    pub fn file(&self, file: &str, events: &mut Events<'_>) -> Result<FileSum> {
        let link = self.snapshot().join(file);
        // What is here and in order is not fetched; what is damaged is.
        if link.is_file()
            && !self.force
            && let Ok(here) = self.sum(file, &link, None, events)
        {
            return Ok(here);
        }
        let remote = self.client.about(self.repo, self.commit, file)?;
        let blob = repo_folder(self.hub, self.repo).join("blobs").join(&remote.etag);
        let in_order = |path: &Path| fs::metadata(path).is_ok_and(|about| about.len() == remote.size);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::local(path, error)
        };
        for folder in [blob.parent(), link.parent()].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(io(folder))?;
        }
        let expected = sum::is_sha256(&remote.etag).then_some(remote.etag.as_str());
        let here = (in_order(&blob) && !self.force).then(|| self.sum(file, &blob, expected, events));
        let done = if let Some(Ok(here)) = here {
            here
        } else {
            let lock_path = blob.with_extension("lock");
            let lock = File::create(&lock_path).map_err(io(&lock_path))?;
            if lock.try_lock().is_err() {
                return Err(Error::Remote(format!("another program is downloading {file} right now")));
            }
            let part = blob.with_extension("part");
            events.begin(format!("{} {file}", self.repo.id), Some(remote.size));
            self.client.download((self.repo, self.commit, file), remote.size, &part, events)?;
            let done = self.sum(file, &part, expected, events).inspect_err(|_| {
                // The part is wrong from end to end, so there is nothing to resume.
                let _ = fs::remove_file(&part);
            })?;
            gradus_durable::move_file(&part, &blob)?;
            let _ = fs::remove_file(lock_path);
            done
        };
        let _ = fs::remove_file(&link);
        point(&link, file, &remote.etag, &blob).map_err(io(&link))?;
        Ok(done)
    }

    fn sum(
        &self,
        file: &str,
        path: &Path,
        expected: Option<&str>,
        events: &mut Events<'_>,
    ) -> Result<FileSum> {
        let size = fs::metadata(path).map_err(|error| Error::local(path, error))?.len();
        events.begin(format!("checking {file}"), Some(size));
        let found = sum::sha256(path, events)?;
        // A file of the cache is a link to the blob with its sum as the name.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let blob = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let expected = expected.or_else(|| sum::is_sha256(&blob).then_some(blob.as_str()));
        if let Some(expected) = expected {
            sum::check(path, file, expected, &found)?;
        }
        Ok(FileSum { file: file.to_owned(), size, sha256: found })
    }
}

/// Makes the file of a snapshot: a relative link to its blob, as Python makes it.
#[cfg(unix)]
fn point(link: &Path, file: &str, etag: &str, _blob: &Path) -> std::io::Result<()> {
    let up = "../".repeat(2 + file.matches('/').count());
    std::os::unix::fs::symlink(format!("{up}blobs/{etag}"), link)
}

/// Links need a privilege on some systems; a copy does not.
#[cfg(not(unix))]
fn point(link: &Path, _file: &str, _etag: &str, blob: &Path) -> std::io::Result<()> {
    fs::copy(blob, link).map(|_| ())
}
