//! Exact match: the share of problems that the model answers rightly, greedily. SFT and ORPO evaluate it.

use gradus_core::Problem;
use gradus_core::contracts::{GenerateRequest, Sampling};
use gradus_grade::{Verdict, grade};

use crate::Result;
use crate::data::{Conversation, DataConfig, SolvePrompt};
use crate::trainable::TrainableModel;

/// Sequences that are generated at once.
const WIDTH: usize = 64;

/// Problems with a known answer each.
pub(super) struct ExactMatch {
    problems: Vec<Problem>,
    /// The question of each.
    asked: Vec<Conversation>,
    max_tokens: usize,
}

impl ExactMatch {
    /// The first `count` problems of the evaluation set that have an answer; none if none are wanted.
    pub(super) fn new(
        data: &DataConfig,
        count: usize,
        max_tokens: usize,
        prompt: &SolvePrompt,
    ) -> Result<Option<Self>> {
        let Some(set) = data.evaluation_set().filter(|_| count > 0) else { return Ok(None) };
        let (records, _) = set.records()?;
        let mut problems: Vec<Problem> = records.into_iter().map(|record| record.problem).collect();
        problems.retain(|problem| problem.answer.is_some());
        problems.truncate(count);
        let ask = |problem: &Problem| Conversation::about(problem, &problem.id, String::new(), prompt);
        let asked = problems.iter().map(ask).collect();
        Ok(Some(Self { problems, asked, max_tokens }))
    }

    /// The share of right answers; an answer that cannot be graded is wrong.
    pub(super) fn evaluate(&self, trainable: &TrainableModel) -> Result<f64> {
        let tokenizer = trainable.model.tokenizer();
        let requests = self.asked.iter().map(|asked| GenerateRequest {
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            ..GenerateRequest::new(asked.prompt(tokenizer), self.max_tokens)
        });
        let generated = trainable.model.generate_all(requests.collect(), WIDTH)?;
        let right = self.problems.iter().zip(&generated).filter(|(problem, generated)| {
            let gold = problem.answer.as_deref().unwrap_or_default();
            grade(gold, &generated.choices[0].text).verdict == Verdict::Equal
        });
        Ok(right.count() as f64 / self.problems.len().max(1) as f64)
    }
}
