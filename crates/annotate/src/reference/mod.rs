//! Reference-guided labels (SPARE, Rizvi et al., 2026): one generation labels every step by comparing the solution with
//! the problem's sentences and a reference solution.
//!
//! For each step the model first says what it corresponds to (sentences C, reference steps R, other steps O), then whether it
//! is right, and if not what kind of error it has. `exemplars` holds what it is shown, `answer` reads what it writes.
//! An answer that is not as asked for is asked for again with another seed; after the last retry the solution is
//! undecided, and all that was said is kept.

mod answer;
mod case;
mod exemplars;

use gradus_core::contracts::{
    CallError, Constraint, FinishReason, Generate, GenerateRequest, Message, Prompt, Sampling,
};
use gradus_core::{Annotation, LabelSource, Problem, Solution, StepLabel};
use serde::{Deserialize, Serialize};

pub use answer::ERROR_CATEGORIES;
pub use exemplars::Guide;

use crate::annotated::{Annotated, refused};
use crate::error::{Error, Result};
use crate::metered_model::MeteredModel;
use crate::seed::seed_of;
use answer::{Unusable, read, schema};
use case::Case;

/// How the model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReferenceConfig {
    /// Exemplars before the question, drawn anew for each solution.
    pub exemplars: usize,
    /// Retries after an unusable answer.
    pub retries: usize,
    /// Maximum tokens per answer.
    pub max_tokens: usize,
    /// Sampling parameters; a retry at temperature 0 would say the same again, so it is drawn at 0.7 at least.
    pub sampling: Sampling,
    /// Ask for JSON of the right shape: the local engine keeps to it, a server is asked to.
    pub structured: bool,
    /// Random seed.
    pub seed: u64,
}

impl Default for ReferenceConfig {
    fn default() -> Self {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        Self { exemplars: 5, retries: 2, max_tokens: 4096, sampling, structured: true, seed: 0 }
    }
}

impl ReferenceConfig {
    /// Validates the settings.
    pub fn check(&self) -> Result<()> {
        if self.max_tokens == 0 {
            let message = "is 0: expected at least 1".to_owned();
            return Err(Error::Setting { field: "max_tokens", message });
        }
        Ok(())
    }
}

/// Who is asked: the model's name stands in the labels.
#[derive(Clone, Copy)]
pub struct ReferenceAnnotator<'a> {
    /// The model.
    pub model: &'a dyn Generate,
    /// Its name.
    pub name: &'a str,
    /// Instructions and exemplars.
    pub guide: &'a Guide,
}

/// Labels the steps of one solution.
pub async fn annotate(
    annotator: ReferenceAnnotator<'_>,
    problem: &Problem,
    solution: &Solution,
    config: &ReferenceConfig,
) -> std::result::Result<Annotated, CallError> {
    config.check().map_err(|error| CallError::Invalid(error.to_string()))?;
    let missing = problem.reference.is_empty().then_some("the problem has no reference solution");
    if let Some(refused) = refused(missing, solution) {
        return Ok(refused);
    }
    let case = Case::of(problem, solution);
    let seed = seed_of(config.seed, &[&problem.id, &solution.id]);
    let messages = annotator.guide.messages(problem.domain, &case, config.exemplars, seed);
    let mut model = MeteredModel::new(annotator.model);
    let mut said = Vec::new();
    let mut reason = Unusable::NotJson;
    for attempt in 0..=config.retries {
        let answer = model.generate(request(&messages, &case, config, seed, attempt)).await?;
        let Some(choice) = answer.choices.into_iter().next() else { continue };
        match read(&choice.text, &case) {
            Ok(steps) => {
                let source = LabelSource::Reference { model: annotator.name.to_owned() };
                let labels = steps.into_iter().map(|(mark, evidence)| {
                    Some(StepLabel { evidence: Some(evidence), ..StepLabel::hard(mark, source.clone()) })
                });
                let mut annotation = Annotation::from_labels(labels.collect());
                annotation.cost = Some(model.cost.clone());
                let notes = [("answers that were asked for again".to_owned(), attempt as u64)];
                return Ok(Annotated {
                    annotation: Some(annotation),
                    undecided: None,
                    cost: model.cost,
                    notes: notes.into_iter().filter(|(_, count)| *count > 0).collect(),
                });
            }
            Err(_) if choice.finish == FinishReason::Length => reason = Unusable::CutOff,
            Err(unusable) => reason = unusable,
        }
        said.push(choice.text);
    }
    Ok(Annotated::undecided(&reason.to_string(), said, model.cost))
}

fn request(
    messages: &[Message],
    case: &Case,
    config: &ReferenceConfig,
    seed: u64,
    attempt: usize,
) -> GenerateRequest {
    let mut sampling = config.sampling.clone();
    if attempt > 0 {
        sampling.temperature = sampling.temperature.max(0.7);
    }
    GenerateRequest {
        sampling,
        seed: seed.wrapping_add(attempt as u64),
        constraint: config.structured.then(|| Constraint::JsonSchema(schema(case))),
        ..GenerateRequest::new(Prompt::Chat(messages.to_vec()), config.max_tokens)
    }
}

#[cfg(test)]
mod tests;
