//! Which model, where, and how hard it is asked: plain structs that are also groups of command-line options.
//!
//! They derive `clap::Args`, so that every command has the same options with the same help, declared once, and there is no
//! second struct to keep in step. A command flattens one of [`GeneratorSettings`], [`ScorerSettings`] and
//! [`EmbedderSettings`]; one that needs two models fills the second in by hand. The fields' defaults are `Default`'s.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_engine::{Device, Precision};
use gradus_llm::Dialect;

use crate::Error;

/// How a model runs here.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct LocalSettings {
    /// LoRA adapter folder (PEFT layout) to apply to the model
    #[arg(long, value_name = "FOLDER")]
    pub adapter: Option<PathBuf>,
    /// Device: cpu, cuda, cuda:N or metal (default: cpu)
    #[arg(long)]
    pub device: Option<Device>,
    /// Matrix multiplication precision: f32, bf16x3 or bf16 (default: bf16x3 for f32 and f16 weights, else bf16)
    #[arg(long)]
    pub precision: Option<Precision>,
    /// Dequantize quantized weights at load time (default: on GPUs only)
    #[arg(long, alias = "dequantise")]
    pub dequantize: bool,
    /// Keep quantized weights quantized: on GPUs too, and on CPUs without a dequantized copy for prompts
    #[arg(long, alias = "keep-quantised", conflicts_with = "dequantize")]
    pub keep_quantized: bool,
    /// Maximum tokens per forward pass (default: 4096)
    #[arg(long, alias = "token-budget", value_name = "TOKENS", value_parser = at_least_one)]
    pub max_batch_tokens: Option<usize>,
}

impl LocalSettings {
    /// Whether quantized weights are expanded; by default the device decides.
    pub(crate) fn dequantize(&self) -> Option<bool> {
        match (self.dequantize, self.keep_quantized) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Refuses settings that would have no effect on a model behind servers. A command that also runs a local model
    /// takes them for that one, and leaves them out here.
    pub(crate) fn refuse_with_endpoint(&self) -> crate::Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        Err(Error::settings(
            "--adapter, --device, --precision, --dequantize, --keep-quantized and --max-batch-tokens apply to a local \
             model: omit them with --endpoint",
        ))
    }
}

/// Servers of one model, and how they are called. Flattened beside [`LocalSettings`], most of which it excludes.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Endpoints")]
pub struct EndpointSettings {
    /// Base URL of a server that runs the model, or a file with one on each line, which is read again while requests are
    /// sent; repeat to share the load among servers of the same model
    #[arg(long, visible_alias = "endpoints", value_name = "URL|FILE", conflicts_with_all = ["adapter", "precision", "dequantize", "keep_quantized"])]
    pub endpoint: Vec<String>,
    /// With --endpoint, environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub key_env: Option<String>,
    /// With --endpoint, file that holds the API key
    #[arg(long, value_name = "FILE", requires = "endpoint", conflicts_with = "key_env")]
    pub key_file: Option<PathBuf>,
    /// Maximum concurrent requests per server (default: 16), or concurrent tasks of a local model (default: 8; 64 when it
    /// scores or criticizes, 4 problems when it solves)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub concurrency: Option<usize>,
    /// With --endpoint, maximum requests per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub requests_per_minute: Option<f64>,
    /// With --endpoint, maximum tokens per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub tokens_per_minute: Option<f64>,
    /// With --endpoint, request timeout in seconds (default: 600)
    #[arg(long, value_name = "SECONDS", requires = "endpoint")]
    pub timeout: Option<f64>,
    /// With --endpoint, maximum retries per request (default: 5)
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub retries: Option<u32>,
    /// With --endpoint, response cache folder (default: answers/ in the Gradus home folder)
    #[arg(long, value_name = "FOLDER", requires = "endpoint")]
    pub cache: Option<PathBuf>,
    /// With --endpoint, maximum size of the response cache, such as 20GB, remembered with its folder; the least recently
    /// used responses are removed (default: 10GB)
    #[arg(long, value_name = "SIZE", value_parser = cache_size, requires = "endpoint")]
    pub cache_size: Option<u64>,
    /// With --endpoint, send no seeds, for servers that fail on them; samples cannot be reproduced then
    #[arg(long, requires = "endpoint")]
    pub no_request_seed: bool,
    /// With --endpoint, disable the response cache
    #[arg(long, requires = "endpoint", conflicts_with_all = ["cache", "cache_size"])]
    pub no_cache: bool,
    /// Prices per million tokens, for cost estimates (TOML)
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// With --endpoint, request fields that the server accepts: open (vLLM, SGLang, llama.cpp) or openai (default: open)
    #[arg(long, value_name = "DIALECT", value_parser = dialect, requires = "endpoint")]
    pub dialect: Option<Dialect>,
}

impl EndpointSettings {
    /// Refuses a concurrency that would have no effect. For commands that hand a local model all their work at once.
    pub fn refuse_local_concurrency(&self) -> crate::Result<()> {
        if self.concurrency.is_none() || !self.endpoint.is_empty() {
            return Ok(());
        }
        Err(Error::settings(
            "--concurrency is the number of requests in flight at a server here: use it with --endpoint",
        ))
    }
}

/// A model that continues text.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct GeneratorSettings {
    /// Model name, folder (of an adapter, too) or .gguf file (default: smollm2-135m; with --adapter, its base); with --endpoint, the model's name on the server
    #[arg(short, long)]
    pub model: Option<String>,
    /// JSONL file of recorded completions to replay instead of a model: {"prompt": …, "completions": […]}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "endpoint", "adapter"])]
    pub recorded: Option<PathBuf>,
    /// System message
    #[arg(long, conflicts_with = "raw")]
    pub system: Option<String>,
    /// Use plain-text prompts without a chat template
    #[arg(long)]
    pub raw: bool,
    /// With --endpoint, local model with the same chat template, to continue partial solutions (without it,
    /// monte-carlo lets the server continue them if it can, or asks it to in words)
    #[arg(long, alias = "tokenizer", value_name = "MODEL", requires = "endpoint", conflicts_with = "raw")]
    pub template: Option<String>,
    /// Where it is served.
    #[command(flatten)]
    pub endpoints: EndpointSettings,
    /// How it runs here.
    #[command(flatten)]
    pub local: LocalSettings,
}

/// What an endpoint of scores speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ScoreApi {
    /// vLLM /pooling with a process reward model: one score per step
    #[default]
    Pooling,
    /// gradus serve: POST /v1/steps/score with a problem and its solutions
    Score,
    /// Language model behind /v1/completions, for profiles that compare two tokens; needs --tokenizer
    Completions,
    /// OpenAI-compatible chat model, prompted as a critic (benchmarks only)
    Chat,
}

/// A process reward model.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct ScorerSettings {
    /// Reward model name, folder (of an adapter, too) or .gguf file (default: gradus-prm; with --adapter, its base; with
    /// --profile or --pool, smollm2-135m); with --endpoint, the model's name on the server
    #[arg(short, long)]
    pub model: Option<String>,
    /// Scoring profile: a built-in name or a .toml file (default: the one that the model was trained with, else
    /// retrieval-prm with --pool, else detected from the checkpoint, else plain; with --endpoint, qwen2.5-math-prm)
    #[arg(short, long)]
    pub profile: Option<String>,
    /// With --endpoint, API of the server
    #[arg(long, value_enum, default_value = "pooling", requires = "endpoint")]
    pub api: ScoreApi,
    /// With --endpoint, local model with the same tokenizer, for profiles whose prompts are sent as token ids
    #[arg(long, value_name = "MODEL", requires = "endpoint")]
    pub tokenizer: Option<String>,
    /// Every prompt goes through a local model by itself, to measure what sharing gives.
    #[arg(skip)]
    pub no_tree_packing: bool,
    /// Where it is served.
    #[command(flatten)]
    pub endpoints: EndpointSettings,
    /// How it runs here.
    #[command(flatten)]
    pub local: LocalSettings,
}

/// A model that turns texts into vectors.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct EmbedderSettings {
    /// Embedding model name or folder (default: all-minilm-l6-v2; decoders use mean pooling); with --endpoint, the
    /// model's name on the server
    #[arg(short, long)]
    pub model: Option<String>,
    /// JSONL file of recorded embeddings, as gradus embed writes it, to use instead of a model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "endpoint", "adapter"])]
    pub recorded: Option<PathBuf>,
    /// Where it is served.
    #[command(flatten)]
    pub endpoints: EndpointSettings,
    /// How it runs here.
    #[command(flatten)]
    pub local: LocalSettings,
}

fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "open" => Ok(Dialect::Open),
        "openai" | "open_ai" => Ok(Dialect::OpenAi),
        _ => Err(format!("`{text}` is neither open nor openai")),
    }
}

/// The least size of a cache: SQLite needs some of it for itself.
const LEAST_CACHE: u64 = 1 << 20;

/// Parses the size of a cache.
pub fn cache_size(text: &str) -> Result<u64, String> {
    match gradus_core::limits::parse_bytes(text) {
        Some(bytes) if bytes >= LEAST_CACHE => Ok(bytes),
        Some(_) => Err(format!("`{text}` is less than 1MB; --no-cache disables the cache")),
        None => Err(format!("`{text}` is not a size, such as 500MB or 20GB")),
    }
}

/// The most that any count may be: memory is reserved for some of them.
const MOST: usize = 1_000_000_000;

/// Parses a count that is not zero.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a whole number of at least 1")),
        Ok(number) if number > MOST => Err(format!("at most {}", gradus_core::count::grouped(MOST))),
        Ok(number) => Ok(number),
    }
}

/// The most samples, votes, beams or resamples: memory is reserved for all of them.
const MOST_SAMPLES: usize = 1_000_000;

/// A number of samples or the like: 1 to a million.
pub fn count(text: &str) -> Result<usize, String> {
    at_least_one(text).and_then(at_most)
}

/// As [`count`], or 0.
pub fn count_or_none(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
    at_most(number)
}

fn at_most(number: usize) -> Result<usize, String> {
    if number > MOST_SAMPLES {
        Err(format!("at most {}", gradus_core::count::grouped(MOST_SAMPLES)))
    } else {
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command<T: Args> {
        #[command(flatten)]
        settings: T,
    }

    fn parse<T: Args>(arguments: &[&str]) -> Result<T, String> {
        let arguments = std::iter::once(&"gradus").chain(arguments);
        Command::<T>::try_parse_from(arguments)
            .map(|parsed| parsed.settings)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn no_options_are_the_defaults() {
        assert_eq!(parse::<GeneratorSettings>(&[]).unwrap(), GeneratorSettings::default());
        assert_eq!(parse::<ScorerSettings>(&[]).unwrap(), ScorerSettings::default());
        assert_eq!(parse::<EmbedderSettings>(&[]).unwrap(), EmbedderSettings::default());
    }

    #[test]
    fn several_endpoints_and_their_limits() {
        let line = "--endpoint http://a --endpoint http://b --model m --key-env KEY --concurrency 4 --retries 2 --timeout 9.5 \
                    --requests-per-minute 60 --no-cache --dialect openai --api score";
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let ScorerSettings { endpoints, api, .. } = parse(&arguments).unwrap();
        assert_eq!(
            (endpoints.endpoint.len(), endpoints.concurrency, endpoints.retries),
            (2, Some(4), Some(2))
        );
        assert_eq!((endpoints.dialect, api), (Some(Dialect::OpenAi), ScoreApi::Score));
    }

    #[test]
    fn sizes_of_caches_have_units() {
        for (text, expected) in
            [("10GB", 10 << 30), ("500MB", 500 << 20), ("2GiB", 2 << 30), ("1048576", 1 << 20)]
        {
            let settings: GeneratorSettings =
                parse(&["--endpoint", "http://a", "--cache-size", text]).unwrap();
            assert_eq!(settings.endpoints.cache_size, Some(expected), "{text}");
        }
    }

    #[test]
    fn old_spellings_still_work() {
        assert!(parse::<GeneratorSettings>(&["--dequantise"]).unwrap().local.dequantize);
        assert!(parse::<GeneratorSettings>(&["--keep-quantised"]).unwrap().local.keep_quantized);
        let settings: GeneratorSettings = parse(&["--token-budget", "64"]).unwrap();
        assert_eq!(settings.local.max_batch_tokens, Some(64));
        let settings: GeneratorSettings = parse(&["--endpoint", "http://a", "--tokenizer", "qwen"]).unwrap();
        assert_eq!(settings.template.as_deref(), Some("qwen"));
    }

    #[test]
    fn settings_of_a_local_model_are_refused_with_an_endpoint() {
        for line in ["--device cuda", "--max-batch-tokens 64"] {
            let arguments: Vec<&str> = line.split_whitespace().chain(["--endpoint", "http://a"]).collect();
            let scorer = crate::Scorer::open(&parse(&arguments).unwrap()).err();
            let generator = crate::Generator::open(&parse(&arguments).unwrap()).err();
            let embedder = crate::Embedder::open(&parse(&arguments).unwrap()).err();
            for refused in [scorer, generator, embedder] {
                assert!(matches!(refused, Some(Error::Settings(_))), "{line}: {refused:?}");
            }
        }
        let local = crate::Embedder::open(&parse(&["--concurrency", "4"]).unwrap()).err();
        assert!(local.is_some_and(|error| error.to_string().contains("--endpoint")));
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        for line in [
            "--endpoint http://a --adapter x",
            "--endpoint http://a --precision f32",
            "--retries 3",
            "--key-env A --key-file b --endpoint http://a",
            "--cache x --no-cache --endpoint http://a",
            "--cache-size 10GB --no-cache --endpoint http://a",
            "--cache-size 10GB",
            "--cache-size 1000 --endpoint http://a",
            "--cache-size much --endpoint http://a",
            "--concurrency 0",
            "--device tpu",
            "--recorded x --model y",
            "--raw --template m --endpoint http://a",
        ] {
            let arguments: Vec<&str> = line.split_whitespace().collect();
            assert!(parse::<GeneratorSettings>(&arguments).is_err(), "{line}");
        }
    }
}
