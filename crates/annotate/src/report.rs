//! Annotators compared: what each labeled and what that cost, agreement with true labels and with each other, and how well
//! their labels predict the outcome.
//!
//! Outcome prediction: a solution without a first error is expected to have a right answer. The area under the ROC curve of that
//! yes or no is the mean of the two classes' recalls; a label that says nothing has 0.5. Intervals draw whole problems.
//!
//! A partial annotator (exact checks) is summarized step by step alone: it decides no solution, so that it has neither first
//! errors nor an outcome prediction, and no part in pairs and ensembles.

use std::collections::BTreeMap;

use gradus_core::metrics::alignment::{AlignedLabels, by_alignment};
use gradus_core::metrics::bootstrap::{self, Interval};
use gradus_core::metrics::labels::{Agreement, Step, agreement};
use gradus_core::metrics::process::{Located, ProcessScores, scores};
use gradus_core::metrics::ranking::roc_auc_by_group;
use gradus_core::{Annotation, Cost, Mark, Outcome};
use serde::Serialize;

use crate::consensus::{Agreed, FirstErrorVote, PairCounts, agree, first_error_vote};
use crate::dawid_skene::{DawidSkene, Reliability, SolutionVotes};
use crate::ensemble::{Rule, combine};
use crate::label_counts::{LabelCounts, steps_with_truth};

/// Annotators and their labels of each solution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// The annotators' names.
    pub names: Vec<String>,
    /// What each is called without the file that it is from: runs of one annotator have the same. Empty where nobody asks.
    pub annotators: Vec<String>,
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

impl Panel {
    /// Whether all labels of an annotator are partial: it says nothing of the steps between them.
    fn is_partial(&self, at: usize) -> bool {
        let mut found = self.rows.iter().filter_map(|row| row.annotations[at].as_ref()).peekable();
        found.peek().is_some() && found.all(Annotation::is_partial)
    }
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
    /// Labels by what their step is aligned with; empty for an annotator that aligns nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_alignment: Vec<AlignedLabels>,
    /// Agreement with truth about the first error.
    pub first_errors: Option<ProcessScores>,
    /// How well labels predict the outcome.
    pub outcome_prediction: OutcomePrediction,
    /// It labels some steps and says nothing of the others, as exact checks do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
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

/// Several runs of one annotator, such as with other seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatSummary {
    /// The annotator.
    pub name: String,
    /// Its runs.
    pub runs: usize,
    /// Share of steps with the true label, mean over runs.
    pub accuracy: Option<f64>,
    /// Standard deviation of that share over runs.
    pub deviation: Option<f64>,
    /// The same share for the label that most runs give; a tie is undecided.
    pub majority_accuracy: Option<f64>,
    /// Of the steps that two runs label, the share that they label alike.
    pub agreement: Option<f64>,
}

/// How many times as much Monte Carlo costs, over the solutions that both decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostRatio {
    /// The annotator.
    pub name: String,
    /// Solutions that both decided, with their cost.
    pub solutions: usize,
    /// Tokens of Monte Carlo for one of the annotator's.
    pub tokens: Option<f64>,
    /// Seconds of Monte Carlo for one of the annotator's, where they were recorded.
    pub seconds: Option<f64>,
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
    /// Runs of the same annotator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatSummary>,
    /// Cost in relation to Monte Carlo.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cost_ratios: Vec<CostRatio>,
    /// By pairs, without partial annotators.
    pub pairs: Vec<PairSummary>,
    /// All together but partial annotators; empty for one annotator.
    pub together: Vec<EnsembleSummary>,
    /// What Dawid and Skene's method makes of each annotator; partial ones have none, and are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Reliability>,
}

/// Compares the annotators of a panel.
pub fn report(panel: &Panel, settings: &bootstrap::Settings) -> AnnotatorReport {
    let rows = &panel.rows;
    let annotators = (0..panel.names.len()).map(|at| annotator(panel, at, settings)).collect();
    let whole: Vec<usize> = (0..panel.names.len()).filter(|at| !panel.is_partial(*at)).collect();
    let of_whole = |votes: Vec<FirstErrorVote>| whole.iter().map(|at| votes[*at]).collect();
    let votes: Vec<Vec<FirstErrorVote>> = rows.iter().map(|row| of_whole(row.votes())).collect();
    let names: Vec<&str> = whole.iter().map(|at| panel.names[*at].as_str()).collect();
    let (together, reliability) =
        if names.len() > 1 { together(rows, &votes, settings) } else { Default::default() };
    AnnotatorReport {
        solutions: rows.len(),
        with_truth: rows.iter().filter(|row| row.truth.is_some()).count(),
        with_outcome: rows.iter().filter(|row| row.outcome != Outcome::Unknown).count(),
        annotators,
        repeats: repeats(panel),
        cost_ratios: cost_ratios(panel),
        pairs: pairs(rows, &names, &votes, settings),
        together,
        reliability,
    }
}

/// Every two annotators, of whom each row has the votes.
fn pairs(
    rows: &[PanelRow],
    names: &[&str],
    votes: &[Vec<FirstErrorVote>],
    settings: &bootstrap::Settings,
) -> Vec<PairSummary> {
    let mut pairs = Vec::new();
    for first in 0..names.len() {
        for second in first + 1..names.len() {
            let mut pair = PairCounts::default();
            let kept: Vec<FirstErrorVote> = votes
                .iter()
                .map(|votes| {
                    pair.count(votes[first], votes[second]);
                    kept(&[votes[first], votes[second]])
                })
                .collect();
            pairs.push(PairSummary {
                names: [names[first].to_owned(), names[second].to_owned()],
                kept: (pair.both > 0).then(|| pair.kept() as f64 / pair.both as f64),
                overlap: pair.overlap(),
                pair,
                outcome_prediction: outcome_prediction(rows, &kept, settings),
            });
        }
    }
    pairs
}

fn annotator(panel: &Panel, at: usize, settings: &bootstrap::Settings) -> AnnotatorSummary {
    let Panel { rows, names, .. } = panel;
    let partial = panel.is_partial(at);
    let votes: Vec<FirstErrorVote> =
        if partial { vec![None; rows.len()] } else { rows.iter().map(|row| row.votes()[at]).collect() };
    let found = || rows.iter().filter_map(|row| row.annotations[at].as_ref());
    let costs: Vec<&Cost> = found().filter_map(|annotation| annotation.cost.as_ref()).collect();
    let cost = costs.iter().fold(Cost::default(), |all, cost| Cost {
        requests: all.requests + cost.requests,
        prompt_tokens: all.prompt_tokens + cost.prompt_tokens,
        completion_tokens: all.completion_tokens + cost.completion_tokens,
        seconds: all.seconds + cost.seconds,
    });
    let mut counts = LabelCounts::default();
    rows.iter().for_each(|row| counts.add(row.truth.as_ref(), row.annotations[at].as_ref()));
    let decided = if partial { 0 } else { counts.decided };
    AnnotatorSummary {
        name: names[at].clone(),
        decided,
        undecided: rows.len() - decided,
        labels: counts.labels,
        errors: found().filter(|annotation| annotation.has_error()).count(),
        cost: (!costs.is_empty()).then_some(cost),
        agreement: counts.agreement(),
        by_alignment: by_alignment(
            rows.iter().filter_map(|row| Some((row.annotations[at].as_ref()?, row.truth.as_ref()))),
        ),
        first_errors: counts.first_errors().filter(|_| !partial),
        outcome_prediction: outcome_prediction(rows, &votes, settings),
        partial,
    }
}

fn steps(row: &PanelRow, at: usize) -> Vec<Step> {
    row.truth
        .as_ref()
        .map_or_else(Vec::new, |truth| steps_with_truth(truth, row.annotations[at].as_ref()).collect())
}

/// Annotators with several runs, in the order of their first.
fn repeats(panel: &Panel) -> Vec<RepeatSummary> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, name) in panel.annotators.iter().enumerate() {
        match groups.iter_mut().find(|(other, _)| other == name) {
            Some((_, runs)) => runs.push(at),
            None => groups.push((name, vec![at])),
        }
    }
    let several = groups.into_iter().filter(|(_, runs)| runs.len() > 1);
    several.map(|(name, runs)| repeat(name, &runs, &panel.rows)).collect()
}

fn repeat(name: &str, runs: &[usize], rows: &[PanelRow]) -> RepeatSummary {
    let of_run = |at: usize| -> Vec<Step> { rows.iter().flat_map(|row| steps(row, at)).collect() };
    let steps: Vec<Vec<Step>> = runs.iter().map(|at| of_run(*at)).collect();
    let shares: Vec<f64> = steps.iter().filter_map(|steps| agreement(steps).accuracy).collect();
    let count = shares.len() as f64;
    let accuracy = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / count);
    let deviation = accuracy
        .filter(|_| shares.len() > 1)
        .map(|mean| (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt());
    let majority: Vec<Step> = (0..steps[0].len())
        .map(|step| {
            let votes = || steps.iter().filter_map(|run| run[step].annotator);
            let (right, all) = (votes().filter(|right| *right).count(), votes().count());
            let decided = 2 * right != all;
            Step { human: steps[0][step].human, annotator: decided.then_some(2 * right > all) }
        })
        .collect();
    let label = |row: &PanelRow, at: usize, step: usize| {
        Some(row.annotations[at].as_ref()?.labels.get(step)?.as_ref()?.mark != Mark::Incorrect)
    };
    let mut pairs: Vec<bool> = Vec::new();
    for row in rows {
        for (index, first) in runs.iter().enumerate() {
            for second in &runs[index + 1..] {
                let both = (0..row.steps)
                    .filter_map(|step| Some(label(row, *first, step)? == label(row, *second, step)?));
                pairs.extend(both);
            }
        }
    }
    let alike = pairs.iter().filter(|alike| **alike).count();
    RepeatSummary {
        name: name.to_owned(),
        runs: runs.len(),
        accuracy,
        deviation,
        majority_accuracy: agreement(&majority).accuracy,
        agreement: (!pairs.is_empty()).then(|| alike as f64 / pairs.len() as f64),
    }
}

/// Every other annotator with a cost against the first run of Monte Carlo.
fn cost_ratios(panel: &Panel) -> Vec<CostRatio> {
    // The kind of an annotator is the first word of its name.
    let is_monte_carlo = |name: &String| name.split(' ').next() == Some("monte-carlo");
    let Some(base) = panel.annotators.iter().position(is_monte_carlo) else { return Vec::new() };
    let cost = |row: &PanelRow, at: usize| row.annotations[at].as_ref().and_then(|found| found.cost.clone());
    let others = (0..panel.names.len()).filter(|at| panel.annotators[*at] != panel.annotators[base]);
    let ratio = |at: usize| {
        let both: Vec<(Cost, Cost)> =
            panel.rows.iter().filter_map(|row| Some((cost(row, base)?, cost(row, at)?))).collect();
        let of = |amount: fn(&Cost) -> f64| {
            let sum =
                |side: fn(&(Cost, Cost)) -> &Cost| both.iter().map(|pair| amount(side(pair))).sum::<f64>();
            let (base, own) = (sum(|pair| &pair.0), sum(|pair| &pair.1));
            (base > 0.0 && own > 0.0).then(|| base / own)
        };
        CostRatio {
            name: panel.names[at].clone(),
            solutions: both.len(),
            tokens: of(|cost| (cost.prompt_tokens + cost.completion_tokens) as f64),
            seconds: of(|cost| cost.seconds),
        }
    };
    others.map(ratio).filter(|ratio| ratio.solutions > 0).collect()
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
    let auc = roc_auc_by_group(&groups, settings).map(|(value, interval)| AucEstimate { value, interval });
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
mod tests;
