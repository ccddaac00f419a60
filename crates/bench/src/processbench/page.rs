//! ProcessBench's results as sections of a page.

use gradus_core::count::counted;
use gradus_core::metrics::process::{Confusion, ProcessScores};
use gradus_core::select::DecisionRule;
use gradus_plot::bars::{BarSeries, Bars, Reference};
use gradus_plot::heatmap::{Heatmap, Shade};
use gradus_plot::lines::{LineSeries, Lines};
use gradus_plot::mistakes::{Mistake, Mistakes, ScoredStep, Verdict};
use gradus_plot::table::Table;
use gradus_plot::{Block, Estimate, Marker, Section, Spacing, Unit};

use super::results::{Decider, GroupResults, ProcessBenchResults, truth_of};
use crate::cells::{columns, count, estimate, nothing, text};
use crate::judge::{Judged, Opinion};
use crate::published;
use crate::sample::{PROCESSBENCH_SUBSETS, Sample};

/// Mistakes on the page.
const SHOWN: usize = 60;

/// The page's sections.
pub fn sections(
    numbers: &ProcessBenchResults,
    judge: &str,
    samples: &[Sample],
    judged: &[Judged],
) -> Vec<Section> {
    let section = |heading: &str, intro: &str, blocks| Section {
        heading: heading.to_owned(),
        intro: intro.to_owned(),
        blocks,
    };
    let mut results = vec![Block::Bars(f1_bars(numbers, judge)), Block::Table(results_table(numbers))];
    if numbers.is_official() {
        results.push(Block::Table(published_table(numbers, judge)));
    }
    let mut scores = sweep_chart(numbers).into_iter().chain(prior_chart(numbers)).collect::<Vec<_>>();
    scores.extend(numbers.steps.iter().flat_map(|steps| steps.blocks(numbers.decision.step_threshold())));
    let mut sections = vec![
        section(
            "Results",
            "F1 is the harmonic mean of two accuracies: on erroneous solutions (the first wrong step must be predicted exactly) and on correct ones.",
            results,
        ),
        section(
            "Predictions by position",
            "Steps are counted from 0.",
            vec![
                Block::Heatmap(positions(&numbers.confusion)),
                Block::Table(parts_table("By generator", &numbers.generators)),
            ],
        ),
        section("Most confident mistakes", "", vec![Block::Mistakes(mistakes(numbers, samples, judged))]),
    ];
    if !scores.is_empty() {
        sections.insert(1, section("Scores and thresholds", "", scores));
    }
    sections
}

fn f1_bars(numbers: &ProcessBenchResults, judge: &str) -> Bars {
    let published = published::processbench();
    let mut references = Vec::new();
    let shown: &[&str] =
        if numbers.is_official() { &["RetrievalPRM-7B", "Math-Shepherd-PRM-7B"] } else { &[] };
    for name in shown {
        let Some(row) = published.rows.iter().find(|row| row.name == *name) else { continue };
        for (category, part) in numbers.subsets.iter().enumerate() {
            let column = PROCESSBENCH_SUBSETS.iter().position(|column| *column == part.name);
            if let Some(value) = column.and_then(|column| row.values[column]) {
                references.push(Reference { category, name: (*name).to_owned(), value });
            }
        }
        if let Some(value) = row.values[4] {
            references.push(Reference { category: numbers.subsets.len(), name: (*name).to_owned(), value });
        }
    }
    let mut values: Vec<Option<Estimate>> =
        numbers.subsets.iter().map(|part| part.f1.for_chart(100.0)).collect();
    values.push(numbers.average_f1.for_chart(100.0));
    let mut series = vec![BarSeries { name: judge.to_owned(), values }];
    series.extend(numbers.baselines.last().map(|simple| BarSeries {
        name: simple.name.clone(),
        values: simple.f1.iter().chain([&simple.average]).map(|value| value.for_chart(100.0)).collect(),
    }));
    Bars {
        title: "F1 by subset".to_owned(),
        caption: format!(
            "First errors by {}. Whiskers: 95 % bootstrap intervals.{}",
            numbers.decision,
            if shown.is_empty() { "" } else { " Ticks: published values, on the whole benchmark." }
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

fn results_table(numbers: &ProcessBenchResults) -> Table {
    let mut table =
        parts_table("All results, with the other rule and model-free baselines", &numbers.subsets);
    let sum =
        |of: fn(&ProcessScores) -> usize| count(numbers.subsets.iter().map(|part| of(&part.scores)).sum());
    table.rows.push(vec![
        text("average"),
        sum(|scores| scores.erroneous),
        sum(|scores| scores.error_free),
        sum(|scores| scores.undecided),
        nothing(),
        nothing(),
        estimate(&numbers.average_f1),
        estimate(&numbers.average_accuracy),
    ]);
    let other = numbers.other_rule.iter().map(|other| (other.decision.to_string(), &other.average));
    let alone =
        numbers.without_checks.iter().map(|alone| ("without exact checks".to_owned(), &alone.average));
    let simple = numbers.baselines.iter().map(|baseline| (baseline.name.clone(), &baseline.average));
    for (name, average) in alone.chain(other).chain(simple) {
        let mut row = vec![text(format!("{name}, average"))];
        row.extend((0..5).map(|_| nothing()));
        row.extend([estimate(average), nothing()]);
        table.rows.push(row);
    }
    table.caption =
        "An undecided solution counts as incorrect. Intervals: 95 %, bootstrap within subsets.".to_owned();
    table
}

fn parts_table(title: &str, parts: &[GroupResults]) -> Table {
    let row = |part: &GroupResults| {
        let counts = [part.scores.erroneous, part.scores.error_free, part.scores.undecided];
        let metrics = [&part.acc_err, &part.acc_cor, &part.f1, &part.accuracy];
        let row = [text(&part.name)].into_iter().chain(counts.map(count)).chain(metrics.map(estimate));
        row.collect()
    };
    Table {
        title: title.to_owned(),
        caption: String::new(),
        columns: [
            columns(Unit::Number, &[""]),
            columns(Unit::Count, &["erroneous", "correct", "undecided"]),
            columns(Unit::Score, &["accuracy, erroneous", "accuracy, correct", "F1", "accuracy"]),
        ]
        .concat(),
        rows: parts.iter().map(row).collect(),
    }
}

fn published_table(numbers: &ProcessBenchResults, judge: &str) -> Table {
    let of = |name: &str| {
        numbers.subsets.iter().find(|part| part.name == name).and_then(|part| part.f1.for_chart(100.0))
    };
    let mut ours: Vec<Option<Estimate>> = PROCESSBENCH_SUBSETS.map(of).to_vec();
    ours.push(numbers.average_f1.for_chart(100.0));
    let sizes: Vec<String> = numbers
        .subsets
        .iter()
        .map(|part| format!("{} {}", part.name, part.scores.erroneous + part.scores.error_free))
        .collect();
    let differs = format!("Ours: {} solutions, {}.", sizes.join(", "), numbers.decision);
    published::processbench().beside(
        "Compared with published results (F1)",
        &[(judge.to_owned(), ours)],
        &differs,
    )
}

/// A threshold or prior, F1 of each subset there, and their mean.
type Swept<'a> = (f64, &'a [Option<f64>], Option<f64>);

/// F1 along thresholds or priors: a line for each subset, and their mean.
fn swept(numbers: &ProcessBenchResults, points: &[Swept<'_>]) -> Vec<LineSeries> {
    let line = |name: &str, value: &dyn Fn(&Swept<'_>) -> Option<f64>| LineSeries {
        name: name.to_owned(),
        points: points
            .iter()
            .map(|point| (point.0, value(point).map(|value| Estimate::exactly(100.0 * value))))
            .collect(),
    };
    let subsets = numbers.subsets.iter().enumerate();
    let mut series: Vec<LineSeries> =
        subsets.map(|(index, part)| line(&part.name, &|point| point.1[index])).collect();
    series.push(line("average", &|point| point.2));
    series
}

fn sweep_chart(numbers: &ProcessBenchResults) -> Option<Block> {
    let best = numbers.best_threshold()?;
    let points: Vec<_> =
        numbers.sweep.iter().map(|point| (point.threshold, point.f1.as_slice(), point.average)).collect();
    let markers = match numbers.decision {
        DecisionRule::Threshold { threshold } => {
            vec![Marker { x: threshold, label: "threshold used".to_owned() }]
        }
        DecisionRule::Posterior { .. } => Vec::new(),
    };
    Some(Block::Lines(Lines {
        title: "F1 at other thresholds".to_owned(),
        caption: format!(
            "The best average, {:.1}, is at {:.2}; choosing the threshold on the evaluation data is optimistic.",
            100.0 * best.average.unwrap_or_default(),
            best.threshold
        ),
        x_label: "threshold".to_owned(),
        x_unit: Unit::Number,
        x_spacing: Spacing::Linear,
        y_label: "F1".to_owned(),
        y_unit: Unit::Score,
        series: swept(numbers, &points),
        markers,
    }))
}

fn prior_chart(numbers: &ProcessBenchResults) -> Option<Block> {
    let best = numbers.best_prior()?;
    let points: Vec<_> =
        numbers.prior_sweep.iter().map(|point| (point.prior, point.f1.as_slice(), point.average)).collect();
    let markers = match numbers.decision {
        DecisionRule::Threshold { .. } => Vec::new(),
        DecisionRule::Posterior { prior } => vec![Marker { x: prior, label: "prior used".to_owned() }],
    };
    Some(Block::Lines(Lines {
        title: "F1 of the posterior rule with other priors".to_owned(),
        caption: format!(
            "The most probable first error, the odds of an error times the prior. The best average, {:.1}, is at {:.2}; choosing the prior on the evaluation data is optimistic.",
            100.0 * best.average.unwrap_or_default(),
            best.prior
        ),
        x_label: "prior".to_owned(),
        x_unit: Unit::Number,
        x_spacing: Spacing::Log2,
        y_label: "F1".to_owned(),
        y_unit: Unit::Score,
        series: swept(numbers, &points),
        markers,
    }))
}

fn positions(confusion: &Confusion) -> Heatmap {
    let mut rows: Vec<String> = (0..confusion.positions).map(|step| step.to_string()).collect();
    rows.extend([format!("{}+", confusion.positions), "no error".to_owned()]);
    let columns = rows.iter().cloned().chain(["undecided".to_owned()]).collect();
    let counted = |row: &Vec<usize>| row.iter().map(|count| Some(*count as u64)).collect();
    Heatmap {
        title: "First error: true and predicted position".to_owned(),
        caption: "Solutions by true and predicted position; correct predictions are on the diagonal."
            .to_owned(),
        row_label: "true first error".to_owned(),
        column_label: "predicted first error".to_owned(),
        rows,
        columns,
        counts: confusion.counts.iter().map(counted).collect(),
        shade: Shade::Sqrt,
    }
}

/// The judge's most confident mistakes: the undecided first, then by the error of the decisive score.
fn mistakes(numbers: &ProcessBenchResults, samples: &[Sample], judged: &[Judged]) -> Mistakes {
    let mut wrong: Vec<(f64, Mistake)> = Vec::new();
    let decider = Decider { rule: numbers.decision, exact_checks: numbers.exact_checks };
    for (sample, judged) in samples.iter().zip(judged) {
        let truth = truth_of(sample);
        let predicted = decider.first_error(sample, &judged.opinion);
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
        title: format!("{} judged wrongly", counted(wrong.len(), "solution")),
        caption: "Most confident first: wrong steps with the highest scores, and correct solutions with the lowest.".to_owned(),
        solutions: wrong.into_iter().map(|(_, mistake)| mistake).collect(),
        limit: Some(SHOWN),
    }
}
