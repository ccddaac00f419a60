//! The job store, and the command line under which this program's work is kept there.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use gradus_engine::models::Store as Home;
use gradus_postgres::Address;
use gradus_remote::Address as FileAddress;
use gradus_store::{PostgresStore, SqliteStore, Store};

use crate::arguments::job::JobOptions;

/// What `gradus jobs resume` runs: the command line and the store that it is from.
static RESUMED: OnceLock<(Vec<String>, String)> = OnceLock::new();

/// From now on this program runs the command line of a job, and not its own.
pub(crate) fn resume(command: &[String], store: &str) {
    let _ = RESUMED.set((command.to_vec(), store.to_owned()));
}

/// The command line that runs this work again, without the program's name and without a store's password.
pub(crate) fn command_line() -> Result<Vec<String>> {
    if let Some((command, _)) = RESUMED.get() {
        return Ok(command.clone());
    }
    let words = std::env::args_os().skip(1).map(std::ffi::OsString::into_string);
    let words: Result<Vec<String>, _> = words.collect();
    let words = words.map_err(|word| {
        anyhow::anyhow!(
            "the argument `{}` is not valid UTF-8, and a job keeps its command as text",
            word.display()
        )
    })?;
    Ok(words.iter().map(|word| without_secrets(word)).collect())
}

/// A word of a command line, `--store=URL` included, without the password of a URL.
fn without_secrets(word: &str) -> String {
    let address = ["postgres", "http"].iter().find_map(|scheme| word.find(scheme));
    let at = address.filter(|at| *at == 0 || word[..*at].ends_with('=')).unwrap_or(word.len());
    let (option, value) = word.split_at(at);
    match FileAddress::parse(value) {
        _ if Address::is_one(value) => format!("{option}{}", Address::without_password(value)),
        Some(address @ FileAddress::Web(_)) if is_secret(value) => format!("{option}{address}"),
        _ => word.to_owned(),
    }
}

/// Whether a web address has a password or is signed.
fn is_secret(address: &str) -> bool {
    let (place, query) = address.split_once('?').unwrap_or((address, ""));
    let host = place.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let query = query.to_lowercase();
    let secrets = ["sig", "token", "key", "secret", "credential", "password", "auth"];
    host.contains('@') || secrets.iter().any(|secret| query.contains(secret))
}

/// The store of the job that is resumed.
pub(super) fn resumed_store() -> Option<String> {
    RESUMED.get().map(|(_, store)| store.clone())
}

/// Opens the job store.
pub(crate) fn open(options: &JobOptions) -> Result<Box<dyn Store>> {
    let store = match resumed_store().or_else(|| options.jobs.clone()) {
        Some(store) => store,
        None => home_store()?.to_string_lossy().into_owned(),
    };
    Ok(if Address::is_one(&store) {
        Box::new(PostgresStore::open(&store).context("--store")?)
    } else {
        Box::new(SqliteStore::open(Path::new(&store)).context("--jobs")?)
    })
}

/// The name by which a store is opened again, from another folder, too.
pub(crate) fn absolute(options: &JobOptions) -> Result<String> {
    let store = match &options.jobs {
        Some(store) if Address::is_one(store) => return Ok(store.clone()),
        Some(store) => PathBuf::from(store),
        None => home_store()?,
    };
    let path = std::path::absolute(store).context("cannot determine the current folder")?;
    Ok(path.to_string_lossy().into_owned())
}

fn home_store() -> Result<PathBuf> {
    Ok(Home::from_env()?.home.join("jobs.sqlite"))
}

/// Whether a job store may hold commands that somebody else wrote: it is not the one of this user's settings, or the file
/// belongs to another user.
pub(crate) fn is_foreign(store: &str) -> Result<bool> {
    let own = match std::env::var("GRADUS_JOBS").ok().filter(|own| !own.is_empty()) {
        Some(own) => own,
        None => home_store()?.to_string_lossy().into_owned(),
    };
    if Address::is_one(store) {
        return Ok(Address::without_password(&own) != Address::without_password(store));
    }
    let (own, store) = (Path::new(&own), Path::new(store));
    let is_own = matches!((own.canonicalize(), store.canonicalize()), (Ok(own), Ok(this)) if own == this);
    Ok(!is_own || !is_of_this_user(store))
}

/// Whether a file belongs to the user of this process, as far as that can be told.
#[cfg(target_os = "linux")]
fn is_of_this_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let process = Path::new("/proc/self").metadata();
    !matches!((process, path.metadata()), (Ok(process), Ok(file)) if process.uid() != file.uid())
}

#[cfg(not(target_os = "linux"))]
fn is_of_this_user(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_command_has_no_password() {
        let url = "postgres://me:open-sesame@db:5432/jobs?sslmode=require";
        let bare = "postgres://me@db:5432/jobs?sslmode=require";
        assert_eq!(without_secrets(url), bare);
        assert_eq!(without_secrets(&format!("--store={url}")), format!("--store={bare}"));
        let also = "postgresql://db/jobs?user=me&password=open-sesame&schema=s";
        assert_eq!(without_secrets(also), "postgresql://db/jobs?user=me&schema=s");
        let signed = "https://me:open-sesame@h/a.jsonl?X-Amz-Signature=open-sesame";
        assert_eq!(without_secrets(signed), "https://h/a.jsonl");
        assert_eq!(without_secrets(&format!("--data={signed}")), "--data=https://h/a.jsonl");
        for word in [
            "https://h/v1?api-version=2",
            "s3://b/k",
            "annotate",
            "--model=postgres",
            "my-postgres://x:y@z",
            "-o",
        ] {
            assert_eq!(without_secrets(word), word);
        }
    }
}
