//! Beam search over steps.
//!
//! Each round draws `width × expansions` proposals for the next step, in equal parts for every live solution; so the
//! first round, which has only the question, is as wide as the others, and so is one that few different solutions have
//! reached. Equal proposals are one. The scorer ranks them; the best `width` get a place: a complete solution is
//! finished, the others go on. It ends when `stop_after` solutions are finished, when none is left, or at the largest
//! number of steps or tokens. A complete proposal without a place is kept in reserve, and reported only if nothing was
//! finished: where one step has many ends, a vote over all of them would count one chain of thought many times.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::outcome::{Ending, Found, SearchOutcome, StopReason, conclude};
use super::run::{Order, Run};
use super::{Question, Settings, check};
use crate::contracts::{CallError, Choice, FinishReason, Generate, ScoreSteps};

/// A beam search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeamConfig {
    /// Partial solutions that go on after each step.
    pub width: usize,
    /// Proposals for the next step of each; more where fewer than `width` are left.
    pub expansions: usize,
    /// Most steps of a solution.
    pub max_steps: usize,
    /// Most tokens of a step.
    pub step_tokens: usize,
    /// Finished solutions that are enough.
    pub stop_after: usize,
    /// What every kind of search needs to know.
    pub settings: Settings,
}

impl Default for BeamConfig {
    fn default() -> Self {
        Self {
            width: 4,
            expansions: 4,
            max_steps: 40,
            step_tokens: 512,
            stop_after: 4,
            settings: Settings::default(),
        }
    }
}

/// Searches for a solution, the best few partial solutions at a time.
///
/// # Errors
///
/// The configuration cannot work, or the generator failed before anything was found.
///
/// ```
/// use gradus_core::contracts::{CallError, Generate, ScoreSteps};
/// use gradus_core::select::search::{BeamConfig, Question, Settings, beam};
/// async fn solve(policy: &dyn Generate, prm: &dyn ScoreSteps) -> Result<Option<String>, CallError> {
///     let settings = Settings { budget: Some(8_000), seed: 7, ..Settings::default() };
///     let config = BeamConfig { width: 2, expansions: 8, settings, ..BeamConfig::default() };
///     let outcome = beam(policy, prm, Question::plain("What is 3 + 4?"), &config).await?;
///     assert!(outcome.usage.generated_tokens <= 8_000);
///     Ok(outcome.answer().map(str::to_owned))
/// }
/// ```
pub async fn beam(
    generate: &dyn Generate,
    score: &dyn ScoreSteps,
    question: Question<'_>,
    config: &BeamConfig,
) -> Result<SearchOutcome, CallError> {
    let BeamConfig { width, expansions, max_steps, step_tokens, stop_after, settings } = config;
    let positive = [
        ("width", *width),
        ("expansions", *expansions),
        ("max_steps", *max_steps),
        ("step_tokens", *step_tokens),
        ("stop_after", *stop_after),
    ];
    check(settings, &positive)?;
    let run = Run::new(generate, score, question, settings, Budget::new(settings.budget));
    conclude(vec![grow(run, config, 0).await], settings)
}

/// One beam search with its own budget; `lane` keeps the seeds of several apart.
pub(super) async fn grow(mut run: Run<'_>, config: &BeamConfig, lane: u64) -> Ending {
    let mut live = vec![Found::default()];
    let mut finished: Vec<Found> = Vec::new();
    let mut reserve: Vec<Found> = Vec::new();
    let mut stopped = StopReason::Steps;
    for depth in 0..config.max_steps {
        let mut proposals = propose(&mut run, config, &live, (lane, depth)).await;
        rank(&mut proposals);
        let any = !proposals.is_empty();
        let mut next = Vec::new();
        for (place, found) in proposals.into_iter().enumerate() {
            match (place < config.width, found.complete) {
                (true, false) => next.push(found),
                (true, true) if finished.iter().all(|other| other.steps != found.steps) => {
                    finished.push(found);
                }
                (false, true) => reserve.push(found),
                _ => {}
            }
        }
        // Where nothing came back, the solutions so far are what there is.
        if any {
            live = next;
        }
        let end = [
            (finished.len() >= config.stop_after, StopReason::Enough),
            (run.has_failed(), StopReason::Failed),
            (live.is_empty(), StopReason::NoneLeft),
            (run.budget.is_spent(), StopReason::Budget),
            (!any, StopReason::NoneLeft),
        ];
        if let Some((_, reason)) = end.into_iter().find(|(holds, _)| *holds) {
            stopped = reason;
            break;
        }
    }
    if finished.is_empty() {
        rank(&mut reserve);
        finished.extend(reserve.into_iter().take(config.width));
    }
    if stopped != StopReason::Enough {
        finished.extend(live.into_iter().filter(|found| !found.steps.is_empty()));
    }
    run.end(finished, stopped)
}

/// The proposals for the next step of every live solution, scored, no two the same.
async fn propose(
    run: &mut Run<'_>,
    config: &BeamConfig,
    live: &[Found],
    (lane, depth): (u64, usize),
) -> Vec<Found> {
    let separator = config.settings.separator.as_str();
    let wanted = config.width.saturating_mul(config.expansions);
    let part = |rank: usize| wanted / live.len() + usize::from(rank < wanted % live.len());
    let order = |(rank, parent): (usize, &Found)| Order {
        begun: parent.steps.iter().flat_map(|step| [step.as_str(), separator]).collect(),
        samples: config.settings.samples(part(rank)),
        max_tokens: config.step_tokens,
        stop: vec![separator.to_owned()],
        seed: derived(config.settings.seed, [lane, depth as u64, rank as u64]),
    };
    let orders: Vec<Order> = live.iter().enumerate().map(order).collect();
    let drawn = run.draw(&orders).await;

    let mut seen = HashSet::new();
    let (mut fresh, mut ended) = (Vec::new(), Vec::new());
    for (parent, choices) in live.iter().zip(drawn) {
        for choice in choices {
            let Some(found) = read(run, parent, &choice, separator) else { continue };
            if !seen.insert((found.steps.clone(), found.complete)) {
                run.usage.duplicates += 1;
            } else if found.steps.len() == parent.steps.len() {
                ended.push(found);
            } else {
                fresh.push(found);
            }
        }
    }
    run.judge(&mut fresh).await;
    // What ended without another step has its parent's scores.
    fresh.extend(ended);
    fresh
}

/// The solution that a sample makes of its parent, if it is one.
fn read(run: &mut Run<'_>, parent: &Found, choice: &Choice, separator: &str) -> Option<Found> {
    let text = choice.text.trim();
    if choice.finish == FinishReason::Length {
        run.usage.cut += 1;
        return None;
    }
    if text.is_empty() {
        if parent.steps.is_empty() {
            run.usage.empty += 1;
            return None;
        }
        return Some(parent.clone().completed(separator));
    }
    let mut steps = parent.steps.clone();
    steps.push(text.to_owned());
    let ask = run.question.ask;
    let complete = ask.is_end(choice) || ask.states_answer(&steps.join(separator));
    Some(Found::new(steps, complete, separator))
}

/// The highest aggregate first, those without one last; among equals the earliest.
fn rank(solutions: &mut [Found]) {
    let key = |found: &Found| found.aggregate.unwrap_or(f64::NEG_INFINITY);
    solutions
        .sort_by(|a, b| key(b).total_cmp(&key(a)).then(b.aggregate.is_some().cmp(&a.aggregate.is_some())));
}

/// A seed for a place in the search, by rounds of SplitMix64. The top bit stays free, so that `seed + i` cannot overflow.
fn derived(seed: u64, place: [u64; 3]) -> u64 {
    place.into_iter().fold(mixed(seed), |seed, part| mixed(seed ^ part)) >> 1
}

fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_seeds_of_their_own() {
        let mut seeds = HashSet::new();
        for seed in 0..4 {
            for place in (0..512u64).map(|code| [code & 7, code >> 3 & 7, code >> 6]) {
                assert!(seeds.insert(derived(seed, place)), "seed {seed}, place {place:?}");
            }
        }
    }

    #[test]
    fn without_a_score_means_last() {
        let found =
            |aggregate, step: &str| Found { aggregate, ..Found::new(vec![step.to_owned()], false, "\n") };
        let mut all = vec![
            found(None, "a"),
            found(Some(f64::NEG_INFINITY), "b"),
            found(Some(0.5), "c"),
            found(Some(0.5), "d"),
        ];
        rank(&mut all);
        let order: Vec<&str> = all.iter().map(|found| found.steps[0].as_str()).collect();
        assert_eq!(order, ["c", "d", "b", "a"]);
    }
}
