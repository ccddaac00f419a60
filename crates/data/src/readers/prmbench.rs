//! PRMBench: right solutions into which a model put errors of a known class.
//!
//! ```json
//! {"original_question": "What is 2 + 3 * 4?", "modified_question": "What is 2 + 3 * 4?",
//!  "original_process": ["3 * 4 = 12", "2 + 12 = 14"], "modified_process": ["3 * 4 = 12", "2 + 12 = 15"],
//!  "modified_steps": [2], "error_steps": [2], "reason": "The sum is wrong.", "idx": "made_up_1",
//!  "question": "What is 2 + 3 * 4?", "classification": "step_contradiction"}
//! ```
//!
//! The solution under test is `modified_process`, to `modified_question`. `error_steps` counts from 1 and judges every
//! step on its own, so steps after the first error have labels too. About one record in sixty names a step that is
//! not there: that is reported, the other steps it names are used, and without any of those nothing is known.
//! One `idx` comes in several classes, so a solution's id is `idx/class/hash`.

use serde_json::Value;

use super::fields::expected;
use super::row::labeled_prefix;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "prmbench";
const ERRORS: &str = "error_steps";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PRMBench: modified solutions with the numbers of the wrong steps",
    recognizes: |record| has(record, &["modified_question", "modified_process", ERRORS]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("modified_question")?;
    let steps = fields.strings("modified_process")?;
    let errors = fields.list(ERRORS)?;
    let idx = fields.peek("idx").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = fields.peek("classification").and_then(Value::as_str).unwrap_or_default().to_owned();

    let mut issues = Vec::new();
    let mut wrong = Vec::new();
    for (index, number) in errors.iter().enumerate() {
        match (number.as_i64(), in_range(number, steps.len())) {
            (_, Some(step)) => wrong.push(step),
            (Some(number), None) => {
                issues.push(Fault::new(
                    ERRORS,
                    format!("names step {number}, but there are {} steps, counted from 1", steps.len()),
                ));
            }
            (None, None) => {
                return Err(Fault::new(format!("{ERRORS}[{index}]"), expected("a step number", number)));
            }
        }
    }
    let labels = if wrong.is_empty() && !errors.is_empty() {
        vec![None; steps.len()]
    } else {
        let label = |step| StepLabel::hard(Mark::from_correct(!wrong.contains(&step)), LabelSource::Injected);
        (0..steps.len()).map(|step| Some(label(step))).collect()
    };
    let annotation = Annotation::from_labels(labels);
    if Value::from(numbers(&annotation)) != Value::from(errors.as_slice()) {
        fields.keep(ERRORS, errors);
    }
    let problem = Problem {
        id: id::problem(&text),
        text,
        source: NAME.into(),
        metadata: fields.only(&["original_question", "question", "ground_truth"]),
        ..Problem::default()
    };
    let hash = id::solution(&problem.id, None, &steps);
    let solution = Solution {
        id: if idx.is_empty() { hash } else { format!("{idx}/{class}/{}", &hash[2..10]) },
        problem_id: problem.id.clone(),
        steps,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Parsed { issues, ..Record::new(problem, vec![solution]).into() })
}

/// The 0-based index of a 1-based step number.
fn in_range(number: &Value, steps: usize) -> Option<usize> {
    let index = usize::try_from(number.as_u64()?).ok()?.checked_sub(1)?;
    (index < steps).then_some(index)
}

/// The 1-based numbers of the wrong steps.
fn numbers(annotation: &Annotation) -> Vec<usize> {
    let wrong = |label: &Option<StepLabel>| label.as_ref().is_some_and(|label| label.mark == Mark::Incorrect);
    annotation.labels.iter().enumerate().filter(|(_, label)| wrong(label)).map(|(step, _)| step + 1).collect()
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let kept = solution.metadata.get(ERRORS).filter(|_| problem.source == NAME);
        let now = solution.most_trusted().map(numbers);
        let still_says = |kept: &Value| {
            let mut kept: Vec<usize> = kept
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|number| in_range(number, solution.steps.len()).map(|step| step + 1))
                .collect();
            kept.sort_unstable();
            kept.dedup();
            Some(kept) == now
        };
        let (steps, errors) = if let Some(kept) = kept.filter(|kept| still_says(kept)) {
            (solution.steps.as_slice(), kept.clone())
        } else {
            let Some(labelled) = labeled_prefix(solution, &mut written) else { continue };
            let mut errors = now.unwrap_or_default();
            errors.retain(|&number| number <= labelled.steps.len());
            (labelled.steps, errors.into())
        };
        let row = Row::default()
            .with("modified_question", problem.text.as_str())
            .with("modified_process", steps)
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME)
            .with(ERRORS, errors);
        let row = if problem.source == NAME { row } else { row.with("idx", solution.id.as_str()) };
        written.rows.push(row.done());
    }
    written
}
