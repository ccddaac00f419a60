//! PRMBench: step-level judgments on nine classes of injected errors (Song et al., 2025).
//!
//! Our rules count a solution without usable scores as wrong at every step; the official code drops it. The report has
//! the numbers by both, and says how many samples are undecided or have no usable labels. A critic names the first wrong
//! step only, so it is taken to call that one step wrong and every other one right.
//!
//! Left out: similarity to the unmodified solution, which needs each original scored too.

use std::collections::BTreeMap;

use gradus_core::Mark;
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::prmbench::{self, Class, Group, Outcome, PrmBenchMetrics};
use gradus_plot::bars::{BarSeries, Bars};
use gradus_plot::radar::{Radar, RadarSeries};
use gradus_plot::table::{Cell, Table};
use gradus_plot::{Block, Estimate, Section, Unit};
use serde::{Deserialize, Serialize};

use crate::cells::{columns, count, estimate, nothing, percent, text};
use crate::error::{Error, Result};
use crate::estimate::MetricEstimate;
use crate::fact::{self, Fact, Observation};
use crate::judge::{Judged, Opinion};
use crate::published;
use crate::sample::Sample;
use crate::step_scores::{self, StepScores};

/// The numbers of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassResults {
    /// Such as `NCL`.
    pub name: String,
    /// Samples.
    pub samples: usize,
    /// (F1 + negative F1)/2; of MS, F1.
    pub score: MetricEstimate,
    /// F1 of right steps.
    pub f1: MetricEstimate,
    /// F1 of wrong steps.
    pub negative_f1: MetricEstimate,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrmBenchResults {
    /// Scores below it are errors.
    pub threshold: f64,
    /// PRMScore of all steps together.
    pub overall: MetricEstimate,
    /// By class.
    pub classes: Vec<ClassResults>,
    /// Mean PRMScore of simplicity, soundness, sensitivity.
    pub groups: BTreeMap<Group, Option<f64>>,
    /// All metrics by our rules.
    pub ours: PrmBenchMetrics,
    /// By the rules of the official code; none where that code would fail.
    pub official: Option<PrmBenchMetrics>,
    /// Quality of the scores themselves.
    pub steps: Option<StepScores>,
}

/// The class of a sample; none for data that is not PRMBench.
pub fn class_of(sample: &Sample) -> Option<Class> {
    Class::from_dataset(sample.solution.metadata.get("classification")?.as_str()?)
}

/// The numbers, and each sample's part of them. Every sample must have a class.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    threshold: f64,
    settings: &Settings,
) -> Result<(PrmBenchResults, Vec<Fact>)> {
    let scores: Vec<Option<Vec<f64>>> =
        samples.iter().zip(judged).map(|(sample, judged)| as_scores(sample, &judged.opinion)).collect();
    let errors: Vec<Vec<usize>> = samples.iter().map(wrong_steps).collect();
    let mut tested = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let class = class_of(sample).ok_or_else(|| {
            Error::Data(format!("solution `{}` has no PRMBench classification", sample.solution.id))
        })?;
        tested.push(prmbench::Sample {
            class,
            id: sample
                .solution
                .metadata
                .get("idx")
                .and_then(serde_json::Value::as_str)
                .unwrap_or(&sample.solution.id),
            steps: sample.solution.steps.len(),
            error_steps: &errors[index],
            outcome: match &scores[index] {
                Some(scores) => Outcome::Scores(scores),
                None => Outcome::Invalid,
            },
        });
    }
    if tested.is_empty() {
        return Err(Error::Data("the data has no PRMBench record".to_owned()));
    }
    let mut facts = Vec::new();
    for (sample, tested) in samples.iter().zip(&tested) {
        // Its labels are not known.
        let Some(counts) = prmbench::counts(tested, threshold) else { continue };
        let observation = Observation::Steps {
            right_as_right: counts.tp,
            wrong_as_right: counts.fp,
            wrong_as_wrong: counts.tn,
            right_as_wrong: counts.fn_,
        };
        facts.push(Fact {
            id: sample.solution.id.clone(),
            group: tested.class.name().to_owned(),
            observation,
        });
    }
    let headline = fact::headline(&facts, settings);
    let of = |name: String| headline.get(&name).copied().unwrap_or_default();
    let ours = prmbench::ours(&tested, threshold);
    let class = |class: &Class| ClassResults {
        name: class.name().to_owned(),
        samples: tested.iter().filter(|sample| sample.class == *class).count(),
        score: of(format!("{}/score", class.name())),
        f1: of(format!("{}/f1", class.name())),
        negative_f1: of(format!("{}/negative_f1", class.name())),
    };
    let numbers = PrmBenchResults {
        threshold,
        overall: of("all/score".to_owned()),
        classes: Class::TESTED.iter().map(class).filter(|class| class.samples > 0).collect(),
        groups: ours.groups.clone(),
        official: prmbench::official(&tested, threshold),
        ours,
        steps: step_scores::measure(&step_scores::scored_steps(samples, judged, true)),
    };
    Ok((numbers, facts))
}

/// A verdict as scores: the step it names is wrong, the others right.
fn as_scores(sample: &Sample, opinion: &Opinion) -> Option<Vec<f64>> {
    match opinion {
        Opinion::Scores(scores) => Some(scores.clone()),
        Opinion::Verdict { correct: true, .. } => Some(vec![1.0; sample.solution.steps.len()]),
        Opinion::Verdict { step: Some(wrong), .. } => {
            Some((0..sample.solution.steps.len()).map(|step| f64::from(u8::from(step != *wrong))).collect())
        }
        Opinion::Verdict { .. } | Opinion::Undecided { .. } => None,
    }
}

/// The labels' wrong steps. Without labels, a step that is not there: the metric leaves such a sample out and counts it.
fn wrong_steps(sample: &Sample) -> Vec<usize> {
    let marks = sample.marks();
    if marks.is_empty() || marks.iter().all(Option::is_none) {
        return vec![usize::MAX];
    }
    marks
        .iter()
        .enumerate()
        .filter(|(_, mark)| **mark == Some(Mark::Incorrect))
        .map(|(step, _)| step)
        .collect()
}

/// The page's sections.
pub fn sections(numbers: &PrmBenchResults, judge: &str) -> Vec<Section> {
    let published = published::prmbench();
    let axes: Vec<String> = numbers.classes.iter().map(|class| class.name.clone()).collect();
    let mut series = vec![RadarSeries {
        name: judge.to_owned(),
        values: numbers.classes.iter().map(|class| class.score.value.map(|value| 100.0 * value)).collect(),
    }];
    for name in ["RetrievalPRM", "Qwen2.5-Math-PRM-72B"] {
        let Some(row) = published.rows.iter().find(|row| row.name == name) else { continue };
        let value = |axis: &String| {
            let column = published.columns.iter().position(|column| column == axis)?;
            row.values[column]
        };
        series.push(RadarSeries {
            name: format!("{name} (published)"),
            values: axes.iter().map(value).collect(),
        });
    }
    let radar = Radar {
        title: "PRMScore by class of error".to_owned(),
        caption: "0 in the middle, 100 at the rim. Simplicity: NR, NCL; soundness: ES, SC, DC, CI; sensitivity: PS, DR, MS.".to_owned(),
        axes,
        series,
    };
    let bars = Bars {
        title: "PRMScore with intervals".to_owned(),
        caption: format!(
            "Threshold {}. Whiskers: 95 % bootstrap intervals over solutions.",
            numbers.threshold
        ),
        value_label: "PRMScore".to_owned(),
        unit: Unit::Score,
        categories: numbers
            .classes
            .iter()
            .map(|class| class.name.clone())
            .chain(["overall".to_owned()])
            .collect(),
        series: vec![BarSeries {
            name: judge.to_owned(),
            values: numbers
                .classes
                .iter()
                .map(|class| class.score.for_chart(100.0))
                .chain([numbers.overall.for_chart(100.0)])
                .collect(),
        }],
        references: Vec::new(),
    };
    let ours: Vec<Option<Estimate>> = published
        .columns
        .iter()
        .map(|column| {
            let class = numbers.classes.iter().find(|class| class.name == *column);
            class.map_or(numbers.overall, |class| class.score).for_chart(100.0)
        })
        .collect();
    let beside = published.beside(
        "Compared with published results (PRMScore)",
        &[(judge.to_owned(), ours)],
        &format!("Ours by our rules, threshold {}.", numbers.threshold),
    );
    let mut sections = vec![Section {
        heading: "Results".to_owned(),
        intro: "PRMScore is the mean of F1 on right steps and on wrong ones; overall pools the steps of all classes.".to_owned(),
        blocks: vec![Block::Radar(radar), Block::Bars(bars), Block::Table(table(numbers)), Block::Table(beside)],
    }];
    if let Some(steps) = &numbers.steps {
        sections.push(Section {
            heading: "Scores and thresholds".to_owned(),
            intro: String::new(),
            blocks: steps.blocks(numbers.threshold),
        });
    }
    sections
}

fn table(numbers: &PrmBenchResults) -> Table {
    let official = |class: Option<Class>| {
        let metrics = numbers.official.as_ref()?;
        match class {
            Some(class) => metrics.classes.get(&class)?.prm_score,
            None => metrics.overall?.prm_score,
        }
    };
    let row = |class: &ClassResults| {
        let kind = Class::TESTED.into_iter().find(|kind| kind.name() == class.name);
        vec![
            text(&class.name),
            text(kind.map_or(String::new(), |kind| kind.dataset_name().replace('_', " "))),
            count(class.samples),
            estimate(&class.f1),
            estimate(&class.negative_f1),
            estimate(&class.score),
            percent(official(kind)),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = numbers.classes.iter().map(row).collect();
    rows.push(vec![
        text("overall"),
        text("all steps together"),
        count(numbers.classes.iter().map(|class| class.samples).sum()),
        nothing(),
        nothing(),
        estimate(&numbers.overall),
        percent(official(None)),
    ]);
    Table {
        title: "All classes".to_owned(),
        caption: format!(
            "Samples without a usable judgment, counted as wrong at every step by our rules: {}. Samples with invalid labels, excluded: {}. The official code drops the former and treats the latter as error-free.",
            numbers.ours.missing, numbers.ours.unlabeled
        ),
        columns: [
            columns(Unit::Number, &["class", "in the data"]),
            columns(Unit::Count, &["samples"]),
            columns(Unit::Score, &["F1", "negative F1", "PRMScore", "official rules"]),
        ]
        .concat(),
        rows,
    }
}
