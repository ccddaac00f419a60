//! The page of scores by outcome.

use gradus_core::select::Aggregation;
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::table::Table;
use gradus_plot::{Block, Section, Unit};

use super::by_outcome::{BARS, OutcomeScores, ScoresByOutcome};
use super::results::{DatasetResults, ScorerResults};
use crate::cells::{column, columns, count, decimal, number, text};

/// A table of all scorers and aggregations, and histograms of the two that are charted elsewhere, too.
pub(super) fn section(set: &DatasetResults) -> Section {
    let row = |scorer: &ScorerResults, aggregation: Aggregation, found: &ScoresByOutcome| {
        vec![
            text(&scorer.name),
            text(aggregation.name()),
            count(found.right.solutions),
            number(found.right.mean),
            number(found.right.median),
            count(found.wrong.solutions),
            number(found.wrong.mean),
            number(found.wrong.median),
            decimal(&found.auc),
        ]
    };
    let choices =
        || set.scorers.iter().flat_map(|scorer| scorer.choices.iter().map(move |choice| (scorer, choice)));
    let table = Table {
        title: format!("{}: scores by outcome", set.name),
        caption: "AUC: how often a solution with a right answer scores above one with a wrong answer; 95 % bootstrap intervals over problems."
            .to_owned(),
        columns: [
            columns(Unit::Number, &["scorer", "aggregation"]),
            vec![column("right answers", Unit::Count)],
            columns(Unit::Decimal, &["mean", "median"]),
            vec![column("wrong answers", Unit::Count)],
            columns(Unit::Decimal, &["mean", "median", "AUC"]),
        ]
        .concat(),
        rows: choices().map(|(scorer, choice)| row(scorer, choice.aggregation, &choice.by_outcome)).collect(),
    };
    let charted =
        choices().filter(|(_, choice)| [Aggregation::Last, Aggregation::Min].contains(&choice.aggregation));
    let histograms = charted.map(|(scorer, choice)| {
        Block::Histogram(histogram(&scorer.name, choice.aggregation, &choice.by_outcome))
    });
    Section {
        heading: format!("{}: right and wrong answers", set.name),
        intro: String::new(),
        blocks: histograms.chain([Block::Table(table)]).collect(),
    }
}

fn histogram(scorer: &str, aggregation: Aggregation, found: &ScoresByOutcome) -> Histogram {
    let distribution = |name: &str, of: &OutcomeScores| Distribution {
        name: name.to_owned(),
        counts: of.by_score.clone(),
        missing: 0,
    };
    let (low, high) = found.range;
    let edge = |edge: usize| low + (high - low) * edge as f64 / BARS as f64;
    Histogram {
        title: format!("{scorer}: {aggregation} score of right and wrong answers"),
        caption: format!("AUC {}.", found.auc.decimal()),
        x_label: "score".to_owned(),
        x_unit: Unit::Number,
        edges: (0..=BARS).map(edge).collect(),
        series: vec![distribution("right answer", &found.right), distribution("wrong answer", &found.wrong)],
        markers: Vec::new(),
    }
}
