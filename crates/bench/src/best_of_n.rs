//! Best-of-N: how good is the answer that a scorer chooses among N solutions?
//!
//! For N = 1, 2, 4, … and every aggregation of step scores: the candidate with the highest score (`best`), the answer
//! with the largest sum of scores (`vote`, answers merged by the grader), the answer given most often (`majority`),
//! whether any candidate is right (`pass`), and a blind choice (`chance`).
//!
//! Two readings of N: *first* takes the first N candidates as they stand in the file; *expected* is the exact mean over
//! all subsets of N, with far less variance (`best`, `pass`). A candidate without scores is never chosen over one that
//! has some and weighs nothing in a vote; it is counted. Equals: the earliest candidate wins.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_core::data::Outcome;
use gradus_core::grade::{Verdict, compare};
use gradus_core::metrics::bootstrap::{Settings, means};
use gradus_core::select::best_of_n::{chance, expected_best, expected_pass};
use gradus_core::select::{Aggregation, vote};
use gradus_plot::bars::{BarSeries, Bars, Reference};
use gradus_plot::lines::{Line, Lines};
use gradus_plot::table::{Best, Cell, Column, Table};
use gradus_plot::{Block, Section, Spacing, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fact::{Fact, Seen};
use crate::figure::Figure;
use crate::judge::{Judged, Opinion};
use crate::published;
use crate::sample::Sample;

/// The candidates of one problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pool {
    /// The problem.
    pub id: String,
    /// The data set it is from.
    pub subset: String,
    /// Which candidates are right.
    pub correct: Vec<bool>,
    /// For each candidate the earliest one with an equivalent answer; none without an answer.
    pub groups: Vec<Option<usize>>,
    /// Step scores of each candidate, by scorer.
    pub scores: BTreeMap<String, Vec<Option<Vec<f64>>>>,
    /// Candidates of which nobody knows whether they are right: they count as wrong.
    pub unknown: usize,
}

/// One number for each N.
pub type OverN = Vec<Figure>;

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
}

/// One scorer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorerNumbers {
    /// Its name.
    pub name: String,
    /// Candidates that it did not score.
    pub unscored: usize,
    /// By aggregation.
    pub choices: Vec<Choice>,
}

/// One data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNumbers {
    /// Its name.
    pub name: String,
    /// Problems.
    pub problems: usize,
    /// Candidates in all.
    pub candidates: usize,
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
    pub scorers: Vec<ScorerNumbers>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// N.
    pub sizes: Vec<usize>,
    /// By data set.
    pub sets: Vec<SetNumbers>,
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
    let outcomes: Vec<Option<bool>> = samples.iter().map(is_right).collect();
    let answers: Vec<Option<&str>> = samples.iter().map(|sample| sample.solution.answer.as_deref()).collect();
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
        unknown: outcomes.iter().filter(|outcome| outcome.is_none()).count(),
        correct: outcomes.into_iter().map(|outcome| outcome == Some(true)).collect(),
        groups: vote::groups(&answers),
        scores,
    }
}

/// What the data says, or else what the grader says of the answer.
fn is_right(sample: &Sample) -> Option<bool> {
    if sample.solution.outcome != Outcome::Unknown {
        return sample.solution.outcome.is_correct();
    }
    let (gold, answer) = (sample.problem.answer.as_deref()?, sample.solution.answer.as_deref()?);
    match compare(gold, answer) {
        Verdict::Equal => Some(true),
        Verdict::Different => Some(false),
        _ => None,
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

/// The numbers over `pools`, and each problem's part of those at the largest N.
pub fn measure(pools: &[Pool], sizes: &[usize], settings: &Settings) -> Result<(Numbers, Vec<Fact>)> {
    if pools.is_empty() {
        return Err(Error::Data("there is no solution to choose from".to_owned()));
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
    let facts = sets.iter().flat_map(|(_, pools)| facts(pools, sizes.last().copied().unwrap_or(1))).collect();
    let sets = sets.into_iter().map(|(name, pools)| set(name, &pools, sizes, settings)).collect();
    Ok((Numbers { sizes: sizes.to_vec(), sets }, facts))
}

/// Each problem's value of one number for each N.
type Columns = Vec<Vec<f64>>;

fn columns(pools: &[&Pool], sizes: &[usize], value: impl Fn(&Pool, usize) -> f64 + Sync) -> Columns {
    sizes
        .iter()
        .map(|size| pools.iter().map(|pool| value(pool, (*size).min(pool.correct.len()))).collect())
        .collect()
}

fn set(name: &str, pools: &[&Pool], sizes: &[usize], settings: &Settings) -> SetNumbers {
    let mut scorers: Vec<&str> =
        pools.iter().flat_map(|pool| pool.scores.keys()).map(String::as_str).collect();
    scorers.sort_unstable();
    scorers.dedup();
    let mut all: Vec<Columns> = vec![
        columns(pools, sizes, |pool, n| f64::from(u8::from(pool.correct[..n].contains(&true)))),
        columns(pools, sizes, |pool, n| expected_pass(&pool.correct, n).unwrap_or_default()),
        columns(pools, sizes, |pool, n| chance(&pool.correct, n).unwrap_or_default()),
        columns(pools, sizes, |pool, n| hit(pool, vote::majority(&pool.groups[..n]))),
    ];
    let choices: Vec<(&str, Aggregation)> = scorers
        .iter()
        .flat_map(|scorer| Aggregation::ALL.into_iter().map(move |aggregation| (*scorer, aggregation)))
        .collect();
    let found: Vec<[Columns; 3]> = choices
        .par_iter()
        .map(|(scorer, aggregation)| {
            let aggregates: Vec<Vec<Option<f64>>> =
                pools.iter().map(|pool| aggregated(pool, scorer, *aggregation)).collect();
            let over = |value: &dyn Fn(&Pool, &[Option<f64>], usize) -> f64| -> Columns {
                let at = |size: &usize| {
                    let both = pools.iter().zip(&aggregates);
                    both.map(|(pool, scores)| value(pool, scores, (*size).min(scores.len()))).collect()
                };
                sizes.iter().map(at).collect()
            };
            [
                over(&|pool, scores, n| hit(pool, vote::best(&scores[..n]))),
                over(&|pool, scores, n| hit(pool, vote::weighted(&pool.groups[..n], &scores[..n]))),
                over(&|pool, scores, n| expected_best(scores, &pool.correct, n).unwrap_or_default()),
            ]
        })
        .collect();
    all.extend(found.into_iter().flatten());
    let mut figures = figures(&all, settings).into_iter();
    let mut next = || figures.next().unwrap_or_default();
    SetNumbers {
        name: name.to_owned(),
        problems: pools.len(),
        candidates: pools.iter().map(|pool| pool.correct.len()).sum(),
        unknown_outcomes: pools.iter().map(|pool| pool.unknown).sum(),
        pass: next(),
        expected_pass: next(),
        chance: next(),
        majority: next(),
        scorers: scorers
            .iter()
            .map(|scorer| ScorerNumbers {
                name: (*scorer).to_owned(),
                unscored: pools.iter().map(|pool| unscored(pool, scorer)).sum(),
                choices: Aggregation::ALL
                    .map(|aggregation| Choice {
                        aggregation,
                        best: next(),
                        vote: next(),
                        expected_best: next(),
                    })
                    .to_vec(),
            })
            .collect(),
    }
}

/// Means with intervals; all columns share their resamples of problems.
fn figures(all: &[Columns], settings: &Settings) -> Vec<OverN> {
    let flat: Vec<&[f64]> = all.iter().flatten().map(Vec::as_slice).collect();
    let intervals = means(&flat, settings).unwrap_or_default();
    let mut found = flat.iter().enumerate().map(|(index, column)| Figure {
        value: Some(column.iter().sum::<f64>() / column.len() as f64),
        interval: intervals.get(index).map(|interval| (interval.low, interval.high)),
    });
    all.iter().map(|columns| found.by_ref().take(columns.len()).collect()).collect()
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
fn facts(pools: &[&Pool], size: usize) -> Vec<Fact> {
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
                let vote = hit(pool, vote::weighted(&pool.groups[..n], &scores[..n]));
                hits.insert(format!("{prefix}{aggregation}/best@{size}"), best);
                hits.insert(format!("{prefix}{aggregation}/vote@{size}"), vote);
            }
        }
        Fact { id: pool.id.clone(), group: pool.subset.clone(), seen: Seen::Hits(hits) }
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
    crate::report::replace(&folder.join("groups.jsonl"), text.as_bytes())
}

/// The page's sections.
pub fn sections(numbers: &Numbers) -> Vec<Section> {
    let mut sections: Vec<Section> = numbers.sets.iter().map(|set| set_section(numbers, set)).collect();
    let table = |published: published::Published, title: &str| {
        Block::Table(published.beside(
            title,
            &[],
            "Other samples, other N and other aggregations than ours: for orientation only.",
        ))
    };
    sections.push(Section {
        heading: "What papers report".to_owned(),
        intro: String::new(),
        blocks: vec![
            table(published::best_of_n(), "Best-of-N, RetrievalPRM's paper"),
            table(published::ranking(), "Choosing among 20 samples, SPARE's paper"),
        ],
    });
    sections
}

/// More lines than this would hide each other's bands; the bars and the table have the intervals then.
const BANDS: usize = 4;

fn set_section(numbers: &Numbers, set: &SetNumbers) -> Section {
    let mut blocks = Vec::new();
    for aggregation in [Aggregation::Last, Aggregation::Min] {
        for vote in [false, true] {
            blocks.push(Block::Lines(curves(numbers, set, aggregation, vote)));
        }
        blocks.push(Block::Bars(bars_at_most(numbers, set, aggregation)));
    }
    blocks.push(Block::Table(choices_table(numbers, set)));
    let mut intro = format!("{} problems with {} candidates.", set.problems, set.candidates);
    if set.unknown_outcomes > 0 {
        intro += &format!(" The outcome of {} is unknown; they count as wrong.", set.unknown_outcomes);
    }
    Section { heading: set.name.clone(), intro, blocks }
}

fn choice_of(scorer: &ScorerNumbers, aggregation: Aggregation) -> Option<&Choice> {
    scorer.choices.iter().find(|choice| choice.aggregation == aggregation)
}

fn curves(numbers: &Numbers, set: &SetNumbers, aggregation: Aggregation, vote: bool) -> Lines {
    let banded = set.scorers.len() + 3 <= BANDS;
    let estimate = |figure: &Figure| {
        let shown = if banded { *figure } else { Figure::exactly(figure.value) };
        shown.estimate(100.0)
    };
    let over_n = |name: &str, figures: &OverN| Line {
        name: name.to_owned(),
        points: numbers.sizes.iter().zip(figures).map(|(n, figure)| (*n as f64, estimate(figure))).collect(),
    };
    let mut series = vec![over_n("pass@N", &set.pass), over_n("majority", &set.majority)];
    for scorer in &set.scorers {
        if let Some(choice) = choice_of(scorer, aggregation) {
            series.push(over_n(&scorer.name, if vote { &choice.vote } else { &choice.best }));
        }
    }
    series.push(over_n("chance", &set.chance));
    let kind = if vote { "weighted vote" } else { "best@N" };
    let bands = if banded {
        "bands are 95 % bootstrap intervals over problems"
    } else {
        "for intervals see the bars"
    };
    Lines {
        title: format!("{}: {kind} by the {aggregation} score", set.name),
        caption: format!(
            "The first N candidates; {bands}. pass@N is the upper bound, chance a blind choice."
        ),
        x_label: "N".to_owned(),
        x_unit: Unit::Count,
        x_spacing: Spacing::Log2,
        y_label: "accuracy".to_owned(),
        y_unit: Unit::Score,
        series,
        markers: Vec::new(),
    }
}

/// Both choices of every scorer at the largest N, with intervals.
fn bars_at_most(numbers: &Numbers, set: &SetNumbers, aggregation: Aggregation) -> Bars {
    let size = numbers.sizes.last().copied().unwrap_or_default();
    let last = |figures: &OverN| figures.last().and_then(|figure| figure.estimate(100.0));
    let series = |name: &str, of: fn(&Choice) -> &OverN| BarSeries {
        name: name.to_owned(),
        values: set.scorers.iter().map(|scorer| last(of(choice_of(scorer, aggregation)?))).collect(),
    };
    let references = (0..set.scorers.len()).flat_map(|category| {
        let of = |name: &str, figures: &OverN| {
            let value = figures.last()?.value?;
            Some(Reference { category, name: name.to_owned(), value: 100.0 * value })
        };
        [of("majority", &set.majority), of("pass@N", &set.pass)].into_iter().flatten()
    });
    Bars {
        title: format!("{}: N = {size} by the {aggregation} score", set.name),
        caption: "Whiskers: 95 % bootstrap intervals over problems.".to_owned(),
        value_label: "accuracy".to_owned(),
        unit: Unit::Score,
        categories: set.scorers.iter().map(|scorer| scorer.name.clone()).collect(),
        series: vec![series("best", |choice| &choice.best), series("weighted vote", |choice| &choice.vote)],
        references: references.collect(),
    }
}

fn choices_table(numbers: &Numbers, set: &SetNumbers) -> Table {
    let size = numbers.sizes.last().copied().unwrap_or_default();
    let column = |name: String, best| Column { name, unit: Unit::Score, best };
    let last = |figures: &OverN| Cell::Number(figures.last().and_then(|figure| figure.estimate(100.0)));
    // At the largest N there is one subset only.
    let before = numbers.sizes.len().saturating_sub(2);
    let fewer = numbers.sizes.get(before).copied().unwrap_or_default();
    let mid = |figures: &OverN| Cell::Number(figures.get(before).and_then(|figure| figure.estimate(100.0)));
    let text = |text: &str| Cell::Text(text.to_owned());
    let mut rows = vec![
        vec![
            text("pass@N (upper bound)"),
            text(""),
            last(&set.pass),
            Cell::Number(None),
            mid(&set.expected_pass),
        ],
        vec![text("majority"), text(""), last(&set.majority), Cell::Number(None), Cell::Number(None)],
        vec![text("chance"), text(""), last(&set.chance), Cell::Number(None), Cell::Number(None)],
    ];
    for scorer in &set.scorers {
        for choice in &scorer.choices {
            rows.push(vec![
                text(&scorer.name),
                text(choice.aggregation.name()),
                last(&choice.best),
                last(&choice.vote),
                mid(&choice.expected_best),
            ]);
        }
    }
    let plain = |name: &str| Column { name: name.to_owned(), unit: Unit::Number, best: None };
    Table {
        title: format!("{}: every choice at N = {size}", set.name),
        caption: "best: the candidate with the highest score; vote: the answer with the largest sum of scores; expected: best, or pass, over all subsets of that many.".to_owned(),
        columns: vec![
            plain("scorer"),
            plain("aggregation"),
            column(format!("best@{size}"), None),
            column(format!("vote@{size}"), Some(Best::Highest)),
            column(format!("expected best@{fewer}"), None),
        ],
        rows,
    }
}
