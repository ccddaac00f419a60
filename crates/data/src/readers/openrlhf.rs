//! OpenRLHF's process-reward data: the text of Math-Shepherd, with the labels in a list.
//!
//! ```json
//! {"input": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12 ки\nStep 2: 2 + 12 = 15 ки", "value": ["+", "-"]}
//! ```
//!
//! The list is called `value` or `label` and has one `+` or `-`, boolean, or number from 0 to 1 for each tag `ки`.
//! How the text is cut: `tagged.rs`. It is written as `value`, unless it was read as `label`.

use serde_json::Value;

use super::tagged::{self, TAG};
use super::verdicts::{self, Spelling};
use super::{Dataset, Fields, Parsed, Row, Written};
use gradus_core::count::counted;
use gradus_core::{Fault, Record};

const NAME: &str = "openrlhf";

/// Metadata key: the list was called `label`.
const LABELS_IN: &str = "gradus:labels_in";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "OpenRLHF: text with the tag ки, and a list of labels",
    recognizes: |record| {
        record.get("input").and_then(Value::as_str).is_some_and(|text| text.contains(TAG))
            && ["value", "label"].iter().any(|key| record.get(*key).is_some_and(Value::is_array))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let (_, text) = tagged::take_input(&mut fields)?;
    let key =
        if fields.peek("value").is_none() && fields.peek("label").is_some() { "label" } else { "value" };
    let list = fields.list(key)?;
    let labels = verdicts::read(&list, key)?;
    if labels.len() != text.steps.len() {
        let message = format!(
            "{} for {} in `input`",
            counted(labels.len(), "label"),
            counted(text.steps.len(), "step tag")
        );
        return Err(Fault::new(key, message));
    }
    let mut metadata = fields.rest();
    if key == "label" {
        metadata.insert(LABELS_IN.into(), key.into());
    }
    verdicts::keep(&mut metadata, key, list, &labels, Spelling::Sign);
    Ok(tagged::record(text, labels, metadata, NAME).into())
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    tagged::write(record, NAME, |solution, labelled, own| {
        let key = if own && solution.metadata.contains_key(LABELS_IN) { "label" } else { "value" };
        let kept = solution.metadata.get(key).filter(|_| own);
        let tags = labelled.labels.iter().map(|_| TAG);
        Row::default()
            .with("input", tagged::join(problem, solution, own, labelled.steps, tags))
            .with_metadata(&solution.metadata, problem, NAME)
            .with(key, verdicts::write(&labelled.labels, Spelling::Sign, kept))
            .done()
    })
}
