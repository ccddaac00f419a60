//! PRM800K in its original form: for every step several completions with human ratings, one of them chosen.
//!
//! ```json
//! {"labeler": "…", "question": {"problem": "What is 2 + 3 * 4?", "ground_truth_answer": "14"},
//!  "label": {"steps": [{"completions": [{"text": "3 * 4 = 12", "rating": 1, "flagged": false}],
//!                       "human_completion": null, "chosen_completion": 0}],
//!            "total_time": 1200, "finish_reason": "solution"}}
//! ```
//!
//! The solution is the labelled path: each step's chosen completion, or the human one where the labeller wrote it.
//! Where neither exists (the last step of `found_error` and `give_up`) the path ends with the first completion: it is
//! the one that the model was going to use. A human-written step and a `null` rating have no label. What lies
//! beside the path — the other completions, flags, the human's rating — is kept as metadata of the solution.

use serde_json::{Value, json};

use super::fields::expected;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Metadata, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "prm800k";

/// Metadata key: one entry per upstream step, that step without the text and rating that went into the path.
const BESIDE: &str = "gradus:beside_path";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PRM800K as published: rated completions per step, the chosen path",
    recognizes: |record| has(record, &["question", "label"]) && record["label"].get("steps").is_some(),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let question = fields.value("question").unwrap_or_default();
    let mut question = Fields::nested(question, "question")?;
    let text = question.string("problem").map_err(|fault| fault.within("question"))?;
    let answer = question.opt_string("ground_truth_answer").map_err(|fault| fault.within("question"))?;
    let mut label = Fields::nested(fields.value("label").unwrap_or_default(), "label")?;
    let mut path = Path::default();
    for (index, step) in label.list("steps").map_err(|fault| fault.within("label"))?.into_iter().enumerate() {
        path.follow(step).map_err(|fault| fault.within(&format!("label.steps[{index}]")))?;
    }
    let mut metadata = fields.rest();
    metadata.insert("label".into(), label.rest().into());
    metadata.insert(BESIDE.into(), path.beside.into());
    let problem = Problem {
        id: id::problem(&text),
        text,
        answer,
        source: NAME.into(),
        metadata: question.rest(),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &path.steps),
        problem_id: problem.id.clone(),
        steps: path.steps,
        annotations: vec![Annotation::from_labels(path.labels)],
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

#[derive(Default)]
struct Path {
    steps: Vec<String>,
    labels: Vec<Option<StepLabel>>,
    beside: Vec<Value>,
}

impl Path {
    /// Takes the path's completion out of an upstream step and keeps the rest. The taken completion leaves a null.
    fn follow(&mut self, step: Value) -> Result<(), Fault> {
        let Value::Object(mut step) = step else { return Err(Fault::new("", expected("an object", &step))) };
        let completions = step.get("completions").and_then(Value::as_array).map_or(0, Vec::len);
        let chosen = match step.get("chosen_completion") {
            None | Some(Value::Null) => None,
            Some(value) => match value.as_u64() {
                Some(index) if (index as usize) < completions => Some(index as usize),
                _ => {
                    let message = expected(&format!("null or an index of {completions} completions"), value);
                    return Err(Fault::new("chosen_completion", message));
                }
            },
        };
        let human = chosen.is_none() && step.get("human_completion").is_some_and(|human| !human.is_null());
        let (field, taken) = if human {
            ("human_completion".to_owned(), step.get_mut("human_completion"))
        } else if completions > 0 {
            let index = chosen.unwrap_or(0);
            (format!("completions[{index}]"), step["completions"].get_mut(index))
        } else {
            (String::new(), None)
        };
        if let Some(taken) = taken {
            let mut completion = Fields::nested(taken.clone(), &field)?;
            self.steps.push(completion.string("text").map_err(|fault| fault.within(&field))?);
            let rating = completion.opt_int("rating").map_err(|fault| fault.within(&field))?;
            let mark = rating
                .map(|rating| {
                    Mark::from_rating(rating).ok_or_else(|| {
                        Fault::new(format!("{field}.rating"), format!("is {rating}: expected -1, 0 or 1"))
                    })
                })
                .transpose()?;
            self.labels.push(mark.map(|mark| StepLabel::hard(mark, LabelSource::Human)));
            *taken = completion.rest().into();
        }
        self.beside.push(step.into());
        Ok(())
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let own = record.problem.source == NAME;
    for solution in &record.solutions {
        let Some(annotation) = solution.annotations.first() else {
            written.dropped.push("no step labels");
            continue;
        };
        let mut path = solution
            .steps
            .iter()
            .zip(&annotation.labels)
            .map(|(text, label)| (text.as_str(), label.as_ref().map(|label| label.mark.rating())));
        let steps: Vec<Value> = match solution.metadata.get(BESIDE).and_then(Value::as_array) {
            Some(beside) if own => beside.iter().map(|step| restore(step, &mut path)).collect(),
            _ => path.map(plain_step).collect(),
        };
        let mut metadata = solution.metadata.clone();
        let mut label = match metadata.remove("label") {
            Some(Value::Object(label)) if own => label,
            _ => Metadata::from_iter([("finish_reason".to_owned(), "solution".into())]),
        };
        label.insert("steps".into(), steps.into());
        let question = Row::default()
            .with("problem", record.problem.text.as_str())
            .with_some("ground_truth_answer", record.problem.answer.as_deref())
            .with_metadata(&record.problem.metadata, &record.problem, NAME);
        let row = Row::default()
            .with("question", question.done())
            .with("label", label)
            .with_metadata(&metadata, &record.problem, NAME);
        written.rows.push(row.done());
    }
    written
}

fn plain_step((text, rating): (&str, Option<i64>)) -> Value {
    json!({
        "completions": [{"text": text, "rating": rating, "flagged": false}],
        "human_completion": null,
        "chosen_completion": 0,
    })
}

/// Puts the path's text and rating back where [`Path::follow`] took them from.
fn restore<'a>(beside: &Value, path: &mut impl Iterator<Item = (&'a str, Option<i64>)>) -> Value {
    let mut step = beside.clone();
    let chosen = step["chosen_completion"].as_u64();
    let completions = step["completions"].as_array().map_or(0, Vec::len);
    let slot = if chosen.is_none() && !step["human_completion"].is_null() {
        step.get_mut("human_completion")
    } else if completions > 0 {
        step["completions"].get_mut(chosen.unwrap_or(0) as usize)
    } else {
        None
    };
    if let Some(Value::Object(slot)) = slot
        && let Some((text, rating)) = path.next()
    {
        slot.insert("text".into(), text.into());
        if rating.is_some() {
            slot.insert("rating".into(), rating.into());
        }
    }
    step
}
