//! The model that a command prompts many times: local, or on servers.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::model::ModelOptions;
use crate::arguments::values::at_least_one;

/// The model to prompt: local, or on servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct GeneratorOptions {
    /// Model name, folder or .gguf file (default: smollm2-135m); with --endpoint, the model's name on the server
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Base URL of an OpenAI-compatible server; repeat to share the load among servers of the same model
    #[arg(long, value_name = "URL", conflicts_with = "adapter")]
    pub(crate) endpoint: Vec<String>,
    /// With --endpoint, environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub(crate) key_env: Option<String>,
    /// With --endpoint, file that holds the API key
    #[arg(long, value_name = "FILE", requires = "endpoint", conflicts_with = "key_env")]
    pub(crate) key_file: Option<PathBuf>,
    /// Maximum concurrent requests per server (default: 16), or concurrent tasks of a local model (default: 8)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) concurrency: Option<usize>,
    /// With --endpoint, maximum requests per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) requests_per_minute: Option<f64>,
    /// With --endpoint, maximum tokens per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) tokens_per_minute: Option<f64>,
    /// With --endpoint, request timeout in seconds (default: 600)
    #[arg(long, value_name = "SECONDS", requires = "endpoint")]
    pub(crate) timeout: Option<f64>,
    /// With --endpoint, maximum retries per request (default: 5)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub(crate) retries: Option<u32>,
    /// With --endpoint, response cache folder (default: answers in the Gradus home folder)
    #[arg(long, value_name = "FOLDER", requires = "endpoint")]
    pub(crate) cache: Option<PathBuf>,
    /// With --endpoint, disable the response cache
    #[arg(long, requires = "endpoint", conflicts_with = "cache")]
    pub(crate) no_cache: bool,
    /// Prices per million tokens, for cost estimates (TOML; see docs/guide/machines.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// System message
    #[arg(long, conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Use plain-text prompts without a chat template
    #[arg(long)]
    pub(crate) raw: bool,
    /// With --endpoint, local model with the same chat template, to continue partial solutions (default: the server
    /// is instructed to continue)
    #[arg(long, value_name = "MODEL", requires = "endpoint", conflicts_with = "raw")]
    pub(crate) template: Option<String>,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
}
