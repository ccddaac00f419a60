//! The calls of a search: drawing samples within the budget, and scoring solutions.
//!
//! All requests of a round are made at once while the budget covers the most that they could use, so a local model
//! batches them. When it no longer does, they come one after another, each as large as what is left allows. Seeds belong
//! to samples, not to requests, so how samples are grouped changes none of them.

use futures_util::future::join_all;

use super::budget::Budget;
use super::outcome::{Ending, Found, SearchUsage, StopReason};
use super::{Question, Settings};
use crate::contracts::{
    CallError, Choice, Generate, GenerateRequest, Generated, ScoreRequest, ScoreSteps, StepScores,
};

/// A search on its way.
pub(super) struct Run<'a> {
    generate: &'a dyn Generate,
    score: &'a dyn ScoreSteps,
    pub(super) question: Question<'a>,
    pub(super) settings: &'a Settings,
    pub(super) budget: Budget,
    pub(super) usage: SearchUsage,
    /// The generator's error: one that ends the search, or else the first.
    failure: Option<CallError>,
    error: Option<String>,
}

/// Samples that are wanted.
pub(super) struct Order {
    /// The solution so far.
    pub(super) begun: String,
    pub(super) samples: usize,
    pub(super) max_tokens: usize,
    /// Texts that end a sample.
    pub(super) stop: Vec<String>,
    /// Sample `i` uses `seed + i`.
    pub(super) seed: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        generate: &'a dyn Generate,
        score: &'a dyn ScoreSteps,
        question: Question<'a>,
        settings: &'a Settings,
        budget: Budget,
    ) -> Self {
        let usage = SearchUsage::default();
        Self { generate, score, question, settings, budget, usage, failure: None, error: None }
    }

    /// Whether the generator has failed in a way that ends the search. A request that it refused ends only what that
    /// request was about, such as a solution that has outgrown the context.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|error| !matches!(error, CallError::Invalid(_)))
    }

    /// Draws the samples of every order, as far as the budget goes.
    pub(super) async fn draw(&mut self, orders: &[Order]) -> Vec<Vec<Choice>> {
        let most = |order: &Order| (order.samples as u64).saturating_mul(order.max_tokens as u64);
        if self.budget.covers(orders.iter().map(most).fold(0, u64::saturating_add)) {
            let calls = orders.iter().map(|order| {
                self.generate.generate(self.request(order, 0, (order.samples, order.max_tokens)))
            });
            let answers = join_all(calls).await;
            let both = orders.iter().zip(answers);
            return both
                .map(|(order, answer)| self.receive(answer, most(order)).unwrap_or_default())
                .collect();
        }
        let mut drawn = Vec::with_capacity(orders.len());
        for order in orders {
            drawn.push(self.draw_in_parts(order).await);
        }
        drawn
    }

    async fn draw_in_parts(&mut self, order: &Order) -> Vec<Choice> {
        let mut drawn = Vec::new();
        let mut asked = 0;
        while !self.has_failed()
            && let Some((samples, max_tokens)) = self.budget.largest(order.samples - asked, order.max_tokens)
        {
            let request = self.request(order, asked, (samples, max_tokens));
            let answer = self.generate.generate(request).await;
            let Some(choices) = self.receive(answer, samples as u64 * max_tokens as u64) else { break };
            drawn.extend(choices);
            asked += samples;
        }
        drawn
    }

    fn request(&self, order: &Order, asked: usize, size: (usize, usize)) -> GenerateRequest {
        let prompt = self.question.ask.prompt(self.question.text, &order.begun);
        GenerateRequest {
            n: size.0,
            sampling: self.settings.sampling.clone(),
            stop: order.stop.clone(),
            seed: order.seed.wrapping_add(asked as u64),
            ..GenerateRequest::new(prompt, size.1)
        }
    }

    /// Keeps the accounts of a request that could use `most` tokens.
    fn receive(&mut self, answer: Result<Generated, CallError>, most: u64) -> Option<Vec<Choice>> {
        self.usage.generate_calls += 1;
        match answer {
            Ok(Generated { choices, usage }) => {
                // A server that does not count must not make the search endless.
                let uncounted =
                    usage.completion_tokens == 0 && choices.iter().any(|choice| !choice.text.is_empty());
                let tokens = if uncounted { most } else { usage.completion_tokens };
                self.budget.spend(tokens);
                self.usage.generated_tokens += tokens;
                self.usage.proposals += choices.len() as u64;
                Some(choices)
            }
            Err(error) => {
                self.usage.failed_calls += 1;
                self.error.get_or_insert_with(|| error.to_string());
                if !self.has_failed() && (self.failure.is_none() || !matches!(error, CallError::Invalid(_))) {
                    self.failure = Some(error);
                }
                None
            }
        }
    }

    /// Scores solutions in one call. One that gets no score, or not one for each step, keeps none.
    pub(super) async fn judge(&mut self, solutions: &mut [Found]) {
        if solutions.is_empty() {
            return;
        }
        let request = |(index, found): (usize, &Found)| ScoreRequest {
            id: format!("proposal {index}"),
            problem: self.question.text.to_owned(),
            steps: found.steps.clone(),
            ..ScoreRequest::default()
        };
        let requests = solutions.iter().enumerate().map(request).collect();
        self.usage.score_calls += 1;
        let mut answers = match self.score.score_steps(requests).await {
            Ok(answers) => answers.into_iter(),
            Err(error) => {
                self.error.get_or_insert_with(|| error.to_string());
                Vec::new().into_iter()
            }
        };
        for found in solutions {
            match answers.next() {
                Some(Ok(StepScores { scores, usage })) => {
                    self.usage.scored_tokens += usage.prompt_tokens + usage.completion_tokens;
                    if scores.len() == found.steps.len() {
                        found.aggregate = self.settings.aggregation.of(&scores);
                        found.scores = scores;
                    }
                }
                Some(Err(error)) => {
                    self.error.get_or_insert_with(|| error.to_string());
                }
                None => {}
            }
            self.usage.undecided += u64::from(found.aggregate.is_none());
        }
    }

    pub(super) fn end(self, solutions: Vec<Found>, stopped: StopReason) -> Ending {
        Ending { solutions, stopped, usage: self.usage, failure: self.failure, error: self.error }
    }
}
