//! Whole solutions with their outcome, for outcome reward models: read where the last step's verdict is.

use gradus_core::Record;
use gradus_engine::profile::Assembler;
use gradus_engine::text::Tokenizer;

use super::{LeftOut, each_solution};
use crate::Result;
use crate::example::Example;

/// One example per solution whose outcome is known, with 1 for a right one and 0 for a wrong one.
pub fn last_steps(
    records: &[Record],
    assembler: &Assembler,
    tokenizer: &Tokenizer,
    most_tokens: usize,
) -> Result<(Vec<Example<f32>>, LeftOut)> {
    each_solution(records, assembler, tokenizer, most_tokens, false, |solution| {
        let correct = solution.outcome.is_correct().ok_or("solution of unknown outcome")?;
        let last = solution.steps.len().checked_sub(1).ok_or("solution without steps")?;
        Ok(vec![(last, if correct { 1.0 } else { 0.0 })])
    })
}
