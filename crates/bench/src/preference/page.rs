//! Preference's results as sections of a page.

use gradus_plot::dumbbell::{Dumbbell, DumbbellRow};
use gradus_plot::table::{Best, Cell, Table};
use gradus_plot::{Block, Section, Unit};

use super::results::{GeneratorResults, PreferenceResults};
use crate::cells::{columns, count, estimate, nothing, number, ranked, text};
use crate::published;

/// The page's sections.
pub fn sections(numbers: &PreferenceResults, judge: &str) -> Vec<Section> {
    let row = |generator: &GeneratorResults| DumbbellRow {
        name: generator.name.clone(),
        first: generator.fpr.for_chart(1.0),
        second: generator.fnr.for_chart(1.0),
        index: generator.bi.value,
    };
    let dumbbell = Dumbbell {
        title: "Errors by generator".to_owned(),
        caption: "An unbiased judge has the same FPR and FNR for every generator. Whiskers: 95 % bootstrap intervals.".to_owned(),
        value_label: "share".to_owned(),
        unit: Unit::Share,
        first: "FPR: wrong judged correct".to_owned(),
        second: "FNR: correct judged wrong".to_owned(),
        index: "BI".to_owned(),
        index_unit: Unit::Number,
        rows: numbers.generators.iter().map(row).collect(),
    };
    let ours = vec![numbers.mean_absolute_bi.for_chart(100.0), numbers.accuracy.for_chart(100.0)];
    let published = published::preference().beside(
        "Compared with published results",
        &[(judge.to_owned(), ours)],
        "Problems and generators differ from the paper: for orientation only.",
    );
    let mut sections = vec![Section {
        heading: "Bias by generator".to_owned(),
        intro: "Every generator solves the same problems with the same final answers, half of them right."
            .to_owned(),
        blocks: vec![Block::Dumbbell(dumbbell), Block::Table(table(numbers)), Block::Table(published)],
    }];
    if let Some(analysis) = &numbers.perplexity {
        sections.push(Section {
            heading: "Bias by perplexity".to_owned(),
            intro: "Perplexity under the judge's own model, unless the settings name another.".to_owned(),
            blocks: analysis.blocks(),
        });
    }
    sections
}

fn table(numbers: &PreferenceResults) -> Table {
    let row = |generator: &GeneratorResults| {
        let bias = &generator.bias;
        let mut row = vec![text(&generator.name)];
        row.extend([bias.correct, bias.wrong, bias.undecided].map(count));
        row.extend([&generator.fpr, &generator.fnr, &generator.bi, &generator.accuracy].map(estimate));
        row.push(number(generator.median_perplexity));
        row
    };
    let mut rows: Vec<Vec<Cell>> = numbers.generators.iter().map(row).collect();
    let mut mean = vec![text("mean (of |BI|)")];
    mean.extend((0..5).map(|_| nothing()));
    mean.extend([estimate(&numbers.mean_absolute_bi), estimate(&numbers.accuracy), nothing()]);
    rows.push(mean);
    Table {
        title: "All results".to_owned(),
        caption: "In percent. An undecided verdict is neither a false positive nor a false negative, but counts against accuracy: a judge that rarely decides has a small BI and a low accuracy.".to_owned(),
        columns: [
            columns(Unit::Number, &["generator"]),
            columns(Unit::Count, &["correct", "wrong", "undecided"]),
            vec![ranked("FPR", Unit::Score, Best::Lowest), ranked("FNR", Unit::Score, Best::Lowest)],
            columns(Unit::Score, &["BI"]),
            vec![ranked("accuracy", Unit::Score, Best::Highest)],
            columns(Unit::Number, &["median perplexity"]),
        ]
        .concat(),
        rows,
    }
}
