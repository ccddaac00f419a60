//! What a search has found, what it cost, and which solution it chooses.

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::contracts::CallError;
use crate::select::vote::{self, Power};
use gradus_grade::extract;

/// How one of several complete solutions is chosen. Among equals the earliest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    /// The highest aggregate.
    #[default]
    Best,
    /// The answer with the largest sum of aggregates raised to the vote's power, and the best solution that gives it.
    WeightedVote,
    /// The answer that most solutions give, and the best of those.
    Majority,
}

/// A solution that was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Its steps.
    pub steps: Vec<String>,
    /// One score per step; empty when the scorer gave none.
    pub scores: Vec<f64>,
    /// The scores as one number.
    pub aggregate: Option<f64>,
    /// The final answer of a complete solution, where one is to be seen.
    pub answer: Option<String>,
    /// Whether the solution is at its end.
    pub complete: bool,
}

impl Found {
    /// A solution that nobody has scored yet.
    pub(super) fn new(steps: Vec<String>, complete: bool, separator: &str) -> Self {
        let found = Self { steps, ..Self::default() };
        if complete { found.completed(separator) } else { found }
    }

    /// The same, at its end.
    pub(super) fn completed(mut self, separator: &str) -> Self {
        self.answer = extract(&self.steps.join(separator)).map(|extracted| extracted.answer);
        self.complete = true;
        self
    }
}

/// Why a search ended, the best reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// As many complete solutions as were wanted.
    Enough,
    /// No partial solution is left that could go on.
    NoneLeft,
    /// The largest number of steps was reached.
    Steps,
    /// The token budget is spent.
    Budget,
    /// The generator failed.
    Failed,
}

/// What a search cost, and what was lost on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchUsage {
    /// Tokens that the generator wrote. A request that does not say is charged in full.
    pub generated_tokens: u64,
    /// Tokens that the scorer read and wrote.
    pub scored_tokens: u64,
    /// Requests to the generator.
    pub generate_calls: u64,
    /// Requests to the scorer.
    pub score_calls: u64,
    /// Requests that the generator answered with an error.
    pub failed_calls: u64,
    /// Samples that came back.
    pub proposals: u64,
    /// Samples with the text of another, which were dropped.
    pub duplicates: u64,
    /// Samples without a text where there is nothing yet to end.
    pub empty: u64,
    /// Samples that a token limit cut.
    pub cut: u64,
    /// Proposals that the scorer gave no score. They rank last.
    pub undecided: u64,
}

impl SearchUsage {
    pub(super) fn add(&mut self, other: &Self) {
        self.generated_tokens += other.generated_tokens;
        self.scored_tokens += other.scored_tokens;
        self.generate_calls += other.generate_calls;
        self.score_calls += other.score_calls;
        self.failed_calls += other.failed_calls;
        self.proposals += other.proposals;
        self.duplicates += other.duplicates;
        self.empty += other.empty;
        self.cut += other.cut;
        self.undecided += other.undecided;
    }
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// Complete solutions first, in the order in which they were found; then those that were still on their way.
    pub solutions: Vec<Found>,
    /// The chosen one; none when no solution is complete.
    pub chosen: Option<usize>,
    /// What it cost.
    pub usage: SearchUsage,
    /// Why it ended.
    pub stopped: StopReason,
    /// What the first call that failed said, the generator's or the scorer's.
    pub error: Option<String>,
}

impl SearchOutcome {
    /// The chosen solution.
    pub fn best(&self) -> Option<&Found> {
        self.chosen.and_then(|index| self.solutions.get(index))
    }

    /// The answer of the chosen solution.
    pub fn answer(&self) -> Option<&str> {
        self.best().and_then(|found| found.answer.as_deref())
    }
}

/// How a search, or a subtree of one, has gone.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) solutions: Vec<Found>,
    pub(super) stopped: StopReason,
    pub(super) usage: SearchUsage,
    pub(super) failure: Option<CallError>,
    pub(super) error: Option<String>,
}

/// The outcome of one or several independent searches; the generator's error if it failed before anything was found.
pub(super) fn conclude(endings: Vec<Ending>, settings: &Settings) -> Result<SearchOutcome, CallError> {
    let mut solutions = Vec::new();
    let mut usage = SearchUsage::default();
    let (mut stopped, mut failure, mut error) = (StopReason::Enough, None, None);
    for ending in endings {
        solutions.extend(ending.solutions);
        usage.add(&ending.usage);
        stopped = stopped.max(ending.stopped);
        failure = failure.or(ending.failure);
        error = error.or(ending.error);
    }
    match failure {
        Some(failure) if solutions.is_empty() => return Err(failure),
        _ => {}
    }
    solutions.sort_by_key(|found| !found.complete);
    let chosen = chosen(&solutions, settings.choose, settings.vote_power);
    Ok(SearchOutcome { solutions, chosen, usage, stopped, error })
}

/// The complete solution that wins. Where nobody has an answer to vote for, the best.
fn chosen(solutions: &[Found], choose: Choose, power: Power) -> Option<usize> {
    let complete = &solutions[..solutions.iter().take_while(|found| found.complete).count()];
    let scores: Vec<Option<f64>> = complete.iter().map(|found| found.aggregate).collect();
    let answers: Vec<Option<&str>> = complete.iter().map(|found| found.answer.as_deref()).collect();
    let groups = match choose {
        Choose::Best => return vote::best(&scores),
        Choose::WeightedVote | Choose::Majority => vote::groups(&answers),
    };
    let winner = match choose {
        Choose::WeightedVote => vote::weighted(&groups, &scores, power),
        Choose::Best | Choose::Majority => vote::majority(&groups),
    };
    if winner.is_none() {
        return vote::best(&scores);
    }
    let members: Vec<usize> = (0..groups.len()).filter(|index| groups[*index] == winner).collect();
    let own: Vec<Option<f64>> = members.iter().map(|index| scores[*index]).collect();
    vote::best(&own).map(|index| members[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, aggregate: Option<f64>) -> Found {
        Found { aggregate, ..Found::new(vec![text.to_owned()], true, "\n\n") }
    }

    fn ending(solutions: Vec<Found>, stopped: StopReason) -> Ending {
        Ending { solutions, stopped, usage: SearchUsage::default(), failure: None, error: None }
    }

    #[test]
    fn a_vote_merges_equivalent_answers_and_shows_its_best_solution() {
        let solutions = vec![
            found("The answer is 1/2.", Some(0.4)),
            found("The answer is 3.", Some(0.6)),
            found("The answer is 0.5.", Some(0.5)),
        ];
        assert_eq!(chosen(&solutions, Choose::Best, Power::ONE), Some(1));
        assert_eq!(chosen(&solutions, Choose::WeightedVote, Power::ONE), Some(2));
        assert_eq!(chosen(&solutions, Choose::Majority, Power::ONE), Some(2));
        assert_eq!(chosen(&[found("I do not know", Some(0.1))], Choose::Majority, Power::ONE), Some(0));
        assert_eq!(chosen(&[], Choose::WeightedVote, Power::ONE), None);
    }

    #[test]
    fn the_incomplete_is_never_chosen_and_the_worst_reason_is_told() {
        let partial = Found { aggregate: Some(1.0), ..Found::new(vec!["3".to_owned()], false, "\n\n") };
        assert_eq!(partial.answer, None);
        let endings = vec![
            ending(vec![partial.clone()], StopReason::Budget),
            ending(vec![found("The answer is 3.", None)], StopReason::Enough),
        ];
        let outcome = conclude(endings, &Settings::default()).unwrap();
        assert_eq!((outcome.chosen, outcome.stopped), (Some(0), StopReason::Budget));
        assert_eq!(outcome.answer(), Some("3"));
        assert_eq!(outcome.solutions[1], partial);
        assert_eq!(
            conclude(vec![ending(vec![partial], StopReason::Steps)], &Settings::default()).unwrap().chosen,
            None
        );
    }
}
