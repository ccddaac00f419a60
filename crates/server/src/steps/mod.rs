//! Our own protocol, under `/v1/steps/`, where nobody else's is.

pub(crate) mod annotate;
pub(crate) mod grade;
pub(crate) mod input;
pub(crate) mod retrieve;
pub(crate) mod score;
pub(crate) mod select;
pub(crate) mod split;
