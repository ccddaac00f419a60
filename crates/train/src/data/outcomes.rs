//! Outcomes of whole solutions, for outcome reward models: read where the last step's verdict is.

use gradus_core::Record;

use super::left_out::Examples;
use super::solutions::{SolutionPrompts, examples};
use crate::Result;
use crate::example::Example;

const WITHOUT_STEPS: &str = "solution without steps (`gradus data convert --steps auto` splits texts)";

/// One example per solution whose outcome is known, with target 1 for a right one and 0 for a wrong one.
pub(crate) fn last_steps(
    records: &[Record],
    prompts: &SolutionPrompts<'_>,
) -> Result<Examples<Example<f32>>> {
    examples(records, prompts, |solution| {
        let correct = solution.outcome.is_correct().ok_or("solution of unknown outcome")?;
        let last = solution.steps.len().checked_sub(1).ok_or(WITHOUT_STEPS)?;
        Ok(vec![(last, if correct { 1.0 } else { 0.0 })])
    })
}
