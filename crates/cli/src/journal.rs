//! The journal beside an output that is not finished yet, or in our own folder where the output is elsewhere.
//!
//! `gradus score -o OUT` appends each solution's scores to `OUT.journal` as soon as they are known, and `gradus solve`
//! each problem's outcome; it is removed when the output is whole.

use std::path::{Path, PathBuf};

use anyhow::Result;
use gradus_core::contracts::ScoreRequest;
use gradus_durable::{Journal, journal_key};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output;

/// The journal of `output`, with what an earlier run left in it; one that remembers nothing for a run without output.
pub(crate) fn beside<T: Clone + Serialize + DeserializeOwned>(output: Option<&Path>) -> Result<Journal<T>> {
    let Some(output) = output.filter(|output| *output != Path::new("-")) else { return Ok(Journal::none()) };
    let mut name = output::local_name(output)?.into_os_string();
    name.push(".journal");
    Ok(Journal::open(&PathBuf::from(name))?)
}

/// A hash of what determines a solution's scores: who scores it, and what is asked.
pub(crate) fn key(identity: &str, request: &ScoreRequest) -> String {
    journal_key(&(identity, &request.problem, &request.steps, &request.references, &request.step_references))
}
