//! `POST /v1/steps/score`: scores of every step of one or several solutions of a problem, in one tree-packed pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_backend::Scorer;
use gradus_core::contracts::{CallError, ScoreRequest, ScoreSteps, StepScores};
use gradus_core::select::{Aggregation, DecisionChoice, DecisionRule, Posterior};
use gradus_core::{ReferenceProblem, ReferenceStep};
use gradus_grade::Verdict;
use gradus_grade::checks::{Proof, prove};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::input::{SolutionInput, SolutionObject, Steps};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};
use crate::guard::new_id;
use crate::models::{Ability, ServedModel};

/// A request for scores. One solution is given by `solution` or `steps`, several by `solutions`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoreBody {
    /// The model's name (default: the first that scores).
    pub(crate) model: Option<String>,
    /// The problem's text.
    pub(crate) problem: String,
    /// The solutions.
    #[serde(default)]
    pub(crate) solutions: Vec<SolutionInput>,
    /// One solution's text.
    pub(crate) solution: Option<String>,
    /// One solution's steps.
    pub(crate) steps: Option<Vec<String>>,
    /// The right answer: each solution's own is compared with it.
    pub(crate) answer: Option<String>,
    /// The rule of the first suspected error: `threshold`, the first step below it, or `posterior`, the most probable one
    /// (default: that of the model's profile).
    pub(crate) rule: Option<String>,
    /// The first step with a score below it is the first suspected error (default: the profile's, or 0.5).
    pub(crate) threshold: Option<f64>,
    /// With `posterior`, a factor on the odds of an error (default: the profile's, or 1).
    pub(crate) prior: Option<f64>,
    /// One number from the scores of the steps: `last`, `min`, `product`, `mean` or `norm_product` (default: `min`).
    pub(crate) aggregation: Option<String>,
    /// Whether references are retrieved, for a model with a pool (default: unless the request has its own).
    pub(crate) retrieve: Option<bool>,
    /// Solved problems for a retrieval-augmented model, that the client found itself.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    references: Vec<ReferenceProblem>,
    /// With one solution: for each of its steps, the steps that resemble it.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<Object>>)]
    step_references: Vec<Vec<ReferenceStep>>,
    /// Names the solution in errors, where there is one.
    pub(crate) id: Option<String>,
}

impl ScoreBody {
    /// The solutions, in whichever way they are given.
    pub(crate) async fn solutions(&mut self, limits: &crate::Limits) -> Result<Vec<Steps>, ApiError> {
        let mut solutions = std::mem::take(&mut self.solutions);
        let (text, steps) = (self.solution.take(), self.steps.take());
        if text.is_some() || steps.is_some() {
            let id = self.id.clone();
            solutions.push(SolutionInput::Object(SolutionObject { id, text, steps, answer: None }));
        }
        Steps::of(solutions, limits).await
    }

    /// Bytes of what all solutions share.
    fn shared(&self) -> usize {
        let step = |step: &(String, _)| size_of_val(step) + step.0.len();
        let reference = |reference: &ReferenceProblem| {
            size_of_val(reference)
                + reference.question.len()
                + reference.steps.iter().map(step).sum::<usize>()
        };
        self.problem.len() + self.references.iter().map(reference).sum::<usize>()
    }
}

/// Scores.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScoreReply {
    id: String,
    /// Always `steps.score`.
    object: &'static str,
    /// The model that scored.
    pub(crate) model: String,
    /// Its profile.
    profile: Option<String>,
    /// The rule of the first error: `{"rule": "threshold", "threshold": 0.5}` or `{"rule": "posterior", "prior": 1}`.
    #[schema(value_type = Object)]
    decision: DecisionRule,
    /// The threshold, of a rule that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    aggregation: &'static str,
    /// One per solution, in the order of the request.
    pub(crate) solutions: Vec<ScoredSolution>,
    /// The scores of the only solution: what clients that send one want.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Vec<f64>>,
    usage: TokenUsage,
}

/// A solution with its scores, or with the reason why there are none.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScoredSolution {
    pub(crate) index: usize,
    pub(crate) id: String,
    pub(crate) steps: Vec<ScoredStep>,
    /// The first error by the rule, from 0.
    pub(crate) first_error: Option<usize>,
    /// How probable it is by the scores that the first error is in each step, and that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    posterior: Option<Posterior>,
    /// By the aggregation that was asked for.
    pub(crate) score: Option<f64>,
    /// By each aggregation.
    aggregates: BTreeMap<&'static str, f64>,
    /// The final answer that it gives or states.
    pub(crate) answer: Option<String>,
    /// Whether it is the right one: `equal`, `different` or `undecided`; missing where the right one is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<&'static str>,
    /// Solved problems that the model saw.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    references: Vec<ReferenceProblem>,
    /// Why there are no scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScoredStep {
    text: String,
    /// Why arithmetic in it is wrong, such as `48/2 = 24, not 26`; missing where nothing is proved wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proofs: Vec<String>,
    /// The probability that this step and all before it are right; null where the solution could not be scored.
    pub(crate) score: Option<f64>,
    /// Steps of solved problems that the model saw beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    references: Vec<ReferenceStep>,
}

/// Tokens that went through the model.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct TokenUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
}

impl TokenUsage {
    pub(crate) fn prompt(tokens: u64) -> Self {
        Self { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens }
    }
}

impl From<gradus_core::contracts::Usage> for TokenUsage {
    fn from(usage: gradus_core::contracts::Usage) -> Self {
        let (prompt_tokens, completion_tokens) = (usage.prompt_tokens, usage.completion_tokens);
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// Scores every step of one or several solutions of a problem.
#[utoipa::path(post, path = "/v1/steps/score", tag = "steps", request_body = ScoreBody,
    responses((status = 200, body = ScoreReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn score(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<ScoreBody>,
) -> Result<Json<ScoreReply>, ApiError> {
    let reply = scored(&app, body).await?;
    // A request about one solution that cannot be scored has failed.
    if let [ScoredSolution { error: Some(error), .. }] = &reply.solutions[..] {
        return Err(ApiError::invalid(error.clone()));
    }
    Ok(Json(reply))
}

/// The scores of a request's solutions.
pub(crate) async fn scored(app: &App, mut body: ScoreBody) -> Result<ScoreReply, ApiError> {
    let aggregation = aggregation(body.aggregation.as_deref(), Aggregation::Min)?;
    let model = app.models.find(body.model.as_deref(), Ability::Score)?;
    let rule = body.rule.as_deref().map(str::parse).transpose();
    let rule = rule.map_err(|error| ApiError::invalid(format!("`rule`: {error}")))?;
    let choice = DecisionChoice { rule, threshold: body.threshold, prior: body.prior };
    let decision = choice.over(model.scorer()?.decision).map_err(ApiError::invalid)?;
    let exact_checks = model.scorer()?.exact_checks;
    let solutions = body.solutions(&app.limits).await?;
    app.limits.copies(body.shared(), solutions.len())?;
    let mut requests: Vec<ScoreRequest> =
        solutions.iter().map(|solution| solution.request(&body.problem)).collect();
    let given = !body.references.is_empty() || !body.step_references.is_empty();
    if given {
        if body.retrieve == Some(true) {
            return Err(ApiError::invalid(
                "`retrieve` and references of the request's own exclude each other",
            ));
        }
        if !body.step_references.is_empty() && requests.len() != 1 {
            return Err(ApiError::invalid("`step_references` are those of one solution"));
        }
        for request in &mut requests {
            request.references.clone_from(&body.references);
            request.step_references.clone_from(&body.step_references);
        }
    }
    match (&model.library, body.retrieve.or(given.then_some(false))) {
        (Some(library), None | Some(true)) => library.augment(&mut requests).await?,
        (None, Some(true)) => {
            return Err(ApiError::invalid(format!("model `{}` is served without a pool", model.name)));
        }
        (_, Some(false)) | (None, None) => {}
    }
    let outcomes = ask(model, &requests).await?;
    let (problem, gold) = (body.problem, body.answer);
    let answer_all = move || {
        let mut usage = 0;
        let mut answered = Vec::with_capacity(solutions.len());
        for (index, ((solution, request), outcome)) in
            solutions.into_iter().zip(requests).zip(outcomes).enumerate()
        {
            let answer = solution.answer();
            let verdict = gold.as_deref().map(|gold| {
                answer
                    .as_deref()
                    .map_or("undecided", |answer| verdict_name(gradus_grade::compare(gold, answer)))
            });
            let (scores, error) = match outcome {
                Ok(StepScores { scores, usage: used }) => {
                    usage += used.prompt_tokens;
                    (Some(scores), None)
                }
                Err(error) => (None, Some(error.to_string())),
            };
            let of = |aggregation: Aggregation| aggregation.of(scores.as_deref()?);
            let proofs = prove(&problem, &solution.steps);
            let proven = proofs.first().map(|proof| proof.step).filter(|_| exact_checks);
            let decided = scores.as_deref().map(|scores| decision.decide(scores, proven));
            answered.push(ScoredSolution {
                index,
                id: solution.id,
                first_error: decided.as_ref().and_then(|decided| decided.first_error),
                posterior: decided.map(|decided| decided.posterior),
                score: of(aggregation),
                aggregates: Aggregation::ALL
                    .iter()
                    .filter_map(|each| Some((each.name(), of(*each)?)))
                    .collect(),
                answer,
                verdict,
                references: request.references,
                error,
                steps: steps(solution.steps, scores.as_deref(), request.step_references, proofs),
            });
        }
        (answered, usage)
    };
    // Final answers, their comparison and exact checks may take long.
    let (answered, usage) = beside(answer_all).await?;
    let scores = match &answered[..] {
        [one] if one.error.is_none() => Some(one.steps.iter().filter_map(|step| step.score).collect()),
        _ => None,
    };
    Ok(ScoreReply {
        id: new_id("score"),
        object: "steps.score",
        model: model.name.clone(),
        profile: model.profile().map(str::to_owned),
        decision,
        threshold: decision.threshold(),
        aggregation: aggregation.name(),
        solutions: answered,
        scores,
        usage: TokenUsage::prompt(usage),
    })
}

/// Asks a model for scores; a solution that is there several times is asked about once.
pub(crate) async fn ask(
    model: &ServedModel,
    requests: &[ScoreRequest],
) -> Result<Vec<Result<StepScores, CallError>>, ApiError> {
    let scorer: &Scorer = model.scorer()?;
    let mut distinct: Vec<ScoreRequest> = Vec::new();
    let mut places: Vec<usize> = Vec::with_capacity(requests.len());
    let mut known: std::collections::HashMap<(&str, &[String]), usize> = std::collections::HashMap::new();
    for request in requests {
        let place = *known.entry((&request.problem, &request.steps)).or_insert_with(|| {
            distinct.push(request.clone());
            distinct.len() - 1
        });
        places.push(place);
    }
    let outcomes = scorer.score_steps(distinct).await?;
    let mut charged = vec![false; outcomes.len()];
    Ok(places
        .into_iter()
        .map(|place| {
            let mut outcome = outcomes[place].clone();
            if let (Ok(scores), true) = (&mut outcome, std::mem::replace(&mut charged[place], true)) {
                scores.usage.prompt_tokens = 0;
            }
            outcome
        })
        .collect())
}

fn steps(
    texts: Vec<String>,
    scores: Option<&[f64]>,
    mut references: Vec<Vec<ReferenceStep>>,
    proofs: Vec<Proof>,
) -> Vec<ScoredStep> {
    references.resize(texts.len(), Vec::new());
    let mut of_step: Vec<Vec<String>> = vec![Vec::new(); texts.len()];
    proofs.into_iter().for_each(|proof| of_step[proof.step].push(proof.proof));
    let each = texts.into_iter().zip(references).enumerate();
    each.map(|(index, (text, references))| ScoredStep {
        text,
        score: scores.and_then(|scores| scores.get(index).copied()),
        proofs: std::mem::take(&mut of_step[index]),
        references,
    })
    .collect()
}

/// An aggregation by its name.
pub(crate) fn aggregation(name: Option<&str>, usual: Aggregation) -> Result<Aggregation, ApiError> {
    let parse = |name: &str| {
        name.parse::<Aggregation>().map_err(|error| ApiError::invalid(format!("`aggregation`: {error}")))
    };
    name.map_or(Ok(usual), parse)
}

/// A verdict in one word.
pub(crate) fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::Different => "different",
        Verdict::Undecided(_) => "undecided",
    }
}
