//! PRM800K in its original form: for every step several completions with human ratings, one of them chosen.
//!
//! ```json
//! {"labeler": "…", "question": {"problem": "What is 2 + 3 * 4?", "ground_truth_answer": "14"},
//!  "label": {"steps": [{"completions": [{"text": "3 * 4 = 12", "rating": 1, "flagged": false}],
//!                       "human_completion": null, "chosen_completion": 0}],
//!            "total_time": 1200, "finish_reason": "solution"}}
//! ```
//!
//! The first solution is the labelled path: each step's chosen completion, or the human one where the labeller wrote it.
//! Where neither exists (the last step of `found_error` and `give_up`) the path ends with the first completion: it is
//! the one that the model was going to use. Every other rated completion is a solution of its own: the path up to its step,
//! with its ratings, then the completion. A `null` rating is no label, but for a step that the labeller wrote: it is right.
//! What lies beside the path — the other completions, flags — is kept as metadata of the path's solution.

use serde_json::{Value, json};

use super::fields::expected;
use super::prm800k_ratings::read_rating;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Metadata, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "prm800k";

/// Metadata key: one entry per upstream step, that step without the text and rating that went into the path.
const BESIDE: &str = "gradus:beside_path";

/// Key beside the path: what the labeller wrote has a rating.
const RATED: &str = "gradus:rated";

/// Metadata key of a completion beside the path: its step and its place among the completions, both 0-based.
const ALTERNATIVE: &str = "gradus:alternative";

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
    let path_id = id::solution(&problem.id, None, &path.steps);
    let alternatives = path.alternatives.into_iter().map(|alternative| {
        let Alternative { step, completion, steps, labels } = alternative;
        Solution {
            id: format!("{path_id}/{step}.{completion}"),
            problem_id: problem.id.clone(),
            steps,
            annotations: vec![Annotation::from_labels(labels)],
            metadata: Metadata::from_iter([(ALTERNATIVE.to_owned(), json!([step, completion]))]),
            ..Solution::default()
        }
    });
    let chosen = Solution {
        id: path_id.clone(),
        problem_id: problem.id.clone(),
        steps: path.steps,
        annotations: vec![Annotation::from_labels(path.labels)],
        metadata,
        ..Solution::default()
    };
    let solutions = std::iter::once(chosen).chain(alternatives).collect();
    Ok(Record::new(problem, solutions).into())
}

#[derive(Default)]
struct Path {
    steps: Vec<String>,
    labels: Vec<Option<StepLabel>>,
    beside: Vec<Value>,
    alternatives: Vec<Alternative>,
}

/// A rated completion that is not on the path, after the steps of the path before it.
struct Alternative {
    step: usize,
    completion: usize,
    steps: Vec<String>,
    labels: Vec<Option<StepLabel>>,
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
        let on_path = (!human && completions > 0).then(|| chosen.unwrap_or(0));
        self.branch(&step, on_path)?;
        let (field, taken) = match on_path {
            Some(index) => (format!("completions[{index}]"), step["completions"].get_mut(index)),
            None if human => ("human_completion".to_owned(), step.get_mut("human_completion")),
            None => (String::new(), None),
        };
        if let Some(taken) = taken {
            let mut completion = Fields::nested(taken.clone(), &field)?;
            self.steps.push(completion.string("text").map_err(|fault| fault.within(&field))?);
            let rating = completion.value("rating").unwrap_or_default();
            let rated = read_rating(&rating, &format!("{field}.rating"))?;
            if human && rated.is_some() {
                completion.keep(RATED, true);
            }
            let written = || human.then(|| StepLabel::hard(Mark::Correct, LabelSource::Human));
            self.labels.push(rated.or_else(written));
            *taken = completion.rest().into();
        }
        self.beside.push(step.into());
        Ok(())
    }

    /// Keeps the rated completions of a step other than that on the path.
    fn branch(&mut self, step: &Metadata, on_path: Option<usize>) -> Result<(), Fault> {
        let completions = step.get("completions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, completion) in completions.iter().enumerate() {
            let field = format!("completions[{index}]");
            let rating = completion.get("rating").unwrap_or(&Value::Null);
            let rating = read_rating(rating, &format!("{field}.rating"))?;
            let (Some(rating), Some(text)) = (rating, completion.get("text").and_then(Value::as_str)) else {
                continue;
            };
            if on_path != Some(index) {
                self.alternatives.push(Alternative {
                    step: self.beside.len(),
                    completion: index,
                    steps: self.steps.iter().cloned().chain([text.to_owned()]).collect(),
                    labels: self.labels.iter().cloned().chain([Some(rating)]).collect(),
                });
            }
        }
        Ok(())
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let own = record.problem.source == NAME;
    let has_path = own && record.solutions.iter().any(|solution| solution.metadata.contains_key(BESIDE));
    for solution in &record.solutions {
        if has_path && solution.metadata.contains_key(ALTERNATIVE) {
            // It is among what lies beside the path.
            continue;
        }
        let Some(annotation) = solution.most_trusted() else {
            written.dropped.push("no step labels");
            continue;
        };
        let mut path = solution
            .steps
            .iter()
            .zip(&annotation.labels)
            .map(|(text, label)| (text.as_str(), label.as_ref().map(|label| label.mark.rating())));
        let mut steps: Vec<Value> = match solution.metadata.get(BESIDE).and_then(Value::as_array) {
            Some(beside) if own => beside.iter().map(|step| restore(step, &mut path)).collect(),
            _ => path.map(plain_step).collect(),
        };
        if has_path {
            record.solutions.iter().for_each(|solution| restore_alternative(solution, &mut steps));
        }
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
    let is_human = chosen.is_none() && !step["human_completion"].is_null();
    let slot = if is_human {
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
        // What the labeller wrote is right without a rating.
        let implied = is_human && rating == Some(Mark::Correct.rating()) && !slot.contains_key(RATED);
        slot.shift_remove(RATED);
        if rating.is_some() && !implied {
            slot.insert("rating".into(), rating.into());
        }
    }
    step
}

/// Puts the rating of a completion beside the path back where it was.
fn restore_alternative(solution: &Solution, steps: &mut [Value]) {
    let place = |index: usize| solution.metadata.get(ALTERNATIVE)?.get(index)?.as_u64();
    let (Some(step), Some(completion)) = (place(0), place(1)) else { return };
    let label = solution.most_trusted().and_then(|annotation| annotation.labels.last()?.as_ref());
    let slot = steps.get_mut(step as usize).and_then(|step| step["completions"].get_mut(completion as usize));
    if let (Some(Value::Object(slot)), Some(label)) = (slot, label) {
        slot.insert("rating".into(), label.mark.rating().into());
    }
}
