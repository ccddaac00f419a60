//! Models behind HTTP as the settings open them, against a real server on loopback, beside the local engine.

mod embedders;
mod generators;
mod profiles;
mod scorers;

use std::path::Path;

use gradus_backend::{EndpointSettings, Result, block_on};
use gradus_core::contracts::{CallError, ScoreRequest};
use gradus_llm::scripted::server::Server;

/// A tiny seeded model.
fn model(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models").join(name);
    folder.display().to_string()
}

/// What a model answers.
fn wait<T>(answer: impl Future<Output = Result<T, CallError>>) -> Result<T> {
    Ok(block_on(answer)??)
}

/// Servers without a cache and without patience.
fn endpoints(servers: &[&Server]) -> EndpointSettings {
    EndpointSettings {
        endpoint: servers.iter().map(|server| server.url.clone()).collect(),
        no_cache: true,
        retries: Some(0),
        timeout: Some(20.0),
        ..EndpointSettings::default()
    }
}

fn request(id: &str, problem: &str, steps: &[&str]) -> ScoreRequest {
    ScoreRequest {
        id: id.into(),
        problem: problem.into(),
        steps: steps.iter().map(|&step| step.into()).collect(),
        ..ScoreRequest::default()
    }
}
