//! Whole solutions with their outcome, for outcome reward models: read where the last step's verdict is.

use gradus_core::data::Record;
use gradus_engine::profile::Assembler;
use gradus_engine::text::Tokenizer;

use super::LeftOut;
use super::steps::{example, request};
use crate::Result;
use crate::example::Example;

/// One example per solution whose outcome is known, with 1 for a right one and 0 for a wrong one.
pub fn last_steps(
    records: &[Record],
    assembler: &Assembler,
    tokenizer: &Tokenizer,
    most_tokens: usize,
) -> Result<(Vec<Example<f32>>, LeftOut)> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for record in records {
        if record.solutions.is_empty() {
            left_out.add("problem without a solution");
        }
        for solution in &record.solutions {
            let Some(correct) = solution.outcome.is_correct() else {
                left_out.add("solution of unknown outcome");
                continue;
            };
            if solution.steps.is_empty() {
                left_out.add("solution without steps");
                continue;
            }
            let assembled = assembler.assemble(&request(record, solution), tokenizer, usize::MAX)?;
            let target = if correct { 1.0 } else { 0.0 };
            let example = example(&solution.id, &assembled, &[(solution.steps.len() - 1, target)]);
            if example.forest.tokens() > most_tokens {
                left_out.add("longer than data.max_tokens");
                continue;
            }
            found.push(example);
        }
    }
    Ok((found, left_out))
}
