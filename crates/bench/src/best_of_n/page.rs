//! Best-of-N's results as sections of a page.

use gradus_core::count::counted;
use gradus_core::select::Aggregation;
use gradus_plot::bars::{BarSeries, Bars, Reference};
use gradus_plot::lines::{LineSeries, Lines};
use gradus_plot::table::{Best, Table};
use gradus_plot::{Block, Section, Spacing, Unit};

use super::outcome_page;
use super::results::{BestOfNResults, Choice, DatasetResults, OverN, ScorerResults};
use crate::cells::{column, estimate, nothing, ranked, text};
use crate::estimate::MetricEstimate;
use crate::published;

/// The page's sections.
pub fn sections(numbers: &BestOfNResults) -> Vec<Section> {
    let of_set = |set: &DatasetResults| [set_section(numbers, set), outcome_page::section(set)];
    let mut sections: Vec<Section> = numbers.sets.iter().flat_map(of_set).collect();
    let table = |published: published::Published, title: &str| {
        Block::Table(published.beside(
            title,
            &[],
            "Samples, N and aggregations differ from this run: for orientation only.",
        ))
    };
    sections.push(Section {
        heading: "Published results".to_owned(),
        intro: String::new(),
        blocks: vec![
            table(published::best_of_n(), "Best-of-N, from the RetrievalPRM paper"),
            table(published::ranking(), "Choosing among 20 samples, from the SPARE paper"),
        ],
    });
    sections
}

/// More lines than this would hide each other's bands; the bars and the table have the intervals then.
const BANDS: usize = 4;

fn set_section(numbers: &BestOfNResults, set: &DatasetResults) -> Section {
    let mut blocks = Vec::new();
    for aggregation in [Aggregation::Last, Aggregation::Min] {
        for vote in [false, true] {
            blocks.push(Block::Lines(curves(numbers, set, aggregation, vote)));
        }
        blocks.push(Block::Bars(bars_at_most(numbers, set, aggregation)));
    }
    blocks.push(Block::Table(choices_table(numbers, set)));
    let mut intro =
        format!("{} with {}.", counted(set.problems, "problem"), counted(set.candidates, "candidate"));
    if set.graded > 0 {
        intro += &format!(" The grader found the outcome of {}.", set.graded);
    }
    if set.unknown_outcomes > 0 {
        intro += &format!(" The outcome of {} is unknown; they count as wrong.", set.unknown_outcomes);
    }
    Section { heading: set.name.clone(), intro, blocks }
}

fn choice_of(scorer: &ScorerResults, aggregation: Aggregation) -> Option<&Choice> {
    scorer.choices.iter().find(|choice| choice.aggregation == aggregation)
}

fn curves(numbers: &BestOfNResults, set: &DatasetResults, aggregation: Aggregation, vote: bool) -> Lines {
    let banded = set.scorers.len() + 3 <= BANDS;
    let charted = |estimate: &MetricEstimate| {
        let shown = if banded { *estimate } else { MetricEstimate::exactly(estimate.value) };
        shown.for_chart(100.0)
    };
    let over_n = |name: &str, estimates: &OverN| LineSeries {
        name: name.to_owned(),
        points: numbers
            .sizes
            .iter()
            .zip(estimates)
            .map(|(n, estimate)| (*n as f64, charted(estimate)))
            .collect(),
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
            "The first N candidates; {bands}. pass@N is the upper bound, chance a random choice."
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
fn bars_at_most(numbers: &BestOfNResults, set: &DatasetResults, aggregation: Aggregation) -> Bars {
    let size = numbers.sizes.last().copied().unwrap_or_default();
    let last = |estimates: &OverN| estimates.last().and_then(|estimate| estimate.for_chart(100.0));
    let series = |name: &str, of: fn(&Choice) -> &OverN| BarSeries {
        name: name.to_owned(),
        values: set.scorers.iter().map(|scorer| last(of(choice_of(scorer, aggregation)?))).collect(),
    };
    let references = (0..set.scorers.len()).flat_map(|category| {
        let of = |name: &str, estimates: &OverN| {
            let value = estimates.last()?.value?;
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

fn choices_table(numbers: &BestOfNResults, set: &DatasetResults) -> Table {
    let size = numbers.sizes.last().copied().unwrap_or_default();
    let last = |estimates: &OverN| estimates.last().map_or_else(nothing, estimate);
    // At the largest N there is one subset only.
    let before = numbers.sizes.len().saturating_sub(2);
    let fewer = numbers.sizes.get(before).copied().unwrap_or_default();
    let expected = |estimates: &OverN| estimates.get(before).map_or_else(nothing, estimate);
    let mut rows = vec![
        vec![
            text("pass@N (upper bound)"),
            text(""),
            last(&set.pass),
            nothing(),
            expected(&set.expected_pass),
            nothing(),
            nothing(),
        ],
        vec![text("majority"), text(""), last(&set.majority), nothing(), nothing(), nothing(), nothing()],
        vec![text("chance"), text(""), last(&set.chance), nothing(), nothing(), nothing(), nothing()],
    ];
    for scorer in &set.scorers {
        rows.extend(scorer.choices.iter().map(|choice| {
            vec![
                text(&scorer.name),
                text(choice.aggregation.name()),
                last(&choice.best),
                last(&choice.vote),
                expected(&choice.expected_best),
                last(&choice.best_over_chance),
                last(&choice.vote_over_majority),
            ]
        }));
    }
    Table {
        title: format!("{}: every choice at N = {size}", set.name),
        caption: "best: the candidate with the highest score; vote: the answer with the largest sum of scores; expected: best, or pass, over all subsets of that many. The last two columns are differences, problem by problem, with intervals of their own.".to_owned(),
        columns: vec![
            column("scorer", Unit::Number),
            column("aggregation", Unit::Number),
            column(format!("best@{size}"), Unit::Score),
            ranked(format!("vote@{size}"), Unit::Score, Best::Highest),
            column(format!("expected best@{fewer}"), Unit::Score),
            column("best over chance", Unit::Score),
            column("vote over majority", Unit::Score),
        ],
        rows,
    }
}
