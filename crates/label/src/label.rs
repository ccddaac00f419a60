//! What one person says of one solution: a mark, a comment and error categories for each step.

use gradus_core::{Annotation, Evidence, FirstError, LabelSource, Mark, StepLabel};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Characters of a comment at most.
const COMMENT: usize = 10_000;

/// One person's label of a solution. Lists have one entry per step; `comments` and `categories` may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SolutionLabel {
    /// The verdicts; none where a step has not been marked.
    pub marks: Vec<Option<Mark>>,
    /// The first error, where it is said apart from the marks. `unknown`: it follows from the marks.
    pub first_error: FirstError,
    /// Comments; an empty text is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// Error categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<Vec<String>>,
}

impl SolutionLabel {
    /// No marks for so many steps.
    pub(crate) fn empty(steps: usize) -> Self {
        Self { marks: vec![None; steps], ..Self::default() }
    }

    /// Refuses what cannot be: another number of steps, unknown categories, a first error that the marks contradict.
    pub(crate) fn check(&self, steps: usize, categories: &[String]) -> Result<()> {
        let wrong = |message: String| Err(Error::Invalid(message));
        if self.marks.len() != steps {
            return wrong(format!(
                "marks: {} for {steps} steps: every step needs one, or null",
                self.marks.len()
            ));
        }
        for (name, length) in [("comments", self.comments.len()), ("categories", self.categories.len())] {
            if length != 0 && length != steps {
                return wrong(format!(
                    "{name}: {length} for {steps} steps: leave the list out, or give one per step"
                ));
            }
        }
        if let Some(step) = self.comments.iter().position(|comment| comment.chars().count() > COMMENT) {
            return wrong(format!("comments[{step}] has more than {COMMENT} characters"));
        }
        if let Some(unknown) = self.categories.iter().flatten().find(|found| !categories.contains(found)) {
            return wrong(format!("categories: {unknown:?} is not one of {}", categories.join(", ")));
        }
        let said = match self.first_error {
            FirstError::Unknown => return Ok(()),
            FirstError::None => None,
            FirstError::At(step) => Some(step),
        };
        if said != self.first_wrong() {
            return wrong(format!(
                "first_error is {}, but the first step marked as wrong is {}",
                said.map_or("none".to_owned(), |step| step.to_string()),
                self.first_wrong().map_or("none".to_owned(), |step| step.to_string()),
            ));
        }
        Ok(())
    }

    /// Refuses to finish a label that says too little: every step up to the first error needs a mark.
    pub(crate) fn check_finished(&self) -> Result<()> {
        let needed = self.first_wrong().map_or(self.marks.len(), |step| step + 1);
        match self.marks[..needed].iter().position(Option::is_none) {
            None => Ok(()),
            Some(step) => Err(Error::Invalid(format!(
                "step {} has no mark: every step up to the first error needs one",
                step + 1
            ))),
        }
    }

    fn first_wrong(&self) -> Option<usize> {
        self.marks.iter().position(|mark| *mark == Some(Mark::Incorrect))
    }

    /// As an annotation of this person. A comment on a step without a mark has no place in it.
    pub(crate) fn annotation(&self, name: &str) -> Annotation {
        let source = LabelSource::Person { name: name.to_owned() };
        let labels = self.marks.iter().enumerate().map(|(step, mark)| {
            let evidence = Evidence {
                explanation: self.comments.get(step).cloned().unwrap_or_default(),
                errors: self.categories.get(step).cloned().unwrap_or_default(),
                ..Evidence::default()
            };
            let evidence = (evidence != Evidence::default()).then_some(evidence);
            mark.map(|mark| StepLabel { evidence, ..StepLabel::hard(mark, source.clone()) })
        });
        Annotation::from_labels(labels.collect())
    }

    /// Comments on steps without a mark, with their steps.
    pub(crate) fn loose_comments(&self) -> impl Iterator<Item = (usize, &str)> {
        let comments = self.comments.iter().enumerate().filter(|(_, comment)| !comment.is_empty());
        comments
            .filter(|(step, _)| self.marks[*step].is_none())
            .map(|(step, comment)| (step, comment.as_str()))
    }
}
