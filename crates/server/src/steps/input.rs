//! Solutions as requests give them: free text, or steps.

use gradus_core::contracts::ScoreRequest;
use gradus_core::steps::{SplitConfig, split};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::beside;
use crate::limits::Limits;

/// A solution: its text, or its steps.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum SolutionInput {
    /// Free text, which is cut into steps.
    Text(String),
    /// Text or steps, with an id.
    Object(SolutionObject),
}

/// A solution with an id.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SolutionObject {
    /// Names the solution in the answer (default: its index).
    pub(crate) id: Option<String>,
    /// Free text, which is cut into steps.
    pub(crate) text: Option<String>,
    /// The steps, in place of a text.
    pub(crate) steps: Option<Vec<String>>,
    /// The final answer, where the text does not state it.
    pub(crate) answer: Option<String>,
}

/// A solution that is cut into steps.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    pub(crate) id: String,
    pub(crate) steps: Vec<String>,
    pub(crate) answer: Option<String>,
}

impl Steps {
    /// The solutions of a request, within the limits. Cutting them into steps may take long, so it runs beside the server's
    /// threads.
    pub(crate) async fn of(solutions: Vec<SolutionInput>, limits: &Limits) -> Result<Vec<Self>, ApiError> {
        if solutions.is_empty() {
            return Err(ApiError::invalid("there is no solution: give `solutions`, `solution` or `steps`"));
        }
        if solutions.len() > limits.inputs {
            return Err(ApiError::invalid(format!(
                "{} solutions are more than {} (--max-inputs): send them in several requests",
                solutions.len(),
                limits.inputs
            )));
        }
        let all = move || {
            let each = solutions.into_iter().enumerate();
            each.map(|(index, solution)| Self::one(index, solution)).collect::<Result<Vec<_>, _>>()
        };
        let solutions = beside(all).await??;
        let steps: usize = solutions.iter().map(|solution| solution.steps.len()).sum();
        if steps > limits.steps {
            return Err(ApiError::invalid(format!(
                "{steps} steps are more than {} (--max-steps): send the solutions in several requests",
                limits.steps
            )));
        }
        Ok(solutions)
    }

    fn one(index: usize, solution: SolutionInput) -> Result<Self, ApiError> {
        let SolutionObject { id, text, steps, answer } = match solution {
            SolutionInput::Text(text) => SolutionObject { text: Some(text), ..SolutionObject::default() },
            SolutionInput::Object(object) => object,
        };
        let steps = match (text, steps) {
            (Some(text), None) => cut(&text),
            (None, Some(steps)) => steps,
            _ => {
                let message = format!("solutions[{index}]: give either `text` or `steps`");
                return Err(ApiError::invalid(message));
            }
        };
        Ok(Self { id: id.unwrap_or_else(|| index.to_string()), steps, answer })
    }

    /// As a reward model is asked about it.
    pub(crate) fn request(&self, problem: &str) -> ScoreRequest {
        ScoreRequest {
            id: self.id.clone(),
            problem: problem.to_owned(),
            steps: self.steps.clone(),
            ..ScoreRequest::default()
        }
    }

    /// The final answer that is given, or that the steps state.
    pub(crate) fn answer(&self) -> Option<String> {
        let stated = || gradus_grade::extract(&self.steps.join("\n\n")).map(|found| found.answer);
        self.answer.clone().or_else(stated)
    }
}

/// Text as steps, cut as everywhere else.
pub(crate) fn cut(text: &str) -> Vec<String> {
    split(text, &SplitConfig::default()).steps().map(str::to_owned).collect()
}
