//! Critics' training sets as files: one example a line.

use std::path::Path;

use gradus_data::files;

use super::curate::{CRITIC_SCHEMA, CriticExample};
use crate::{Error, Result};

/// All examples of a file, in order.
pub(crate) fn read(path: &Path) -> Result<Vec<CriticExample>> {
    let mut examples = Vec::new();
    for row in files::rows(path)? {
        let (line, value) = row?;
        let at = |message: String| Error::Record { path: path.to_owned(), line, message };
        let example: CriticExample = serde_json::from_value(value).map_err(|error| {
            at(format!("not a critic's example ({error}): build the set with gradus train critic-data"))
        })?;
        if example.critic != CRITIC_SCHEMA {
            return Err(at(format!("its schema is {}; this version reads {CRITIC_SCHEMA}", example.critic)));
        }
        if example.truth.is_some_and(|first| first >= example.steps.len()) {
            return Err(at(format!("its first error is none of its {} steps", example.steps.len())));
        }
        examples.push(example);
    }
    Ok(examples)
}
