//! Exact match: the share of problems that the model answers rightly, greedily. SFT and ORPO evaluate it.

use gradus_core::Record;
use gradus_core::contracts::{GenerateRequest, Prompt, Sampling};
use gradus_grade::{Verdict, grade};

use crate::Result;
use crate::data::{DataConfig, question};
use crate::trainable::TrainableModel;

/// Sequences that are generated at once.
const WIDTH: usize = 64;

/// Problems with a known answer each.
pub(super) struct ExactMatch {
    problems: Vec<Record>,
    max_tokens: usize,
}

impl ExactMatch {
    /// The first `count` problems of the evaluation set that have an answer; none if none are wanted.
    pub(super) fn new(data: &DataConfig, count: usize, max_tokens: usize) -> Result<Option<Self>> {
        let Some(set) = data.evaluation_set().filter(|_| count > 0) else { return Ok(None) };
        let mut problems = set.records()?;
        problems.retain(|record| record.problem.answer.is_some());
        problems.truncate(count);
        Ok(Some(Self { problems, max_tokens }))
    }

    /// The share of right answers; an answer that cannot be graded is wrong.
    pub(super) fn evaluate(&self, trainable: &TrainableModel) -> Result<f64> {
        let requests = self.problems.iter().map(|record| GenerateRequest {
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            ..GenerateRequest::new(Prompt::Chat(question(record)), self.max_tokens)
        });
        let generated = trainable.model.generate_all(requests.collect(), WIDTH)?;
        let right = self.problems.iter().zip(&generated).filter(|(record, generated)| {
            let gold = record.problem.answer.as_deref().unwrap_or_default();
            grade(gold, &generated.choices[0].text).verdict == Verdict::Equal
        });
        Ok(right.count() as f64 / self.problems.len().max(1) as f64)
    }
}
