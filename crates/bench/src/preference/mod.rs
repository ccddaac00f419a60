//! Whose solutions does a judge favour? (the OPS benchmark of Tian et al., 2026)
//!
//! Several generators solve the same problems with the same final answers, half of them right, so a judge that looks at
//! the reasoning alone treats them alike. FPR = wrong solutions judged correct, FNR = correct ones judged wrong,
//! BI = FPR − FNR; reported per generator, and |BI| and accuracy averaged over them.
//!
//! - [`build`]: makes such a benchmark from anyone's solutions
//! - [`analyse`]: bias over perplexity

pub mod analyse;
pub mod build;

use gradus_core::metrics::bias::{Bias, Judgement, bias};
use gradus_core::metrics::bootstrap::Settings;
use gradus_plot::dumbbell::{Dumbbell, DumbbellRow};
use gradus_plot::table::{Best, Cell, Table};
use gradus_plot::{Block, Section, Unit};
use serde::{Deserialize, Serialize};

use crate::cells::{column, count, figure, nothing, number, ranked, text};
use crate::error::{Error, Result};
use crate::fact::{self, Fact, Seen};
use crate::figure::Figure;
use crate::judge::Judged;
use crate::published;
use crate::sample::Sample;
use analyse::Analysis;

/// One generator's solutions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Its name.
    pub name: String,
    /// Counts and numbers.
    pub bias: Bias,
    /// Share of wrong solutions judged correct.
    pub fpr: Figure,
    /// Share of correct solutions judged wrong.
    pub fnr: Figure,
    /// FPR − FNR.
    pub bi: Figure,
    /// Share of solutions judged right.
    pub accuracy: Figure,
    /// Of its solutions, where known.
    pub median_perplexity: Option<f64>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// A solution with a score below it counts as judged wrong.
    pub threshold: f64,
    /// By generator.
    pub generators: Vec<Generator>,
    /// Mean of |BI|.
    pub mean_absolute_bi: Figure,
    /// Mean accuracy.
    pub accuracy: Figure,
    /// Bias over perplexity, where perplexities are known.
    pub perplexity: Option<Analysis>,
}

/// The numbers over samples whose outcome is known, and each sample's part of them.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    threshold: f64,
    settings: &Settings,
) -> Result<(Numbers, Vec<Fact>)> {
    let judgements: Vec<Judgement> = samples
        .iter()
        .zip(judged)
        .filter_map(|(sample, judged)| {
            let correct = sample.solution.outcome.is_correct()?;
            Some(Judgement { correct, judged: judged.opinion.is_correct(threshold) })
        })
        .collect();
    if judgements.len() != samples.len() || samples.is_empty() {
        return Err(Error::Data("this benchmark needs the outcome of every solution".to_owned()));
    }
    let facts: Vec<Fact> = samples
        .iter()
        .zip(&judgements)
        .map(|(sample, judgement)| Fact {
            id: sample.solution.id.clone(),
            group: sample.generator().to_owned(),
            seen: Seen::Judged {
                correct: judgement.correct,
                judged: judgement.judged,
                perplexity: sample.perplexity(),
            },
        })
        .collect();
    let headline = fact::headline(&facts, settings);
    let mut names: Vec<&str> = samples.iter().map(Sample::generator).collect();
    names.sort_unstable();
    names.dedup();
    let generator = |name: &&str| {
        let own = || samples.iter().zip(&judgements).filter(|(sample, _)| sample.generator() == *name);
        let of = |number: &str| headline.get(&format!("{name}/{number}")).copied().unwrap_or_default();
        let mut perplexities: Vec<f64> = own().filter_map(|(sample, _)| sample.perplexity()).collect();
        perplexities.sort_by(f64::total_cmp);
        Generator {
            name: (*name).to_owned(),
            bias: bias(&own().map(|(_, judgement)| *judgement).collect::<Vec<_>>()),
            fpr: of("fpr"),
            fnr: of("fnr"),
            bi: of("bi"),
            accuracy: of("accuracy"),
            median_perplexity: perplexities.get(perplexities.len() / 2).copied(),
        }
    };
    let with_perplexity: Vec<(Option<f64>, Judgement)> =
        samples.iter().map(Sample::perplexity).zip(judgements.iter().copied()).collect();
    let numbers = Numbers {
        threshold,
        generators: names.iter().map(generator).collect(),
        mean_absolute_bi: headline["all/mean_absolute_bi"],
        accuracy: headline["all/accuracy"],
        perplexity: analyse::analyse(&with_perplexity),
    };
    Ok((numbers, facts))
}

/// The page's sections.
pub fn sections(numbers: &Numbers, judge: &str) -> Vec<Section> {
    let row = |generator: &Generator| DumbbellRow {
        name: generator.name.clone(),
        first: generator.fpr.estimate(1.0),
        second: generator.fnr.estimate(1.0),
        index: generator.bi.value,
    };
    let dumbbell = Dumbbell {
        title: "Errors by generator".to_owned(),
        caption: "An even-handed judge has both ends together, and in the same place for every generator. Whiskers: 95 % bootstrap intervals.".to_owned(),
        value_label: "share".to_owned(),
        unit: Unit::Share,
        first: "FPR: wrong judged correct".to_owned(),
        second: "FNR: correct judged wrong".to_owned(),
        index: "BI".to_owned(),
        index_unit: Unit::Number,
        rows: numbers.generators.iter().map(row).collect(),
    };
    let ours = vec![numbers.mean_absolute_bi.estimate(100.0), numbers.accuracy.estimate(100.0)];
    let published = published::preference().beside(
        "Beside published results",
        &[(judge.to_owned(), ours)],
        "Another set of problems and generators than the paper's: for orientation only.",
    );
    let mut sections = vec![Section {
        heading: "Whose solutions are favoured".to_owned(),
        intro: "Every generator solves the same problems with the same final answers, half of them right."
            .to_owned(),
        blocks: vec![Block::Dumbbell(dumbbell), Block::Table(table(numbers)), Block::Table(published)],
    }];
    if let Some(analysis) = &numbers.perplexity {
        sections.push(Section {
            heading: "Is the expected favoured?".to_owned(),
            intro: "Perplexity is under the judge's own model unless the settings say otherwise.".to_owned(),
            blocks: analysis.blocks(),
        });
    }
    sections
}

fn table(numbers: &Numbers) -> Table {
    let row = |generator: &Generator| {
        vec![
            text(&generator.name),
            count(generator.bias.correct),
            count(generator.bias.wrong),
            count(generator.bias.undecided),
            figure(&generator.fpr),
            figure(&generator.fnr),
            figure(&generator.bi),
            figure(&generator.accuracy),
            number(generator.median_perplexity),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = numbers.generators.iter().map(row).collect();
    let mut mean = vec![text("mean (of |BI|)")];
    mean.extend((0..5).map(|_| nothing()));
    mean.extend([figure(&numbers.mean_absolute_bi), figure(&numbers.accuracy), nothing()]);
    rows.push(mean);
    Table {
        title: "All numbers".to_owned(),
        caption: "In percent. An undecided verdict is no false positive and no false negative, but it is not right either: a judge that decides little has a small BI and a small accuracy.".to_owned(),
        columns: vec![
            column("generator", Unit::Number),
            column("correct", Unit::Count),
            column("wrong", Unit::Count),
            column("undecided", Unit::Count),
            ranked("FPR", Unit::Score, Best::Lowest),
            ranked("FNR", Unit::Score, Best::Lowest),
            column("BI", Unit::Score),
            ranked("accuracy", Unit::Score, Best::Highest),
            column("median perplexity", Unit::Number),
        ],
        rows,
    }
}
