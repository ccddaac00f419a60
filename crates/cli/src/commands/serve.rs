//! `gradus serve`: models over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use gradus_backend::{
    Augmentation, LocalSettings, ScorerSettings, at_least_one, check_profile, with_profile,
};
use gradus_server::{Keys, Limits, ModelSettings, ServerConfig, TlsFiles};

use crate::exit::{Status, Usage};
use crate::terminal::{interrupt, printer};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus serve\n  gradus serve --model prm=./Qwen2.5-Math-PRM-7B --model all-minilm-l6-v2\n  \
gradus serve --model ./my-retrieval-prm --pool math.pool\n  \
GRADUS_KEY=$(openssl rand -hex 24) gradus serve --listen 0.0.0.0:8080 --key-env GRADUS_KEY\n\n\
Protocols: /v1/steps/… (ours), OpenAI, vLLM /pooling, /classify, /score and /rerank, SGLang /v1/score, OpenRLHF \
/get_reward, ThinkBooster; the OpenAPI document is at /openapi.json. Ctrl-C or SIGTERM lets running requests finish."
)]
pub(super) struct ServeArgs {
    /// Model to serve: a name, folder (of an adapter, too) or .gguf file, or NAME=MODEL to name it in requests; repeat for
    /// several (default: gradus-prm)
    #[arg(short, long, value_name = "MODEL")]
    model: Vec<String>,
    /// Scoring profile of the only model: a built-in name or a .toml file (default: as gradus score chooses)
    #[arg(short, long)]
    profile: Option<String>,
    /// Address to listen on; one that others can reach needs a key
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Another name by which requests may address the server, such as that of a proxy; repeatable
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// Environment variable that holds the key that requests must have
    #[arg(long, value_name = "VARIABLE", help_heading = "Access")]
    key_env: Option<String>,
    /// File with several keys and their limits (TOML; see the guide)
    #[arg(long, value_name = "FILE", conflicts_with = "key_env", help_heading = "Access")]
    key_file: Option<PathBuf>,
    /// TLS certificate with its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Access")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = "Access")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    augmentation: Augmentation,
    #[command(flatten)]
    local: LocalSettings,
    /// Labeling project (see gradus label create) for the page Label
    #[arg(long, value_name = "FOLDER", help_heading = "Operation")]
    label: Option<PathBuf>,
    /// Log format on standard error: text or json
    #[arg(long, default_value = "text", value_parser = ["text", "json"], help_heading = "Operation")]
    log: String,
    /// OTLP collector to send a span of each request to, such as http://127.0.0.1:4318
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Operation"
    )]
    otlp_endpoint: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitOptions {
    /// Maximum requests waiting or being computed; more get status 429
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one)]
    max_queue: usize,
    /// Maximum bytes of a request body
    #[arg(long, default_value_t = 32 << 20, value_name = "BYTES", value_parser = at_least_one)]
    max_body_bytes: usize,
    /// Maximum solutions, prompts or texts of a request
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = at_least_one)]
    max_inputs: usize,
    /// Maximum steps of a request
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = at_least_one)]
    max_steps: usize,
    /// Maximum tokens that a request may generate
    #[arg(long, default_value_t = 1 << 20, value_name = "N", value_parser = at_least_one)]
    max_generated_tokens: usize,
    /// Maximum connections
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = at_least_one)]
    max_connections: usize,
    /// Maximum seconds of a request
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = at_least_one)]
    timeout: usize,
    /// Maximum seconds for a request's header, for its body, and without a client reading
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = at_least_one)]
    read_timeout: usize,
    /// Maximum seconds that running requests may take after SIGTERM
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = at_least_one)]
    drain_timeout: usize,
}

impl LimitOptions {
    fn limits(&self) -> Limits {
        let seconds = |count: usize| Duration::from_secs(count as u64);
        Limits {
            body_bytes: self.max_body_bytes,
            inputs: self.max_inputs,
            steps: self.max_steps,
            generated_tokens: self.max_generated_tokens,
            queue: self.max_queue,
            timeout: seconds(self.timeout),
            read_timeout: seconds(self.read_timeout),
            connections: self.max_connections,
        }
    }
}

pub(super) fn run(args: &ServeArgs) -> Result<Status> {
    let config = ServerConfig {
        models: args.models()?,
        listen: args.listen,
        allowed_hosts: args.allowed_host.clone(),
        keys: args.keys()?,
        tls: args
            .tls_certificate
            .clone()
            .zip(args.tls_key.clone())
            .map(|(certificate, key)| TlsFiles { certificate, key }),
        limits: args.limits.limits(),
        label: args.label.clone(),
        otlp_endpoint: args.otlp_endpoint.clone(),
        drain: Duration::from_secs(args.limits.drain_timeout as u64),
    };
    gradus_server::log_to_stderr(args.log == "json");
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    // The server has its own way to end; a second signal ends it at once.
    interrupt::be_patient();
    gradus_server::serve(config, |server| {
        printer::note(format!("serving {} at {scheme}://{}", server.models().join(", "), server.address()));
    })?;
    printer::note("stopped");
    Ok(Status::Done)
}

impl ServeArgs {
    fn keys(&self) -> Result<Keys> {
        if let Some(path) = &self.key_file {
            return Ok(Keys::read(path)?);
        }
        let Some(variable) = &self.key_env else { return Ok(Keys::default()) };
        match std::env::var(variable) {
            Ok(key) => Ok(Keys::single("default", &key)?),
            // Someone may have pasted the key itself in place of the name.
            Err(_) => bail!("the environment variable that --key-env names is not set"),
        }
    }

    fn models(&self) -> Result<Vec<ModelSettings>> {
        if self.model.len() > 1 {
            let several = [
                ("--profile", self.profile.is_some()),
                ("--pool", self.augmentation.pool.is_some()),
                ("--adapter", self.local.adapter.is_some()),
            ];
            if let Some((option, _)) = several.iter().find(|(_, given)| *given) {
                bail!(Usage(format!(
                    "{option} applies to one model, and {} are given: a folder of a trained adapter has its own base and \
                     profile",
                    self.model.len()
                )));
            }
        }
        let named = |given: Option<&String>| -> Result<ModelSettings> {
            let (name, model) = match given {
                None => (None, None),
                Some(given) => match given.split_once('=') {
                    Some((name, model)) => (Some(name.to_owned()), Some(model.to_owned())),
                    None => (None, Some(given.clone())),
                },
            };
            let scorer = ScorerSettings {
                model: model.clone(),
                profile: self.profile.clone(),
                local: self.local.clone(),
                ..ScorerSettings::default()
            };
            let settings = self.augmentation.retrieval.settings();
            let scorer = with_profile(&scorer, &self.augmentation)?;
            if let (Some(_), Some(profile)) = (&self.augmentation.pool, &scorer.profile) {
                check_profile(profile, &settings)?;
            }
            let name = name.or(model).unwrap_or_else(|| gradus_engine::models::SHIPPED.to_owned());
            Ok(ModelSettings {
                name,
                scorer,
                pool: self.augmentation.pool.clone(),
                encoder: self.augmentation.encoder.clone(),
                retrieval: settings,
            })
        };
        match &self.model[..] {
            [] => Ok(vec![named(None)?]),
            all => all.iter().map(|model| named(Some(model))).collect(),
        }
    }
}
