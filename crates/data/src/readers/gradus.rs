//! Our own format; see [`gradus_core::Record`].

use serde::Deserialize;
use serde_json::Value;

use super::{Dataset, Fields, Parsed, Written, has};
use gradus_core::{Fault, Record};

pub(super) const DATASET: Dataset = Dataset {
    name: "gradus",
    about: "Gradus: a problem, its solutions, labels with their source",
    recognizes: |record| has(record, &["gradus", "problem"]),
    read,
    write,
};

fn read(fields: Fields) -> Result<Parsed, Fault> {
    let mut track = serde_path_to_error::Track::new();
    let value = Value::Object(fields.rest());
    Record::deserialize(serde_path_to_error::Deserializer::new(value, &mut track)).map(Parsed::from).map_err(
        |error| {
            let message = error.to_string().replace("expected u32", "expected a whole number");
            Fault::new(track.path().to_string().trim_matches('.'), message)
        },
    )
}

fn write(record: &Record) -> Written {
    let row = serde_json::to_value(record).expect("a record has string keys and finite numbers");
    Written { rows: vec![row], ..Written::default() }
}
