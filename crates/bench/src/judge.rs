//! Judges: the models under test. A judge scores a solution's steps or gives a verdict.
//!
//! A process reward model gives scores, a critic a verdict, and either may fail: then the solution is undecided, which
//! every benchmark counts as incorrect and reports.

use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, Usage};
use gradus_core::select::DecisionRule;
use serde::{Deserialize, Serialize};

/// What a judge says about one solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    /// A score in [0, 1] per step.
    Scores(Vec<f64>),
    /// A verdict about the whole, and where it goes wrong if that could be read.
    Verdict {
        /// Whether every step is said to be right.
        correct: bool,
        /// The 0-based first wrong step.
        step: Option<usize>,
        /// Its reasons.
        critique: String,
    },
    /// Nothing that could be used.
    Undecided {
        /// Why, in few words: the reasons are counted.
        reason: String,
    },
}

impl Opinion {
    /// Where the first error is said to be: `Some(None)` is 'nowhere', `None` undecided. Scores are
    /// decided by `rule`.
    pub fn first_error(&self, rule: DecisionRule) -> Option<Option<usize>> {
        match self {
            Self::Scores(scores) => Some(rule.first_error(scores)),
            Self::Verdict { correct: true, .. } => Some(None),
            Self::Verdict { step: Some(step), .. } => Some(Some(*step)),
            Self::Verdict { .. } | Self::Undecided { .. } => None,
        }
    }

    /// Whether the solution is said to be right throughout; `None` is undecided.
    pub fn is_correct(&self, rule: DecisionRule) -> Option<bool> {
        match self {
            Self::Scores(scores) => Some(rule.first_error(scores).is_none()),
            Self::Verdict { correct, .. } => Some(*correct),
            Self::Undecided { .. } => None,
        }
    }

    /// The scores, if there are any.
    pub(crate) fn scores(&self) -> Option<&[f64]> {
        match self {
            Self::Scores(scores) => Some(scores),
            _ => None,
        }
    }
}

/// An opinion and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What is said.
    pub opinion: Opinion,
    /// Tokens it took.
    #[serde(default)]
    pub usage: Usage,
    /// Its text was cut off at the token limit.
    #[serde(default)]
    pub truncated: bool,
    /// Why there is no opinion, where a call failed.
    #[serde(skip)]
    pub failure: Option<CallError>,
}

impl Judged {
    /// An opinion that cost nothing.
    pub fn free(opinion: Opinion) -> Self {
        Self { opinion, usage: Usage::default(), truncated: false, failure: None }
    }

    /// No opinion because a call failed.
    pub fn failed(error: &CallError) -> Self {
        let kind = if matches!(error, CallError::Failed(_)) { "the call failed" } else { "refused" };
        let reason = format!("{kind}: {}", error.reason());
        Self { failure: Some(error.clone()), ..Self::free(Opinion::Undecided { reason }) }
    }

    pub(crate) fn undecided(reason: &str) -> Self {
        Self::free(Opinion::Undecided { reason: reason.to_owned() })
    }
}

/// Something that has opinions. Solutions of one problem come together, so that they can share its prompt.
pub trait Judge: Send + Sync {
    /// One opinion per request, in order.
    fn judge(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Judged>>;
}

/// A process reward model as a judge.
pub struct Scorer<'a>(pub &'a dyn ScoreSteps);

impl Judge for Scorer<'_> {
    fn judge(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Judged>> {
        Box::pin(async move {
            let steps: Vec<usize> = requests.iter().map(|request| request.steps.len()).collect();
            let answers = self.0.score_steps(requests).await?;
            let judged = answers.into_iter().zip(steps).map(|(answer, steps)| match answer {
                Ok(scored) if scored.scores.len() == steps => {
                    Judged { usage: scored.usage, ..Judged::free(Opinion::Scores(scored.scores)) }
                }
                Ok(_) => Judged::undecided("not one score per step"),
                Err(error) => Judged::failed(&error),
            });
            Ok(judged.collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_without_a_place_decides_only_the_whole() {
        const RULE: DecisionRule = DecisionRule::Threshold { threshold: 0.5 };
        let verdict = |correct, step| Opinion::Verdict { correct, step, critique: String::new() };
        assert_eq!(verdict(false, None).first_error(RULE), None);
        assert_eq!(verdict(false, None).is_correct(RULE), Some(false));
        assert_eq!(verdict(false, Some(2)).first_error(RULE), Some(Some(2)));
        assert_eq!(verdict(true, None).first_error(RULE), Some(None));
        let scores = Opinion::Scores(vec![0.9, 0.4]);
        assert_eq!(
            (scores.first_error(RULE), scores.is_correct(DecisionRule::Threshold { threshold: 0.3 })),
            (Some(Some(1)), Some(true))
        );
    }
}
