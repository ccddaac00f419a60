//! The address of a pool on a server.

use std::path::PathBuf;

use gradus_postgres::Address;

use crate::error::{Error, Result};

/// Settings of a pool's address beside those of the server.
const OWN: [&str; 3] = ["pool", "search", "ef_search"];

/// The largest `hnsw.ef_search` of pgvector.
const MOST: usize = 1000;

/// Where a pool is, and how it is searched.
#[derive(Clone)]
pub(super) struct ServerPlace {
    pub(super) address: Address,
    /// The pool's name.
    pub(super) name: String,
    pub(super) is_exact: bool,
    pub(super) ef_search: Option<usize>,
    /// Without the password.
    pub(super) shown: PathBuf,
}

impl std::fmt::Debug for ServerPlace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.shown, formatter)
    }
}

impl ServerPlace {
    /// No part of a wrong address is told: it may be one of the password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::Data(format!(
                "the address of the pool is wrong: {why}; it looks like postgres://user@host:5432/database?pool=name"
            ))
        };
        let (address, own) = Address::parse(url, &OWN).map_err(|error| refuse(&error.to_string()))?;
        let (mut name, mut is_exact, mut ef_search) = (None, false, None);
        for (setting, value) in own {
            match (setting.as_str(), value.as_str()) {
                ("pool", _) if is_name(&value) => name = Some(value),
                ("pool", _) => {
                    return Err(refuse("its pool must be a name of at most 63 letters, digits, ., _ and -"));
                }
                ("search", "exact") => is_exact = true,
                ("search", "hnsw") => is_exact = false,
                ("search", _) => return Err(refuse("its search must be exact or hnsw")),
                (_, value) => {
                    let count = value.parse().ok().filter(|count| (1..=MOST).contains(count));
                    ef_search = Some(count.ok_or_else(|| refuse("its ef_search must be 1 to 1000"))?);
                }
            }
        }
        if is_exact && ef_search.is_some() {
            return Err(refuse("its ef_search has no effect with search=exact"));
        }
        let name = name.ok_or_else(|| refuse("it names no pool"))?;
        let schema = address.schema.as_ref().map(|schema| format!("&schema={schema}")).unwrap_or_default();
        let shown = format!("{}?pool={name}{schema}", address.shown).into();
        Ok(Self { address, name, is_exact, ef_search, shown })
    }
}

fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter);
    (1..=63).contains(&name.len()) && name.chars().all(plain)
}
