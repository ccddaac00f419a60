//! The real server on a real socket, with tiny models.

mod abuse;
mod clients;
mod openai;
mod operation;
mod page;
mod recorded;
mod steps;
mod telemetry;
mod vllm;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use gradus_backend::ScorerSettings;
use gradus_server::{Keys, Limits, ModelSettings, Server, ServerConfig};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A folder of a tiny model.
pub(crate) fn model(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models").join(name);
    folder.display().to_string()
}

/// A served model by its name in requests.
pub(crate) fn served(name: &str, folder: &str) -> ModelSettings {
    let scorer = ScorerSettings { model: Some(model(folder)), ..ScorerSettings::default() };
    ModelSettings { name: name.to_owned(), scorer, ..ModelSettings::default() }
}

/// Models of each kind.
pub(crate) fn all_kinds() -> Vec<ModelSettings> {
    vec![served("prm", "qwen2-prm"), served("lm", "qwen2"), served("encoder", "bert-mean")]
}

pub(crate) fn config() -> ServerConfig {
    ServerConfig {
        models: all_kinds(),
        listen: "127.0.0.1:0".parse().unwrap(),
        allowed_hosts: Vec::new(),
        keys: Keys::default(),
        tls: None,
        limits: Limits::default(),
        label: None,
        otlp_endpoint: None,
        drain: Duration::from_secs(10),
    }
}

/// A running server, which ends with it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(config: ServerConfig) -> Self {
        let server = Server::open(config).await.unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        drop(rustls::crypto::ring::default_provider().install_default());
        // The tests speak plain HTTP to the loopback address, past any proxy.
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, client, stop: Some(stop), ended }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(self.url(path))
    }

    pub(crate) fn request(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.client.post(self.url(path)).header("content-type", "application/json");
        request.body(body.to_string())
    }

    /// The answer to a request, with its status.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.request(path, body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(json!(text)))
    }

    /// The answer to a request that must succeed.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    /// The sentence of a request that must be refused with a status.
    pub(crate) async fn refused(&self, path: &str, body: &Value, expected: u16) -> String {
        let (status, answer) = self.ask(path, body).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        assert_eq!(answer["error"]["code"], expected);
        assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
        message
    }

    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    /// Asks it to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub(crate) async fn ended(mut self) {
        self.stop();
        tokio::time::timeout(Duration::from_secs(30), &mut self.ended).await.expect("it stops").unwrap();
    }
}
