//! First errors named by number, in sources whose steps begin with `Step n`: MR-Ben and MR-GSM8K.
//!
//! `3` names the step whose text begins with `Step 3`. That is often not the third of the list, because a preamble
//! or a sub-step stands in between. A number that no step bears is reported, and the first error is then unknown.

use serde_json::Value;

use super::fields::expected;
use super::{Fields, Row};
use gradus_core::{Annotation, Fault, FirstError, LabelSource, Problem, Solution};

/// The two fields that tell whether a solution is right and where it first goes wrong.
pub(crate) struct Verdict {
    pub(crate) correctness: &'static str,
    pub(crate) step: &'static str,
    /// The opposite of `correct`.
    pub(crate) wrong: &'static str,
    /// Numbers are written as strings.
    pub(crate) number_as_text: bool,
}

const NO_ERROR: &str = "N/A";

impl Verdict {
    /// Takes both fields. They stay behind when [`Verdict::write`] would not give them back.
    pub(crate) fn read(
        &self,
        fields: &mut Fields,
        steps: &[String],
        issues: &mut Vec<Fault>,
    ) -> Result<Annotation, Fault> {
        let correctness = fields.value(self.correctness).unwrap_or_default();
        let step = fields.value(self.step).unwrap_or_default();
        let first_error = match self.locate(&correctness, &step, steps)? {
            Ok(first_error) => first_error,
            Err(issue) => {
                issues.push(issue);
                FirstError::Unknown
            }
        };
        if self.spell(first_error, steps) != Ok((correctness.clone(), step.clone())) {
            fields.keep(self.correctness, correctness);
            fields.keep(self.step, step);
        }
        Ok(annotation(first_error, steps.len()))
    }

    /// Outer error: a field of the wrong type. Inner error: fields that cannot be right.
    fn locate(
        &self,
        correctness: &Value,
        step: &Value,
        steps: &[String],
    ) -> Result<Result<FirstError, Fault>, Fault> {
        let correct = match correctness.as_str() {
            Some("correct") => true,
            Some(word) if word == self.wrong => false,
            _ => {
                let message = expected(&format!("\"correct\" or \"{}\"", self.wrong), correctness);
                return Err(Fault::new(self.correctness, message));
            }
        };
        let number = match step {
            Value::String(text) if text == NO_ERROR => None,
            Value::String(text) => text.trim().parse().ok(),
            Value::Number(number) => number.as_u64(),
            _ => None,
        };
        Ok(match number {
            None if step != NO_ERROR => {
                return Err(Fault::new(self.step, expected("a step number or \"N/A\"", step)));
            }
            None if correct => Ok(FirstError::None),
            None => {
                Err(Fault::new(self.step, format!("is N/A, but `{}` is {}", self.correctness, self.wrong)))
            }
            Some(number) if correct => {
                Err(Fault::new(self.step, format!("is {number}, but `{}` is correct", self.correctness)))
            }
            Some(number) => position(steps, number).map(FirstError::At).ok_or_else(|| {
                let message = format!("none of {} steps begins with `Step {number}`", steps.len());
                Fault::new(self.step, message)
            }),
        })
    }

    fn spell(&self, first_error: FirstError, steps: &[String]) -> Result<(Value, Value), &'static str> {
        match first_error {
            FirstError::Unknown => Err("the first error is unknown"),
            FirstError::None => Ok(("correct".into(), NO_ERROR.into())),
            FirstError::At(index) => {
                let number = number(&steps[index]).filter(|&number| position(steps, number) == Some(index));
                let number = number.ok_or("the first wrong step has no number of its own")?;
                let number = if self.number_as_text { number.to_string().into() } else { number.into() };
                Ok((self.wrong.into(), number))
            }
        }
    }

    /// Sets both fields as the solution's first annotation has them, then the metadata. `steps` are the solution's
    /// as they are written. An error says why the format cannot express the annotation.
    pub(crate) fn write(
        &self,
        row: Row,
        solution: &Solution,
        steps: &[String],
        problem: &Problem,
        name: &str,
    ) -> Result<Row, &'static str> {
        let first_error = solution.most_trusted().map_or(FirstError::Unknown, |a| a.first_error);
        let metadata = &solution.metadata;
        let kept = (problem.source == name)
            .then(|| Some((metadata.get(self.correctness)?, metadata.get(self.step)?)))
            .flatten();
        let still_says = |(correctness, step)| match self.locate(correctness, step, steps) {
            Ok(Ok(kept)) => kept == first_error,
            _ => first_error == FirstError::Unknown,
        };
        if kept.is_some_and(still_says) {
            return Ok(row.with_metadata(metadata, problem, name));
        }
        let (correctness, step) = self.spell(first_error, steps)?;
        let row = row.with(self.correctness, correctness).with(self.step, step);
        Ok(row.with_metadata_except(metadata, problem, name, &[self.correctness, self.step]))
    }
}

/// Labels by people for a first error that may be unknown.
pub(crate) fn annotation(first_error: FirstError, steps: usize) -> Annotation {
    match first_error {
        FirstError::Unknown => Annotation { labels: vec![None; steps], first_error, ..Annotation::default() },
        FirstError::None => Annotation::from_first_error(steps, None, &LabelSource::Human),
        FirstError::At(index) => Annotation::from_first_error(steps, Some(index), &LabelSource::Human),
    }
}

/// The number `n` of a step that begins with `Step n`.
fn number(step: &str) -> Option<u64> {
    let rest = step.trim_start().strip_prefix("Step ")?;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// The first step of that number: `Step 2` comes before its sub-steps `Step 2.1` and `Step 2.2`.
fn position(steps: &[String], wanted: u64) -> Option<usize> {
    steps.iter().position(|step| number(step) == Some(wanted))
}
