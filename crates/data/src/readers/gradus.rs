//! Our own format; see [`gradus_core::Record`].
//!
//! In Parquet, where a column has one type, what may have several is JSON text: the metadata of problems and solutions, and
//! of a solution its annotations, scores and references. A null stands for a field that is not there.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Dataset, Fields, Parsed, Written, has};
use gradus_core::{Fault, Metadata, Record};

pub(super) const DATASET: Dataset = Dataset {
    name: "gradus",
    about: "Gradus: a problem, its solutions, labels with their source",
    recognizes: |record| has(record, &["gradus", "problem"]),
    read,
    write,
};

/// Fields that are JSON text in Parquet.
const AS_TEXT: [&str; 4] = ["metadata", "annotations", "scores", "references"];

fn read(fields: Fields) -> Result<Parsed, Fault> {
    let mut row = fields.rest();
    for (path, object) in objects(&mut row) {
        object.retain(|_, value| !value.is_null());
        for field in AS_TEXT {
            if let Some(Value::String(text)) = object.get(field) {
                let value = gradus_core::json::from_slice(text.as_bytes()).map_err(|error| {
                    Fault::new(format!("{path}.{field}"), format!("expected JSON as text: {error}"))
                })?;
                object.insert(field.to_owned(), value);
            }
        }
    }
    row.retain(|_, value| !value.is_null());
    let mut track = serde_path_to_error::Track::new();
    let value = Value::Object(row);
    Record::deserialize(serde_path_to_error::Deserializer::new(value, &mut track)).map(Parsed::from).map_err(
        |error| {
            let message = error.to_string().replace("expected u32", "expected a whole number");
            Fault::new(track.path().to_string().trim_matches('.'), message)
        },
    )
}

/// The problem and the solutions of a row, with their names in faults.
fn objects(row: &mut Metadata) -> Vec<(String, &mut Metadata)> {
    let mut found = Vec::new();
    for (name, value) in row.iter_mut() {
        match value {
            Value::Object(problem) if name == "problem" => found.push((name.clone(), problem)),
            Value::Array(solutions) if name == "solutions" => {
                let objects = solutions.iter_mut().enumerate();
                let objects = objects.filter_map(|(index, item)| Some((index, item.as_object_mut()?)));
                found.extend(objects.map(|(index, solution)| (format!("solutions[{index}]"), solution)));
            }
            _ => {}
        }
    }
    found
}

/// Turns a record of ours, as it is in JSON, into a row of columns; false for a row of another format.
pub(crate) fn own_columns(row: &mut Value) -> bool {
    let Value::Object(row) = row else { return false };
    if !has(row, &["gradus", "problem"]) {
        return false;
    }
    for (_, object) in objects(row) {
        for field in AS_TEXT {
            if let Some(value) = object.get_mut(field).filter(|value| !value.is_string()) {
                *value = value.to_string().into();
            }
        }
    }
    true
}

/// A row with every column of ours.
pub(crate) fn own_example() -> Value {
    let text = "";
    json!({
        "gradus": 1,
        "problem": {"id": text, "text": text, "context": [text], "reference": [text], "answer": text,
            "aliases": [text], "domain": text, "source": text, "metadata": text},
        "solutions": [{"id": text, "problem_id": text, "generator": text, "steps": [text], "text": text,
            "answer": text, "outcome": text, "annotations": text, "scores": text, "references": text,
            "metadata": text}],
    })
}

fn write(record: &Record) -> Written {
    let row = serde_json::to_value(record).expect("a record has string keys and finite numbers");
    Written { rows: vec![row], ..Written::default() }
}
