//! Pools on a server, in a build without the feature `postgres`: each is refused.

use gradus_core::Record;

use super::{Encoder, PoolBuildSummary, Progress, Settings};
use crate::error::{Error, Result};
use crate::pca::Reduce;
use crate::source::PoolSource;

fn missing() -> Error {
    Error::Data("this build has no pools in PostgreSQL: build it with the feature `postgres`".to_owned())
}

/// Nothing of the address: it may be a part of the password.
pub(super) fn shown(_: &str) -> String {
    "postgres://…".to_owned()
}

pub(super) fn open(_: &str) -> Result<Box<dyn PoolSource>> {
    Err(missing())
}

pub(super) async fn build(
    _: &str,
    _: &mut dyn Iterator<Item = Record>,
    _: &Encoder<'_>,
    _: &Settings,
    _: Option<&Reduce<'_>>,
    _: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    Err(missing())
}

pub(super) async fn add(
    _: &str,
    _: &mut dyn Iterator<Item = Record>,
    _: &Encoder<'_>,
    _: &Settings,
    _: &mut dyn FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    Err(missing())
}
