//! How far a project is, how well its people agree, and what Dawid and Skene's method makes of them.
//!
//! Only finished items count. For two people: Cohen's κ over the steps that both marked, with the three marks as classes, and
//! the share of items in which both see the same first error. Dawid and Skene's model: `gradus_annotate::dawid_skene`.

use gradus_annotate::consensus::{FirstErrorVote, PairCounts};
use gradus_annotate::dawid_skene::{DawidSkene, Reliability, SolutionVotes};
use gradus_core::Mark;
use gradus_core::metrics::kappa::cohen_kappa;
use serde::Serialize;

use crate::order::vote;
use crate::state::State;
use crate::{Order, Project, SolutionLabel};

/// A project at a glance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// What it is called.
    pub name: String,
    /// Items.
    pub items: usize,
    /// Items that enough people have finished.
    pub done: usize,
    /// Different people per item.
    pub people_per_item: usize,
    /// Which item comes first.
    pub order: Order,
    /// Below this a score suggests an error.
    pub threshold: f64,
    /// Error categories.
    pub categories: Vec<String>,
    /// Lines of the journal that are damaged: what they said is lost.
    pub damaged_lines: usize,
    /// Those who have labeled or are labeling.
    pub people: Vec<PersonSummary>,
    /// Pairs of people with a finished item in common.
    pub pairs: Vec<PairAgreement>,
    /// Dawid and Skene's estimate; none without a finished item.
    pub estimate: Option<Estimate>,
}

/// What one person has done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PersonSummary {
    /// The name.
    pub name: String,
    /// Items finished.
    pub finished: usize,
    /// Items begun and not finished.
    pub begun: usize,
    /// Steps marked in finished items.
    pub marks: usize,
    /// Finished items in which the person sees an error.
    pub errors: usize,
    /// Finished items whose suggestions the person had seen.
    pub suggestions_seen: usize,
    /// The item that the person holds now.
    pub holds: Option<usize>,
}

/// How two people agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairAgreement {
    /// Their names.
    pub people: [String; 2],
    /// Items that both have finished.
    pub items: usize,
    /// Steps that both have marked.
    pub steps: usize,
    /// Cohen's κ over those steps; none where it is not defined.
    pub kappa: Option<f64>,
    /// Share of the items in which both see the same first error, or none.
    pub same_first_error: Option<f64>,
}

/// Dawid and Skene's estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// P(a step is wrong, given that all before it are right).
    pub prior: f64,
    /// How reliable each person is.
    pub people: Vec<PersonReliability>,
    /// Items with a finished label in which the first error is probably somewhere.
    pub with_error: usize,
    /// Items with a finished label that are probably right throughout.
    pub without_error: usize,
    /// The mean probability of the most probable first error: how sure the estimate is.
    pub mean_probability: f64,
}

/// How reliable one person is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PersonReliability {
    /// The name.
    pub name: String,
    /// P(says wrong | wrong) and P(says wrong | right).
    #[serde(flatten)]
    pub reliability: Reliability,
}

/// The overview of a project.
pub(crate) fn overview(project: &Project, state: &State, damaged_lines: usize, now: f64) -> Overview {
    let settings = &project.settings;
    let names: Vec<&str> = state.people().collect();
    let labels: Vec<Vec<Option<&SolutionLabel>>> =
        (0..project.items()).map(|item| labels_of(state, item, &names)).collect();
    let enough =
        |labels: &&Vec<Option<&SolutionLabel>>| labels.iter().flatten().count() >= settings.people_per_item;
    let mut pairs = Vec::new();
    for first in 0..names.len() {
        for second in first + 1..names.len() {
            pairs.extend(pair(&names, [first, second], &labels));
        }
    }
    Overview {
        name: settings.name.clone(),
        items: project.items(),
        done: labels.iter().filter(enough).count(),
        people_per_item: settings.people_per_item,
        order: settings.order,
        threshold: settings.threshold,
        categories: settings.categories.clone(),
        damaged_lines,
        people: names.iter().enumerate().map(|(at, name)| person(state, name, at, &labels, now)).collect(),
        pairs,
        estimate: estimate(&votes(project, state, &names), &names),
    }
}

/// The finished labels of an item, one place for each of `names`.
fn labels_of<'a>(state: &'a State, item: usize, names: &[&str]) -> Vec<Option<&'a SolutionLabel>> {
    let mut labels = vec![None; names.len()];
    for (name, label) in state.finished(item) {
        if let Ok(at) = names.binary_search(&name) {
            labels[at] = Some(label);
        }
    }
    labels
}

fn person(
    state: &State,
    name: &str,
    at: usize,
    labels: &[Vec<Option<&SolutionLabel>>],
    now: f64,
) -> PersonSummary {
    let own = || labels.iter().filter_map(|labels| labels[at]);
    let saves = || (0..labels.len()).filter_map(|item| state.last_save(name, item));
    PersonSummary {
        name: name.to_owned(),
        finished: own().count(),
        begun: saves().filter(|saved| !saved.finished).count(),
        marks: own().map(|label| label.marks.iter().flatten().count()).sum(),
        errors: own().filter(|label| label.marks.contains(&Some(Mark::Incorrect))).count(),
        suggestions_seen: saves().filter(|saved| saved.finished && saved.suggestions_seen).count(),
        holds: state.held_by(name, now),
    }
}

fn pair(names: &[&str], pair: [usize; 2], labels: &[Vec<Option<&SolutionLabel>>]) -> Option<PairAgreement> {
    let mut counts = PairCounts::default();
    let mut marks = Vec::new();
    let mut items = 0;
    for labels in labels {
        let [Some(one), Some(other)] = pair.map(|at| labels[at]) else { continue };
        items += 1;
        counts.count(first_error(one), first_error(other));
        marks
            .extend(one.marks.iter().zip(&other.marks).filter_map(|(one, other)| Some(((*one)?, (*other)?))));
    }
    (items > 0).then(|| PairAgreement {
        people: pair.map(|at| names[at].to_owned()),
        items,
        steps: marks.len(),
        kappa: cohen_kappa(&marks),
        same_first_error: (counts.both > 0).then(|| counts.kept() as f64 / counts.both as f64),
    })
}

/// The first error of a finished label.
fn first_error(label: &SolutionLabel) -> FirstErrorVote {
    vote(label.annotation("").first_error)
}

/// The votes of people on the items that somebody has finished, with the items.
pub(crate) fn votes(project: &Project, state: &State, names: &[&str]) -> Vec<(usize, SolutionVotes)> {
    let of = |item: usize| {
        let labels = labels_of(state, item, names);
        let votes = labels.iter().map(|label| label.and_then(first_error)).collect();
        let steps = project.item(item).map_or(0, |(_, solution)| solution.steps.len());
        labels.iter().any(Option::is_some).then_some((item, SolutionVotes { steps, votes }))
    };
    (0..project.items()).filter_map(of).collect()
}

fn estimate(votes: &[(usize, SolutionVotes)], names: &[&str]) -> Option<Estimate> {
    let votes: Vec<SolutionVotes> = votes.iter().map(|(_, votes)| votes.clone()).collect();
    let model = DawidSkene::fit(&votes, names.len())?;
    let found: Vec<_> = votes.iter().filter_map(|votes| model.estimate(votes)).collect();
    let with_error = found.iter().filter(|found| found.first_error.is_some()).count();
    let people = names.iter().zip(&model.annotators).enumerate();
    let voted = |at: usize| votes.iter().any(|votes| votes.votes[at].is_some());
    Some(Estimate {
        prior: model.prior,
        people: people
            .filter(|(at, _)| voted(*at))
            .map(|(_, (name, reliability))| PersonReliability {
                name: (*name).to_owned(),
                reliability: *reliability,
            })
            .collect(),
        with_error,
        without_error: found.len() - with_error,
        mean_probability: found.iter().map(|found| found.probability).sum::<f64>() / found.len() as f64,
    })
}
