//! How many problems a model answers rightly, greedily: what supervised and preference training are for.

use gradus_core::Record;
use gradus_core::contracts::{GenerateRequest, Prompt, Sampling};
use gradus_grade::{Verdict, grade};

use crate::Result;
use crate::data::{question, records};
use crate::session::Session;

/// Sequences that are generated at once.
const WIDTH: usize = 64;

/// Problems to answer, with a known answer each.
pub(super) struct Quiz {
    problems: Vec<Record>,
    tokens: usize,
}

impl Quiz {
    /// The first `count` problems of the evaluation data that have an answer; none if none are wanted.
    pub(super) fn new(session: &Session<'_>, count: usize, tokens: usize) -> Result<Option<Self>> {
        let data = &session.recipe.data;
        if count == 0 || data.eval.is_empty() {
            return Ok(None);
        }
        let mut problems = records(&data.eval, data.reader()?, None)?;
        problems.retain(|record| record.problem.answer.is_some());
        problems.truncate(count);
        Ok(Some(Self { problems, tokens }))
    }

    /// The share that is answered rightly; an answer that cannot be graded is not.
    pub(super) fn exact_match(&self, session: &Session<'_>) -> Result<f64> {
        let requests = self.problems.iter().map(|record| GenerateRequest {
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            ..GenerateRequest::new(Prompt::Chat(question(record)), self.tokens)
        });
        let generated = session.trainee.model.generate_all(requests.collect(), WIDTH)?;
        let right = self.problems.iter().zip(&generated).filter(|(record, generated)| {
            let gold = record.problem.answer.as_deref().unwrap_or_default();
            grade(gold, &generated.choices[0].text).verdict == Verdict::Equal
        });
        Ok(right.count() as f64 / self.problems.len().max(1) as f64)
    }
}
