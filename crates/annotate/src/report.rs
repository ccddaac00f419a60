//! Annotators compared: what each labeled and what that cost, agreement with true labels and with each other, and how well
//! their labels predict the outcome.
//!
//! Outcome prediction: a solution without a first error is expected to have a right answer. The area under the ROC curve of that
//! yes or no is the mean of the two classes' recalls; a label that says nothing has 0.5. Intervals draw whole problems.

use std::collections::BTreeMap;

use gradus_core::metrics::bootstrap::{self, Interval};
use gradus_core::metrics::labels::{Agreement, Step, agreement};
use gradus_core::metrics::process::{Located, ProcessScores, scores};
use gradus_core::metrics::ranking::roc_auc;
use gradus_core::{Annotation, Cost, Mark, Outcome};
use serde::Serialize;

use crate::consensus::{Agreed, FirstErrorVote, PairCounts, agree, first_error_vote};
use crate::dawid_skene::{DawidSkene, Reliability, SolutionVotes};
use crate::ensemble::{Rule, combine};

/// Annotators and their labels of each solution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// The annotators' names.
    pub names: Vec<String>,
    /// The solutions.
    pub rows: Vec<PanelRow>,
}

/// One solution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PanelRow {
    /// Its problem: rows of one problem belong together.
    pub problem: String,
    /// How many steps it has.
    pub steps: usize,
    /// Whether its answer is right.
    pub outcome: Outcome,
    /// The true labels.
    pub truth: Option<Annotation>,
    /// One for each annotator; none where it did not decide.
    pub annotations: Vec<Option<Annotation>>,
}

impl PanelRow {
    /// Each annotator's vote on the first error.
    pub fn votes(&self) -> Vec<FirstErrorVote> {
        self.annotations.iter().map(|annotation| annotation.as_ref().and_then(first_error_vote)).collect()
    }
}

/// An AUC with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AucEstimate {
    /// The number.
    pub value: f64,
    /// Its interval.
    pub interval: Option<Interval>,
}

/// How well labels predict the outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OutcomePrediction {
    /// Solutions that were decided and whose outcome is known.
    pub solutions: usize,
    /// Area under the ROC curve.
    pub auc: Option<AucEstimate>,
    /// Of the solutions without an error, the share whose answer is right.
    pub right_without_error: Option<f64>,
    /// Of those with one, the share whose answer is wrong.
    pub wrong_with_error: Option<f64>,
}

/// The summary of one annotator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotatorSummary {
    /// Its name.
    pub name: String,
    /// Solutions that it decided.
    pub decided: usize,
    /// Solutions that it did not.
    pub undecided: usize,
    /// Steps with a label.
    pub labels: usize,
    /// Solutions in which it sees an error.
    pub errors: usize,
    /// What the decided ones cost; none where nobody knows.
    pub cost: Option<Cost>,
    /// Agreement with truth, step by step.
    pub agreement: Option<Agreement>,
    /// Agreement with truth about the first error.
    pub first_errors: Option<ProcessScores>,
    /// How well labels predict the outcome.
    pub outcome_prediction: OutcomePrediction,
}

/// The summary of two annotators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairSummary {
    /// Their names.
    pub names: [String; 2],
    /// How they go together.
    #[serde(flatten)]
    pub pair: PairCounts,
    /// Share of the solutions that both decided which a consensus keeps.
    pub kept: Option<f64>,
    /// Share of first errors on which they agree.
    pub overlap: Option<f64>,
    /// Of what a consensus keeps: how well it predicts the outcome.
    pub outcome_prediction: OutcomePrediction,
}

/// The summary of several annotators combined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnsembleSummary {
    /// `consensus`, or the rule's name.
    pub rule: String,
    /// Solutions that it decides.
    pub decided: usize,
    /// Of those, how many have an error.
    pub errors: usize,
    /// Agreement with truth about the first error.
    pub first_errors: Option<ProcessScores>,
    /// How well it predicts the outcome.
    pub outcome_prediction: OutcomePrediction,
}

/// The report of a panel of annotators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotatorReport {
    /// Solutions.
    pub solutions: usize,
    /// Of those, with true labels.
    pub with_truth: usize,
    /// Of those, with a known outcome.
    pub with_outcome: usize,
    /// One by one.
    pub annotators: Vec<AnnotatorSummary>,
    /// By pairs.
    pub pairs: Vec<PairSummary>,
    /// All together; empty for one annotator.
    pub together: Vec<EnsembleSummary>,
    /// What Dawid and Skene's method makes of each annotator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Reliability>,
}

/// Compares the annotators of a panel.
pub fn report(panel: &Panel, settings: &bootstrap::Settings) -> AnnotatorReport {
    let rows = &panel.rows;
    let votes: Vec<Vec<FirstErrorVote>> = rows.iter().map(PanelRow::votes).collect();
    let annotators = panel.names.iter().enumerate();
    let annotators: Vec<AnnotatorSummary> =
        annotators.map(|(at, name)| annotator(name, rows, at, &column(&votes, at), settings)).collect();
    let mut pairs = Vec::new();
    for first in 0..panel.names.len() {
        for second in first + 1..panel.names.len() {
            let mut pair = PairCounts::default();
            let kept: Vec<FirstErrorVote> = votes
                .iter()
                .map(|votes| {
                    pair.count(votes[first], votes[second]);
                    kept(&[votes[first], votes[second]])
                })
                .collect();
            pairs.push(PairSummary {
                names: [panel.names[first].clone(), panel.names[second].clone()],
                kept: (pair.both > 0).then(|| pair.kept() as f64 / pair.both as f64),
                overlap: pair.overlap(),
                pair,
                outcome_prediction: outcome_prediction(rows, &kept, settings),
            });
        }
    }
    let (together, reliability) =
        if panel.names.len() > 1 { together(rows, &votes, settings) } else { Default::default() };
    AnnotatorReport {
        solutions: rows.len(),
        with_truth: rows.iter().filter(|row| row.truth.is_some()).count(),
        with_outcome: rows.iter().filter(|row| row.outcome != Outcome::Unknown).count(),
        annotators,
        pairs,
        together,
        reliability,
    }
}

fn annotator(
    name: &str,
    rows: &[PanelRow],
    at: usize,
    votes: &[FirstErrorVote],
    settings: &bootstrap::Settings,
) -> AnnotatorSummary {
    let found = || rows.iter().filter_map(|row| row.annotations[at].as_ref());
    let costs: Vec<&Cost> = found().filter_map(|annotation| annotation.cost.as_ref()).collect();
    let cost = costs.iter().fold(Cost::default(), |all, cost| Cost {
        requests: all.requests + cost.requests,
        prompt_tokens: all.prompt_tokens + cost.prompt_tokens,
        completion_tokens: all.completion_tokens + cost.completion_tokens,
        seconds: all.seconds + cost.seconds,
    });
    let decided = votes.iter().flatten().count();
    let steps: Vec<Step> = rows.iter().flat_map(|row| steps(row, at)).collect();
    AnnotatorSummary {
        name: name.to_owned(),
        decided,
        undecided: rows.len() - decided,
        labels: found().map(|annotation| annotation.labels.iter().flatten().count()).sum(),
        errors: votes.iter().flatten().flatten().count(),
        cost: (!costs.is_empty()).then_some(cost),
        agreement: (!steps.is_empty()).then(|| agreement(&steps)),
        first_errors: first_errors(rows, votes),
        outcome_prediction: outcome_prediction(rows, votes, settings),
    }
}

/// The steps of a solution that have a true label, with what the annotator says of them.
fn steps(row: &PanelRow, at: usize) -> Vec<Step> {
    let Some(truth) = &row.truth else { return Vec::new() };
    let annotation = row.annotations[at].as_ref();
    let right = |mark: Mark| mark != Mark::Incorrect;
    let label = |step: usize| annotation?.labels.get(step)?.as_ref();
    truth
        .targets()
        .map(|(step, true_label)| Step {
            human: right(true_label.mark),
            annotator: label(step).map(|label| right(label.mark)),
        })
        .collect()
}

fn first_errors(rows: &[PanelRow], found: &[FirstErrorVote]) -> Option<ProcessScores> {
    let located: Vec<Located> = rows
        .iter()
        .zip(found)
        .filter_map(|(row, predicted)| {
            Some(Located { predicted: *predicted, truth: first_error_vote(row.truth.as_ref()?)? })
        })
        .collect();
    (!located.is_empty()).then(|| scores(&located))
}

fn together(
    rows: &[PanelRow],
    found: &[Vec<FirstErrorVote>],
    settings: &bootstrap::Settings,
) -> (Vec<EnsembleSummary>, Vec<Reliability>) {
    let of = |rule: &str, decided: &[FirstErrorVote], certainty: Option<&[Option<f64>]>| EnsembleSummary {
        rule: rule.to_owned(),
        decided: decided.iter().flatten().count(),
        errors: decided.iter().flatten().flatten().count(),
        first_errors: first_errors(rows, decided),
        outcome_prediction: match certainty {
            Some(certainty) => outcome_prediction_by(rows, certainty, settings),
            None => outcome_prediction(rows, decided, settings),
        },
    };
    let by = |choose: &dyn Fn(&[FirstErrorVote]) -> FirstErrorVote| -> Vec<FirstErrorVote> {
        found.iter().map(|votes| choose(votes)).collect()
    };
    let mut all = vec![of("consensus", &by(&kept), None)];
    all.extend(Rule::ALL.map(|rule| of(rule.name(), &by(&|votes| combine(rule, votes)), None)));
    let items: Vec<SolutionVotes> = rows
        .iter()
        .zip(found)
        .map(|(row, votes)| SolutionVotes { steps: row.steps, votes: votes.clone() })
        .collect();
    let annotators = found.first().map_or(0, Vec::len);
    let Some(model) = DawidSkene::fit(&items, annotators) else { return (all, Vec::new()) };
    let estimates: Vec<_> = items.iter().map(|item| model.estimate(item)).collect();
    let decided: Vec<FirstErrorVote> =
        estimates.iter().map(|found| found.map(|found| found.first_error)).collect();
    let certainty: Vec<Option<f64>> =
        estimates.iter().map(|found| found.map(|found| found.all_right)).collect();
    all.push(of("dawid-skene", &decided, Some(&certainty)));
    (all, model.annotators)
}

fn kept(votes: &[FirstErrorVote]) -> FirstErrorVote {
    match agree(votes) {
        Agreed::Kept(first) => Some(first),
        Agreed::Disagree | Agreed::Undecided => None,
    }
}

fn column(votes: &[Vec<FirstErrorVote>], at: usize) -> Vec<FirstErrorVote> {
    votes.iter().map(|votes| votes[at]).collect()
}

/// With 'no error' as 1 and 'an error' as 0.
fn outcome_prediction(
    rows: &[PanelRow],
    votes: &[FirstErrorVote],
    settings: &bootstrap::Settings,
) -> OutcomePrediction {
    let certainty: Vec<Option<f64>> =
        votes.iter().map(|votes| votes.map(|error| f64::from(error.is_none()))).collect();
    outcome_prediction_by(rows, &certainty, settings)
}

/// With how certain it is that nothing is wrong.
fn outcome_prediction_by(
    rows: &[PanelRow],
    certainty: &[Option<f64>],
    settings: &bootstrap::Settings,
) -> OutcomePrediction {
    let mut groups: BTreeMap<&str, Vec<(f64, bool)>> = BTreeMap::new();
    for (row, certainty) in rows.iter().zip(certainty) {
        if let (Some(certainty), Some(right)) = (certainty, row.outcome.is_correct()) {
            groups.entry(&row.problem).or_default().push((*certainty, right));
        }
    }
    let groups: Vec<Vec<(f64, bool)>> = groups.into_values().collect();
    let all: Vec<(f64, bool)> = groups.concat();
    let auc = roc_auc(&all)
        .map(|value| AucEstimate { value, interval: bootstrap::by_group(&groups, roc_auc, settings) });
    let share = |fine: bool| {
        let of: Vec<bool> = all
            .iter()
            .filter(|(certainty, _)| (*certainty >= 0.5) == fine)
            .map(|(_, right)| *right == fine)
            .collect();
        (!of.is_empty()).then(|| of.iter().filter(|hit| **hit).count() as f64 / of.len() as f64)
    };
    OutcomePrediction {
        solutions: all.len(),
        auc,
        right_without_error: share(true),
        wrong_with_error: share(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::LabelSource;

    fn row(problem: &str, right: bool, truth: Option<usize>, found: &[FirstErrorVote]) -> PanelRow {
        let label = |error| Annotation::from_first_error(3, error, &LabelSource::Human);
        let annotations = found.iter().map(|votes| votes.map(label));
        PanelRow {
            problem: problem.to_owned(),
            steps: 3,
            outcome: Outcome::from_correct(right),
            truth: Some(label(truth)),
            annotations: annotations.collect(),
        }
    }

    #[test]
    fn numbers_of_a_hand_written_panel() {
        let rows = vec![
            row("a", true, None, &[Some(None), Some(None)]),
            row("a", false, Some(1), &[Some(Some(1)), Some(Some(1))]),
            row("b", false, Some(0), &[Some(None), Some(Some(0))]),
            row("b", true, None, &[Some(None), None]),
        ];
        let panel = Panel { names: vec!["x".into(), "y".into()], rows };
        let report = report(&panel, &bootstrap::Settings { resamples: 50, ..Default::default() });
        let [x, y] = &report.annotators[..] else { panic!("two annotators") };
        assert_eq!((x.decided, x.undecided, x.labels, x.errors), (4, 0, 3 + 2 + 3 + 3, 1));
        assert_eq!((y.decided, y.undecided, y.errors), (3, 1, 2));
        // True targets: 3, 2, 1 and 3 steps; x is wrong on one, y undecided on three.
        let found = x.agreement.unwrap();
        assert_eq!((found.steps, found.accuracy), (9, Some(8.0 / 9.0)));
        assert_eq!((y.agreement.unwrap().undecided, y.agreement.unwrap().accuracy), (3, Some(6.0 / 9.0)));
        // x: of two right solutions both predicted, of two wrong ones one.
        assert_eq!(x.outcome_prediction.auc.unwrap().value, 0.75);
        assert_eq!(
            (x.outcome_prediction.right_without_error, x.outcome_prediction.wrong_with_error),
            (Some(2.0 / 3.0), Some(1.0))
        );
        assert_eq!((y.outcome_prediction.solutions, y.outcome_prediction.auc.unwrap().value), (3, 1.0));
        let two = &report.pairs[0];
        assert_eq!((two.pair.both, two.kept, two.overlap), (3, Some(2.0 / 3.0), Some(0.5)));
        assert_eq!((two.outcome_prediction.solutions, two.outcome_prediction.auc.unwrap().value), (2, 1.0));
        let rules: Vec<(&str, usize, usize)> =
            report.together.iter().map(|rule| (&*rule.rule, rule.decided, rule.errors)).collect();
        assert_eq!(
            rules[..4],
            [("consensus", 2, 1), ("intersection", 4, 1), ("union", 4, 2), ("majority", 4, 1)]
        );
        assert_eq!((rules[4].0, rules[4].1), ("dawid-skene", 4));
        assert_eq!(report.reliability.len(), 2);
    }
}
