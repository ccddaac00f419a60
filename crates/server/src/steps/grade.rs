//! `POST /v1/steps/grade`: whether answers are the right ones.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_grade::{Grade, Reason, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::score::verdict_name;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};

/// Answers, or solutions whose final answer is looked for, and the right answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GradeBody {
    /// The right answer.
    gold: String,
    /// Final answers.
    #[serde(default)]
    answers: Vec<String>,
    /// Whole solutions.
    #[serde(default)]
    solutions: Vec<String>,
}

/// Verdicts: those on answers, then those on solutions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GradeReply {
    grades: Vec<GradedAnswer>,
}

/// A verdict.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GradedAnswer {
    /// `equal`, `different` or `undecided`.
    verdict: &'static str,
    /// Why it is undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The answer that was compared.
    answer: Option<String>,
}

/// Compares answers with the right one.
#[utoipa::path(post, path = "/v1/steps/grade", tag = "steps", request_body = GradeBody,
    responses((status = 200, body = GradeReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn grade(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<GradeBody>,
) -> Result<Json<GradeReply>, ApiError> {
    if body.answers.len() + body.solutions.len() > app.limits.inputs {
        return Err(ApiError::invalid(format!(
            "there are more than {} answers (--max-inputs)",
            app.limits.inputs
        )));
    }
    let grades = beside(move || {
        let answers = body.answers.iter().map(|answer| {
            let answer = Some(answer.clone()).filter(|answer| !answer.trim().is_empty());
            let verdict = answer.as_deref().map_or(Verdict::Undecided(Reason::NoAnswer), |answer| {
                gradus_grade::compare(&body.gold, answer)
            });
            graded(verdict, answer)
        });
        let solutions = body.solutions.iter().map(|solution| {
            let Grade { verdict, answer, .. } = gradus_grade::grade(&body.gold, solution);
            graded(verdict, answer)
        });
        answers.chain(solutions).collect()
    });
    Ok(Json(GradeReply { grades: grades.await? }))
}

fn graded(verdict: Verdict, answer: Option<String>) -> GradedAnswer {
    let reason = match verdict {
        Verdict::Undecided(reason) => Some(reason.describe()),
        Verdict::Equal | Verdict::Different => None,
    };
    GradedAnswer { verdict: verdict_name(verdict), reason, answer }
}
