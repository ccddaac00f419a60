//! The judge that the command line names: a reward model or a critic, local or behind servers, or scores in the data.

use std::path::Path;

use anyhow::{Result, bail};
use gradus_annotate::judge::JudgeConfig;
use gradus_backend::{
    DEFAULT_GENERATOR, Generator, GeneratorSettings, Local, LocalSettings, ScoreApi, Scorer, ScorerKind,
    ScorerSettings, Spending, profile_of_scores, scorer_name, with_profile,
};
use gradus_bench::judge::{Judge, Judged, Scorer as ScorerJudge};
use gradus_bench::run::JudgeSource;
use gradus_core::contracts::{Answer, ScoreRequest};
use gradus_core::select::DecisionRule;
use gradus_engine::models::SHIPPED;
use gradus_retrieve::pool::PoolAddress;

use super::args::JudgeOptions;
use super::critic::Critic;
use crate::arguments::protocol::JudgeProtocol;
use crate::cost;
use crate::exit::Usage;

/// Problems that are with a local critic at once, so that it can fill its passes.
pub(super) const AHEAD: usize = 64;

/// A judge that is ready to use.
pub(super) struct Judging {
    /// What it is called in reports.
    pub(super) name: String,
    /// What kind of judge it is, in words.
    pub(super) kind: &'static str,
    /// The profile of a reward model.
    pub(super) profile: Option<String>,
    /// The language model under an adapter with a reward head: the adapter knows classes or values, not texts.
    pub(super) base: Option<String>,
    /// How its scores become a first error: its profile's rule.
    pub(super) decision: DecisionRule,
    /// Whether arithmetic that is proved wrong is an error, whatever its scores say: by its profile.
    pub(super) exact_checks: bool,
    /// Solutions to have with it at once.
    pub(super) ahead: usize,
    /// All that determines its opinions.
    identity: String,
    backend: Backend,
}

enum Backend {
    Recorded(String),
    Scorer(Box<Scorer>),
    Critic(Box<Critic>),
}

impl Judging {
    /// Loads the model or opens the connections. `with_local_model`: the local settings are for another model.
    pub(super) fn start(judge: &JudgeOptions, with_local_model: bool) -> Result<Self> {
        let chat = !judge.scorer.endpoints.endpoint.is_empty() && judge.scorer.api == ScoreApi::Chat;
        let critic = judge.critic || chat;
        if let Some(option) = judge.protocol.given().filter(|_| !critic) {
            bail!(Usage(format!("{option} is for models that are prompted for a verdict: add --critic")));
        }
        if critic {
            judge.decision.refuse("a critic names the first error itself")?;
        }
        if let Some(scores) = &judge.scores {
            let recorded = Self::new(judge, scores.clone(), Backend::Recorded(scores.clone()));
            let profile = profile_of_scores(scores);
            let decision = profile.as_ref().map(|profile| profile.decision).unwrap_or_default();
            let exact_checks = profile.as_ref().is_some_and(|profile| profile.exact_checks);
            return Ok(Self {
                decision,
                exact_checks,
                profile: profile.map(|profile| profile.name),
                ..recorded
            });
        }
        let mut settings = with_profile(&judge.scorer, &judge.augmentation)?;
        if with_local_model && !settings.endpoints.endpoint.is_empty() {
            settings.local = LocalSettings::default();
        }
        let judging = if critic { Self::critic(judge, settings)? } else { Self::scorer(judge, &settings)? };
        judging.spending().into_iter().for_each(cost::announce);
        Ok(judging)
    }

    /// Scores that the data has, under whatever names.
    pub(super) fn recorded(name: &str, judge: &JudgeOptions) -> Self {
        Self::new(judge, name.to_owned(), Backend::Recorded(String::new()))
    }

    fn new(judge: &JudgeOptions, name: String, backend: Backend) -> Self {
        Self {
            name: judge.name.clone().unwrap_or(name),
            kind: "scores in the data",
            profile: None,
            base: None,
            decision: DecisionRule::default(),
            exact_checks: false,
            ahead: AHEAD,
            identity: String::new(),
            backend,
        }
    }

    fn scorer(judge: &JudgeOptions, settings: &ScorerSettings) -> Result<Self> {
        // A pool that cannot be read is found before a model is loaded.
        judge.augmentation.pool.as_ref().map(PoolAddress::open).transpose()?;
        let scorer = Scorer::open(settings)?;
        let (kind, profile, identity) = (scorer.kind, scorer.profile.clone(), scorer.identity().to_owned());
        let name = match kind {
            ScorerKind::Local => {
                scorer_name(&local_name(&scorer.model, judge), profile.as_deref().unwrap_or_default())
            }
            // Runs from before profiles could be chosen over HTTP are found by the model's name.
            _ if judge.scorer.profile.is_none() => scorer.model.clone(),
            _ => scorer.name(),
        };
        let base = scorer.local().and_then(|local| local.base.clone());
        let (kind, ahead, decision) = (kind.description(), scorer.ahead, scorer.decision);
        let exact_checks = scorer.exact_checks;
        let judging = Self::new(judge, name, Backend::Scorer(Box::new(scorer)));
        Ok(Self { kind, profile, base, decision, exact_checks, ahead, identity, ..judging })
    }

    fn critic(judge: &JudgeOptions, settings: ScorerSettings) -> Result<Self> {
        let scorer = &judge.scorer;
        if scorer.profile.is_some() || scorer.tokenizer.is_some() {
            bail!(Usage(
                "--api chat prompts for a critique, which has no scoring profile: omit --profile and --tokenizer"
                    .to_owned()
            ));
        }
        if scorer.model.as_deref() == Some(SHIPPED) && scorer.endpoints.endpoint.is_empty() {
            bail!(Usage(format!("{SHIPPED} scores steps and writes no critiques: leave out --critic")));
        }
        let settings = GeneratorSettings {
            model: scorer.model.clone(),
            endpoints: settings.endpoints,
            local: settings.local,
            ..GeneratorSettings::default()
        };
        let (protocol, config) = judge.protocol.open(JudgeProtocol::Critic);
        config.check().map_err(|error| Usage(error.to_string()))?;
        let generator = Generator::open(&settings)?;
        let (mut name, kind) = match generator.local() {
            Some(_) => {
                let model = scorer.model.as_deref().unwrap_or(DEFAULT_GENERATOR);
                (format!("{} as a critic", local_name(model, judge)), "local critic")
            }
            None => (generator.name.clone(), ScorerKind::Endpoints(ScoreApi::Chat).description()),
        };
        if protocol.name != "critic" {
            name += &format!(" ({})", protocol.name);
        }
        if config.votes > 1 {
            name += &format!(" maj@{}", config.votes);
        }
        let ahead = match settings.endpoints.concurrency {
            Some(count) if generator.local().is_some() => count,
            _ => AHEAD.max(generator.concurrency),
        };
        let critic = Critic { model: generator, protocol, config };
        let identity = critic.identity();
        Ok(Self { kind, ahead, identity, ..Self::new(judge, name, Backend::Critic(Box::new(critic))) })
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
        let local = match &self.backend {
            Backend::Scorer(scorer) => scorer.local(),
            Backend::Critic(critic) => critic.model.local(),
            Backend::Recorded(_) => None,
        };
        local.map(|local| (local, self.identity.as_str()))
    }

    /// Whether it names first errors itself.
    pub(super) fn is_critic(&self) -> bool {
        matches!(self.backend, Backend::Critic(_))
    }

    /// How a critic is asked, for the report.
    pub(super) fn critic_settings(&self) -> Option<(&'static str, &JudgeConfig)> {
        match &self.backend {
            Backend::Critic(critic) => Some((critic.protocol.name, &critic.config)),
            Backend::Scorer(_) | Backend::Recorded(_) => None,
        }
    }

    /// What it spends; nothing for scores in the data.
    pub(super) fn spending(&self) -> Option<&Spending> {
        match &self.backend {
            Backend::Scorer(scorer) => Some(&scorer.spending),
            Backend::Critic(critic) => Some(&critic.model.spending),
            Backend::Recorded(_) => None,
        }
    }
}

impl Judge for Judging {
    fn judge(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Judged>> {
        Box::pin(async move {
            match &self.backend {
                Backend::Scorer(scorer) => ScorerJudge(scorer.as_ref()).judge(requests).await,
                Backend::Critic(critic) => Ok(critic.judge(&requests).await),
                Backend::Recorded(_) => Ok(Vec::new()),
            }
        })
    }
}

/// What a local model is called: the last part of its path, with its adapter's.
fn local_name(model: &str, judge: &JudgeOptions) -> String {
    let adapter = judge.scorer.local.adapter.as_deref();
    let adapter = adapter.map_or(String::new(), |folder| format!(" + {}", last_of(folder)));
    format!("{}{adapter}", last_of(Path::new(model)))
}

/// The last part of a path: what a model in a folder is called. `runs/mine/adapter` is `mine/adapter`.
fn last_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string());
    match path.parent().and_then(Path::file_name) {
        Some(parent) if name == "adapter" => format!("{}/{name}", parent.display()),
        _ => name,
    }
}
