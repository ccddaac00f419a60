//! ReasonEval's two sets: solutions with the first invalid step, and solutions with redundant steps.
//!
//! ```json
//! {"id": 0, "question": "What is 2 + 3 * 4?", "ground_truth_answer": "14", "generator": "some-model",
//!  "model_output_step_format": [["1. 3 * 4 = 12"], ["2. Add:", "2 + 12 = 15"]],
//!  "model_output_answer_correctness": "wrong", "model_output_solution_correctness": "wrong",
//!  "model_output_solution_first_error_step": 2}
//! {"id": 0, "question": "What is 2 + 3 * 4?", "ground_truth_answer": "14", "generator": "some-model",
//!  "model_output_step_format": [["3 * 4 = 12"], ["4 * 3 = 12 too"]], "rating": [1, 0]}
//! ```
//!
//! A step is a list of lines. The first error counts from 1, or is `N/A`; a `rating` of 0 marks a redundant step, which
//! we call neutral.

use serde_json::Value;

use super::fields::{expected, strings_of};
use super::mr_gsm8k::{read_outcome, with_outcome};
use super::row::known_first_error;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "reasoneval";
const STEPS: &str = "model_output_step_format";

/// Metadata key: the record has ratings, not a first error.
const RATED: &str = "gradus:rated";
const FIRST_ERROR: &str = "model_output_solution_first_error_step";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "ReasonEval: first invalid step, or redundant steps",
    recognizes: |record| has(record, &["question", STEPS]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let source_id = fields.id("id")?;
    let answer = fields.opt_string("ground_truth_answer")?;
    let generator = fields.opt_string("generator")?;
    let raw_steps = fields.list(STEPS)?;
    let steps = join_lines(&raw_steps)?;
    if split_lines(&steps) != raw_steps {
        fields.keep(STEPS, raw_steps);
    }
    let annotation = match fields.opt_list("rating")? {
        Some(ratings) => {
            fields.keep(RATED, true);
            Annotation::from_labels(read_ratings(&ratings)?).check_length(steps.len(), "rating")?
        }
        None => {
            let first_error = read_first_error(&mut fields, steps.len())?;
            Annotation::from_first_error(steps.len(), first_error, &LabelSource::Human)
        }
    };
    let problem = Problem {
        id: id::problem(&text),
        text,
        answer,
        source: NAME.into(),
        metadata: fields.only(&["ground_truth_answer"]),
        ..Problem::default()
    };
    let solution = Solution {
        id: source_id.unwrap_or_else(|| id::solution(&problem.id, generator.as_deref(), &steps)),
        problem_id: problem.id.clone(),
        generator,
        text: fields.opt_string("model_output")?,
        outcome: read_outcome(&mut fields)?,
        steps,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

fn join_lines(steps: &[Value]) -> Result<Vec<String>, Fault> {
    steps
        .iter()
        .enumerate()
        .map(|(index, lines)| {
            let path = format!("{STEPS}[{index}]");
            match lines {
                Value::Array(lines) => Ok(strings_of(lines.clone(), &path)?.join("\n")),
                other => Err(Fault::new(path, expected("a list of lines", other))),
            }
        })
        .collect()
}

fn split_lines(steps: &[String]) -> Vec<Value> {
    steps.iter().map(|step| step.split('\n').map(Value::from).collect()).collect()
}

fn read_ratings(ratings: &[Value]) -> Result<Vec<Option<StepLabel>>, Fault> {
    ratings
        .iter()
        .enumerate()
        .map(|(index, rating)| match rating.as_i64().and_then(Mark::from_rating) {
            Some(mark) => Ok(Some(StepLabel::hard(mark, LabelSource::Human))),
            None => Err(Fault::new(format!("rating[{index}]"), expected("1 or 0", rating))),
        })
        .collect()
}

fn read_first_error(fields: &mut Fields, steps: usize) -> Result<Option<usize>, Fault> {
    let found = fields.value(FIRST_ERROR).unwrap_or_default();
    if found == "N/A" {
        return Ok(None);
    }
    let number = found.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    if (1..=steps).contains(&number) {
        return Ok(Some(number - 1));
    }
    Err(Fault::new(FIRST_ERROR, expected(&format!("\"N/A\" or one of {steps} steps counted from 1"), &found)))
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let kept = solution.metadata.get(STEPS).filter(|_| problem.source == NAME).and_then(Value::as_array);
        let kept = kept.filter(|&kept| join_lines(kept).as_ref() == Ok(&solution.steps));
        let row = Row::default()
            .with_solution_id("id", solution, problem, NAME)
            .with("question", problem.text.as_str())
            .with_some("ground_truth_answer", problem.answer.as_deref())
            .with_some("generator", solution.generator.as_deref())
            .with_some("model_output", solution.text.as_deref());
        let row = with_outcome(row, solution.outcome);
        let Some(row) = with_verdict(row, record, solution, &mut written) else { continue };
        let row = row
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME)
            .with(STEPS, kept.cloned().unwrap_or_else(|| split_lines(&solution.steps)));
        written.rows.push(row.done());
    }
    written
}

/// The verdict in the form of the set it belongs to; a neutral label from elsewhere can only be a rating.
fn with_verdict(row: Row, record: &Record, solution: &Solution, written: &mut Written) -> Option<Row> {
    let own = record.problem.source == NAME;
    let labels = solution.most_trusted().map_or(&[][..], |annotation| &annotation.labels);
    let neutral = labels.iter().flatten().any(|label| label.mark == Mark::Neutral);
    if neutral || own && solution.metadata.contains_key(RATED) {
        let ratings: Option<Vec<i64>> =
            labels.iter().map(|label| label.as_ref().map(|label| label.mark.rating())).collect();
        if ratings.is_none() {
            written.dropped.push("a step has no label");
        }
        return Some(row.with("rating", ratings?));
    }
    let first_error = known_first_error(solution, written)?;
    let correctness = if first_error.is_some() { "wrong" } else { "correct" };
    let row = row.with(FIRST_ERROR, first_error.map_or_else(|| "N/A".into(), |index| Value::from(index + 1)));
    Some(if own { row } else { row.with("model_output_solution_correctness", correctness) })
}
