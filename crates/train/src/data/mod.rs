//! From records to examples, for each objective. What cannot be used is counted by reason, never dropped in silence.

mod chat;
mod outcomes;
mod pairs;
mod steps;

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_core::contracts::ScoreRequest;
use gradus_core::{Record, Solution};
use gradus_data::files;
use gradus_data::readers::Format;
use gradus_engine::profile::Assembler;
use gradus_engine::text::Tokenizer;
use rayon::prelude::*;
use serde::Serialize;

pub(crate) use chat::question;
pub use chat::{Conversation, conversations, read_conversations};
pub use outcomes::last_steps;
pub use pairs::{Pair, pairs};
pub use steps::labelled_steps;

use crate::example::Example;
use crate::{Error, Result};

/// How many of what was left out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<&'static str, u64>);

impl LeftOut {
    /// Counts one.
    pub fn add(&mut self, reason: &'static str) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// Reasons and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Adds another's counts.
    pub fn join(&mut self, other: &Self) {
        for (reason, count) in other.iter() {
            *self.0.entry(reason).or_default() += count;
        }
    }
}

/// All records of some files; the first bad one is an error that says where.
pub fn records(paths: &[PathBuf], format: Option<Format>, limit: Option<usize>) -> Result<Vec<Record>> {
    let records = files::open(paths, format)?.take(limit.unwrap_or(usize::MAX));
    let records: Vec<Record> = records.map(|item| item.map(|item| item.record)).collect::<Result<_, _>>()?;
    if records.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::Data(format!("{} has no records", names.join(", "))));
    }
    Ok(records)
}

/// One example per solution for which `targets` gives steps to read and what should be there, or a reason to leave it
/// out. With `by_problem` those of one problem are joined, as many as `most_tokens` hold. All cores work on it.
fn each_solution(
    records: &[Record],
    assembler: &Assembler,
    tokenizer: &Tokenizer,
    most_tokens: usize,
    by_problem: bool,
    targets: impl Fn(&Solution) -> Result<Vec<(usize, f32)>, &'static str> + Sync,
) -> Result<(Vec<Example<f32>>, LeftOut)> {
    let of_record = |record: &Record| -> Result<(Vec<Example<f32>>, LeftOut)> {
        let (mut found, mut left_out) = (Vec::<Example<f32>>::new(), LeftOut::default());
        if record.solutions.is_empty() {
            left_out.add("problem without a solution");
        }
        for solution in &record.solutions {
            if solution.steps.iter().any(|step| step.trim().is_empty()) {
                left_out.add("solution with an empty step");
                continue;
            }
            let targets = match targets(solution) {
                Ok(targets) => targets,
                Err(reason) => {
                    left_out.add(reason);
                    continue;
                }
            };
            let request = ScoreRequest::of(&record.problem, solution);
            let assembled = assembler.assemble(&request, tokenizer, usize::MAX)?;
            let example = steps::example(&solution.id, &assembled, &targets);
            let tokens = example.forest.tokens();
            if tokens > most_tokens {
                left_out.add("longer than data.max_tokens");
                continue;
            }
            match found.last_mut() {
                Some(last) if by_problem && last.forest.tokens() + tokens <= most_tokens => {
                    last.join(&example);
                }
                _ => found.push(example),
            }
        }
        Ok((found, left_out))
    };
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for part in records.par_iter().map(of_record).collect::<Result<Vec<_>>>()? {
        found.extend(part.0);
        left_out.join(&part.1);
    }
    Ok((found, left_out))
}
