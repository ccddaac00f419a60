//! PRM800K flattened: one labelled path a record, with a human rating for each step.
//!
//! ```json
//! {"problem": "What is 2 + 3 * 4?", "steps": ["3 * 4 = 12", "2 + 12 = 15"], "ratings": [1, -1],
//!  "problem_source": "MATH-train", "gt_answer": "14", "n_copies": 1, "unlabelled_tail": ""}
//! ```
//!
//! A rating is 1, 0 (neutral), -1, or null (no label). Text after the last rated step is in `unlabelled_tail`, kept
//! as metadata.

use serde_json::Value;

use super::fields::expected;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "prm800k-ratings";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PRM800K flattened: steps with ratings 1, 0 or -1",
    recognizes: |record| has(record, &["problem", "steps", "ratings"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let steps = fields.strings("steps")?;
    let labels = ratings_of(&fields.list("ratings")?, "ratings")?;
    let annotation = Annotation::from_labels(labels).check_length(steps.len(), "ratings")?;
    let problem = Problem {
        id: id::problem(&text),
        text,
        answer: fields.opt_string("gt_answer")?,
        source: NAME.into(),
        metadata: fields.only(&["gt_answer", "problem_source"]),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        steps,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// The human labels that ratings are.
pub(super) fn ratings_of(list: &[Value], field: &str) -> Result<Vec<Option<StepLabel>>, Fault> {
    let read = |(index, rating): (usize, &Value)| read_rating(rating, &format!("{field}[{index}]"));
    list.iter().enumerate().map(read).collect()
}

/// The human label that a rating is; a null is none.
pub(super) fn read_rating(rating: &Value, field: &str) -> Result<Option<StepLabel>, Fault> {
    if rating.is_null() {
        return Ok(None);
    }
    match rating.as_i64().and_then(Mark::from_rating) {
        Some(mark) => Ok(Some(StepLabel::hard(mark, LabelSource::Human))),
        None => Err(Fault::new(field, expected("1, 0, -1 or null", rating))),
    }
}

/// The rating that a label is.
pub(super) fn rating_of(label: &Option<StepLabel>) -> Value {
    label.as_ref().map(|label| label.mark.rating()).into()
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let Some(annotation) = solution.most_trusted() else {
            written.dropped.push("no step labels");
            continue;
        };
        let ratings: Vec<Value> = annotation.labels.iter().map(rating_of).collect();
        let row = Row::default()
            .with("problem", problem.text.as_str())
            .with("steps", solution.steps.as_slice())
            .with("ratings", ratings)
            .with_some("gt_answer", problem.answer.as_deref())
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}
