//! Argument groups that several commands share, as clap reads them.

pub(crate) mod annotator;
pub(crate) mod dataset;
pub(crate) mod decision;
pub(crate) mod job;
pub(crate) mod protocol;
pub(crate) mod retrieval;
pub(crate) mod values;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct JsonOption {
    /// Print JSON instead of tables
    // Outside of the heading that a group of options before it may have.
    #[arg(long, help_heading = None::<&'static str>)]
    pub(crate) json: bool,
}
