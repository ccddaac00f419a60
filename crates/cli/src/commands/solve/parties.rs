//! Who proposes and who judges: local models, or a server and a local reward model.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use gradus_core::contracts::{
    Answer, CallError, Generate, Message, ScoreRequest, ScoreSteps, StepScores, Usage as Tokens,
};
use gradus_core::select::search::Ask;
use gradus_engine::models::SHIPPED;
use gradus_engine::text::Tokenizer;
use gradus_llm::{Chat, Endpoint, Http, Key};

use super::args::{ModelArgs, SolveArgs, Strategy};
use crate::arguments::model::ModelOptions;
use crate::backend::ask::{Opened, Raw, Written};
use crate::backend::generator::tokenizer;
use crate::backend::local::{self, DEFAULT_MODEL, Local, Purpose};
use crate::exit::Usage;

/// The models of a search, and what they are called in data.
pub(super) struct Parties {
    pub(super) generator: Generator,
    pub(super) judge: Option<Judge>,
    raw: bool,
    system: Option<String>,
}

/// Who proposes.
pub(super) struct Generator {
    pub(super) generate: Box<dyn Generate>,
    pub(super) name: String,
    /// What determines its proposals, but for how it is asked.
    identity: String,
    /// Of a model whose template is written out here.
    tokenizer: Option<Arc<Tokenizer>>,
}

/// Who scores steps.
pub(super) struct Judge {
    pub(super) score: Box<dyn ScoreSteps>,
    pub(super) name: String,
    identity: String,
}

impl Parties {
    pub(super) fn open(args: &SolveArgs) -> Result<Self> {
        let chosen = &args.models;
        let needed = !matches!(args.strategy, Strategy::Greedy | Strategy::Majority);
        let named = chosen.scorer.is_some() || chosen.scorer_adapter.is_some() || chosen.profile.is_some();
        let judged = needed || named;
        let (generator, shared) = match &chosen.endpoint {
            Some(url) => (served(args, url, judged)?, None),
            None => here(args, judged)?,
        };
        let judge = match shared {
            None if judged => Some(apart(args)?),
            shared => shared,
        };
        Ok(Self { generator, judge, raw: chosen.raw, system: chosen.system.clone() })
    }

    /// What determines the proposals and the scores.
    pub(super) fn identity(&self) -> (&str, Option<&str>) {
        (&self.generator.identity, self.judge.as_ref().map(|judge| judge.identity.as_str()))
    }

    /// How the generator is asked about a problem.
    pub(super) fn ask(&self, problem: &str) -> Result<Box<dyn Ask>> {
        let system = self.system.iter().map(|system| Message::new("system", system));
        let messages: Vec<Message> = system.chain([Message::new("user", problem)]).collect();
        Ok(match &self.generator.tokenizer {
            tokenizer if self.raw => Box::new(Raw { tokenizer: tokenizer.clone() }),
            Some(tokenizer) => {
                let written = Written::new(tokenizer, &messages);
                Box::new(written.context("cannot apply the chat template (see --raw)")?)
            }
            None => Box::new(Opened { messages }),
        })
    }
}

/// A generator behind HTTP.
fn served(args: &SolveArgs, url: &str, judged: bool) -> Result<Generator> {
    let chosen = &args.models;
    let stepwise = matches!(args.strategy, Strategy::Beam | Strategy::Tree);
    if stepwise && !chosen.raw && chosen.template.is_none() {
        bail!(Usage(
            "beam and tree continue partial solutions, which a chat API cannot: set --template to a local model with the \
             same chat template, or use --raw"
                .to_owned()
        ));
    }
    if judged && chosen.scorer.is_none() && asks_for_more(chosen) {
        bail!(Usage(
            "--profile and --scorer-adapter apply to a local reward model: set it with --scorer".to_owned()
        ));
    }
    let model = chosen.model.as_deref().unwrap_or_default();
    let key = chosen.key_env.clone().map(Key::Env);
    let http = Http::open(&Endpoint { key, ..Endpoint::new(url, model) }).context("--endpoint")?;
    Ok(Generator {
        generate: Box::new(Chat::new(http)),
        name: if model.is_empty() { url } else { model }.to_owned(),
        identity: format!("{url} {model}"),
        tokenizer: chosen.template.as_deref().map(tokenizer).transpose()?,
    })
}

/// A generator here, and the judge that is the same engine, if it is.
fn here(args: &SolveArgs, judged: bool) -> Result<(Generator, Option<Judge>)> {
    let chosen = &args.models;
    let model = chosen.model.as_deref().unwrap_or(DEFAULT_MODEL);
    let shared = judged && shares(chosen, model, &args.options);
    let purpose = Purpose { score: shared.then_some(chosen.profile.as_deref()), unpacked: false };
    let local = local::start(model, &args.options, &purpose)?;
    let generator = Generator {
        tokenizer: Some(Arc::clone(local.engine.tokenizer())),
        generate: Box::new(local.engine.clone()),
        name: model.to_owned(),
        identity: local.identity.clone(),
    };
    Ok((generator, shared.then(|| judge(model, local))))
}

/// A judge with an engine of its own.
fn apart(args: &SolveArgs) -> Result<Judge> {
    let chosen = &args.models;
    let model = match &chosen.scorer {
        Some(scorer) => scorer,
        None if asks_for_more(chosen) => chosen.model.as_deref().unwrap_or(DEFAULT_MODEL),
        None => SHIPPED,
    };
    let options = ModelOptions { adapter: chosen.scorer_adapter.clone(), ..args.options.clone() };
    let scorer = local::choose(model, &options, chosen.profile.as_deref())?;
    let purpose = Purpose { score: Some(scorer.profile), unpacked: false };
    Ok(judge(model, local::start(scorer.model, &scorer.options, &purpose)?))
}

fn judge(model: &str, local: Local) -> Judge {
    let name = local::title(model, &local.profile.unwrap_or_default());
    Judge { score: Box::new(local.engine), name, identity: local.identity }
}

/// Whether the reward model is described although it is not named: then it is the generator, or its base with another
/// adapter.
fn asks_for_more(chosen: &ModelArgs) -> bool {
    chosen.profile.is_some() || chosen.scorer_adapter.is_some()
}

/// Whether one engine does both: it has one set of weights, and at most one profile.
fn shares(chosen: &ModelArgs, model: &str, options: &ModelOptions) -> bool {
    match (&chosen.scorer, &chosen.scorer_adapter) {
        (None, None) => chosen.profile.is_some(),
        (None, adapter) => *adapter == options.adapter,
        (Some(scorer), adapter) => scorer == model && *adapter == options.adapter,
    }
}

/// Stands where a strategy needs no reward model: no solution gets a score.
pub(super) struct Nobody;

impl ScoreSteps for Nobody {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let none = || StepScores { scores: Vec::new(), usage: Tokens::default() };
        Box::pin(async move { Ok(requests.iter().map(|_| Ok(none())).collect()) })
    }
}
