//! The judge that the command line names: a local reward model or critic, a server, or scores in the data.

use std::path::Path;

use anyhow::{Context, Result, bail};
use gradus_bench::judge::{Judge, Judged, Scorer};
use gradus_bench::run::JudgeSource;
use gradus_core::contracts::{Answer, ScoreRequest, ScoreSteps};
use gradus_engine::models::SHIPPED;
use gradus_llm::{Chat, Endpoint, Http, Key, Pooling, Render, RewardServer};

use super::args::{Api, JudgeOptions};
use super::critic;
use crate::arguments::model::ModelOptions;
use crate::backend::local::{self, DEFAULT_MODEL, Local, Purpose};
use crate::exit::Usage;
use crate::references;

/// Problems that are with a judge at once, so that it can fill its passes.
pub(super) const AHEAD: usize = 64;

/// A judge that is ready to use.
pub(super) struct Judging {
    /// What it is called in reports.
    pub(super) name: String,
    /// What kind of judge it is, in words.
    pub(super) kind: &'static str,
    /// The profile of a local reward model.
    pub(super) profile: Option<String>,
    /// The language model under the reward model that the program carries: that one's adapter knows classes, not texts.
    pub(super) base: Option<String>,
    /// All that determines its opinions.
    identity: String,
    backend: Backend,
    max_tokens: usize,
}

enum Backend {
    Recorded(String),
    Scorer(Local),
    Critic(Local),
    Server(Box<dyn ScoreSteps>),
    Chat(Chat),
}

impl Judging {
    /// Loads the model or opens the connection.
    pub(super) fn start(judge: &JudgeOptions, options: &ModelOptions) -> Result<Self> {
        let named = |default: String| judge.name.clone().unwrap_or(default);
        let new = |name, kind, profile, identity, backend| Self {
            name,
            kind,
            profile,
            base: None,
            identity,
            backend,
            max_tokens: judge.max_tokens,
        };
        if let Some(scores) = &judge.scores {
            let backend = Backend::Recorded(scores.clone());
            return Ok(new(named(scores.clone()), "scores in the data", None, String::new(), backend));
        }
        let profile = references::profile(judge.profile.as_deref(), &judge.augmentation);
        let default = if judge.critic { DEFAULT_MODEL } else { local::default_scorer(profile, options) };
        let model = judge.model.as_deref().unwrap_or(default);
        if let Some(url) = &judge.endpoint {
            let mut endpoint = Endpoint::new(url, model);
            endpoint.key = judge.key_env.clone().map(Key::Env);
            let http = Http::open(&endpoint).context("--endpoint")?;
            let identity = format!("{url} {model} {:?} {}", judge.api, judge.max_tokens);
            let (kind, backend) = match judge.api {
                Api::Pooling => (
                    "reward model behind /pooling",
                    Backend::Server(Box::new(Pooling::new(http, Render::qwen()))),
                ),
                Api::Score => ("server of scores", Backend::Server(Box::new(RewardServer::new(http)))),
                Api::Chat => ("critic behind a server", Backend::Chat(Chat::new(http))),
            };
            return Ok(new(named(model.to_owned()), kind, None, identity, backend));
        }
        if judge.critic && model == SHIPPED {
            bail!(Usage(format!("{SHIPPED} scores steps and writes no critiques: leave out --critic")));
        }
        let chosen = local::choose(model, options, profile)?;
        let purpose = Purpose { score: (!judge.critic).then_some(chosen.profile), unpacked: false };
        let local = local::start(chosen.model, &chosen.options, &purpose)?;
        let mut identity = local.identity.clone();
        let adapter =
            options.adapter.as_deref().map_or(String::new(), |folder| format!(" + {}", last_of(folder)));
        let base = (model == SHIPPED).then(|| chosen.model.to_owned());
        let model = last_of(Path::new(model));
        let profile = local.profile.clone();
        if judge.critic {
            identity += &format!(" critic, {} tokens", judge.max_tokens);
            let name = named(format!("{model}{adapter} as a critic"));
            return Ok(new(name, "local critic", None, identity, Backend::Critic(local)));
        }
        let name = named(local::title(&format!("{model}{adapter}"), profile.as_deref().unwrap_or_default()));
        Ok(Self { base, ..new(name, "local reward model", profile, identity, Backend::Scorer(local)) })
    }

    /// Scores that the data has, under whatever names.
    pub(super) fn recorded(name: &str, judge: &JudgeOptions) -> Self {
        Self {
            name: judge.name.clone().unwrap_or_else(|| name.to_owned()),
            kind: "scores in the data",
            profile: None,
            base: None,
            identity: String::new(),
            backend: Backend::Recorded(String::new()),
            max_tokens: judge.max_tokens,
        }
    }

    /// Where opinions come from.
    pub(super) fn source(&self) -> JudgeSource<'_> {
        match &self.backend {
            Backend::Recorded(name) => JudgeSource::Recorded(name.clone()),
            _ => JudgeSource::Asked(self, self.identity.clone()),
        }
    }

    /// The local engine, and all that determines what it says; none for other judges.
    pub(super) fn local(&self) -> Option<(&Local, &str)> {
        match &self.backend {
            Backend::Scorer(local) | Backend::Critic(local) => Some((local, &self.identity)),
            _ => None,
        }
    }
}

impl Judge for Judging {
    fn judge(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Judged>> {
        Box::pin(async move {
            match &self.backend {
                Backend::Scorer(local) => Scorer(&local.engine).judge(requests).await,
                Backend::Server(server) => Scorer(server.as_ref()).judge(requests).await,
                Backend::Critic(local) => Ok(critic::judge(&local.engine, requests, self.max_tokens).await),
                Backend::Chat(chat) => Ok(critic::judge(chat, requests, self.max_tokens).await),
                Backend::Recorded(_) => Ok(Vec::new()),
            }
        })
    }
}

/// The last part of a path: what a model in a folder is called. `runs/mine/adapter` is `mine/adapter`.
fn last_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string());
    match path.parent().and_then(Path::file_name) {
        Some(parent) if name == "adapter" => format!("{}/{name}", parent.display()),
        _ => name,
    }
}
