//! Files that are elsewhere: `s3://`, `gs://`, `az://`, `https://` and the Hugging Face hub's `hf://`.
//!
//! Everything here blocks, and may be called from any thread. What is read is resumed after a cut and checked against
//! the size and version that its server announced; what is written appears whole or not at all, and only over the
//! version that was there before. Keys come from the environment and from no other place, and no message has them.
//!
//! ```
//! use gradus_remote::Address;
//! let address = Address::parse("s3://bucket/labels/train.jsonl.zst").unwrap();
//! assert_eq!(address.file_name(), "train.jsonl.zst");
//! assert_eq!(Address::parse("labels/train.jsonl"), None);
//! let signed = Address::parse("https://me:secret@example.com/a.jsonl?signature=secret").unwrap();
//! assert_eq!(signed.to_string(), "https://example.com/a.jsonl");
//! ```

mod address;
mod error;
mod events;
mod glob;
pub mod hub;
mod object;
mod resume;
pub mod sum;
mod web;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use address::Address;
pub use error::{Error, Result};
pub use events::{Event, Events};
use serde::{Deserialize, Serialize};

/// A file that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Where it is.
    pub address: Address,
    /// Its size, where its server says it.
    pub size: Option<u64>,
    /// What its server calls this version of it.
    pub version: Option<Version>,
}

/// What a server calls a version of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The `ETag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The generation or version of stores that number them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
}

/// What is at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File(RemoteFile),
    /// The files in a folder, sorted by name.
    Folder(Vec<RemoteFile>),
}

/// Looks for what is at an address: a file, or the files in a folder. A `*` in the address stands for any letters but a
/// slash, and `**` for any letters.
pub fn find(address: &Address) -> Result<Found> {
    match address {
        Address::Object(place) => object::find(place),
        Address::Hub(place) => hub::find(place),
        Address::Web(url) => web::about(url).map(Found::File),
    }
}

/// The file at an address, or nothing where there is none.
pub fn look(address: &Address) -> Result<Option<RemoteFile>> {
    match address {
        Address::Object(place) => object::look(place),
        Address::Hub(place) => hub::look(place),
        // A server that takes files need not show them.
        Address::Web(_) => Ok(None),
    }
}

/// A file that was opened.
pub enum Opened {
    /// Its bytes as they come.
    Stream(Box<dyn Read + Send>),
    /// A whole copy that is kept on this machine.
    Kept(File),
}

/// Opens a file. Files of the hub are kept in its cache, others come as they are read.
pub fn open(file: &RemoteFile) -> Result<Opened> {
    match &file.address {
        Address::Object(place) => Ok(Opened::Stream(object::open(place, file)?)),
        Address::Web(url) => Ok(Opened::Stream(web::open(url, file)?)),
        Address::Hub(place) => hub::open(place).map(Opened::Kept),
    }
}

/// A small file's bytes; nothing where there is none.
pub fn read(address: &Address, most: u64) -> Result<Option<(Vec<u8>, RemoteFile)>> {
    let Some(file) = look(address)? else { return Ok(None) };
    let input: Box<dyn Read> = match open(&file)? {
        Opened::Stream(input) => input,
        Opened::Kept(file) => Box::new(file),
    };
    let mut bytes = Vec::new();
    let failed = |error| Error::new(address, format!("cannot be read: {error}"));
    input.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(Error::new(address, format!("is larger than {most} bytes"))),
        false => Ok(Some((bytes, file))),
    }
}

/// What must be at an address for a file to take its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is there yet.
    Nothing,
    /// This version is there, and no later one.
    Version(Version),
    /// Whatever is there.
    Anything,
}

impl Expected {
    /// What a command that begins now expects at its end: what is there now.
    pub fn now(address: &Address) -> Result<Self> {
        Ok(match (look(address)?, address) {
            (_, Address::Web(_)) => Self::Anything,
            (None, _) => Self::Nothing,
            (Some(RemoteFile { version: Some(version), .. }), _) => Self::Version(version),
            (Some(_), _) => Self::Anything,
        })
    }
}

/// Puts a local file at an address, whole or not at all. Returns the new version's name, where the server gives one.
pub fn put(address: &Address, file: &Path, expected: &Expected) -> Result<Option<Version>> {
    match address {
        Address::Object(place) => object::put(place, file, expected),
        Address::Hub(place) => {
            let upload = hub::Upload { from: file.to_owned(), path: place.path.clone() };
            let message = format!("Upload {}", place.path);
            hub::push(&place.repository(), &[upload], &hub::Commit { message, expected, private: false })
                .map(|_| None)
        }
        Address::Web(url) => web::put(url, file).map(|()| None),
    }
}
