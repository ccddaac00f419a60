//! Groups of critiques: sampled by the policy, rewarded by rule, and weighted by their advantage.

use gradus_core::contracts::{GenerateRequest, Prompt, Sampling};
use gradus_core::metrics::bias::{Judgment, bias};
use rand::Rng as _;

use crate::Result;
use crate::critic::{self, CriticExample, Parsed, Verdict};
use crate::losses::{self, GrpoConfig, JudgedCritique};
use crate::observer::MetricValues;
use crate::run::order;
use crate::session::Session;
use crate::trainable::TrainableModel;

/// A sampled critique and its reward.
pub(super) struct Critique {
    pub(super) tokens: Vec<u32>,
    pub(super) parsed: Parsed,
    pub(super) reward: critic::Reward,
    pub(super) advantage: f64,
}

/// All critiques of one solution.
pub(super) struct Group<'a> {
    pub(super) about: &'a CriticExample,
    pub(super) prompt: Vec<u32>,
    pub(super) critiques: Vec<Critique>,
    /// Whether all rewards are equal, so that nothing is learned from it.
    pub(super) flat: bool,
}

/// Sequences that are generated at once: on a GPU a token of many takes hardly longer than one of few.
pub(super) fn width(trainable: &TrainableModel) -> Result<usize> {
    Ok(if trainable.device()?.is_cpu() { 64 } else { 512 })
}

/// Tokens of the critic's prompt about a solution.
pub(super) fn prompt(trainable: &TrainableModel, example: &CriticExample) -> Result<Vec<u32>> {
    let messages = critic::prompt(&example.problem, &example.steps);
    Ok(trainable.model.tokenizer().encode_chat(&messages, true)?)
}

/// Samples a group of critiques for each solution, and rewards them.
pub(super) fn sample<'a>(
    session: &mut Session<'_>,
    config: &GrpoConfig,
    about: &[&'a CriticExample],
) -> Result<Vec<Group<'a>>> {
    let mut seeds = order::stream(session.recipe.seed, "rollouts", session.step());
    let requests = about.iter().map(|example| GenerateRequest {
        n: config.group,
        sampling: Sampling { temperature: config.temperature as f32, ..Sampling::default() },
        seed: seeds.next_u64(),
        ..GenerateRequest::new(
            Prompt::Chat(critic::prompt(&example.problem, &example.steps)),
            config.max_new_tokens,
        )
    });
    let requests = requests.collect();
    let generated = session.trainable.model.generate_all(requests, width(&session.trainable)?)?;
    let mut groups = Vec::with_capacity(about.len());
    for (example, generated) in about.iter().zip(generated) {
        let prompt = prompt(&session.trainable, example)?;
        session.count_tokens(
            prompt.len() + generated.choices.iter().map(|choice| choice.tokens.len()).sum::<usize>(),
        );
        let critiques: Vec<Critique> = generated
            .choices
            .into_iter()
            .map(|choice| {
                let parsed = critic::parse(&choice.text, example.steps.len());
                let reward = critic::reward(&parsed, example.truth, &example.steps);
                Critique { tokens: choice.tokens, parsed, reward, advantage: 0.0 }
            })
            .collect();
        groups.push(Group { about: example, prompt, critiques, flat: false });
    }
    Ok(groups)
}

/// Advantages within each group, weighted by perplexity over the whole batch when the recipe says so.
pub(super) fn weigh(groups: &mut [Group<'_>], config: &GrpoConfig) {
    let judged: Vec<JudgedCritique> = groups
        .iter()
        .flat_map(|group| {
            group.critiques.iter().map(|critique| JudgedCritique {
                truth: Verdict::from_first_error(group.about.truth),
                predicted: critique.parsed.verdict,
                perplexity: group.about.perplexity.unwrap_or(1.0),
            })
        })
        .collect();
    let weights =
        if config.perplexity_aware { losses::perplexity_weights(&judged) } else { vec![1.0; judged.len()] };
    let mut weights = weights.into_iter();
    for group in groups {
        let rewards: Vec<f64> = group.critiques.iter().map(|critique| critique.reward.total).collect();
        let advantages = losses::advantages(&rewards, config.advantage_std);
        group.flat = advantages.zero_variance;
        for ((critique, advantage), weight) in
            group.critiques.iter_mut().zip(advantages.values).zip(weights.by_ref())
        {
            critique.advantage = advantage * weight;
        }
    }
}

/// Metrics of a batch of critiques: rewards by part, verdicts by perplexity, bias.
pub(super) fn rewards(groups: &[Group<'_>]) -> MetricValues {
    let all: Vec<(&Group<'_>, &Critique)> = groups
        .iter()
        .flat_map(|group| group.critiques.iter().map(move |critique| (group, critique)))
        .collect();
    let mean = |value: &dyn Fn(&(&Group<'_>, &Critique)) -> f64| {
        all.iter().map(value).sum::<f64>() / all.len() as f64
    };
    let is = |condition: bool| f64::from(u8::from(condition));
    let flat = groups.iter().filter(|group| group.flat).count() as f64 / groups.len() as f64;
    let judgements: Vec<Judgment> =
        all.iter().map(|(group, critique)| judgement(group.about, &critique.parsed)).collect();
    let bias = bias(&judgements);
    let mut metrics = vec![
        ("reward", mean(&|(_, critique)| critique.reward.total)),
        ("reward_format", mean(&|(_, critique)| critique.reward.format)),
        ("reward_answer", mean(&|(_, critique)| critique.reward.answer)),
        ("verdict_accuracy", bias.accuracy.unwrap_or(f64::NAN)),
        ("abs_bias", bias.bi.map_or(f64::NAN, f64::abs)),
        ("undecided_share", mean(&|(_, critique)| is(critique.parsed.verdict.is_none()))),
        ("zero_variance_share", flat),
        ("critique_tokens", mean(&|(_, critique)| critique.tokens.len() as f64)),
    ];
    // How often a critic says "correct" about solutions of low, middle and high perplexity.
    let mut by_perplexity: Vec<(f64, bool)> = all
        .iter()
        .filter_map(|(group, critique)| {
            Some((group.about.perplexity?, critique.parsed.verdict? == Verdict::Correct))
        })
        .collect();
    by_perplexity.sort_by(|a, b| a.0.total_cmp(&b.0));
    if by_perplexity.len() >= 3 {
        let third = by_perplexity.len().div_ceil(3);
        let names = ["says_correct_low_ppl", "says_correct_mid_ppl", "says_correct_high_ppl"];
        for (name, part) in names.into_iter().zip(by_perplexity.chunks(third)) {
            let share = part.iter().filter(|(_, correct)| *correct).count() as f64 / part.len() as f64;
            metrics.push((name, share));
        }
    }
    metrics
}

/// A verdict beside the truth.
pub(super) fn judgement(about: &CriticExample, parsed: &Parsed) -> Judgment {
    Judgment {
        correct: about.truth.is_none(),
        judged: parsed.verdict.map(|verdict| verdict == Verdict::Correct),
    }
}
