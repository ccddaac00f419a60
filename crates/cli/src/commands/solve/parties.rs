//! The models of a search: the generator, and the reward model where one is needed.

use anyhow::{Result, bail};
use gradus_backend::{
    ChatPrompt, DEFAULT_GENERATOR, Generator, LocalSettings, Scorer, ScorerSettings, Spending, open_pair,
};
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores, Usage as Tokens};
use gradus_core::select::search::Ask;
use gradus_engine::models::SHIPPED;

use super::args::{SolveArgs, Strategy};
use crate::cost;
use crate::exit::Usage;

/// The models of a search.
pub(super) struct Parties {
    pub(super) generator: Generator,
    pub(super) scorer: Option<Scorer>,
}

impl Parties {
    pub(super) fn open(args: &SolveArgs) -> Result<Self> {
        let generator = &args.generator;
        let served = !generator.endpoints.endpoint.is_empty();
        let stepwise = matches!(args.strategy, Strategy::Beam | Strategy::Tree);
        if served && stepwise && !generator.raw && generator.template.is_none() {
            bail!(Usage(
                "beam and tree continue partial solutions, which a chat API cannot: set --template to a local model with \
                 the same chat template, or use --raw"
                    .to_owned()
            ));
        }
        let scorer = scorer_settings(args)?;
        let mut generator = generator.clone();
        // Beside a served generator, they are the settings of the local reward model.
        if served && scorer.as_ref().is_some_and(|scorer| scorer.endpoints.endpoint.is_empty()) {
            generator.local = LocalSettings::default();
        }
        let (generator, scorer) = open_pair(&generator, scorer.as_ref())?;
        let parties = Self { generator, scorer };
        parties.spending().for_each(cost::announce);
        Ok(parties)
    }

    /// What the models spend.
    pub(super) fn spending(&self) -> impl Iterator<Item = &Spending> {
        let scorer = self.scorer.as_ref().map(|scorer| &scorer.spending);
        std::iter::once(&self.generator.spending).chain(scorer)
    }

    /// What determines the proposals and the scores.
    pub(super) fn identity(&self) -> (&str, Option<&str>) {
        (self.generator.identity(), self.scorer.as_ref().map(Scorer::identity))
    }

    /// How the generator is asked about a problem.
    pub(super) fn ask(&self, problem: &str) -> Result<Box<dyn Ask>> {
        let messages = self.generator.messages(problem);
        let chat = || Box::new(ChatPrompt { messages: messages.clone() }) as Box<dyn Ask>;
        Ok(self.generator.prompt(&messages, chat)?)
    }
}

/// The reward model that the options describe; none where nothing is scored.
fn scorer_settings(args: &SolveArgs) -> Result<Option<ScorerSettings>> {
    let (generator, chosen) = (&args.generator, &args.scorer);
    let needed = !matches!(args.strategy, Strategy::Greedy | Strategy::Majority);
    let described = chosen.profile.is_some() || chosen.scorer_adapter.is_some();
    let named = chosen.scorer.is_some() || !chosen.scorer_endpoint.is_empty();
    if !(needed || described || named) {
        return Ok(None);
    }
    let endpoints = chosen.endpoints();
    let settings = ScorerSettings {
        model: chosen.scorer.clone(),
        profile: chosen.profile.clone(),
        api: chosen.scorer_api,
        tokenizer: chosen.scorer_tokenizer.clone(),
        endpoints,
        ..ScorerSettings::default()
    };
    if !settings.endpoints.endpoint.is_empty() {
        return Ok(Some(settings));
    }
    // A reward model that is described but not named is the base of its adapter, or with a profile alone the generator.
    let same = described && !named && chosen.scorer_adapter.is_none();
    if same && !generator.endpoints.endpoint.is_empty() {
        bail!(Usage("--profile applies to a reward model that is named: set it with --scorer".to_owned()));
    }
    let model = match (settings.model, &chosen.scorer_adapter) {
        (None, None) if !same => Some(SHIPPED.to_owned()),
        (None, None) => generator
            .model
            .clone()
            .or_else(|| generator.local.adapter.is_none().then(|| DEFAULT_GENERATOR.to_owned())),
        (model, _) => model,
    };
    let adapter = if same { &generator.local.adapter } else { &chosen.scorer_adapter };
    let local = LocalSettings { adapter: adapter.clone(), ..generator.local.clone() };
    Ok(Some(ScorerSettings { model, local, ..settings }))
}

/// Stands where a strategy needs no reward model: no solution gets a score.
pub(super) struct Nobody;

impl ScoreSteps for Nobody {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let none = || StepScores { scores: Vec::new(), usage: Tokens::default() };
        Box::pin(async move { Ok(requests.iter().map(|_| Ok(none())).collect()) })
    }
}
