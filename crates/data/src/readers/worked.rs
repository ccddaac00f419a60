//! Worked solutions: a text of a source that becomes reference steps.
//!
//! A source's text that its steps do not give back stays in the metadata, for the writer.

use super::Fields;
use gradus_core::{Fault, without_calculator};

/// The lines that are not blank, without GSM8K's calculator marks (`<<3*4=12>>`), which are not for readers.
pub(super) fn lines(text: &str) -> Vec<String> {
    text.split('\n').filter(|line| !line.trim().is_empty()).map(without_calculator).collect()
}

/// The paragraphs of a text: what lies between blank lines.
pub(super) fn paragraphs(text: &str) -> Vec<String> {
    text.split("\n\n")
        .map(|part| part.trim_matches('\n'))
        .filter(|part| !part.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

/// Paragraphs as a text again; none where there are none.
pub(super) fn joined(paragraphs: &[String]) -> Option<String> {
    (!paragraphs.is_empty()).then(|| paragraphs.join("\n\n"))
}

/// Puts the source's `text` back under `key` where `written`, which the writer would put there, is another.
pub(super) fn keep_unless(fields: &mut Fields, key: &str, text: String, written: Option<&str>) {
    if written != Some(text.as_str()) {
        fields.keep(key, text);
    }
}

/// Takes the text under `key` as reference steps, one for each line.
pub(super) fn take_lines(fields: &mut Fields, key: &str) -> Result<Vec<String>, Fault> {
    let Some(text) = fields.opt_string(key)? else { return Ok(Vec::new()) };
    let steps = lines(&text);
    let written = (!steps.is_empty()).then(|| steps.join("\n"));
    keep_unless(fields, key, text, written.as_deref());
    Ok(steps)
}
