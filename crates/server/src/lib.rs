//! `gradus serve`: step scores over HTTP.
//!
//! - `steps`: our own protocol, `/v1/steps/…`
//! - `openai`, `vllm` (with SGLang's `/v1/score`), `openrlhf`, `thinkbooster`: others', answered as they answer
//! - `models`: what is served, by name; `jobs`: work that outlives its request
//! - `guard`, `keys`, `tickets`, `hosts`, `limits`, `listen`, `patience`: who may ask, for how much, and for how long
//! - `page`: Look, Label and Watch, over crates `view` and `label`
//! - `metrics`: what has been counted; `telemetry`: spans of requests, over OTLP
//!
//! Handlers are thin: they read a body, ask a model of crate `backend`, and write an answer.

mod app;
mod error;
mod extract;
mod guard;
mod hosts;
mod jobs;
mod keys;
mod library;
mod limits;
mod listen;
mod log;
mod metrics;
mod models;
mod openai;
mod openrlhf;
mod page;
mod patience;
mod router;
mod steps;
mod telemetry;
mod thinkbooster;
mod tickets;
mod vllm;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error as ThisError;

pub use keys::Keys;
pub use limits::Limits;
pub use listen::TlsFiles;
pub use log::log_to_stderr;
pub use models::ModelSettings;

/// Why a server could not be started.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A model to serve.
    #[error("{0}")]
    Model(String),
    /// A file of keys, or a key.
    #[error("{0}")]
    Keys(String),
    /// A certificate or its key.
    #[error("{0}")]
    Tls(String),
    /// A collector of traces.
    #[error("{0}")]
    Telemetry(String),
    /// A server that others reach needs a key.
    #[error("{0} can be reached by others: give a key (--key-env or --key-file), or listen on 127.0.0.1")]
    Open(SocketAddr),
    /// The address cannot be listened at.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// No threads to serve with.
    #[error("no threads can be started: {0}")]
    Runtime(std::io::Error),
    /// A model or an encoder.
    #[error(transparent)]
    Backend(#[from] gradus_backend::Error),
    /// A labeling project.
    #[error(transparent)]
    Label(#[from] gradus_label::Error),
    /// A pool.
    #[error(transparent)]
    Pool(#[from] gradus_retrieve::Error),
}

/// The result of starting a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to serve, and how.
#[derive(Debug)]
pub struct ServerConfig {
    /// The models, the one that is meant without a name first.
    pub models: Vec<ModelSettings>,
    /// Where to listen; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Names by which a loopback server may be addressed besides its own.
    pub allowed_hosts: Vec<String>,
    /// Who may ask.
    pub keys: Keys,
    /// A certificate.
    pub tls: Option<TlsFiles>,
    /// What requests may cost.
    pub limits: Limits,
    /// A labeling project (`gradus label create`) that the page offers.
    pub label: Option<std::path::PathBuf>,
    /// The OTLP collector that spans of requests are sent to, such as `http://127.0.0.1:4318`.
    pub otlp_endpoint: Option<String>,
    /// How long running requests may go on after the server was asked to stop.
    pub drain: Duration,
}

/// A server whose models are loaded and whose address is taken.
pub struct Server {
    app: std::sync::Arc<app::App>,
    listener: tokio::net::TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    drain: Duration,
}

impl Server {
    /// Takes the address and loads the models. Nobody is answered yet.
    pub async fn open(config: ServerConfig) -> Result<Self> {
        let ServerConfig { models, listen, allowed_hosts, keys, tls, limits, label, otlp_endpoint, drain } =
            config;
        if !listen.ip().is_loopback() && keys.is_empty() {
            return Err(Error::Open(listen));
        }
        let tls = tls.as_ref().map(TlsFiles::acceptor).transpose()?;
        let telemetry = otlp_endpoint.as_deref().map(telemetry::Telemetry::open).transpose()?;
        let listener = listen::listener(listen).await?;
        let labeling = label.as_deref().map(gradus_label::Labeling::open).transpose()?;
        let labeling = labeling.map(|labeling| labeling.with_renderer(Box::new(gradus_plot::prose)));
        let models = models::Models::open(&models)?;
        let hosts = hosts::Hosts::new(listen, &allowed_hosts);
        let app = app::App::new(models, limits, keys, hosts, labeling, telemetry);
        Ok(Self { app, listener, tls, drain })
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a bound socket has an address")
    }

    /// The names of the models.
    pub fn models(&self) -> Vec<String> {
        self.app.models.all().iter().map(|model| model.name.clone()).collect()
    }

    /// Answers until `stop`, then lets running requests finish.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let router = router::router(&self.app);
        listen::serve(self.listener, router, self.tls, &self.app, self.drain, stop).await;
        if let Some(telemetry) = &self.app.telemetry {
            telemetry.close().await;
        }
    }
}

/// Serves until the process is asked to stop. `ready` hears when requests are answered.
pub fn serve(config: ServerConfig, ready: impl FnOnce(&Server)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let server = Server::open(config).await?;
        ready(&server);
        server.run(listen::stop_signal()).await;
        Ok(())
    })
}

/// The OpenAPI document of every server, as JSON.
pub fn openapi() -> String {
    router::openapi().to_pretty_json().expect("the document is plain data")
}
