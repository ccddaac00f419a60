//! Models behind HTTP as the settings open them, against a real server on loopback, beside the local engine.

mod embedders;
mod generators;
mod profiles;
mod scorers;

use std::path::Path;

use gradus_backend::EndpointSettings;
use gradus_core::contracts::ScoreRequest;
use gradus_llm::scripted::server::Server;

/// A tiny seeded model.
fn model(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models").join(name);
    folder.display().to_string()
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
