//! TRL's stepwise supervision, what `PRMTrainer` reads.
//!
//! ```json
//! {"prompt": "What is 2 + 3 * 4?", "completions": ["3 * 4 = 12", "2 + 12 = 15"], "labels": [true, false]}
//! ```
//!
//! Labels are booleans. Numbers in [0, 1] are read as soft labels and written back as numbers; note that TRL's own
//! trainer turns them into integers (0.875 becomes 0).

use serde_json::Value;

use super::fields::expected;
use super::row::labelled_prefix;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use crate::data::{Annotation, LabelSource, Mark, Problem, Record, Solution, StepLabel, id};
use crate::error::Fault;

const NAME: &str = "trl";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "TRL stepwise supervision: prompt, completions, labels",
    recognises: |record| has(record, &["prompt", "completions", "labels"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("prompt")?;
    let steps = fields.strings("completions")?;
    let labels = fields.list("labels")?.into_iter().enumerate().map(read_label).collect::<Result<_, _>>()?;
    let annotation = Annotation::from_labels(labels).check_length(steps.len(), "labels")?;
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
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

fn read_label((index, label): (usize, Value)) -> Result<Option<StepLabel>, Fault> {
    match label {
        Value::Bool(correct) => Ok(Some(StepLabel::hard(Mark::from_correct(correct), LabelSource::Unstated))),
        Value::Number(ref number) => match number.as_f64() {
            Some(value) if (0.0..=1.0).contains(&value) => {
                Ok(Some(StepLabel::soft(value, LabelSource::Unstated)))
            }
            _ => Err(Fault::new(format!("labels[{index}]"), expected("a label from 0 to 1", &label))),
        },
        other => Err(Fault::new(format!("labels[{index}]"), expected("true, false or a number", &other))),
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    for solution in &record.solutions {
        let Some(labelled) = labelled_prefix(solution, &mut written) else { continue };
        let labels: Vec<Value> = labelled
            .labels
            .iter()
            .map(|label| label.value.map_or_else(|| (label.mark != Mark::Incorrect).into(), Value::from))
            .collect();
        let row = Row::default()
            .with("prompt", record.problem.text.as_str())
            .with("completions", labelled.steps)
            .with("labels", labels)
            .with_metadata(&solution.metadata, &record.problem, NAME);
        written.rows.push(row.done());
    }
    written
}
