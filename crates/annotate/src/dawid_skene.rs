//! Dawid and Skene (1979): annotator reliability and the most probable labels, estimated together without true labels.
//!
//! An item is a step of a solution. Annotator i votes on
//! step j if it has seen no error before j: after its first error it says nothing. With T_j ∈ {right, wrong}, prior
//! π = P(wrong), and for each annotator α = P(says wrong | wrong) (sensitivity), β = P(says wrong | right) (false alarms):
//! - E step: P(T_j = wrong | votes) ∝ π ∏ α^v (1−α)^(1−v)
//! - M step: π, α, β are the expected shares, each with one half added to both counts, so that none becomes 0 or 1
//!
//! The probability that step j is wrong, given that all before it are right, is that posterior h_j; so the first error is
//! at j with probability h_j ∏_{i<j} (1 − h_i). Assumes that annotators err independently: models of one family do not, and
//! what they share will look more certain than it is.

use serde::{Deserialize, Serialize};

use crate::consensus::FirstErrorVote;

/// Iterations at most; it is done when the likelihood rises by less than [`ENOUGH`] a vote.
const ITERATIONS: usize = 500;
const ENOUGH: f64 = 1e-10;

/// One annotator's reliability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// P(says wrong | the step is wrong).
    pub sensitivity: f64,
    /// P(says wrong | the step is right).
    pub false_alarm: f64,
}

/// A fitted Dawid–Skene model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DawidSkene {
    /// P(a step is wrong, given that all before it are right).
    pub prior: f64,
    /// One for each annotator.
    pub annotators: Vec<Reliability>,
    /// Iterations until nothing changed.
    pub iterations: usize,
}

/// The annotators' votes on one solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolutionVotes {
    /// Its steps.
    pub steps: usize,
    /// One for each annotator.
    pub votes: Vec<FirstErrorVote>,
}

impl SolutionVotes {
    /// Votes on a step: annotators that decided, and saw no error before it; whether they call it wrong.
    fn step_votes(&self, step: usize) -> impl Iterator<Item = (usize, bool)> {
        self.votes.iter().enumerate().filter_map(move |(annotator, votes)| match votes {
            None => None,
            Some(Some(error)) if *error < step => None,
            Some(error) => Some((annotator, *error == Some(step))),
        })
    }

    /// Steps on which somebody votes.
    fn voted(&self) -> usize {
        if self.votes.contains(&Some(None)) {
            return self.steps;
        }
        self.votes.iter().flatten().flatten().max().map_or(0, |last| last + 1)
    }
}

/// Where the first error probably is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FirstErrorEstimate {
    /// The most probable place; `None` is nowhere.
    pub first_error: Option<usize>,
    /// Its probability.
    pub probability: f64,
    /// The probability that there is no error at all.
    pub all_right: f64,
}

impl DawidSkene {
    /// Fits `annotators` to what they say about `items`, until nothing changes; none without a vote.
    pub fn fit(items: &[SolutionVotes], annotators: usize) -> Option<Self> {
        Self::iterated(items, annotators, ITERATIONS, ENOUGH)
    }

    /// Fits for an exact number of iterations, as the reference values were made.
    #[cfg(test)]
    fn fit_for(items: &[SolutionVotes], annotators: usize, iterations: usize) -> Option<Self> {
        Self::iterated(items, annotators, iterations, f64::NEG_INFINITY)
    }

    fn iterated(items: &[SolutionVotes], annotators: usize, iterations: usize, enough: f64) -> Option<Self> {
        // Most steps are right and most annotators are better than chance: this also tells the two classes apart.
        let start = Reliability { sensitivity: 0.7, false_alarm: 0.1 };
        let mut model = Self { prior: 0.1, annotators: vec![start; annotators], iterations: 0 };
        let votes: usize = items
            .iter()
            .map(|item| (0..item.voted()).map(|step| item.step_votes(step).count()).sum::<usize>())
            .sum();
        if votes == 0 {
            return None;
        }
        let mut before = f64::NEG_INFINITY;
        for iteration in 1..=iterations {
            let likelihood = model.iterate(items);
            model.iterations = iteration;
            if likelihood - before < enough * votes as f64 {
                break;
            }
            before = likelihood;
        }
        Some(model)
    }

    /// One step of expectation and maximization; the log-likelihood before it.
    fn iterate(&mut self, items: &[SolutionVotes]) -> f64 {
        let mut likelihood = 0.0;
        let (mut wrong, mut all) = (0.5, 1.0);
        // Of each annotator: votes 'wrong' and all votes, on wrong and on right steps.
        let mut counts = vec![[0.5, 1.0, 0.5, 1.0]; self.annotators.len()];
        for item in items {
            for step in 0..item.voted() {
                let (p, log) = self.posterior(item, step);
                likelihood += log;
                wrong += p;
                all += 1.0;
                for (annotator, vote) in item.step_votes(step) {
                    let count = &mut counts[annotator];
                    let vote = f64::from(vote);
                    count[0] += p * vote;
                    count[1] += p;
                    count[2] += (1.0 - p) * vote;
                    count[3] += 1.0 - p;
                }
            }
        }
        self.prior = wrong / all;
        for (annotator, count) in self.annotators.iter_mut().zip(&counts) {
            *annotator = Reliability { sensitivity: count[0] / count[1], false_alarm: count[2] / count[3] };
        }
        likelihood
    }

    /// The probability that a step is wrong, and the logarithm of that of its votes.
    fn posterior(&self, item: &SolutionVotes, step: usize) -> (f64, f64) {
        let (mut wrong, mut right) = (self.prior.ln(), (1.0 - self.prior).ln());
        for (annotator, vote) in item.step_votes(step) {
            let Reliability { sensitivity, false_alarm } = self.annotators[annotator];
            wrong += if vote { sensitivity } else { 1.0 - sensitivity }.ln();
            right += if vote { false_alarm } else { 1.0 - false_alarm }.ln();
        }
        let top = wrong.max(right);
        let sum = top + ((wrong - top).exp() + (right - top).exp()).ln();
        ((wrong - sum).exp(), sum)
    }

    /// Where the first error of a solution is; none where nobody decided.
    pub fn estimate(&self, item: &SolutionVotes) -> Option<FirstErrorEstimate> {
        if item.votes.iter().all(Option::is_none) {
            return None;
        }
        let mut right = 1.0;
        let mut best = (None, 0.0);
        for step in 0..item.steps {
            let wrong = if step < item.voted() { self.posterior(item, step).0 } else { self.prior };
            let here = right * wrong;
            if here > best.1 {
                best = (Some(step), here);
            }
            right *= 1.0 - wrong;
        }
        if right >= best.1 {
            best = (None, right);
        }
        Some(FirstErrorEstimate { first_error: best.0, probability: best.1, all_right: right })
    }
}

#[cfg(test)]
mod tests;
