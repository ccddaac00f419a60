//! Who says something about the steps of a solution: reward models, then annotators, a column each.

use gradus_core::{Annotation, FirstError, Mark, Solution, StepLabel};

/// A reward model's scores or an annotator's labels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opinions<'a> {
    Scores(&'a [f64]),
    Labels(&'a Annotation),
}

/// One column.
#[derive(Debug, Clone)]
pub(crate) struct Column<'a> {
    /// Whose it is; the second annotator of a name has a number.
    pub(crate) name: String,
    pub(crate) opinions: Opinions<'a>,
}

/// The columns of a solution: its reward models by name, then its annotators, the most trusted first.
pub(crate) fn columns(solution: &Solution) -> Vec<Column<'_>> {
    let scores = solution.scores.iter();
    let mut all: Vec<Column<'_>> = scores
        .map(|(name, scores)| Column { name: name.clone(), opinions: Opinions::Scores(scores) })
        .collect();
    for annotation in solution.by_trust() {
        let name = annotation.source_name();
        let before = all.iter().filter(|column| column.is_labels() && column.is_named(&name)).count();
        let name = if before == 0 { name } else { format!("{name} ({})", before + 1) };
        all.push(Column { name, opinions: Opinions::Labels(annotation) });
    }
    all
}

impl Column<'_> {
    fn is_named(&self, name: &str) -> bool {
        self.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    }

    pub(crate) fn is_labels(&self) -> bool {
        matches!(self.opinions, Opinions::Labels(_))
    }

    /// The score of a step, where it is a number.
    pub(crate) fn score(&self, step: usize) -> Option<f64> {
        match self.opinions {
            Opinions::Scores(scores) => scores.get(step).copied().filter(|score| score.is_finite()),
            Opinions::Labels(_) => None,
        }
    }

    /// The label of a step, where there is one.
    pub(crate) fn label(&self, step: usize) -> Option<&StepLabel> {
        match self.opinions {
            Opinions::Scores(_) => None,
            Opinions::Labels(annotation) => annotation.labels.get(step)?.as_ref(),
        }
    }

    /// Whether the step is held for right, where something is said.
    pub(crate) fn accepts(&self, step: usize, threshold: f64) -> Option<bool> {
        let by_score = self.score(step).map(|score| score >= threshold);
        by_score.or_else(|| self.label(step).map(|label| label.mark != Mark::Incorrect))
    }

    /// The first error: of a reward model, the first step below the threshold.
    pub(crate) fn first_error(&self, threshold: f64) -> FirstError {
        match self.opinions {
            Opinions::Scores([]) => FirstError::Unknown,
            Opinions::Scores(scores) => {
                scores.iter().position(|score| *score < threshold).map_or(FirstError::None, FirstError::At)
            }
            Opinions::Labels(annotation) => annotation.first_error,
        }
    }
}
