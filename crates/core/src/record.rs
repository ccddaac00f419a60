//! Our one format: a problem with its solutions, one JSON object a line.
//!
//! ```json
//! {"gradus":1,"problem":{"id":"p1","text":"What is 2 + 3?","answer":"5"},
//!  "solutions":[{"id":"p1/0","problem_id":"p1","steps":["2 + 3 = 6"],"annotations":[{"labels":
//!   [{"mark":"incorrect","source":"human"}],"first_error":0}]}]}
//! ```

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use super::{FirstError, Outcome, Problem, Solution};
use crate::Fault;
use crate::count::counted;

/// Version of the format, written into every record. A reader refuses versions it does not know.
const SCHEMA: u32 = 1;

/// A problem and the solutions to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The schema version.
    pub gradus: u32,
    /// The problem.
    pub problem: Problem,
    /// The solutions, possibly none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solutions: Vec<Solution>,
}

impl Record {
    /// A record of the current schema.
    pub fn new(problem: Problem, solutions: Vec<Solution>) -> Self {
        Self { gradus: SCHEMA, problem, solutions }
    }

    /// For each solution the earliest one with the same steps, text and answer: itself, if it is the first.
    /// A model may draw one text several times; each counts in votes, but needs labels and scores only once.
    pub fn earliest_equal(&self) -> Vec<usize> {
        let mut firsts: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut earliest = Vec::with_capacity(self.solutions.len());
        for (index, solution) in self.solutions.iter().enumerate() {
            let mut hasher = DefaultHasher::new();
            (&solution.steps, &solution.text, &solution.answer).hash(&mut hasher);
            let alike = firsts.entry(hasher.finish()).or_default();
            let same = alike.iter().find(|first| self.solutions[**first].has_same_text(solution)).copied();
            earliest.push(same.unwrap_or_else(|| {
                alike.push(index);
                index
            }));
        }
        earliest
    }

    /// Keeps each text once: the earliest solution with it gets the labels, scores, outcome and references that only a
    /// later one has. Returns how many were removed.
    ///
    /// ```
    /// use gradus_core::{Problem, Record, Solution};
    /// let drawn = |id: &str, step: &str| Solution { id: id.into(), steps: vec![step.into()], ..Solution::default() };
    /// let solutions = vec![drawn("a", "So 5."), drawn("b", "So 6."), drawn("c", "So 5.")];
    /// let mut record = Record::new(Problem::default(), solutions);
    /// assert_eq!((record.unite_equal(), record.solutions.len()), (1, 2));
    /// ```
    pub fn unite_equal(&mut self) -> usize {
        let earliest = self.earliest_equal();
        let mut kept: Vec<Solution> = Vec::with_capacity(self.solutions.len());
        let mut places = Vec::with_capacity(self.solutions.len());
        for (index, solution) in std::mem::take(&mut self.solutions).into_iter().enumerate() {
            if earliest[index] == index {
                places.push(kept.len());
                kept.push(solution);
                continue;
            }
            let place = places[earliest[index]];
            places.push(place);
            let first = &mut kept[place];
            first.annotations.extend(solution.annotations);
            for (model, scores) in solution.scores {
                first.scores.entry(model).or_insert(scores);
            }
            first.references = first.references.take().or(solution.references);
            if first.outcome == Outcome::Unknown {
                first.outcome = solution.outcome;
            }
        }
        self.solutions = kept;
        earliest.len() - self.solutions.len()
    }

    /// Checks what the types cannot: lengths, ranges and cross references.
    pub fn validate(&self) -> Result<(), Fault> {
        if self.gradus != SCHEMA {
            return Err(Fault::new(
                "gradus",
                format!(
                    "schema version {} is not supported: this program reads version {SCHEMA}",
                    self.gradus
                ),
            ));
        }
        if self.problem.id.is_empty() {
            return Err(Fault::new("problem.id", "is empty: every problem needs an id"));
        }
        for (index, solution) in self.solutions.iter().enumerate() {
            validate_solution(&self.problem, solution)
                .map_err(|fault| fault.within(&format!("solutions[{index}]")))?;
        }
        Ok(())
    }
}

fn validate_solution(problem: &Problem, solution: &Solution) -> Result<(), Fault> {
    if solution.problem_id != problem.id {
        let found = &solution.problem_id;
        return Err(Fault::new(
            "problem_id",
            format!("is `{found}`, but the record's problem is `{}`", problem.id),
        ));
    }
    let steps = solution.steps.len();
    for (index, annotation) in solution.annotations.iter().enumerate() {
        let at = |field: &str| format!("annotations[{index}].{field}");
        if annotation.labels.len() != steps {
            return Err(Fault::new(at("labels"), labels_for_steps(annotation.labels.len(), steps)));
        }
        if let FirstError::At(error) = annotation.first_error
            && error >= steps
        {
            return Err(Fault::new(
                at("first_error"),
                format!("is {error}, but there are {steps} steps (0-based)"),
            ));
        }
        for (step, label) in annotation.labels.iter().enumerate() {
            if let Some(value) = label.as_ref().and_then(|label| label.value)
                && !(0.0..=1.0).contains(&value)
            {
                return Err(Fault::new(
                    at(&format!("labels[{step}].value")),
                    format!("is {value}: expected 0 to 1"),
                ));
            }
        }
    }
    for (name, scores) in &solution.scores {
        if scores.len() != steps {
            return Err(Fault::new(
                format!("scores.{name}"),
                format!(
                    "{} for {}: every step needs exactly one",
                    counted(scores.len(), "score"),
                    counted(steps, "step")
                ),
            ));
        }
        if let Some(step) = scores.iter().position(|score| !score.is_finite()) {
            return Err(Fault::new(format!("scores.{name}[{step}]"), "is not a finite number"));
        }
    }
    let references = solution.references.as_ref().map_or(0, |references| references.steps.len());
    if references != 0 && references != steps {
        return Err(Fault::new(
            "references.steps",
            format!("are for {}, but there are {steps}", counted(references, "step")),
        ));
    }
    Ok(())
}

/// The sentence for a label list of the wrong length.
pub(crate) fn labels_for_steps(labels: usize, steps: usize) -> String {
    format!("{} for {}: every step needs exactly one label", counted(labels, "label"), counted(steps, "step"))
}
