//! Options of whatever asks a model many times: who is asked, how hard, and where the work is remembered.

use std::path::PathBuf;

use clap::Args;

use super::engine::{ModelOptions, at_least_one};

/// Who is asked: a model here, or one behind servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct GeneratorOptions {
    /// A model's name, folder or .gguf file; smollm2-135m by default. With --endpoint, the server's name for it
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Ask this OpenAI-compatible server instead; given several times, servers of the same model share the work
    #[arg(long, value_name = "URL", conflicts_with = "adapter")]
    pub(crate) endpoint: Vec<String>,
    /// With --endpoint: the environment variable that holds its key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub(crate) key_env: Option<String>,
    /// With --endpoint: a file that holds its key
    #[arg(long, value_name = "FILE", requires = "endpoint", conflicts_with = "key_env")]
    pub(crate) key_file: Option<PathBuf>,
    /// Most requests in flight, at each server (16 by default); here, most problems or solutions at once (8)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) concurrency: Option<usize>,
    /// With --endpoint: most requests a minute, at each server
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) requests_per_minute: Option<f64>,
    /// With --endpoint: most tokens a minute, at each server
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) tokens_per_minute: Option<f64>,
    /// With --endpoint: the longest that an answer may take, in seconds (600 by default)
    #[arg(long, value_name = "SECONDS", requires = "endpoint")]
    pub(crate) timeout: Option<f64>,
    /// With --endpoint: further attempts at a request that fails (5 by default)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) retries: Option<u32>,
    /// With --endpoint: answers are kept in this folder, and the same request is not paid for twice; by default in our
    /// own folder
    #[arg(long, value_name = "FOLDER", requires = "endpoint")]
    pub(crate) cache: Option<PathBuf>,
    /// With --endpoint: keep no answers
    #[arg(long, requires = "endpoint", conflicts_with = "cache")]
    pub(crate) no_cache: bool,
    /// A table of prices per million tokens, to say what it costs (see docs/annotation.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// A system message
    #[arg(long, conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Give problems as plain text, without a chat template
    #[arg(long)]
    pub(crate) raw: bool,
    /// With --endpoint: a model here that has the served model's chat template, so that a solution can be gone on with
    /// as the model itself would; by default the server is asked in words to go on
    #[arg(long, value_name = "MODEL", requires = "endpoint", conflicts_with = "raw")]
    pub(crate) template: Option<String>,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
}

/// Where the work is remembered.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// The file in which jobs are remembered; by default jobs.sqlite in our own folder
    #[arg(long, value_name = "FILE", env = "GRADUS_JOBS", hide_env_values = true)]
    pub(crate) jobs: Option<PathBuf>,
}
