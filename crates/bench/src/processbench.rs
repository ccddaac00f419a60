//! ProcessBench: is the first wrong step found, and is a right solution left alone? (Zheng et al., 2024)
//!
//! A solution's predicted first error is the first step whose score is below the threshold, or what a critic says. F1 is
//! the harmonic mean of the accuracies on solutions with and without an error; the average is the plain mean over
//! subsets. An undecided solution is wrong in every number. Any data with first errors will do; the official subsets are
//! told apart by their ids, other data by file.
//!
//! The table has three judges without a model beside ours: 'always right', 'always the first step', and a coin for each
//! step at the rate that is best for it on this very data.

use gradus_core::data::FirstError;
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::process::{self, Confusion, Located, ProcessScores};
use gradus_plot::bars::{BarSeries, Bars, Reference};
use gradus_plot::heatmap::{Heatmap, Shade};
use gradus_plot::lines::{Line, Lines};
use gradus_plot::mistakes::{Mistake, Mistakes, ScoredStep, Verdict};
use gradus_plot::table::{Best, Cell, Column, Table};
use gradus_plot::{Block, Estimate, Marker, Section, Spacing, Unit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fact::{self, Fact, Seen};
use crate::figure::Figure;
use crate::judge::{Judged, Opinion};
use crate::published;
use crate::sample::Sample;
use crate::step_scores::{self, StepScores};

/// Step positions that have a row of their own in the confusion table.
const POSITIONS: usize = 10;
/// Mistakes on the page.
const SHOWN: usize = 60;

/// The numbers of one part of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// A subset or a generator.
    pub name: String,
    /// Counts and numbers.
    pub scores: ProcessScores,
    /// Share of erroneous solutions whose first error was found exactly.
    pub acc_err: Figure,
    /// Share of error-free solutions that were left alone.
    pub acc_cor: Figure,
    /// Their harmonic mean.
    pub f1: Figure,
    /// Share of all solutions that were judged right.
    pub accuracy: Figure,
}

/// A threshold of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Scores below it are errors.
    pub threshold: f64,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<Option<f64>>,
    /// Their mean.
    pub average: Option<f64>,
}

/// A judge without a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it does.
    pub name: String,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<Option<f64>>,
    /// Their mean.
    pub average: Option<f64>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Scores below it are errors; a score equal to it is not.
    pub threshold: f64,
    /// By subset.
    pub subsets: Vec<Part>,
    /// Mean F1 over subsets.
    pub average_f1: Figure,
    /// Mean accuracy over subsets.
    pub average_accuracy: Figure,
    /// By the model that wrote the solutions.
    pub generators: Vec<Part>,
    /// Judges without a model.
    pub baselines: Vec<Baseline>,
    /// F1 at other thresholds; empty for a judge without scores.
    pub sweep: Vec<SweepPoint>,
    /// Where errors are and where they were said to be.
    pub confusion: Confusion,
    /// Quality of the scores themselves.
    pub steps: Option<StepScores>,
}

/// The numbers, and each sample's part of them. Samples without a known first error are returned as a count.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    threshold: f64,
    settings: &Settings,
) -> Result<(Numbers, Vec<Fact>)> {
    let facts: Vec<Fact> = samples
        .iter()
        .zip(judged)
        .map(|(sample, judged)| Fact {
            id: sample.solution.id.clone(),
            group: sample.subset.clone(),
            seen: Seen::Located {
                truth: sample.first_error(),
                predicted: predicted(&judged.opinion, threshold),
            },
        })
        .collect();
    if facts.is_empty() {
        return Err(Error::Data(
            "no solution has a known first error: this benchmark needs one for each".to_owned(),
        ));
    }
    let subsets = parts(&facts, settings);
    let headline = fact::headline(&facts, settings);
    let by_generator: Vec<Fact> = facts
        .iter()
        .zip(samples)
        .map(|(fact, sample)| Fact { group: sample.generator().to_owned(), ..fact.clone() })
        .collect();
    let mut generators = parts(&by_generator, settings);
    generators.sort_by(|a, b| a.name.cmp(&b.name));
    let located: Vec<Located> = facts.iter().filter_map(|fact| fact::as_located(&fact.seen)).collect();
    let names: Vec<&str> = subsets.iter().map(|part| part.name.as_str()).collect();
    let numbers = Numbers {
        threshold,
        average_f1: headline["all/f1"],
        average_accuracy: headline["all/accuracy"],
        generators,
        baselines: baselines(samples, &names),
        sweep: sweep(samples, judged, &names),
        confusion: process::confusion(&located, POSITIONS),
        steps: step_scores::measure(&step_scores::scored_steps(samples, judged, false)),
        subsets,
    };
    Ok((numbers, facts))
}

fn predicted(opinion: &Opinion, threshold: f64) -> FirstError {
    match opinion.first_error(threshold) {
        None => FirstError::Unknown,
        Some(None) => FirstError::None,
        Some(Some(step)) => FirstError::At(step),
    }
}

fn parts(facts: &[Fact], settings: &Settings) -> Vec<Part> {
    let headline = fact::headline(facts, settings);
    let strata = fact::strata(facts);
    let part = |(name, members): (String, Vec<&Seen>)| {
        let located: Vec<Located> = members.iter().filter_map(|seen| fact::as_located(seen)).collect();
        let figure = |number: &str| headline.get(&format!("{name}/{number}")).copied().unwrap_or_default();
        Part {
            scores: process::scores(&located),
            acc_err: figure("acc_err"),
            acc_cor: figure("acc_cor"),
            f1: figure("f1"),
            accuracy: figure("accuracy"),
            name,
        }
    };
    strata.into_iter().map(part).collect()
}

/// F1 per subset, from each sample's probability of being judged right.
fn expected_f1(
    samples: &[Sample],
    subset: &str,
    right: impl Fn(&Sample, Option<usize>) -> f64,
) -> Option<f64> {
    let mut sums = [(0.0, 0usize); 2];
    for sample in samples.iter().filter(|sample| sample.subset == subset) {
        let truth = match sample.first_error() {
            FirstError::At(step) => Some(step),
            _ => None,
        };
        let (sum, count) = &mut sums[usize::from(truth.is_some())];
        *sum += right(sample, truth);
        *count += 1;
    }
    let share = |(sum, count): (f64, usize)| (count > 0).then(|| sum / count as f64);
    let (cor, err) = (share(sums[0])?, share(sums[1])?);
    Some(if cor + err == 0.0 { 0.0 } else { 2.0 * cor * err / (cor + err) })
}

fn baselines(samples: &[Sample], subsets: &[&str]) -> Vec<Baseline> {
    let baseline = |name: String, right: &dyn Fn(&Sample, Option<usize>) -> f64| {
        let f1: Vec<Option<f64>> = subsets.iter().map(|subset| expected_f1(samples, subset, right)).collect();
        Baseline { name, average: fact::mean(f1.iter().copied()), f1 }
    };
    // A coin that says 'wrong' at each step with this probability, up to its first 'wrong'.
    let coin = |rate: f64| {
        move |sample: &Sample, truth: Option<usize>| match truth {
            Some(step) => (1.0 - rate).powi(step as i32) * rate,
            None => (1.0 - rate).powi(sample.solution.steps.len() as i32),
        }
    };
    let rates = (1..100).map(|percent| f64::from(percent) / 100.0);
    let coins = rates.map(|rate| baseline(format!("a coin at each step, wrong with {rate:.2}"), &coin(rate)));
    let best = coins.max_by(|a, b| a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0)));
    [
        baseline("always 'no error'".to_owned(), &|_, truth| f64::from(u8::from(truth.is_none()))),
        baseline("always the first step".to_owned(), &|_, truth| f64::from(u8::from(truth == Some(0)))),
    ]
    .into_iter()
    .chain(best)
    .collect()
}

fn sweep(samples: &[Sample], judged: &[Judged], subsets: &[&str]) -> Vec<SweepPoint> {
    if judged.iter().all(|judged| judged.opinion.scores().is_none()) {
        return Vec::new();
    }
    let at = |threshold: f64| {
        let f1: Vec<Option<f64>> = subsets
            .iter()
            .map(|subset| {
                let of_subset = samples.iter().zip(judged).filter(|(sample, _)| sample.subset == **subset);
                let located: Vec<Located> = of_subset
                    .filter_map(|(sample, judged)| {
                        let truth = sample.first_error();
                        let predicted = predicted(&judged.opinion, threshold);
                        fact::as_located(&Seen::Located { truth, predicted })
                    })
                    .collect();
                process::scores(&located).f1
            })
            .collect();
        SweepPoint { threshold, average: fact::mean(f1.iter().copied()), f1 }
    };
    process::thresholds().into_iter().map(at).collect()
}

impl Numbers {
    /// The threshold of the sweep with the highest average. It was chosen on the very data it is measured on.
    pub fn best_threshold(&self) -> Option<&SweepPoint> {
        let known = self.sweep.iter().filter(|point| point.average.is_some());
        known.rev().max_by(|a, b| a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0)))
    }
}

/// The page's sections.
pub fn sections(numbers: &Numbers, judge: &str, samples: &[Sample], judged: &[Judged]) -> Vec<Section> {
    let section = |heading: &str, intro: &str, blocks| Section {
        heading: heading.to_owned(),
        intro: intro.to_owned(),
        blocks,
    };
    let mut scores = sweep_chart(numbers).into_iter().collect::<Vec<_>>();
    scores.extend(numbers.steps.iter().flat_map(|steps| steps.blocks(numbers.threshold)));
    let mut sections = vec![
        section(
            "Results",
            "F1 is the harmonic mean of the accuracies on solutions with an error (its first wrong step must be named exactly) and without one.",
            vec![
                Block::Bars(f1_bars(numbers, judge)),
                Block::Table(results_table(numbers)),
                Block::Table(published_table(numbers, judge)),
            ],
        ),
        section(
            "Where errors are found",
            "Steps are counted from 0.",
            vec![
                Block::Heatmap(positions(&numbers.confusion)),
                Block::Table(parts_table("By the model that wrote the solutions", &numbers.generators)),
            ],
        ),
        section("Worst mistakes", "", vec![Block::Mistakes(mistakes(numbers, samples, judged))]),
    ];
    if !scores.is_empty() {
        sections.insert(1, section("Scores and thresholds", "", scores));
    }
    sections
}

fn f1_bars(numbers: &Numbers, judge: &str) -> Bars {
    let published = published::processbench();
    let columns = ["gsm8k", "math", "olympiadbench", "omnimath"];
    let mut references = Vec::new();
    for name in ["RetrievalPRM-7B", "Math-Shepherd-PRM-7B"] {
        let Some(row) = published.rows.iter().find(|row| row.name == name) else { continue };
        for (category, part) in numbers.subsets.iter().enumerate() {
            let column = columns.iter().position(|column| *column == part.name);
            if let Some(value) = column.and_then(|column| row.values[column]) {
                references.push(Reference { category, name: name.to_owned(), value });
            }
        }
        if let Some(value) = row.values[4] {
            references.push(Reference { category: numbers.subsets.len(), name: name.to_owned(), value });
        }
    }
    let mut values: Vec<Option<Estimate>> =
        numbers.subsets.iter().map(|part| part.f1.estimate(100.0)).collect();
    values.push(numbers.average_f1.estimate(100.0));
    let mut series = vec![BarSeries { name: judge.to_owned(), values }];
    series.extend(numbers.baselines.last().map(|coin| {
        BarSeries {
            name: coin.name.clone(),
            values: coin
                .f1
                .iter()
                .chain([&coin.average])
                .map(|value| value.map(|value| Estimate::exactly(100.0 * value)))
                .collect(),
        }
    }));
    Bars {
        title: "F1 by subset".to_owned(),
        caption: format!(
            "Threshold {}. Whiskers: 95 % bootstrap intervals. Ticks: published values, on the whole benchmark.",
            numbers.threshold
        ),
        value_label: "F1".to_owned(),
        unit: Unit::Score,
        categories: numbers
            .subsets
            .iter()
            .map(|part| part.name.clone())
            .chain(["average".to_owned()])
            .collect(),
        series,
        references,
    }
}

fn results_table(numbers: &Numbers) -> Table {
    let mut table = parts_table("All numbers, and judges without a model", &numbers.subsets);
    let figure = |figure: &Figure| Cell::Number(figure.estimate(100.0));
    let none = || Cell::Number(None);
    let count = |of: fn(&ProcessScores) -> usize| {
        Cell::Number(Some(Estimate::exactly(
            numbers.subsets.iter().map(|part| of(&part.scores)).sum::<usize>() as f64,
        )))
    };
    table.rows.push(vec![
        Cell::Text("average".to_owned()),
        count(|scores| scores.erroneous),
        count(|scores| scores.error_free),
        count(|scores| scores.undecided),
        none(),
        none(),
        figure(&numbers.average_f1),
        figure(&numbers.average_accuracy),
    ]);
    for baseline in &numbers.baselines {
        let f1 = Cell::Number(baseline.average.map(|value| Estimate::exactly(100.0 * value)));
        let name = Cell::Text(format!("{}, average", baseline.name));
        table.rows.push(vec![name, none(), none(), none(), none(), none(), f1, none()]);
    }
    table.caption =
        "An undecided solution counts as not right. Intervals: 95 %, bootstrap within subsets.".to_owned();
    table
}

fn parts_table(title: &str, parts: &[Part]) -> Table {
    let column = |name: &str, unit, best| Column { name: name.to_owned(), unit, best };
    let count = |count: usize| Cell::Number(Some(Estimate::exactly(count as f64)));
    let figure = |figure: &Figure| Cell::Number(figure.estimate(100.0));
    let row = |part: &Part| {
        vec![
            Cell::Text(part.name.clone()),
            count(part.scores.erroneous),
            count(part.scores.error_free),
            count(part.scores.undecided),
            figure(&part.acc_err),
            figure(&part.acc_cor),
            figure(&part.f1),
            figure(&part.accuracy),
        ]
    };
    Table {
        title: title.to_owned(),
        caption: String::new(),
        columns: vec![
            column("", Unit::Number, None),
            column("with an error", Unit::Count, None),
            column("without", Unit::Count, None),
            column("undecided", Unit::Count, None),
            column("error found", Unit::Score, None),
            column("left alone", Unit::Score, None),
            column("F1", Unit::Score, Some(Best::Highest)),
            column("accuracy", Unit::Score, None),
        ],
        rows: parts.iter().map(row).collect(),
    }
}

fn published_table(numbers: &Numbers, judge: &str) -> Table {
    let of = |name: &str| {
        numbers.subsets.iter().find(|part| part.name == name).and_then(|part| part.f1.estimate(100.0))
    };
    let mut ours: Vec<Option<Estimate>> = ["gsm8k", "math", "olympiadbench", "omnimath"].map(of).to_vec();
    ours.push(numbers.average_f1.estimate(100.0));
    let sizes: Vec<String> = numbers
        .subsets
        .iter()
        .map(|part| format!("{} {}", part.name, part.scores.erroneous + part.scores.error_free))
        .collect();
    let differs = format!("Ours: {} solutions, threshold {}.", sizes.join(", "), numbers.threshold);
    published::processbench().beside("Beside published results (F1)", &[(judge.to_owned(), ours)], &differs)
}

fn sweep_chart(numbers: &Numbers) -> Option<Block> {
    let best = numbers.best_threshold()?;
    let line = |name: &str, value: &dyn Fn(&SweepPoint) -> Option<f64>| Line {
        name: name.to_owned(),
        points: numbers
            .sweep
            .iter()
            .map(|point| (point.threshold, value(point).map(|value| Estimate::exactly(100.0 * value))))
            .collect(),
    };
    let subsets = numbers.subsets.iter().enumerate();
    let mut series: Vec<Line> =
        subsets.map(|(index, part)| line(&part.name, &|point| point.f1[index])).collect();
    series.push(line("average", &|point| point.average));
    Some(Block::Lines(Lines {
        title: "F1 at other thresholds".to_owned(),
        caption: format!(
            "The best average, {:.1}, is at {:.2}; a threshold chosen on the data it is measured on flatters.",
            100.0 * best.average.unwrap_or_default(),
            best.threshold
        ),
        x_label: "threshold".to_owned(),
        x_unit: Unit::Number,
        x_spacing: Spacing::Linear,
        y_label: "F1".to_owned(),
        y_unit: Unit::Score,
        series,
        markers: vec![Marker { x: numbers.threshold, label: "used".to_owned() }],
    }))
}

fn positions(confusion: &Confusion) -> Heatmap {
    let mut rows: Vec<String> = (0..confusion.positions).map(|step| step.to_string()).collect();
    rows.extend([format!("{}+", confusion.positions), "no error".to_owned()]);
    let columns = rows.iter().cloned().chain(["undecided".to_owned()]).collect();
    let counted = |row: &Vec<usize>| row.iter().map(|count| Some(*count as u64)).collect();
    Heatmap {
        title: "First error: where it is, and where it was said to be".to_owned(),
        caption: "Solutions by true and predicted position; right predictions are on the diagonal."
            .to_owned(),
        row_label: "true first error".to_owned(),
        column_label: "predicted first error".to_owned(),
        rows,
        columns,
        counts: confusion.counts.iter().map(counted).collect(),
        shade: Shade::Sqrt,
    }
}

/// The mistakes that the judge was surest of: the undecided first, then by how far the decisive score is off.
fn mistakes(numbers: &Numbers, samples: &[Sample], judged: &[Judged]) -> Mistakes {
    let threshold = numbers.threshold;
    let mut wrong: Vec<(f64, Mistake)> = Vec::new();
    for (sample, judged) in samples.iter().zip(judged) {
        let truth = match sample.first_error() {
            FirstError::At(step) => Some(step),
            _ => None,
        };
        let predicted = judged.opinion.first_error(threshold);
        if predicted == Some(truth) {
            continue;
        }
        let scores = judged.opinion.scores();
        let surest = match (scores, truth) {
            (Some(scores), Some(step)) => scores.get(step).copied().unwrap_or_default(),
            (Some(scores), None) => 1.0 - scores.iter().copied().fold(1.0, f64::min),
            (None, _) => 0.5,
        };
        let note = match &judged.opinion {
            Opinion::Undecided { reason } => Some(reason.clone()),
            Opinion::Verdict { critique, .. } => Some(critique.clone()),
            Opinion::Scores(_) => sample.solution.generator.clone(),
        };
        let step = |(index, text): (usize, &String)| ScoredStep {
            text: text.clone(),
            score: scores.and_then(|scores| scores.get(index).copied()),
        };
        let mistake = Mistake {
            id: sample.solution.id.clone(),
            subset: sample.subset.clone(),
            problem: sample.problem.question(),
            steps: sample.solution.steps.iter().enumerate().map(step).collect(),
            truth,
            predicted: match predicted {
                None => Verdict::Undecided,
                Some(None) => Verdict::NoError,
                Some(Some(step)) => Verdict::At(step),
            },
            note,
        };
        wrong.push((surest, mistake));
    }
    wrong.sort_by(|a, b| b.0.total_cmp(&a.0));
    Mistakes {
        title: format!("{} solutions judged wrongly", wrong.len()),
        caption: "The surest mistakes first: wrong steps with the highest scores, and right solutions with the lowest.".to_owned(),
        solutions: wrong.into_iter().map(|(_, mistake)| mistake).collect(),
        limit: Some(SHOWN),
    }
}
