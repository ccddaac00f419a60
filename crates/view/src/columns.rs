//! Who says something about the steps of a solution: reward models, then annotators, a column each.

use gradus_core::select::{DecisionRule, Posterior};
use gradus_core::{Annotation, FirstError, Mark, Solution, StepLabel};

use crate::ViewOptions;

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
    /// How its scores become a first error.
    rule: DecisionRule,
    /// The step that is proved wrong, where that decides, too.
    proven: Option<usize>,
}

/// The columns of a solution: its reward models by name, then its annotators, the most trusted first.
pub(crate) fn columns<'a>(solution: &'a Solution, options: &ViewOptions) -> Vec<Column<'a>> {
    let proven = solution.proven_error();
    let scores = solution.scores.iter();
    let scores = scores.map(|(name, scores)| Column {
        name: name.clone(),
        opinions: Opinions::Scores(scores),
        rule: options.decision_of(name),
        proven: proven.filter(|_| options.exact_checks.contains(name)),
    });
    let mut all: Vec<Column<'_>> = scores.collect();
    for annotation in solution.by_trust() {
        let name = annotation.source_name();
        let before = all.iter().filter(|column| column.is_labels() && column.is_named(&name)).count();
        let name = if before == 0 { name } else { format!("{name} ({})", before + 1) };
        let opinions = Opinions::Labels(annotation);
        all.push(Column { name, opinions, rule: options.decision, proven: None });
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

    /// Whether the step is held for right, where something is said. The posterior says nothing about steps after the first
    /// error.
    pub(crate) fn accepts(&self, step: usize) -> Option<bool> {
        let by_score = self.score(step).and_then(|score| match (self.rule, self.first_error()) {
            (DecisionRule::Threshold { threshold }, _) => {
                Some(score >= threshold && self.proven != Some(step))
            }
            (DecisionRule::Posterior { .. }, FirstError::At(first)) => {
                (step <= first).then_some(step < first)
            }
            (DecisionRule::Posterior { .. }, _) => Some(true),
        });
        by_score.or_else(|| self.label(step).map(|label| label.mark != Mark::Incorrect))
    }

    /// The first error: of a reward model, by its rule and what is proved.
    pub(crate) fn first_error(&self) -> FirstError {
        match self.opinions {
            Opinions::Scores([]) => FirstError::Unknown,
            Opinions::Scores(scores) => {
                let decided = self.rule.decide(scores, self.proven);
                decided.first_error.map_or(FirstError::None, FirstError::At)
            }
            Opinions::Labels(annotation) => annotation.first_error,
        }
    }

    /// How probable each first error is by the scores, where there are any.
    pub(crate) fn posterior(&self) -> Option<Posterior> {
        match self.opinions {
            Opinions::Scores([]) | Opinions::Labels(_) => None,
            Opinions::Scores(scores) => Some(self.rule.decide(scores, self.proven).posterior),
        }
    }
}
