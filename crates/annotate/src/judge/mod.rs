//! Judge labels: a model reviews the solution and says where its first error is, by a [`Protocol`].
//!
//! With several votes the place that most of them give wins; where two are equally frequent, and where no vote can be read,
//! the solution is undecided.

mod protocol;

use std::collections::BTreeMap;

use gradus_core::contracts::{CallError, FinishReason, Generate, GenerateRequest, Prompt, Sampling};
use gradus_core::{Annotation, Cost, FirstError, LabelSource, Problem, Solution};
use serde::{Deserialize, Serialize};

pub use protocol::{Protocol, Reader, Reading};

use crate::annotated::{Annotated, refused};
use crate::error::{Error, Result};
use crate::metered_model::MeteredModel;
use crate::seed::seed_of;

/// How a judge is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeConfig {
    /// Independent reviews.
    pub votes: usize,
    /// Maximum tokens per review.
    pub max_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Random seed.
    pub seed: u64,
}

impl Default for JudgeConfig {
    fn default() -> Self {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        Self { votes: 1, max_tokens: 2048, sampling, seed: 0 }
    }
}

impl JudgeConfig {
    /// A protocol's settings for so many votes, where nobody says otherwise.
    pub fn of(protocol: &Protocol, votes: usize) -> Self {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let sampling = if votes > 1 { protocol.voting.clone() } else { greedy };
        Self { votes, max_tokens: protocol.max_tokens, sampling, seed: 0 }
    }

    /// Validates the settings.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, message: &str| Err(Error::Setting { field, message: message.to_owned() });
        if self.votes == 0 {
            return refuse("votes", "is 0: expected at least 1");
        }
        if self.votes > 1 && self.sampling.temperature == 0.0 {
            return refuse("temperature", "is 0: all votes would be the same");
        }
        Ok(())
    }
}

/// Who is asked, and how: the model's name stands in the labels.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The model.
    pub model: &'a dyn Generate,
    /// Its name.
    pub name: &'a str,
    /// Prompt and parser.
    pub protocol: &'a Protocol,
    /// A system message.
    pub system: Option<&'a str>,
}

/// The votes about one solution.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// What each vote says, or why it cannot be read.
    pub votes: Vec<std::result::Result<Reading, &'static str>>,
    /// What was written.
    pub said: Vec<String>,
    /// Whether a vote ended at the token limit.
    pub cut: bool,
    /// What it cost.
    pub cost: Cost,
}

impl Review {
    /// How often each place was given: the most frequent first, equals in the order in which they came.
    pub fn tally(&self) -> Vec<(FirstError, u32)> {
        let mut counts: Vec<(FirstError, u32)> = Vec::new();
        for reading in self.votes.iter().flatten() {
            match counts.iter_mut().find(|(place, _)| *place == reading.first_error) {
                Some((_, count)) => *count += 1,
                None => counts.push((reading.first_error, 1)),
            }
        }
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// Why there is no vote that could be read: the first reason.
    pub fn reason(&self) -> &'static str {
        self.votes.iter().find_map(|vote| vote.as_ref().err()).copied().unwrap_or("nothing was written")
    }
}

/// Asks for the votes about a solution. `named_by` is what its seed depends on.
pub async fn review(
    judge: Judge<'_>,
    problem: &str,
    steps: &[String],
    named_by: &[&str],
    config: &JudgeConfig,
) -> std::result::Result<Review, CallError> {
    let invalid = |error: Error| CallError::Invalid(error.to_string());
    config.check().map_err(invalid)?;
    let messages = judge.protocol.messages(judge.system, problem, steps).map_err(invalid)?;
    let mut model = MeteredModel::new(judge.model);
    let answer = model
        .generate(GenerateRequest {
            n: config.votes,
            sampling: config.sampling.clone(),
            seed: seed_of(config.seed, named_by),
            ..GenerateRequest::new(Prompt::Chat(messages), config.max_tokens)
        })
        .await?;
    let is_cut = |finish: FinishReason| finish == FinishReason::Length;
    let votes = answer.choices.iter();
    let votes = votes.map(|vote| judge.protocol.read(&vote.text, steps.len(), is_cut(vote.finish)));
    Ok(Review {
        votes: votes.collect(),
        cut: answer.choices.iter().any(|choice| is_cut(choice.finish)),
        said: answer.choices.into_iter().map(|choice| choice.text).collect(),
        cost: model.cost,
    })
}

/// Labels the steps of one solution.
pub async fn annotate(
    judge: Judge<'_>,
    problem: &Problem,
    solution: &Solution,
    config: &JudgeConfig,
) -> std::result::Result<Annotated, CallError> {
    if let Some(refused) = refused(None, solution) {
        return Ok(refused);
    }
    let named_by = [problem.id.as_str(), &solution.id];
    let mut review = review(judge, &problem.question(), &solution.steps, &named_by, config).await?;
    for vote in &mut review.votes {
        // A label needs a place.
        if matches!(vote, Ok(Reading { first_error: FirstError::Unknown, .. })) {
            *vote = Err("wrong, but no step is named");
        }
    }
    let mut notes: BTreeMap<String, u64> = BTreeMap::new();
    for reason in review.votes.iter().filter_map(|vote| vote.as_ref().err()) {
        *notes.entry((*reason).to_owned()).or_default() += 1;
    }
    let (first_error, agreeing) = match review.tally()[..] {
        [] => {
            let reason = review.reason();
            return Ok(Annotated { notes, ..Annotated::undecided(reason, review.said, review.cost) });
        }
        [(_, most), (_, next), ..] if most == next => {
            let tied = Annotated::undecided("the votes are tied", review.said, review.cost);
            return Ok(Annotated { notes, ..tied });
        }
        [most, ..] => most,
    };
    let place = match first_error {
        FirstError::At(step) => Some(step),
        FirstError::None | FirstError::Unknown => None,
    };
    let (model, votes) = (judge.name.to_owned(), config.votes as u32);
    let source = LabelSource::Judge { model, agreeing, votes };
    let mut annotation = Annotation::from_first_error(solution.steps.len(), place, &source);
    annotation.cost = Some(review.cost.clone());
    Ok(Annotated { annotation: Some(annotation), undecided: None, cost: review.cost, notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::FirstError;
    use gradus_llm::Scripted;

    fn solution() -> (Problem, Solution) {
        let problem = Problem { id: "p".into(), text: "What is 1 + 2 + 3?".into(), ..Problem::default() };
        let steps = vec!["1 + 2 = 3".to_owned(), "3 + 3 = 7".to_owned(), "So it is 7.".to_owned()];
        (problem, Solution { id: "s".into(), steps, ..Solution::default() })
    }

    async fn ask(model: &Scripted, votes: usize) -> Annotated {
        let (problem, solution) = solution();
        let protocol = Protocol::gradus();
        let judge = Judge { model, name: "m", protocol: &protocol, system: None };
        let sampling = Sampling { temperature: 0.7, ..Sampling::default() };
        let config = JudgeConfig { votes, sampling, ..JudgeConfig::default() };
        annotate(judge, &problem, &solution, &config).await.unwrap()
    }

    #[tokio::test]
    async fn votes_are_counted() {
        let model =
            Scripted::new().then("\\boxed{1}").then("I think \\boxed{1}").then("\\boxed{-1}").then("hm");
        let found = ask(&model, 4).await;
        let annotation = found.annotation.unwrap();
        assert_eq!(annotation.first_error, FirstError::At(1));
        let source = LabelSource::Judge { model: "m".into(), agreeing: 2, votes: 4 };
        assert_eq!(annotation.labels[0].as_ref().unwrap().source, source);
        assert_eq!(annotation.labels[2], None);
        assert_eq!(found.notes["no index in \\boxed{}"], 1);
        // Words count as tokens: the prompt once, the four samples one, three, one and one.
        let words = |text: &str| text.split_whitespace().count() as u64;
        let gradus_core::contracts::Prompt::Chat(asked) = &model.generated()[0].prompt else {
            panic!("a chat")
        };
        assert_eq!(asked[0].content.matches("<paragraph_1>").count(), 1);
        assert_eq!((found.cost.requests, found.cost.completion_tokens), (1, 6));
        assert_eq!(found.cost.prompt_tokens, words(&asked[0].content));
    }

    #[tokio::test]
    async fn what_cannot_be_read_or_is_tied_is_undecided_and_kept() {
        let tied = ask(&Scripted::new().then("\\boxed{0}").then("\\boxed{-1}"), 2).await;
        let undecided = tied.undecided.unwrap();
        assert_eq!((undecided.reason.as_str(), undecided.said.len()), ("the votes are tied", 2));
        let beyond = ask(&Scripted::new().then("\\boxed{3}"), 1).await;
        assert_eq!(beyond.undecided.unwrap().reason, "an index that no paragraph has");
        assert_eq!((beyond.annotation, beyond.cost.requests), (None, 1));
    }
}
