//! A chat model as a judge: asked by a protocol, once or for several votes.
//!
//! The majority counts; among places that are equally frequent the one that was given first does, as in ProcessBench's
//! own evaluation. Votes that cannot be read do not count.

use futures_util::future::join_all;
use gradus_annotate::judge::{self, JudgeConfig, Protocol, Review};
use gradus_backend::Generator;
use gradus_bench::judge::{Judged, Opinion};
use gradus_core::FirstError;
use gradus_core::contracts::{ScoreRequest, Usage};
use gradus_durable::journal_key;

/// A model, and how it is asked.
pub(super) struct Critic {
    pub(super) model: Generator,
    pub(super) protocol: Protocol,
    pub(super) config: JudgeConfig,
}

impl Critic {
    /// One opinion per request, all requests concurrent.
    pub(super) async fn judge(&self, requests: &[ScoreRequest]) -> Vec<Judged> {
        let judge = judge::Judge { model: &self.model, name: "", protocol: &self.protocol, system: None };
        let asked = requests.iter().map(|request| async move {
            // As the journal does, the seed knows a solution by its text.
            let named_by = journal_key(&(&request.problem, &request.steps));
            judge::review(judge, &request.problem, &request.steps, &[&named_by], &self.config).await
        });
        let answers = join_all(asked).await.into_iter();
        answers
            .map(|answer| answer.map_or_else(|error| Judged::failed(&error), |review| judged(&review)))
            .collect()
    }

    /// All that determines its opinions.
    pub(super) fn identity(&self) -> String {
        let asked = journal_key(&(self.protocol.name, self.protocol.text(), &self.config));
        let seeds = if self.model.is_unseeded() { " without seeds" } else { "" };
        format!("{} critic {asked}{seeds}", self.model.identity())
    }
}

fn judged(review: &Review) -> Judged {
    let cost = &review.cost;
    let usage = Usage { prompt_tokens: cost.prompt_tokens, completion_tokens: cost.completion_tokens };
    let opinion = match review.tally().first() {
        None => Opinion::Undecided { reason: review.reason().to_owned() },
        Some((place, _)) => {
            let agrees = review.votes.iter().flatten().find(|reading| reading.first_error == *place);
            Opinion::Verdict {
                correct: *place == FirstError::None,
                step: match place {
                    FirstError::At(step) => Some(*step),
                    FirstError::None | FirstError::Unknown => None,
                },
                critique: agrees.map_or_else(String::new, |reading| reading.critique.clone()),
            }
        }
    };
    Judged { usage, truncated: review.cut, ..Judged::free(opinion) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_annotate::judge::Reading;
    use gradus_core::Cost;
    use gradus_core::select::DecisionRule;

    fn opinion(votes: &[Result<FirstError, &'static str>]) -> Opinion {
        let reading = |place: &FirstError| Reading { first_error: *place, critique: format!("{place:?}") };
        let votes = votes.iter().map(|vote| vote.as_ref().map(reading).map_err(|reason| *reason));
        let review = Review { votes: votes.collect(), said: Vec::new(), cut: false, cost: Cost::default() };
        judged(&review).opinion
    }

    #[test]
    fn the_majority_of_votes_counts() {
        let votes = [Ok(FirstError::At(0)), Ok(FirstError::At(1)), Err("no verdict"), Ok(FirstError::At(1))];
        let found = opinion(&votes);
        assert_eq!(found.first_error(DecisionRule::default()), Some(Some(1)));
        assert!(matches!(&found, Opinion::Verdict { critique, .. } if critique == "At(1)"), "{found:?}");
        // Of two places that are equally frequent, the first.
        let tied = opinion(&[Ok(FirstError::None), Ok(FirstError::At(2))]);
        assert_eq!(tied.first_error(DecisionRule::default()), Some(None));
        let nowhere = opinion(&[Ok(FirstError::Unknown)]);
        assert_eq!(
            (nowhere.first_error(DecisionRule::default()), nowhere.is_correct(DecisionRule::default())),
            (None, Some(false))
        );
        let unread = opinion(&[Err("no verdict")]);
        assert_eq!(unread, Opinion::Undecided { reason: "no verdict".to_owned() });
    }
}
