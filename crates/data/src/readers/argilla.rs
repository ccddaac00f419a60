//! Argilla: records with the responses of several people and the suggestions of models, as `dataset.records.to_json` and
//! `to_list` of its SDK write them (not flattened).
//!
//! ```json
//! {"id": "r1", "fields": {"problem": "What is 2 + 3 * 4?", "step_1": "3 * 4 = 12", "step_2": "2 + 12 = 15"},
//!  "metadata": {}, "vectors": {}, "_server_id": null,
//!  "responses": {"mark_1": [{"value": "+", "user_id": "ann"}], "mark_2": [{"value": "-", "user_id": "ann"}]},
//!  "suggestions": {"mark_2": {"value": "-", "score": 0.9, "agent": "some-model"}}}
//! ```
//!
//! Steps are the text fields `step_N` in the order of their numbers, or one field `steps`: a list of texts, or a chat.
//! Questions are those of `step_answers.rs`: label, multi-label, rating or text questions, whose numbers are those of the
//! fields (0, 1, … for `steps`). A person is known by `user_id`. Suggestions are labels of their `agent`.
//!
//! Shapes: argilla-io/argilla, argilla/src/argilla/records/_resource.py (`Record.to_dict`); compared with what its SDK 2.8.0
//! writes.

use serde_json::{Value, json};

use super::step_answers::{StepAnswers, answers, model, person, steps_of};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Metadata, Problem, Record, Solution, id};

const NAME: &str = "argilla";
const RESPONSES: &str = "responses";
const SUGGESTIONS: &str = "suggestions";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "Argilla: records with people's responses about steps",
    recognizes: |record| has(record, &["fields", RESPONSES, SUGGESTIONS]) && record["fields"].is_object(),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let mut shown = Fields::nested(fields.value("fields").unwrap_or_default(), "fields")?;
    let text = shown.string("problem").map_err(|fault| fault.within("fields"))?;
    let answer = shown.answer("answer").map_err(|fault| fault.within("fields"))?;
    let (steps, first) = steps(shown.all())?;
    let source_id = fields.id("id")?;
    let annotations = annotations(fields.all(), steps.len(), first)?;
    let mut metadata = fields.rest();
    metadata.insert("fields".into(), shown.rest().into());
    let problem = Problem { id: id::problem(&text), text, answer, source: NAME.into(), ..Problem::default() };
    let solution = Solution {
        id: source_id.unwrap_or_else(|| id::solution(&problem.id, None, &steps)),
        problem_id: problem.id.clone(),
        steps,
        annotations,
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// The steps among a record's fields, and the number of the first.
fn steps(fields: &Metadata) -> Result<(Vec<String>, usize), Fault> {
    if let Some(list) = fields.get("steps").filter(|list| !list.is_null()) {
        return Ok((steps_of(list, "fields.steps")?, 0));
    }
    let number = |key: &str| key.strip_prefix("step_")?.parse::<usize>().ok();
    let mut numbered: Vec<(usize, &Value)> =
        fields.iter().filter_map(|(key, value)| Some((number(key)?, value))).collect();
    numbered.sort_by_key(|(number, _)| *number);
    let first = numbered.first().map_or(0, |(number, _)| *number);
    for (index, (number, _)) in numbered.iter().enumerate() {
        if *number != first + index {
            let message = format!("is missing: the steps are numbered {first} to {number}");
            return Err(Fault::new(format!("fields.step_{}", first + index), message));
        }
    }
    if numbered.is_empty() {
        return Err(Fault::new(
            "fields.steps",
            "is missing: expected a list of steps, or fields step_1, step_2, …",
        ));
    }
    let list: Value = numbered.into_iter().map(|(_, value)| value.clone()).collect();
    Ok((steps_of(&list, "fields.step")?, first))
}

/// What people and models say of a record's steps: people in the order in which they first answer.
fn annotations(record: &Metadata, steps: usize, first: usize) -> Result<Vec<Annotation>, Fault> {
    let mut said: Vec<(LabelSource, StepAnswers)> = Vec::new();
    let mut take = |source: LabelSource, question: &str, value: &Value, path: String| {
        let at = said.iter().position(|(other, _)| *other == source).unwrap_or_else(|| {
            said.push((source, StepAnswers::new(steps, first)));
            said.len() - 1
        });
        said[at].1.take(question, value).map_err(|fault| fault.within(&path))
    };
    for (question, responses) in record.get(RESPONSES).and_then(Value::as_object).into_iter().flatten() {
        for (index, response) in responses.as_array().into_iter().flatten().enumerate() {
            let user = response["user_id"].as_str().filter(|user| !user.is_empty() && *user != "None");
            let source =
                user.map_or(LabelSource::Unstated, |name| LabelSource::Person { name: name.to_owned() });
            if !response["value"].is_null() {
                take(source, question, &response["value"], format!("{RESPONSES}[{index}]"))?;
            }
        }
    }
    for (question, suggestion) in record.get(SUGGESTIONS).and_then(Value::as_object).into_iter().flatten() {
        let model = suggestion["agent"].as_str().unwrap_or("unnamed").to_owned();
        let source = LabelSource::Judge { model, agreeing: 1, votes: 1 };
        if !suggestion["value"].is_null() {
            take(source, question, &suggestion["value"], SUGGESTIONS.to_owned())?;
        }
    }
    Ok(said.into_iter().filter_map(|(source, answers)| answers.annotation(&source)).collect())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let own = record.problem.source == NAME;
    for solution in &record.solutions {
        if solution.steps.is_empty() {
            written.dropped.push("no steps");
            continue;
        }
        let none = Metadata::new();
        let kept =
            solution.metadata.get("fields").and_then(Value::as_object).filter(|_| own).unwrap_or(&none);
        let kept_steps = steps(kept).ok().filter(|(steps, _)| *steps == solution.steps);
        let first = kept_steps.as_ref().map_or(0, |(_, first)| *first);
        let mut fields = Row::default()
            .with("problem", record.problem.text.as_str())
            .with_some("answer", record.problem.answer.as_deref());
        if kept_steps.is_some() {
            fields = fields.with_metadata(kept, &record.problem, NAME);
        } else {
            for (index, step) in solution.steps.iter().enumerate() {
                fields = fields.with(&format!("step_{index}"), step.as_str());
            }
        }
        // What was read is written as it was; labels that changed since are written anew.
        let as_read = kept_steps.is_some()
            && annotations(&solution.metadata, solution.steps.len(), first)
                .is_ok_and(|read| read == solution.annotations);
        let except = if as_read { &["fields"][..] } else { &["fields", RESPONSES, SUGGESTIONS] };
        let row = Row::default()
            .with_solution_id("id", solution, &record.problem, NAME)
            .with("fields", fields.done())
            .with_metadata_except(&solution.metadata, &record.problem, NAME, except);
        let row = if as_read { row } else { with_labels(row, &solution.annotations, first, &mut written) };
        written.rows.push(row.done());
    }
    written
}

fn with_labels(row: Row, annotations: &[Annotation], first: usize, written: &mut Written) -> Row {
    let (mut responses, mut suggestions) = (Metadata::new(), Metadata::new());
    let mut suggesting = None;
    for annotation in annotations {
        let said = answers(annotation, first);
        match person(annotation) {
            Some(name) => {
                for (question, value) in said {
                    let list = responses.entry(question).or_insert_with(|| json!([]));
                    let list = list.as_array_mut().expect("put there as a list");
                    list.push(json!({"value": value, "user_id": name}));
                }
            }
            None if suggesting.as_ref().is_none_or(|agent| *agent == model(annotation)) => {
                let agent = suggesting.insert(model(annotation));
                for (question, value) in said {
                    suggestions.insert(question, json!({"value": value, "score": null, "agent": agent}));
                }
            }
            None => written.dropped.push("labels of a second model: a question has one suggestion"),
        }
    }
    row.with(RESPONSES, responses).with(SUGGESTIONS, suggestions)
}
