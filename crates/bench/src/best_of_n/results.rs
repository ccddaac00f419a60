//! Best-of-N measured: candidates grouped by problem, chosen by each scorer and aggregation, at each N.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_core::FinalAnswer;
use gradus_core::metrics::bootstrap::{Settings, means};
use gradus_core::select::Aggregation;
use gradus_core::select::best_of_n::{chance, expected_best, expected_pass};
use gradus_core::select::vote::{self, Power};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::by_outcome::{self, ScoresByOutcome};
use crate::error::{Error, Result};
use crate::estimate::MetricEstimate;
use crate::fact::{Fact, Observation};
use crate::judge::{Judged, Opinion};
use crate::sample::Sample;

/// The candidates of one problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pool {
    /// The problem.
    pub id: String,
    /// The data set it is from.
    pub subset: String,
    /// Which candidates are right; those of which nobody knows count as wrong.
    pub correct: Vec<bool>,
    /// Which candidates are right, where that is known.
    pub outcomes: Vec<Option<bool>>,
    /// How many of these are the grader's.
    pub graded: usize,
    /// For each candidate the earliest one with an equivalent answer; none without an answer.
    pub groups: Vec<Option<usize>>,
    /// Step scores of each candidate, by scorer.
    pub scores: BTreeMap<String, Vec<Option<Vec<f64>>>>,
}

/// One number for each N.
pub type OverN = Vec<MetricEstimate>;

/// Choices by one scorer under one aggregation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// How step scores became one.
    pub aggregation: Aggregation,
    /// The candidate with the highest score among the first N.
    pub best: OverN,
    /// The answer with the largest sum of scores among the first N.
    pub vote: OverN,
    /// `best` over all subsets of N.
    pub expected_best: OverN,
    /// How much more often `best` is right than `chance`, over pairs.
    #[serde(default)]
    pub best_over_chance: OverN,
    /// How much more often `vote` is right than `majority`, over pairs.
    #[serde(default)]
    pub vote_over_majority: OverN,
    /// Its scores of solutions with a right and with a wrong answer.
    #[serde(default)]
    pub by_outcome: ScoresByOutcome,
}

/// One scorer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorerResults {
    /// Its name.
    pub name: String,
    /// Candidates that it did not score.
    pub unscored: usize,
    /// By aggregation.
    pub choices: Vec<Choice>,
}

/// One data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetResults {
    /// Its name.
    pub name: String,
    /// Problems.
    pub problems: usize,
    /// Candidates in all.
    pub candidates: usize,
    /// Candidates whose outcome the grader found.
    #[serde(default)]
    pub graded: usize,
    /// Candidates whose outcome nobody knows; they count as wrong.
    pub unknown_outcomes: usize,
    /// Whether any of the first N is right.
    pub pass: OverN,
    /// `pass` over all subsets of N.
    pub expected_pass: OverN,
    /// A blind choice among the first N.
    pub chance: OverN,
    /// The answer given most often among the first N.
    pub majority: OverN,
    /// The scorers.
    pub scorers: Vec<ScorerResults>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestOfNResults {
    /// N.
    pub sizes: Vec<usize>,
    /// By data set.
    pub sets: Vec<DatasetResults>,
}

/// Groups samples into pools. `judged` is one scorer's opinions in the order of the samples; without it, each sample's
/// recorded scores are used, all scorers of the data at once.
pub fn pools(samples: &[Sample], judged: Option<(&str, &[Judged])>) -> Vec<Pool> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        match ranges.last_mut() {
            Some(range)
                if samples[range.start].problem.id == sample.problem.id
                    && samples[range.start].subset == sample.subset =>
            {
                range.end = index + 1;
            }
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
        .into_par_iter()
        .map(|range| pool(&samples[range.clone()], judged.map(|(name, all)| (name, &all[range]))))
        .collect()
}

fn pool(samples: &[Sample], judged: Option<(&str, &[Judged])>) -> Pool {
    let found: Vec<FinalAnswer> =
        samples.iter().map(|sample| sample.problem.final_answer_of(&sample.solution)).collect();
    let outcomes: Vec<Option<bool>> = found.iter().map(|found| found.outcome.is_correct()).collect();
    let answers: Vec<Option<&str>> = found.iter().map(|found| found.answer.as_deref()).collect();
    let mut scores: BTreeMap<String, Vec<Option<Vec<f64>>>> = BTreeMap::new();
    match judged {
        Some((name, judged)) => {
            scores.insert(name.to_owned(), judged.iter().map(|judged| as_scores(&judged.opinion)).collect());
        }
        None => {
            for (index, sample) in samples.iter().enumerate() {
                for (name, values) in &sample.solution.scores {
                    let column = scores.entry(name.clone()).or_insert_with(|| vec![None; samples.len()]);
                    column[index] = Some(values.clone());
                }
            }
        }
    }
    Pool {
        id: samples[0].problem.id.clone(),
        subset: samples[0].subset.clone(),
        correct: outcomes.iter().map(|outcome| *outcome == Some(true)).collect(),
        outcomes,
        graded: found.iter().filter(|found| found.graded).count(),
        groups: vote::groups(&answers),
        scores,
    }
}

/// A verdict is a score of 1 or 0 for the whole.
fn as_scores(opinion: &Opinion) -> Option<Vec<f64>> {
    match opinion {
        Opinion::Scores(scores) => Some(scores.clone()),
        Opinion::Verdict { correct, .. } => Some(vec![f64::from(u8::from(*correct))]),
        Opinion::Undecided { .. } => None,
    }
}

/// 1, 2, 4, … up to the size of the largest pool, and that size.
pub fn sizes(pools: &[Pool]) -> Vec<usize> {
    let most = pools.iter().map(|pool| pool.correct.len()).max().unwrap_or_default();
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|size| *size <= most).collect();
    if most > 0 && sizes.last() != Some(&most) {
        sizes.push(most);
    }
    sizes
}

/// The numbers over `pools`, and each problem's part of those at the largest N. In votes a candidate weighs its aggregate to the
/// power of `power`.
pub fn measure(
    pools: &[Pool],
    sizes: &[usize],
    power: Power,
    settings: &Settings,
) -> Result<(BestOfNResults, Vec<Fact>)> {
    if pools.is_empty() {
        return Err(Error::Data("the data has no solutions".to_owned()));
    }
    if pools.iter().all(|pool| pool.scores.is_empty()) {
        return Err(Error::Data(
            "the data has no scores of a reward model: name one with --model, or score the file first"
                .to_owned(),
        ));
    }
    let mut names: Vec<&str> = Vec::new();
    for pool in pools {
        if !names.contains(&pool.subset.as_str()) {
            names.push(&pool.subset);
        }
    }
    let of_set = |name: &&str| -> Vec<&Pool> { pools.iter().filter(|pool| pool.subset == **name).collect() };
    let sets: Vec<(&str, Vec<&Pool>)> = names.iter().map(|name| (*name, of_set(name))).collect();
    let facts =
        sets.iter().flat_map(|(_, pools)| facts(pools, sizes.last().copied().unwrap_or(1), power)).collect();
    let sets = sets.into_iter().map(|(name, pools)| set(name, &pools, sizes, power, settings)).collect();
    Ok((BestOfNResults { sizes: sizes.to_vec(), sets }, facts))
}

/// Each problem's value of one number for each N.
type Columns = Vec<Vec<f64>>;

/// The difference, problem by problem.
fn less(columns: &Columns, others: &Columns) -> Columns {
    let pair =
        |(column, other): (&Vec<f64>, &Vec<f64>)| column.iter().zip(other).map(|(a, b)| a - b).collect();
    columns.iter().zip(others).map(pair).collect()
}

fn columns(pools: &[&Pool], sizes: &[usize], value: impl Fn(&Pool, usize) -> f64 + Sync) -> Columns {
    sizes
        .iter()
        .map(|size| pools.iter().map(|pool| value(pool, (*size).min(pool.correct.len()))).collect())
        .collect()
}

fn set(name: &str, pools: &[&Pool], sizes: &[usize], power: Power, settings: &Settings) -> DatasetResults {
    let mut scorers: Vec<&str> =
        pools.iter().flat_map(|pool| pool.scores.keys()).map(String::as_str).collect();
    scorers.sort_unstable();
    scorers.dedup();
    let held_against = [
        columns(pools, sizes, |pool, n| f64::from(u8::from(pool.correct[..n].contains(&true)))),
        columns(pools, sizes, |pool, n| expected_pass(&pool.correct, n).unwrap_or_default()),
        columns(pools, sizes, |pool, n| chance(&pool.correct, n).unwrap_or_default()),
        columns(pools, sizes, |pool, n| hit(pool, vote::majority(&pool.groups[..n]))),
    ];
    let [_, _, blind, majority] = &held_against;
    let choices: Vec<(&str, Aggregation)> = scorers
        .iter()
        .flat_map(|scorer| Aggregation::ALL.into_iter().map(move |aggregation| (*scorer, aggregation)))
        .collect();
    let found: Vec<[Columns; 5]> = choices
        .par_iter()
        .map(|(scorer, aggregation)| {
            let [best, vote, expected] = choice_columns(pools, sizes, scorer, *aggregation, power);
            let gains = (less(&best, blind), less(&vote, majority));
            [best, vote, expected, gains.0, gains.1]
        })
        .collect();
    let mut by_outcome = (choices.par_iter())
        .map(|(scorer, aggregation)| by_outcome::measure(&scored(pools, scorer, *aggregation), settings))
        .collect::<Vec<ScoresByOutcome>>()
        .into_iter();
    let all: Vec<Columns> = held_against.into_iter().chain(found.into_iter().flatten()).collect();
    let mut estimates = estimates(&all, settings).into_iter();
    let mut next = || estimates.next().unwrap_or_default();
    DatasetResults {
        name: name.to_owned(),
        problems: pools.len(),
        candidates: pools.iter().map(|pool| pool.correct.len()).sum(),
        graded: pools.iter().map(|pool| pool.graded).sum(),
        unknown_outcomes: pools
            .iter()
            .flat_map(|pool| &pool.outcomes)
            .filter(|known| known.is_none())
            .count(),
        pass: next(),
        expected_pass: next(),
        chance: next(),
        majority: next(),
        scorers: scorers
            .iter()
            .map(|scorer| ScorerResults {
                name: (*scorer).to_owned(),
                unscored: pools.iter().map(|pool| unscored(pool, scorer)).sum(),
                choices: Aggregation::ALL
                    .map(|aggregation| Choice {
                        aggregation,
                        best: next(),
                        vote: next(),
                        expected_best: next(),
                        best_over_chance: next(),
                        vote_over_majority: next(),
                        by_outcome: by_outcome.next().unwrap_or_default(),
                    })
                    .to_vec(),
            })
            .collect(),
    }
}

/// `best`, `vote` and `expected_best` of one scorer under one aggregation.
fn choice_columns(
    pools: &[&Pool],
    sizes: &[usize],
    scorer: &str,
    aggregation: Aggregation,
    power: Power,
) -> [Columns; 3] {
    let mut found: [Columns; 3] = Default::default();
    let aggregates: Vec<Vec<Option<f64>>> =
        pools.iter().map(|pool| aggregated(pool, scorer, aggregation)).collect();
    for size in sizes {
        let mut columns: [Vec<f64>; 3] = Default::default();
        for (pool, scores) in pools.iter().zip(&aggregates) {
            let n = (*size).min(scores.len());
            columns[0].push(hit(pool, vote::best(&scores[..n])));
            columns[1].push(hit(pool, vote::weighted(&pool.groups[..n], &scores[..n], power)));
            columns[2].push(expected_best(scores, &pool.correct, n).unwrap_or_default());
        }
        found.iter_mut().zip(columns).for_each(|(found, column)| found.push(column));
    }
    found
}

/// Means with intervals; all columns share their resamples of problems.
fn estimates(all: &[Columns], settings: &Settings) -> Vec<OverN> {
    let flat: Vec<&[f64]> = all.iter().flatten().map(Vec::as_slice).collect();
    let intervals = means(&flat, settings).unwrap_or_default();
    let mut found = flat.iter().enumerate().map(|(index, column)| MetricEstimate {
        value: Some(column.iter().sum::<f64>() / column.len() as f64),
        interval: intervals.get(index).map(|interval| (interval.low, interval.high)),
    });
    all.iter().map(|columns| found.by_ref().take(columns.len()).collect()).collect()
}

/// The scores of each problem's solutions whose outcome is known, with that outcome.
fn scored(pools: &[&Pool], scorer: &str, aggregation: Aggregation) -> Vec<Vec<(f64, bool)>> {
    let of = |pool: &&Pool| {
        let scores = aggregated(pool, scorer, aggregation).into_iter().zip(&pool.outcomes);
        let known = scores.filter_map(|(score, outcome)| score.zip(*outcome));
        known.filter(|(score, _)| score.is_finite()).collect()
    };
    pools.iter().map(of).collect()
}

fn aggregated(pool: &Pool, scorer: &str, aggregation: Aggregation) -> Vec<Option<f64>> {
    match pool.scores.get(scorer) {
        Some(column) => column.iter().map(|scores| aggregation.of(scores.as_deref()?)).collect(),
        None => vec![None; pool.correct.len()],
    }
}

fn unscored(pool: &Pool, scorer: &str) -> usize {
    aggregated(pool, scorer, Aggregation::Last).iter().filter(|score| score.is_none()).count()
}

fn hit(pool: &Pool, chosen: Option<usize>) -> f64 {
    f64::from(u8::from(chosen.is_some_and(|chosen| pool.correct[chosen])))
}

/// What `compare` pairs: each problem's hits at the largest N. A single scorer is not named, so that two runs of
/// different scorers have the same columns.
fn facts(pools: &[&Pool], size: usize, power: Power) -> Vec<Fact> {
    let fact = |pool: &&Pool| {
        let n = size.min(pool.correct.len());
        let mut hits = BTreeMap::from([
            (format!("majority@{size}"), hit(pool, vote::majority(&pool.groups[..n]))),
            (format!("pass@{size}"), f64::from(u8::from(pool.correct[..n].contains(&true)))),
        ]);
        for scorer in pool.scores.keys() {
            let prefix = if pool.scores.len() == 1 { String::new() } else { format!("{scorer}/") };
            for aggregation in Aggregation::ALL {
                let scores = aggregated(pool, scorer, aggregation);
                let best = hit(pool, vote::best(&scores[..n]));
                let vote = hit(pool, vote::weighted(&pool.groups[..n], &scores[..n], power));
                hits.insert(format!("{prefix}{aggregation}/best@{size}"), best);
                hits.insert(format!("{prefix}{aggregation}/vote@{size}"), vote);
            }
        }
        Fact { id: pool.id.clone(), group: pool.subset.clone(), observation: Observation::Hits(hits) }
    };
    pools.iter().map(fact).collect()
}

/// Writes which answers were merged: `{"id", "groups": [for each candidate the earliest one with an equivalent answer,
/// or -1 without an answer]}`, one problem a line.
pub fn write_groups(folder: &Path, pools: &[Pool]) -> Result<()> {
    let line = |pool: &Pool| {
        let groups: Vec<i64> =
            pool.groups.iter().map(|group| group.map_or(-1, |first| first as i64)).collect();
        serde_json::json!({ "id": pool.id, "groups": groups }).to_string() + "\n"
    };
    let text: String = pools.iter().map(line).collect();
    Ok(gradus_durable::replace_plain_file(&folder.join("groups.jsonl"), text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_outcomes_and_unscored_solutions_are_left_out() {
        let scores = vec![Some(vec![0.9]), Some(vec![-0.5]), Some(vec![0.2]), None, Some(vec![0.7])];
        let outcomes = vec![Some(true), Some(false), None, Some(true), Some(true)];
        let pool = Pool {
            correct: outcomes.iter().map(|outcome| *outcome == Some(true)).collect(),
            outcomes,
            scores: BTreeMap::from([("m".to_owned(), scores)]),
            ..Pool::default()
        };
        let found = by_outcome::measure(&scored(&[&pool], "m", Aggregation::Last), &Settings::default());
        assert_eq!((found.right.solutions, found.wrong.solutions), (2, 1));
        assert_eq!((found.right.median, found.wrong.mean), (Some(0.8), Some(-0.5)));
        assert_eq!((found.range, found.auc.value), ((-0.5, 1.0), Some(1.0)));
        assert_eq!((found.wrong.by_score[0], found.right.by_score.iter().sum::<u64>()), (1, 2));
    }
}
