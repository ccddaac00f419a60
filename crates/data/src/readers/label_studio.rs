//! Label Studio: tasks with the annotations of several people, as `Export → JSON` has them (not `JSON-MIN`).
//!
//! ```json
//! {"id": 7, "data": {"problem": "What is 2 + 3 * 4?", "answer": "14",
//!                    "steps": [{"text": "3 * 4 = 12"}, {"text": "2 + 12 = 15"}]},
//!  "annotations": [{"id": 1001, "completed_by": {"id": 10, "email": "ann@example.org"}, "was_cancelled": false,
//!    "result": [{"id": "a", "from_name": "mark_1", "to_name": "step_1", "type": "choices",
//!                "value": {"choices": ["-"]}}]}],
//!  "predictions": [{"model_version": "some-model", "result": []}]}
//! ```
//!
//! The labeling configuration that goes with it; `Rating` (1 to 3 stars) may stand for the marks, or `ParagraphLabels`
//! over `<Paragraphs value="$steps"/>`:
//!
//! ```xml
//! <View><Text name="problem" value="$problem"/>
//!   <Repeater on="$steps" indexFlag="{{idx}}">
//!     <Text name="step_{{idx}}" value="$steps[{{idx}}].text"/>
//!     <Choices name="mark_{{idx}}" toName="step_{{idx}}"><Choice value="+"/><Choice value="0"/><Choice value="-"/></Choices>
//!     <Choices name="category_{{idx}}" toName="step_{{idx}}" choice="multiple"><Choice value="NUMERIC"/></Choices>
//!     <TextArea name="comment_{{idx}}" toName="step_{{idx}}"/>
//!   </Repeater></View>
//! ```
//!
//! Names of questions: `step_answers.rs`. A person is known by e-mail address, or else by number; without either, nobody is
//! stated. Cancelled annotations say nothing. Predictions are labels of their `model_version`.
//!
//! Shapes: labelstud.io/guide/task_format, labelstud.io/tags/{choices,rating,textarea,paragraphs}; what is written was validated
//! against this configuration by `LabelInterface` of label-studio-sdk 2.1.2.

use serde_json::{Value, json};

use super::fields::expected;
use super::step_answers::{StepAnswers, answers, model, person, steps_of};
use super::{Dataset, Fields, Parsed, Row, Written};
use gradus_core::{Annotation, Fault, LabelSource, Metadata, Problem, Record, Solution, id};

const NAME: &str = "label-studio";
const LISTS: [&str; 2] = ["annotations", "predictions"];

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "Label Studio: tasks with people's annotations of steps",
    recognizes: |record| {
        record.get("data").is_some_and(Value::is_object)
            && LISTS.iter().any(|list| record.get(*list).is_some_and(Value::is_array))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let mut data = Fields::nested(fields.value("data").unwrap_or_default(), "data")?;
    let within = |fault: Fault| fault.within("data");
    let text = data.string("problem").map_err(within)?;
    let answer = data.answer("answer").map_err(within)?;
    let source_id = data.id("id").map_err(within)?;
    let list = data.list("steps").map_err(within)?.into();
    let steps = steps_of(&list, "data.steps")?;
    if list != spelled(&steps) {
        data.keep("steps", list);
    }
    let annotations = annotations(fields.all(), steps.len())?;
    let mut metadata = fields.rest();
    metadata.insert("data".into(), data.rest().into());
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

/// Steps as we write them.
fn spelled(steps: &[String]) -> Value {
    steps.iter().map(|step| json!({"text": step})).collect()
}

/// What people and models say in a task.
fn annotations(task: &Metadata, steps: usize) -> Result<Vec<Annotation>, Fault> {
    let mut found = Vec::new();
    for list in LISTS {
        let items = match task.get(list) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(items)) => items,
            Some(other) => return Err(Fault::new(list, expected("a list", other))),
        };
        for (index, item) in items.iter().enumerate() {
            let source = if list == LISTS[0] { by_person(item) } else { by_model(item) };
            let said = answered(item, steps).map_err(|fault| fault.within(&format!("{list}[{index}]")))?;
            found.extend(said.annotation(&source));
        }
    }
    Ok(found)
}

fn by_person(annotation: &Value) -> LabelSource {
    let by = &annotation["completed_by"];
    let id = |value: &Value| value.as_i64().map(|id| id.to_string());
    let name = by["email"].as_str().map(str::to_owned).or_else(|| id(&by["id"])).or_else(|| id(by));
    name.filter(|name| !name.is_empty()).map_or(LabelSource::Unstated, |name| LabelSource::Person { name })
}

fn by_model(prediction: &Value) -> LabelSource {
    let model = prediction["model_version"].as_str().unwrap_or("unnamed").to_owned();
    LabelSource::Judge { model, agreeing: 1, votes: 1 }
}

fn answered(annotation: &Value, steps: usize) -> Result<StepAnswers, Fault> {
    let mut said = StepAnswers::new(steps, 0);
    if annotation["was_cancelled"] == Value::Bool(true) {
        return Ok(said);
    }
    for (index, result) in annotation["result"].as_array().into_iter().flatten().enumerate() {
        let within = |fault: Fault| fault.within(&format!("result[{index}]"));
        let kind = result["type"].as_str().unwrap_or_default();
        let value = result["value"].get(if kind == "textarea" { "text" } else { kind });
        let (Some(name), Some(value)) = (result["from_name"].as_str(), value) else { continue };
        if kind == "paragraphlabels" {
            for step in paragraphs(&result["value"]).map_err(within)? {
                let marked = said.mark(step, value);
                marked.map_err(|message| within(Fault::new("value", message)))?;
            }
        } else {
            said.take(name, value).map_err(within)?;
        }
    }
    Ok(said)
}

/// The paragraphs of a region: their indices are texts.
fn paragraphs(value: &Value) -> Result<std::ops::RangeInclusive<usize>, Fault> {
    let index = |key: &str| -> Result<usize, Fault> {
        let found = value[key].as_u64().or_else(|| value[key].as_str()?.parse().ok());
        let found = found.and_then(|index| usize::try_from(index).ok());
        found.ok_or_else(|| Fault::new(format!("value.{key}"), expected("the index of a step", &value[key])))
    };
    Ok(index("start")?..=index("end")?)
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
        let kept = solution.metadata.get("data").and_then(Value::as_object).filter(|_| own).unwrap_or(&none);
        let as_kept = |steps: &&Value| steps_of(steps, "").is_ok_and(|steps| steps == solution.steps);
        let steps = kept.get("steps").filter(as_kept).cloned().unwrap_or_else(|| spelled(&solution.steps));
        let data = Row::default()
            .with("problem", record.problem.text.as_str())
            .with_some("answer", record.problem.answer.as_deref())
            .with_solution_id("id", solution, &record.problem, NAME)
            .with_metadata_except(kept, &record.problem, NAME, &["steps"])
            .with("steps", steps);
        // What was read is written as it was; labels that changed since are written anew.
        let as_read = own
            && annotations(&solution.metadata, solution.steps.len())
                .is_ok_and(|read| read == solution.annotations);
        let except = if as_read { &["data"][..] } else { &["data", LISTS[0], LISTS[1]] };
        let row = Row::default().with("data", data.done());
        let row = row.with_metadata_except(&solution.metadata, &record.problem, NAME, except);
        written.rows.push(if as_read { row } else { with_labels(row, &solution.annotations) }.done());
    }
    written
}

fn with_labels(row: Row, annotations: &[Annotation]) -> Row {
    let (mut people, mut models) = (Vec::new(), Vec::new());
    for annotation in annotations {
        let answers = answers(annotation, 0);
        let result: Vec<Value> = answers.iter().map(|(name, value)| result(name, value)).collect();
        match person(annotation) {
            Some(Some(name)) => people.push(json!({"completed_by": completed_by(name), "result": result})),
            Some(None) => people.push(json!({"result": result})),
            None => models.push(json!({"model_version": model(annotation), "result": result})),
        }
    }
    row.with(LISTS[0], people).with(LISTS[1], models)
}

fn completed_by(name: &str) -> Value {
    name.parse::<i64>().map_or_else(|_| json!({"email": name}), Value::from)
}

/// An answer as a result. Which element it labels follows from the question's name.
fn result(name: &str, value: &Value) -> Value {
    let kind = if name.starts_with("comment_") { "textarea" } else { "choices" };
    let field = if kind == "textarea" { "text" } else { kind };
    let list = if value.is_array() { value.clone() } else { json!([value]) };
    let to = name.rsplit_once('_').filter(|(_, step)| step.parse::<usize>().is_ok());
    let to = to.map_or_else(|| "problem".to_owned(), |(_, step)| format!("step_{step}"));
    json!({"id": name, "from_name": name, "to_name": to, "type": kind, "value": {field: list}})
}
