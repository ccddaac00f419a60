//! Models of commands: the local engine, servers, their prompts and their cost.

pub(crate) mod ask;
pub(crate) mod cost;
pub(crate) mod generator;
pub(crate) mod local;
