//! PARC: models' solutions to word problems in which every step is marked, with the premises it rests on.
//!
//! ```json
//! {"question": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?", "ground_truth_answer": "14", "model_answer": 15,
//!  "steps": ["Step 1: 3*4=12", "Step 2: 12+2=15"],
//!  "error_annotation": {"error_annotations": {"step_level": [
//!    {"step_number": 1, "has_error": false, "errors": []},
//!    {"step_number": 2, "has_error": true, "errors": [{"error_type": "Mathematical_Error", "error_description": "14"}]}]}},
//!  "premise_annotation": {"steps": []}, "file": "made_up.json"}
//! ```
//!
//! Step numbers count from 1. A step that only carries an earlier error on is marked wrong as well.

use serde_json::{Value, json};

use super::fields::expected;
use super::worked::take_lines;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Outcome, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "parc";
const ERRORS: &str = "error_annotation";
const REFERENCE: &str = "ground_truth_solution";
const GOLD: &str = "ground_truth_answer";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PARC: every step marked right or wrong, with its premises",
    recognizes: |record| {
        has(record, &["question", "steps", ERRORS]) && record[ERRORS].get("error_annotations").is_some()
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let steps = fields.strings("steps")?;
    let annotation = Annotation::from_labels(labels(fields.peek(ERRORS), steps.len())?);
    let outcome = fields.opt_bool("is_correct")?.map_or(Outcome::Unknown, Outcome::from_correct);
    let problem = Problem {
        id: id::problem(&text),
        text,
        reference: take_lines(&mut fields, REFERENCE)?,
        answer: fields.answer(GOLD)?,
        source: NAME.into(),
        metadata: fields.only(&[REFERENCE, GOLD]),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        steps,
        answer: fields.clone().answer("model_answer")?,
        outcome,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// A label for each step that the annotation names.
fn labels(errors: Option<&Value>, steps: usize) -> Result<Vec<Option<StepLabel>>, Fault> {
    let path = "error_annotation.error_annotations.step_level";
    let list = errors.and_then(|errors| errors.pointer("/error_annotations/step_level"));
    let Some(Value::Array(list)) = list else {
        return Err(Fault::new(path, expected("a list of marked steps", list.unwrap_or(&Value::Null))));
    };
    let mut labels = vec![None; steps];
    for (index, entry) in list.iter().enumerate() {
        let number = entry.get("step_number").and_then(Value::as_u64).unwrap_or(0);
        let wrong = entry.get("has_error").and_then(Value::as_bool);
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let (Some(wrong), Some(label)) = (wrong, place.and_then(|place| labels.get_mut(place))) else {
            let wanted = format!("`has_error` for one of {steps} steps counted from 1");
            return Err(Fault::new(format!("{path}[{index}]"), expected(&wanted, entry)));
        };
        *label = Some(StepLabel::hard(Mark::from_correct(!wrong), LabelSource::Unstated));
    }
    Ok(labels)
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let own = problem.source == NAME;
    let reference = (!problem.reference.is_empty()).then(|| problem.reference.join("\n"));
    for solution in &record.solutions {
        let Some(annotation) = solution.most_trusted() else {
            written.dropped.push("no step labels");
            continue;
        };
        let kept = solution.metadata.get(ERRORS).filter(|_| own);
        let marks = |labels: &[Option<StepLabel>]| -> Vec<Option<Mark>> {
            labels.iter().map(|label| label.as_ref().map(|label| label.mark)).collect()
        };
        let same =
            labels(kept, solution.steps.len()).is_ok_and(|kept| marks(&kept) == marks(&annotation.labels));
        let marked = (1..).zip(&annotation.labels).filter_map(|(number, label)| {
            let wrong = label.as_ref()?.mark == Mark::Incorrect;
            Some(json!({"step_number": number, "has_error": wrong, "errors": []}))
        });
        let marked = json!({"error_annotations": {"step_level": marked.collect::<Vec<_>>()}});
        let row = Row::default()
            .with("question", problem.text.as_str())
            .with_some(REFERENCE, reference.as_deref())
            .with_some(GOLD, problem.answer.as_deref())
            .with("steps", solution.steps.as_slice())
            .with_some("model_answer", solution.answer.as_deref().filter(|_| !own))
            .with_some("is_correct", solution.outcome.is_correct())
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME)
            .with_some(ERRORS, (!same).then_some(marked));
        written.rows.push(row.done());
    }
    written
}
