//! The solutions of a problem as candidates: their answers, aggregates and who is chosen, as `gradus select` chooses.

use gradus_core::select::Aggregation;
use gradus_core::select::vote::{self, Power};
use gradus_core::{Outcome, Record};

use crate::ViewOptions;

/// A solution's answer and outcome; what the record does not say is found as `gradus select` finds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) answer: Option<String>,
    pub(crate) outcome: Outcome,
    /// Marked by the search that found it.
    pub(crate) searched: Option<bool>,
}

/// One way to choose: a reward model and an aggregation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) model: String,
    pub(crate) aggregation: Aggregation,
    /// One for each candidate.
    pub(crate) aggregates: Vec<Option<f64>>,
    /// The candidate with the highest aggregate.
    pub(crate) best: Option<usize>,
    /// The best candidate with the answer of the largest total.
    pub(crate) vote: Option<usize>,
}

impl Choice {
    fn best(&self) -> Option<usize> {
        self.best
    }

    fn vote(&self) -> Option<usize> {
        self.vote
    }
}

/// One way in which a solution is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    /// `search`, `best`, `vote` or `majority`.
    pub(crate) kind: &'static str,
    /// The reward models that choose so; none where all do.
    pub(crate) models: Vec<String>,
}

impl Reason {
    /// `best by my-prm`.
    pub(crate) fn words(&self) -> String {
        if self.models.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{} by {}", self.kind, self.models.join(", "))
        }
    }
}

/// All candidates of a record and every choice among them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidates {
    pub(crate) all: Vec<Candidate>,
    /// By model, then in the order of [`Aggregation::ALL`].
    pub(crate) choices: Vec<Choice>,
    /// The earliest candidate with the most frequent answer, and how many gave it.
    pub(crate) majority: Option<(usize, usize)>,
}

impl Candidates {
    pub(crate) fn of(record: &Record) -> Self {
        let all: Vec<Candidate> =
            record.solutions.iter().map(|solution| candidate(record, solution)).collect();
        let answers: Vec<Option<&str>> = all.iter().map(|one| one.answer.as_deref()).collect();
        let groups = vote::groups(&answers);
        let mut models: Vec<&String> = record.solutions.iter().flat_map(|one| one.scores.keys()).collect();
        models.sort_unstable();
        models.dedup();
        let choices = models.into_iter().flat_map(|model| {
            let groups = &groups;
            Aggregation::ALL.map(|aggregation| {
                let scores = |solution: &gradus_core::Solution| aggregation.of(solution.scores.get(model)?);
                let aggregates: Vec<Option<f64>> = record.solutions.iter().map(scores).collect();
                Choice {
                    model: model.clone(),
                    aggregation,
                    best: best_of(&aggregates, |_| true),
                    vote: vote::weighted(groups, &aggregates, Power::ONE)
                        .and_then(|winner| best_of(&aggregates, |index| groups[index] == Some(winner))),
                    aggregates,
                }
            })
        });
        let majority = vote::majority(&groups)
            .map(|winner| (winner, groups.iter().filter(|group| **group == Some(winner)).count()));
        Self { choices: choices.collect(), majority, all }
    }

    /// Why a solution is chosen, best-of-N and votes by the aggregation of the options; empty where it is not.
    pub(crate) fn chosen(&self, index: usize, options: &ViewOptions) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.all[index].searched == Some(true) {
            reasons.push(Reason { kind: "search", models: Vec::new() });
        }
        if self.all.len() < 2 {
            return reasons;
        }
        for (kind, of) in [("best", Choice::best as fn(&Choice) -> _), ("vote", Choice::vote)] {
            let by = self.choices.iter().filter(|choice| choice.aggregation == options.aggregation);
            let models: Vec<String> =
                by.filter(|choice| of(choice) == Some(index)).map(|choice| choice.model.clone()).collect();
            if !models.is_empty() {
                // Who is meant is said only where it is not everybody.
                let all = models.len() * Aggregation::ALL.len() == self.choices.len();
                reasons.push(Reason { kind, models: if all { Vec::new() } else { models } });
            }
        }
        if self.majority.is_some_and(|(winner, votes)| winner == index && votes > 1) {
            reasons.push(Reason { kind: "majority", models: Vec::new() });
        }
        reasons
    }

    /// The solution to look at first: the chosen one, or the first.
    pub(crate) fn first(&self, options: &ViewOptions) -> usize {
        let searched = self.all.iter().position(|one| one.searched == Some(true));
        let best = self.choices.iter().find(|choice| choice.aggregation == options.aggregation);
        searched.or(best.and_then(|choice| choice.best)).unwrap_or(0)
    }
}

fn candidate(record: &Record, solution: &gradus_core::Solution) -> Candidate {
    let said = solution.answer.clone().filter(|answer| !answer.trim().is_empty());
    let answer =
        said.or_else(|| record.problem.final_answer(&solution.full_text()).map(|found| found.answer));
    let graded = || record.problem.accepts(answer.as_deref()?).map(Outcome::from_correct);
    let outcome = match solution.outcome {
        Outcome::Unknown => graded().unwrap_or(Outcome::Unknown),
        known => known,
    };
    let searched = solution.metadata.get("chosen").and_then(serde_json::Value::as_bool);
    Candidate { answer, outcome, searched }
}

/// The scored candidate with the highest aggregate among those that count; the earliest of equals.
fn best_of(aggregates: &[Option<f64>], counts: impl Fn(usize) -> bool) -> Option<usize> {
    let counted = |(index, value): (usize, &Option<f64>)| Some((index, (*value)?)).filter(|_| counts(index));
    let scored = aggregates.iter().enumerate().filter_map(counted);
    scored.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(index, _)| index)
}
