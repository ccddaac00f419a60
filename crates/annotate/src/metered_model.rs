//! A model whose requests and tokens are counted.

use gradus_core::Cost;
use gradus_core::contracts::{CallError, Generate, GenerateRequest, Generated};

/// A model with the cost of its calls so far.
pub(crate) struct MeteredModel<'a> {
    model: &'a dyn Generate,
    pub(crate) cost: Cost,
}

impl<'a> MeteredModel<'a> {
    pub(crate) fn new(model: &'a dyn Generate) -> Self {
        Self { model, cost: Cost::default() }
    }

    pub(crate) async fn generate(&mut self, request: GenerateRequest) -> Result<Generated, CallError> {
        let answer = self.model.generate(request).await?;
        self.cost.requests += 1;
        self.cost.prompt_tokens += answer.usage.prompt_tokens;
        self.cost.completion_tokens += answer.usage.completion_tokens;
        Ok(answer)
    }
}
