//! TRL's stepwise supervision, what `PRMTrainer` reads.
//!
//! ```json
//! {"prompt": "What is 2 + 3 * 4?", "completions": ["3 * 4 = 12", "2 + 12 = 15"], "labels": [true, false]}
//! ```
//!
//! Labels are booleans, or 1 and 0. Other numbers in [0, 1] are read as soft labels and written back as numbers; note
//! that TRL's own trainer turns them into integers (0.875 becomes 0).

use super::row::labeled_prefix;
use super::verdicts::{self, Spelling};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, Problem, Record, Solution, id};

const NAME: &str = "trl";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "TRL stepwise supervision: prompt, completions, labels",
    recognizes: |record| has(record, &["prompt", "completions", "labels"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("prompt")?;
    let steps = fields.strings("completions")?;
    let list = fields.list("labels")?;
    let labels = verdicts::read(&list, "labels")?;
    let mut metadata = fields.rest();
    verdicts::keep(&mut metadata, "labels", list, &labels, Spelling::Bool);
    let annotation = Annotation::from_labels(labels).check_length(steps.len(), "labels")?;
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        steps,
        annotations: vec![annotation],
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    for solution in &record.solutions {
        let Some(labelled) = labeled_prefix(solution, &mut written) else { continue };
        let kept = solution.metadata.get("labels").filter(|_| record.problem.source == NAME);
        let row = Row::default()
            .with("prompt", record.problem.text.as_str())
            .with("completions", labelled.steps)
            .with_metadata(&solution.metadata, &record.problem, NAME)
            .with("labels", verdicts::write(&labelled.labels, Spelling::Bool, kept));
        written.rows.push(row.done());
    }
    written
}
