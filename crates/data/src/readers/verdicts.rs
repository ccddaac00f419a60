//! Lists of step labels as the training formats spell them: true or false, 1 or 0, `+` or `-`, or a soft number.

use serde_json::Value;

use super::fields::expected;
use gradus_core::{Fault, LabelSource, Mark, Metadata, StepLabel};

/// How a format spells a hard label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spelling {
    /// `true` or `false`.
    Bool,
    /// `"+"` or `"-"`.
    Sign,
}

/// The labels of a list. The whole numbers 0 and 1 are hard labels, other numbers soft ones.
pub(crate) fn read(list: &[Value], field: &str) -> Result<Vec<Option<StepLabel>>, Fault> {
    list.iter()
        .enumerate()
        .map(|(index, value)| match read_one(value) {
            Some(label) => Ok(Some(label)),
            None => {
                let message = expected("true, false, \"+\", \"-\" or a number from 0 to 1", value);
                Err(Fault::new(format!("{field}[{index}]"), message))
            }
        })
        .collect()
}

/// The label that a value is.
pub(crate) fn read_one(value: &Value) -> Option<StepLabel> {
    let hard = |correct| StepLabel::hard(Mark::from_correct(correct), LabelSource::Unstated);
    match value {
        Value::Bool(correct) => Some(hard(*correct)),
        Value::String(sign) if sign == "+" => Some(hard(true)),
        Value::String(sign) if sign == "-" => Some(hard(false)),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole @ (0 | 1)), _) => Some(hard(whole == 1)),
            (_, Some(value)) if (0.0..=1.0).contains(&value) => {
                Some(StepLabel::soft(value, LabelSource::Unstated))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Keeps the source's own list in the metadata when [`write()`] would spell it otherwise.
pub(crate) fn keep(
    metadata: &mut Metadata,
    field: &str,
    list: Vec<Value>,
    labels: &[Option<StepLabel>],
    spelling: Spelling,
) {
    let usual = labels.iter().flatten().map(|label| spell(label, spelling));
    if !usual.eq(list.iter().cloned()) {
        metadata.insert(field.to_owned(), list.into());
    }
}

/// The list for `labels`; a label that still says what `kept` says at its place is spelled as there.
pub(crate) fn write(labels: &[&StepLabel], spelling: Spelling, kept: Option<&Value>) -> Vec<Value> {
    labels
        .iter()
        .enumerate()
        .map(|(index, label)| {
            kept.and_then(|kept| kept.get(index))
                .filter(|&kept| {
                    read_one(kept).is_some_and(|kept| kept.mark == label.mark && kept.value == label.value)
                })
                .cloned()
                .unwrap_or_else(|| spell(label, spelling))
        })
        .collect()
}

/// A label as a format spells it.
pub(crate) fn spell(label: &StepLabel, spelling: Spelling) -> Value {
    let correct = label.mark != Mark::Incorrect;
    match (label.value, spelling) {
        (Some(value), _) => value.into(),
        (None, Spelling::Bool) => correct.into(),
        (None, Spelling::Sign) => sign(label).into(),
    }
}

/// `+` or `-`.
pub(crate) fn sign(label: &StepLabel) -> &'static str {
    if label.mark == Mark::Incorrect { "-" } else { "+" }
}
