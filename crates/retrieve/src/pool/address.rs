//! Where a pool is: a folder, or `postgres://USER@HOST/DATABASE?pool=NAME`.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use gradus_core::Record;
use serde::{Serialize, Serializer};

use super::{Encoder, Pool, PoolBuildSummary, Progress, Settings, postgres};
use crate::error::Result;
use crate::pca::Reduce;
use crate::source::PoolSource;

/// Where a pool is. What is shown of it never holds a password.
///
/// ```
/// # use gradus_retrieve::pool::PoolAddress;
/// assert_eq!(PoolAddress::from("math.pool").to_string(), "math.pool");
/// assert!(!PoolAddress::from("postgres://me:secret@db/pools?pool=math").to_string().contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PoolAddress(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    Server { url: String, shown: PathBuf },
}

impl From<OsString> for PoolAddress {
    fn from(given: OsString) -> Self {
        match given
            .to_str()
            .filter(|text| ["postgres://", "postgresql://"].iter().any(|s| text.starts_with(s)))
        {
            Some(url) => Self(Place::Server { url: url.to_owned(), shown: postgres::shown(url).into() }),
            None => Self(Place::Folder(given.into())),
        }
    }
}

impl From<&str> for PoolAddress {
    fn from(given: &str) -> Self {
        OsString::from(given).into()
    }
}

impl From<&Path> for PoolAddress {
    fn from(given: &Path) -> Self {
        given.as_os_str().to_owned().into()
    }
}

impl Display for PoolAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().display().fmt(formatter)
    }
}

impl fmt::Debug for PoolAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shown(), formatter)
    }
}

impl Serialize for PoolAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PoolAddress {
    /// The folder, or the address without the password.
    pub fn shown(&self) -> &Path {
        match &self.0 {
            Place::Folder(folder) => folder,
            Place::Server { shown, .. } => shown,
        }
    }

    /// Whether the pool is in a database.
    pub fn is_on_server(&self) -> bool {
        matches!(self.0, Place::Server { .. })
    }

    /// Opens the pool to look into it, whatever its encoder.
    pub fn open(&self) -> Result<Box<dyn PoolSource>> {
        match &self.0 {
            Place::Folder(folder) => Ok(Box::new(Pool::open_any(folder)?)),
            Place::Server { url, .. } => postgres::open(url),
        }
    }

    /// Builds a pool here, as [`super::build()`] does in a folder.
    pub async fn build(
        &self,
        records: impl IntoIterator<Item = Record>,
        encoder: &Encoder<'_>,
        settings: &Settings,
        reduce: Option<&Reduce<'_>>,
        mut watch: impl FnMut(Progress) -> bool,
    ) -> Result<PoolBuildSummary> {
        match &self.0 {
            Place::Folder(folder) => super::build(folder, records, encoder, settings, reduce, watch).await,
            Place::Server { url, .. } => {
                postgres::build(url, &mut records.into_iter(), encoder, settings, reduce, &mut watch).await
            }
        }
    }

    /// Adds records to the pool here, as [`super::add`] does in a folder.
    pub async fn add(
        &self,
        records: impl IntoIterator<Item = Record>,
        encoder: &Encoder<'_>,
        settings: &Settings,
        mut watch: impl FnMut(Progress) -> bool,
    ) -> Result<PoolBuildSummary> {
        match &self.0 {
            Place::Folder(folder) => super::add(folder, records, encoder, settings, watch).await,
            Place::Server { url, .. } => {
                postgres::add(url, &mut records.into_iter(), encoder, settings, &mut watch).await
            }
        }
    }
}
