//! Why an endpoint, a cache or a table of prices cannot be used at all. What goes wrong in a call is a `CallError`.
//!
//! No message holds a key, or the text that was given in place of a key's name.

use std::path::PathBuf;

use thiserror::Error;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A setting or a file that does not work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be used.
    #[error(
        "`base_url`: {reason}; give an address such as http://127.0.0.1:8000 or https://api.example.com/v1"
    )]
    Address {
        /// What is wrong with it.
        reason: String,
    },
    /// A number is outside its range.
    #[error("`{setting}` is {found}; give {expected}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The environment has no such variable, or it is not text.
    #[error(
        "the key's environment variable {name} is not set, or is empty; set it, or name another in `key.env`"
    )]
    KeyVariable {
        /// The variable, where the text can be nothing but a name.
        name: String,
    },
    /// The file of the key cannot be read.
    #[error("the key's file {} cannot be read: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The key cannot stand in a header.
    #[error(
        "the key is empty or holds a character that no HTTP header may hold; it must be one line of ASCII"
    )]
    KeyText,
    /// The list of endpoints is empty.
    #[error("no endpoint is given; give at least one")]
    NoEndpoint,
    /// The file of endpoints cannot be used.
    #[error("{0}")]
    Roster(String),
    /// The folder of the cache cannot be used.
    #[error("the cache's folder {} cannot be used: {source}", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of the cache cannot be used.
    #[error("the response cache {} cannot be used: {why}", path.display())]
    CacheFile {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The file of prices cannot be used.
    #[error("the prices in {} cannot be used: {reason}", path.display())]
    Prices {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The client cannot be built.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}
