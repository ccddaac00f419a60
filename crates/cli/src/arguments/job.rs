//! Long work that is kept as a job.

use clap::Args;

use crate::arguments::values::at_least_one;

/// The job store.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// Job store: a file, or postgres://USER@HOST/DATABASE, where other machines can join with gradus work (default:
    /// jobs.sqlite in the Gradus home folder)
    #[arg(
        long,
        visible_alias = "store",
        value_name = "FILE|URL",
        env = "GRADUS_JOBS",
        hide_env_values = true
    )]
    pub(crate) jobs: Option<String>,
}

/// Options of every job.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Random seed
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Process at most N problems
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) limit: Option<usize>,
    /// Write shards of N problems each, as soon as they are complete: OUTPUT becomes NAME-00000-of-00050.EXT and so on,
    /// with a manifest
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) shard_size: Option<usize>,
    /// Omit failed tasks from the output instead of stopping
    #[arg(long)]
    pub(crate) skip_failed: bool,
    #[command(flatten)]
    pub(crate) jobs: JobOptions,
}
