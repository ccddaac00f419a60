//! Label agreement: an annotator's step labels compared with human ones, per step and for the first error.
//!
//! Truth is what a person, a program that put the error there, or an unnamed source says; the annotators are the models
//! whose labels stand beside it in the same data, and, if one is asked, a judge whose score below the threshold means
//! 'wrong'. A step without a label is undecided and counts as not right. Steps after the true first error have no truth
//! where the source does not judge them. An annotator with partial labels alone (exact checks) has no numbers about first
//! errors: it labels only solutions in which it finds something, and cannot say that a solution is right.

use std::collections::BTreeMap;

use gradus_core::metrics::alignment::{AlignedLabels, by_alignment};
use gradus_core::metrics::exact::Share;
use gradus_core::metrics::labels::{self, Agreement, Step};
use gradus_core::metrics::process::ProcessScores;
use gradus_core::{Annotation, Mark};
use gradus_plot::bars::{BarSeries, Bars};
use gradus_plot::table::{Best, Cell, Table};
use gradus_plot::{Block, Estimate, Section, Unit};
use serde::{Deserialize, Serialize};

use crate::cells::{columns, count, number, percent, ranked, text};
use crate::error::{Error, Result};
use crate::judge::{Judged, Opinion};
use crate::sample::Sample;

/// One annotator's numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnnotatorResults {
    /// Solutions it labelled.
    pub solutions: usize,
    /// Over all steps.
    pub steps: Agreement,
    /// By what a step is aligned with, where the annotator says so.
    #[serde(default)]
    pub by_alignment: Vec<AlignedLabels>,
    /// Where the first error is; empty for an annotator with partial labels alone.
    pub first_errors: ProcessScores,
    /// Tokens per solution, where the cost is known.
    pub tokens_per_solution: Option<f64>,
    /// Seconds per solution, where the cost is known.
    pub seconds_per_solution: Option<f64>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelResults {
    /// By annotator.
    pub annotators: BTreeMap<String, AnnotatorResults>,
}

#[derive(Default)]
struct Gathered<'a> {
    solutions: Vec<Vec<Step>>,
    labeled: Vec<(&'a Annotation, Option<&'a Annotation>)>,
    costs: Vec<&'a gradus_core::Cost>,
}

/// The numbers of every model's labels in the data, and of `judged`, if given, under its name.
pub fn measure(
    samples: &[Sample],
    judged: Option<(&str, &[Judged])>,
    threshold: f64,
) -> Result<LabelResults> {
    let mut found: BTreeMap<String, Gathered<'_>> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        let truth = sample.marks();
        for annotation in &sample.solution.annotations {
            let Some(name) = annotation.annotator() else { continue };
            let said: Vec<Option<bool>> = annotation
                .labels
                .iter()
                .map(|label| label.as_ref().map(|label| label.mark != Mark::Incorrect))
                .collect();
            let gathered = found.entry(name).or_default();
            gathered.add(&truth, &said, Some(annotation));
            gathered.labeled.push((annotation, sample.solution.truth()));
        }
        if let Some((name, judged)) = judged {
            let said = judged_labels(&judged[index].opinion, truth.len(), threshold);
            found.entry(name.to_owned()).or_default().add(&truth, &said, None);
        }
    }
    if found.values().all(|gathered| gathered.solutions.is_empty()) {
        return Err(Error::Data(
            "no solution has both true labels (human or injected) and a model's labels: annotate the data, or name a \
             judge"
                .to_owned(),
        ));
    }
    Ok(LabelResults {
        annotators: found.into_iter().map(|(name, gathered)| (name, gathered.numbers())).collect(),
    })
}

impl<'a> Gathered<'a> {
    fn add(&mut self, truth: &[Option<Mark>], said: &[Option<bool>], annotation: Option<&'a Annotation>) {
        let mut steps = Vec::new();
        for (mark, annotator) in truth.iter().zip(said) {
            let Some(mark) = mark else { continue };
            steps.push(Step { human: *mark != Mark::Incorrect, annotator: *annotator });
        }
        if !steps.is_empty() {
            self.solutions.push(steps);
            self.costs.extend(annotation.and_then(|annotation| annotation.cost.as_ref()));
        }
    }

    fn numbers(self) -> AnnotatorResults {
        let all: Vec<Step> = self.solutions.iter().flatten().copied().collect();
        let mean = |of: fn(&gradus_core::Cost) -> f64| {
            let count = self.costs.len();
            (count > 0).then(|| self.costs.iter().map(|cost| of(cost)).sum::<f64>() / count as f64)
        };
        let partial = !self.labeled.is_empty() && self.labeled.iter().all(|(found, _)| found.is_partial());
        AnnotatorResults {
            solutions: self.solutions.len(),
            steps: labels::agreement(&all),
            tokens_per_solution: mean(|cost| (cost.prompt_tokens + cost.completion_tokens) as f64),
            seconds_per_solution: mean(|cost| cost.seconds),
            by_alignment: by_alignment(self.labeled),
            first_errors: if partial { Default::default() } else { labels::first_errors(&self.solutions) },
        }
    }
}

/// A judge's label of each step; a verdict labels the steps up to the first wrong one.
fn judged_labels(opinion: &Opinion, steps: usize, threshold: f64) -> Vec<Option<bool>> {
    match opinion {
        Opinion::Scores(scores) => scores.iter().map(|score| Some(*score >= threshold)).collect(),
        Opinion::Verdict { correct: true, .. } => vec![Some(true); steps],
        Opinion::Verdict { step: Some(wrong), .. } => (0..steps)
            .map(|step| match step.cmp(wrong) {
                std::cmp::Ordering::Less => Some(true),
                std::cmp::Ordering::Equal => Some(false),
                std::cmp::Ordering::Greater => None,
            })
            .collect(),
        Opinion::Verdict { .. } | Opinion::Undecided { .. } => vec![None; steps],
    }
}

/// The page's sections.
pub fn sections(numbers: &LabelResults) -> Vec<Section> {
    let row = |name: &str, found: &AnnotatorResults| {
        vec![
            text(name),
            count(found.solutions),
            count(found.steps.steps),
            count(found.steps.undecided),
            percent(found.steps.accuracy),
            percent(found.steps.balanced_accuracy),
            percent(found.steps.right.precision),
            percent(found.steps.right.recall),
            percent(found.steps.wrong.precision),
            percent(found.steps.wrong.recall),
            percent(found.first_errors.f1),
            number(found.tokens_per_solution),
            number(found.seconds_per_solution),
        ]
    };
    let table = Table {
        title: "Annotators compared with human labels".to_owned(),
        caption: "In percent. An undecided step counts as incorrect; first-error F1 as in ProcessBench."
            .to_owned(),
        columns: [
            columns(Unit::Number, &["annotator"]),
            columns(Unit::Count, &["solutions", "steps", "undecided"]),
            vec![
                ranked("accuracy", Unit::Score, Best::Highest),
                ranked("balanced", Unit::Score, Best::Highest),
            ],
            columns(Unit::Score, &["precision, right", "recall, right", "precision, wrong", "recall, wrong"]),
            vec![
                ranked("first-error F1", Unit::Score, Best::Highest),
                ranked("tokens each", Unit::Count, Best::Lowest),
                ranked("seconds each", Unit::Number, Best::Lowest),
            ],
        ]
        .concat(),
        rows: numbers.annotators.iter().map(|(name, found)| row(name, found)).collect(),
    };
    let kinds = ["accuracy", "balanced accuracy", "recall of wrong steps", "first-error F1"];
    let bars = Bars {
        title: "Agreement with human labels".to_owned(),
        caption: String::new(),
        value_label: "%".to_owned(),
        unit: Unit::Score,
        categories: kinds.map(str::to_owned).to_vec(),
        series: numbers
            .annotators
            .iter()
            .map(|(name, found)| BarSeries {
                name: name.clone(),
                values: [
                    found.steps.accuracy,
                    found.steps.balanced_accuracy,
                    found.steps.wrong.recall,
                    found.first_errors.f1,
                ]
                .map(|value| value.map(|value| Estimate::exactly(100.0 * value)))
                .to_vec(),
            })
            .collect(),
        references: Vec::new(),
    };
    let mut blocks = vec![Block::Bars(bars), Block::Table(table)];
    for (name, found) in &numbers.annotators {
        if !found.by_alignment.is_empty() {
            blocks.push(Block::Bars(alignment_bars(name, &found.by_alignment)));
            blocks.push(Block::Table(alignment_table(name, &found.by_alignment)));
        }
    }
    vec![Section { heading: "Label agreement".to_owned(), intro: String::new(), blocks }]
}

/// A share of 1 with its interval, in percent.
fn in_percent(share: Option<Share>) -> Option<Estimate> {
    share.map(|found| Estimate::between(100.0 * found.share, 100.0 * found.low, 100.0 * found.high))
}

fn alignment_bars(name: &str, cases: &[AlignedLabels]) -> Bars {
    let series = |name: &str, of: fn(&AlignedLabels) -> Option<Share>| BarSeries {
        name: name.to_owned(),
        values: cases.iter().map(|case| in_percent(of(case))).collect(),
    };
    Bars {
        title: format!("{name}: labels by alignment"),
        caption: "Whiskers: 95 % Wilson intervals over steps.".to_owned(),
        value_label: "%".to_owned(),
        unit: Unit::Score,
        categories: cases.iter().map(|case| case.alignment.to_string().trim().to_owned()).collect(),
        series: vec![
            series("labeled wrong", |case| case.labeled_wrong),
            series("accuracy", |case| case.accuracy),
        ],
        references: Vec::new(),
    }
}

fn alignment_table(name: &str, cases: &[AlignedLabels]) -> Table {
    let share = |share: Option<Share>| Cell::Number(in_percent(share));
    let row = |found: &AlignedLabels| {
        vec![
            text(found.alignment.to_string()),
            count(found.steps),
            percent(found.share),
            share(found.labeled_wrong),
            count(found.with_truth),
            share(found.accuracy),
            share(found.recall_right),
            share(found.recall_wrong),
            share(found.precision_wrong),
        ]
    };
    Table {
        title: format!("{name}: by alignment"),
        caption: "What a step is aligned with; steps with a label. The columns after 'with truth' are over those whose true label is known."
            .to_owned(),
        columns: [
            columns(Unit::Number, &["aligned with"]),
            columns(Unit::Count, &["steps"]),
            columns(Unit::Score, &["share", "labeled wrong"]),
            columns(Unit::Count, &["with truth"]),
            columns(Unit::Score, &["accuracy", "recall, right", "recall, wrong", "precision, wrong"]),
        ]
        .concat(),
        rows: cases.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::LabelSource;
    use gradus_core::metrics::alignment::Alignment;
    use gradus_core::{Evidence, Solution, StepLabel};
    use std::sync::Arc;

    #[test]
    fn a_models_labels_are_held_against_a_persons() {
        let reference = LabelSource::Reference { model: "m".to_owned() };
        let aligned = |mark, with: &[usize]| {
            let evidence = Evidence { reference: with.to_vec(), ..Evidence::default() };
            Some(StepLabel { evidence: Some(evidence), ..StepLabel::hard(mark, reference.clone()) })
        };
        let solution = Solution {
            steps: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            annotations: vec![
                Annotation::from_first_error(3, Some(1), &LabelSource::Human),
                Annotation::from_labels(vec![
                    aligned(Mark::Correct, &[0]),
                    aligned(Mark::Incorrect, &[1, 2]),
                    None,
                ]),
            ],
            ..Solution::default()
        };
        let samples = [Sample { subset: String::new(), problem: Arc::default(), solution }];
        let found = measure(&samples, None, 0.5).unwrap();
        let numbers = &found.annotators["reference m"];
        assert_eq!((numbers.solutions, numbers.steps.steps, numbers.steps.accuracy), (1, 2, Some(1.0)));
        let cases: Vec<(Alignment, usize)> =
            numbers.by_alignment.iter().map(|case| (case.alignment, case.with_truth)).collect();
        assert_eq!(
            cases,
            [
                (Alignment::OneToOne, 1),
                (Alignment::ReferenceStep, 1),
                (Alignment::OneToMany, 1),
                (Alignment::SeveralReferenceSteps, 1)
            ]
        );
        let written = serde_json::to_string(&found).unwrap();
        assert!(serde_json::from_str::<LabelResults>(&written).is_ok(), "{written}");
        let [section] = &sections(&found)[..] else { panic!("one section") };
        assert_eq!(section.blocks.len(), 4, "agreement and alignment, each as bars and as a table");
        assert_eq!(numbers.first_errors.acc_err, Some(1.0));
        let judged = [Judged::free(Opinion::Scores(vec![0.9, 0.8, 0.1]))];
        let found = measure(&samples, Some(("prm", &judged)), 0.5).unwrap();
        assert_eq!(found.annotators["prm"].steps.accuracy, Some(0.5));
        assert_eq!(found.annotators["prm"].first_errors.acc_err, Some(0.0));
    }

    #[test]
    fn partial_labels_have_no_numbers_about_first_errors() {
        let exact = Some(StepLabel::hard(Mark::Incorrect, LabelSource::Exact));
        let solution = Solution {
            steps: vec!["a".to_owned(), "b".to_owned()],
            annotations: vec![
                Annotation::from_first_error(2, Some(0), &LabelSource::Human),
                Annotation::from_labels(vec![exact, None]),
            ],
            ..Solution::default()
        };
        let samples = [Sample { subset: String::new(), problem: Arc::default(), solution }];
        let found = measure(&samples, None, 0.5).unwrap();
        let numbers = &found.annotators["exact"];
        assert_eq!((numbers.steps.wrong.precision, numbers.first_errors.f1), (Some(1.0), None));
        assert_eq!(numbers.first_errors, ProcessScores::default());
    }
}
