//! A search with all settings resolved, and its run on one problem.

use anyhow::{Result, bail};
use gradus_core::contracts::{CallError, Generate, Sampling, ScoreSteps};
use gradus_core::select::search::{
    self, BeamConfig, Choose, Question, SampleConfig, SearchOutcome, Settings, TreeConfig,
};
use serde::Serialize;

use super::args::{SearchOptions, Strategy};
use super::parties::{Nobody, Parties};
use crate::exit::Usage;

/// A search with all settings resolved.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Plan {
    Sample(SampleConfig),
    Beam(BeamConfig),
    Tree(TreeConfig),
}

/// Searches for one problem's solution.
pub(super) async fn solve(parties: &Parties, plan: &Plan, problem: &str) -> Result<SearchOutcome, CallError> {
    let ask = parties.ask(problem).map_err(|error| CallError::Invalid(format!("{error:#}")))?;
    let question = Question { text: problem, ask: ask.as_ref() };
    let generate: &dyn Generate = &parties.generator;
    let score: &dyn ScoreSteps = match &parties.scorer {
        Some(scorer) => scorer,
        None => &Nobody,
    };
    let mut outcome = match plan {
        Plan::Sample(config) => search::sample(generate, score, question, config).await,
        Plan::Beam(config) => search::beam(generate, score, question, config).await,
        Plan::Tree(config) => search::tree(generate, score, question, config).await,
    }?;
    if parties.scorer.is_none() {
        // Without a reward model nothing is scored or undecided.
        (outcome.usage.score_calls, outcome.usage.undecided) = (0, 0);
    }
    Ok(outcome)
}

impl Plan {
    pub(super) fn settings(&self) -> &Settings {
        match self {
            Self::Sample(SampleConfig { settings, .. })
            | Self::Beam(BeamConfig { settings, .. })
            | Self::Tree(TreeConfig { settings, .. }) => settings,
        }
    }
}

/// Turns options into a search; an option that the strategy would ignore is refused.
pub(super) fn plan(strategy: Strategy, options: &SearchOptions) -> Result<Plan> {
    use Strategy::{Beam, BestOfN, Greedy, Majority, Tree, Vote};
    let given: [(&str, bool, &[Strategy]); 9] = [
        ("-n", options.n.is_some(), &[BestOfN, Vote, Majority]),
        ("--max-tokens", options.max_tokens.is_some(), &[Greedy, BestOfN, Vote, Majority]),
        ("--beam-width", options.beam_width.is_some(), &[Beam]),
        ("--trees", options.trees.is_some(), &[Tree]),
        ("--expansions", options.expansions.is_some(), &[Beam, Tree]),
        ("--max-steps", options.max_steps.is_some(), &[Beam, Tree]),
        ("--max-step-tokens", options.max_step_tokens.is_some(), &[Beam, Tree]),
        ("--vote-power", options.vote_power.is_some(), &[Vote]),
        ("--temperature", options.temperature.is_some(), &[BestOfN, Vote, Majority, Beam, Tree]),
    ];
    if let Some((name, _, users)) =
        given.iter().find(|(_, given, users)| *given && !users.contains(&strategy))
    {
        let users: Vec<&str> = users.iter().map(|user| name_of(*user)).collect();
        let strategy = name_of(strategy);
        bail!(Usage(format!("{name} does not apply to {strategy}: it is an option of {}", users.join(", "))));
    }
    let temperature = if strategy == Greedy { 0.0 } else { options.temperature.unwrap_or(0.8) };
    if !(0.0..=100.0).contains(&temperature) {
        bail!(Usage(format!("--temperature is {temperature}: expected 0 to 100")));
    }
    let settings = Settings {
        separator: options.separator.clone(),
        sampling: Sampling { temperature, ..Sampling::default() },
        seed: options.seed,
        budget: options.budget,
        aggregation: options.aggregation,
        choose: match strategy {
            Greedy | BestOfN | Beam | Tree => Choose::Best,
            Vote => Choose::WeightedVote,
            Majority => Choose::Majority,
        },
        vote_power: options.vote_power.unwrap_or_default(),
    };
    let (expansions, max_steps) = (options.expansions.unwrap_or(4), options.max_steps.unwrap_or(40));
    let step_tokens = options.max_step_tokens.unwrap_or(512);
    Ok(match strategy {
        Greedy | BestOfN | Vote | Majority => Plan::Sample(SampleConfig {
            n: if strategy == Greedy { 1 } else { options.n.unwrap_or(8) },
            max_tokens: options.max_tokens.unwrap_or(1024),
            settings,
        }),
        Beam => {
            let width = options.beam_width.unwrap_or(4);
            Plan::Beam(BeamConfig { width, expansions, max_steps, step_tokens, stop_after: width, settings })
        }
        Tree => {
            let trees = options.trees.unwrap_or(4);
            Plan::Tree(TreeConfig { trees, expansions, max_steps, step_tokens, settings })
        }
    })
}

pub(super) fn name_of(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Greedy => "greedy",
        Strategy::BestOfN => "best-of-n",
        Strategy::Vote => "vote",
        Strategy::Majority => "majority",
        Strategy::Beam => "beam",
        Strategy::Tree => "tree",
    }
}
