//! What reference-guided labels rest on: the steps of each case of alignment, how many are labeled wrong, and how many
//! labels are true (SPARE's study of alignments).
//!
//! A step is aligned *one-to-one* with a reference step, with the context, with another step of the solution or with nothing;
//! *one-to-many* when it stands for several reference steps, or when it makes one reference step together with other steps. A
//! reference step decides before the context, and the context before other steps. Intervals are Wilson's at 95 %, over steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::exact::{Share, wilson};
use super::labels::{Agreement, Step, agreement};
use super::share;
use crate::{Annotation, Evidence, Mark};

/// How a step is aligned: two kinds, and the cases of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// All one-to-one cases.
    OneToOne,
    /// With one reference step.
    ReferenceStep,
    /// With the context, and no reference step.
    Context,
    /// With other steps of the solution only.
    OtherStep,
    /// With nothing.
    Nothing,
    /// All one-to-many cases.
    OneToMany,
    /// With several reference steps.
    SeveralReferenceSteps,
    /// With one reference step, together with other steps of the solution.
    PartOfReferenceStep,
}

impl Alignment {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::OneToOne,
        Self::ReferenceStep,
        Self::Context,
        Self::OtherStep,
        Self::Nothing,
        Self::OneToMany,
        Self::SeveralReferenceSteps,
        Self::PartOfReferenceStep,
    ];

    /// The kind and the case of a step.
    ///
    /// ```
    /// use gradus_core::Evidence;
    /// use gradus_core::metrics::alignment::Alignment;
    /// let composite = Evidence { reference: vec![0, 1], ..Evidence::default() };
    /// assert_eq!(Alignment::of(&composite), [Alignment::OneToMany, Alignment::SeveralReferenceSteps]);
    /// ```
    pub fn of(evidence: &Evidence) -> [Self; 2] {
        match (evidence.reference.len(), evidence.steps.is_empty()) {
            (2.., _) => [Self::OneToMany, Self::SeveralReferenceSteps],
            (1, false) => [Self::OneToMany, Self::PartOfReferenceStep],
            (1, true) => [Self::OneToOne, Self::ReferenceStep],
            (0, _) if !evidence.context.is_empty() => [Self::OneToOne, Self::Context],
            (0, false) => [Self::OneToOne, Self::OtherStep],
            (0, true) => [Self::OneToOne, Self::Nothing],
        }
    }
}

/// As tables name it; cases are indented below their kind.
impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneToOne => "one-to-one",
            Self::ReferenceStep => "  a reference step",
            Self::Context => "  context",
            Self::OtherStep => "  another step",
            Self::Nothing => "  nothing",
            Self::OneToMany => "one-to-many",
            Self::SeveralReferenceSteps => "  several reference steps",
            Self::PartOfReferenceStep => "  part of a reference step",
        })
    }
}

/// The labels of one kind or case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlignedLabels {
    /// The kind or case.
    pub alignment: Alignment,
    /// Steps with a label.
    pub steps: usize,
    /// Their share of all labeled steps whose alignment is known.
    pub share: Option<f64>,
    /// Of these, labeled wrong.
    pub labeled_wrong: Option<Share>,
    /// Steps with a true label, too.
    pub with_truth: usize,
    /// Of these, with the true label.
    pub accuracy: Option<Share>,
    /// Of the correct ones, labeled correct.
    pub recall_right: Option<Share>,
    /// Of the wrong ones, labeled wrong.
    pub recall_wrong: Option<Share>,
    /// Of those labeled wrong, really wrong.
    pub precision_wrong: Option<Share>,
}

/// The kinds and cases that occur, over annotations with the true labels of the same solution where they are known; empty for
/// an annotator that aligns nothing.
pub fn by_alignment<'a>(
    solutions: impl IntoIterator<Item = (&'a Annotation, Option<&'a Annotation>)>,
) -> Vec<AlignedLabels> {
    let right = |mark: Mark| mark != Mark::Incorrect;
    let mut labeled: Vec<([Alignment; 2], bool, Option<bool>)> = Vec::new();
    for (annotation, truth) in solutions {
        for (index, label) in annotation.labels.iter().enumerate() {
            let Some((label, evidence)) =
                label.as_ref().and_then(|label| Some((label, label.evidence.as_ref()?)))
            else {
                continue;
            };
            let known = truth.and_then(|truth| truth.labels.get(index)?.as_ref());
            labeled.push((Alignment::of(evidence), right(label.mark), known.map(|label| right(label.mark))));
        }
    }
    let numbers = |alignment: Alignment| {
        let of: Vec<_> = labeled.iter().filter(|(cases, ..)| cases.contains(&alignment)).collect();
        let wrong = of.iter().filter(|(_, said, _)| !said).count();
        let steps: Vec<Step> = (of.iter())
            .filter_map(|(_, said, human)| Some(Step { human: (*human)?, annotator: Some(*said) }))
            .collect();
        let Agreement { said_of_right: correct, said_of_wrong: erroneous, .. } = agreement(&steps);
        let share_of = |hits: usize, all: usize| wilson(hits, all, 0.95);
        AlignedLabels {
            alignment,
            steps: of.len(),
            share: share(of.len(), labeled.len()),
            labeled_wrong: share_of(wrong, of.len()),
            with_truth: steps.len(),
            accuracy: share_of(correct.right + erroneous.wrong, steps.len()),
            recall_right: share_of(correct.right, correct.right + correct.wrong),
            recall_wrong: share_of(erroneous.wrong, erroneous.right + erroneous.wrong),
            precision_wrong: share_of(erroneous.wrong, erroneous.wrong + correct.wrong),
        }
    };
    Alignment::ALL.into_iter().map(numbers).filter(|found| found.steps > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelSource, StepLabel};

    fn evidence(context: &[usize], steps: &[usize], reference: &[usize]) -> Evidence {
        Evidence {
            context: context.to_vec(),
            steps: steps.to_vec(),
            reference: reference.to_vec(),
            ..Evidence::default()
        }
    }

    fn labels(marks: &[Mark], aligned: &[Evidence]) -> Annotation {
        let label = |(at, mark): (usize, &Mark)| {
            Some(StepLabel {
                evidence: aligned.get(at).cloned(),
                ..StepLabel::hard(*mark, LabelSource::Human)
            })
        };
        Annotation::from_labels(marks.iter().enumerate().map(label).collect())
    }

    #[test]
    fn every_case_of_the_paper_has_its_row() {
        use Mark::{Correct, Incorrect};
        let aligned = [
            evidence(&[0], &[], &[2]),
            evidence(&[0, 1], &[1], &[]),
            evidence(&[], &[0], &[]),
            evidence(&[], &[], &[]),
            evidence(&[1], &[2], &[0, 1]),
            evidence(&[], &[4], &[1]),
        ];
        let marks = [Correct, Correct, Incorrect, Incorrect, Correct, Incorrect];
        let truth = [Correct, Incorrect, Incorrect, Correct, Correct];
        let (found, truth) = (labels(&marks, &aligned), labels(&truth, &[]));
        let found = by_alignment([(&found, Some(&truth))]);
        let steps: Vec<(Alignment, usize, usize)> =
            found.iter().map(|case| (case.alignment, case.steps, case.with_truth)).collect();
        assert_eq!(
            steps,
            [
                (Alignment::OneToOne, 4, 4),
                (Alignment::ReferenceStep, 1, 1),
                (Alignment::Context, 1, 1),
                (Alignment::OtherStep, 1, 1),
                (Alignment::Nothing, 1, 1),
                (Alignment::OneToMany, 2, 1),
                (Alignment::SeveralReferenceSteps, 1, 1),
                (Alignment::PartOfReferenceStep, 1, 0),
            ]
        );
        let one = &found[0];
        assert_eq!(one.share, Some(4.0 / 6.0));
        let of = |share: Option<Share>| share.map(|share| share.share);
        assert_eq!((of(one.labeled_wrong), of(one.accuracy)), (Some(0.5), Some(0.5)));
        assert_eq!((of(one.recall_right), of(one.recall_wrong)), (Some(0.5), Some(0.5)));
        assert_eq!((of(one.precision_wrong), of(found[7].accuracy)), (Some(0.5), None));
        // Wilson's interval of 2 of 4.
        let Share { low, high, .. } = one.accuracy.unwrap();
        assert!((low - 0.150039).abs() < 1e-6 && (high - 0.849961).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn labels_without_evidence_have_no_case() {
        let found = labels(&[Mark::Correct], &[]);
        assert_eq!(by_alignment([(&found, None)]), []);
    }
}
