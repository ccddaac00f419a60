//! Look: what is pasted or dropped, scored by the chosen models, as HTML.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use gradus_annotate::exact;
use gradus_core::{Outcome, Problem, Record, Solution};
use gradus_grade::Verdict;
use gradus_view::{LeftOut, ViewOptions};
use serde::Deserialize;

use super::Fragment;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, read};
use crate::models::Ability;
use crate::steps::input::{SolutionInput, Steps, cut};
use crate::steps::score::ask;

/// Records of a file that are shown at most.
const SHOWN: usize = 100;

/// What was pasted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PastedBody {
    models: Vec<String>,
    problem: String,
    solutions: Vec<String>,
    answer: Option<String>,
}

/// What was dropped.
#[derive(Debug, Deserialize)]
pub(crate) struct FileQuery {
    name: String,
    /// Names with commas between them.
    models: Option<String>,
}

pub(crate) async fn score(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<PastedBody>,
) -> Result<Fragment, ApiError> {
    let solutions = body.solutions.into_iter().map(SolutionInput::Text).collect();
    let solutions = Steps::of(solutions, &app.limits)?;
    let problem =
        Problem { id: "pasted".to_owned(), text: body.problem, answer: body.answer, ..Problem::default() };
    let solution = |(index, steps): (usize, Steps)| {
        let answer = steps.answer();
        let verdict = problem
            .answer
            .as_deref()
            .zip(answer.as_deref())
            .map(|(gold, own)| gradus_grade::compare(gold, own));
        let outcome = match verdict {
            Some(Verdict::Equal) => Outcome::Correct,
            Some(Verdict::Different) => Outcome::Wrong,
            Some(Verdict::Undecided(_)) | None => Outcome::Unknown,
        };
        let id = format!("solution {}", index + 1);
        Solution {
            id,
            problem_id: problem.id.clone(),
            steps: steps.steps,
            answer,
            outcome,
            ..Solution::default()
        }
    };
    let solutions = solutions.into_iter().enumerate().map(solution).collect();
    let mut records = vec![Record::new(problem.clone(), solutions)];
    let options = score_all(&app, &mut records, &body.models).await?;
    Ok(Fragment(gradus_view::records(&records, &LeftOut::default(), &options)))
}

pub(crate) async fn file(
    State(app): State<Arc<App>>,
    _place: Place,
    Query(query): Query<FileQuery>,
    body: Body,
) -> Result<Fragment, ApiError> {
    let bytes = read(body, &app).await?;
    let (mut records, left_out) = opened(bytes, &query.name, SHOWN).await?;
    let models: Vec<String> = query
        .models
        .iter()
        .flat_map(|models| models.split(','))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let options = score_all(&app, &mut records, &models).await?;
    Ok(Fragment(gradus_view::records(&records, &left_out, &options)))
}

/// Adds the scores of the models; each is shown by its own rule, and proofs where one's profile asks for exact checks. A solution that cannot be scored stays without; where none
/// can be, that is the answer.
async fn score_all(app: &App, records: &mut [Record], models: &[String]) -> Result<ViewOptions, ApiError> {
    let mut options = ViewOptions::default();
    let steps: usize =
        records.iter().flat_map(|record| &record.solutions).map(|solution| solution.steps.len()).sum();
    if steps.saturating_mul(models.len()) > app.limits.steps {
        return Err(ApiError::invalid(format!(
            "{steps} steps are more than this server scores at once (--max-steps)"
        )));
    }
    for name in models {
        let model = app.models.find(Some(name), Ability::Score)?;
        let (decision, exact_checks) = (model.scorer()?.decision, model.scorer()?.exact_checks);
        if exact_checks {
            options.exact_checks.insert(name.clone());
        }
        if decision != options.decision {
            options.decisions.insert(name.clone(), decision);
        }
        let mut requests: Vec<_> = records
            .iter()
            .flat_map(|record| {
                record
                    .solutions
                    .iter()
                    .map(|solution| gradus_core::contracts::ScoreRequest::of(&record.problem, solution))
            })
            .collect();
        if let Some(library) = &model.library {
            library.augment(&mut requests).await?;
        }
        let outcomes = ask(model, &requests).await?;
        if let (Some(Err(error)), true) = (outcomes.first(), outcomes.iter().all(Result::is_err)) {
            return Err(ApiError::invalid(error.to_string()));
        }
        let solutions = records.iter_mut().flat_map(|record| &mut record.solutions);
        for (solution, outcome) in solutions.zip(outcomes) {
            if let Ok(scored) = outcome {
                solution.scores.insert(name.clone(), scored.scores);
            }
        }
    }
    if !options.exact_checks.is_empty() {
        prove(records);
    }
    Ok(options)
}

/// Labels arithmetic that is proved wrong.
fn prove(records: &mut [Record]) {
    for Record { problem, solutions, .. } in records {
        for solution in solutions {
            exact::label(&problem.text, solution);
        }
    }
}

/// The records of a file of any format that is read, `most` of them at most.
pub(super) async fn opened(
    bytes: Vec<u8>,
    name: &str,
    most: usize,
) -> Result<(Vec<Record>, LeftOut), ApiError> {
    let ending = ending(name);
    let opened = tokio::task::spawn_blocking(move || records(&bytes, &ending, most)).await;
    opened.map_err(|_| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "reading the file failed: this is a bug of Gradus")
    })?
}

/// The ending that says what a file is, and nothing else of its name.
fn ending(name: &str) -> String {
    let plain = |part: &&str| {
        !part.is_empty() && part.len() <= 8 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut parts: Vec<&str> =
        name.rsplit(['/', '\\']).next().unwrap_or_default().split('.').skip(1).filter(plain).collect();
    let kept = parts.split_off(parts.len().saturating_sub(2));
    kept.iter().map(|part| format!(".{}", part.to_ascii_lowercase())).collect()
}

fn records(bytes: &[u8], ending: &str, most: usize) -> Result<(Vec<Record>, LeftOut), ApiError> {
    let unreadable =
        |error: &dyn std::fmt::Display| ApiError::invalid(format!("the file cannot be read: {error}"));
    let folder = tempfile::tempdir().map_err(|error| unreadable(&error))?;
    let path = folder.path().join(format!("file{ending}"));
    std::fs::write(&path, bytes).map_err(|error| unreadable(&error))?;
    // Messages name the file by the path that only this server knows.
    let named = |error: &dyn std::fmt::Display| {
        unreadable(&error.to_string().replace(&path.display().to_string(), "file"))
    };
    let items = gradus_data::files::open(std::slice::from_ref(&path), None).map_err(|error| named(&error))?;
    let (mut records, mut left_out) = (Vec::new(), LeftOut::default());
    for item in items {
        match item {
            Ok(_) if records.len() >= most => left_out.records += 1,
            Ok(item) => records.push(item.record),
            Err(error) if records.is_empty() => return Err(named(&error)),
            Err(_) => left_out.invalid += 1,
        }
    }
    for solution in records.iter_mut().flat_map(|record| &mut record.solutions) {
        if let (true, Some(text)) = (solution.steps.is_empty(), &solution.text) {
            solution.steps = cut(text);
        }
    }
    Ok((records, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ending_of_a_name_is_used() {
        for (name, expected) in [
            ("a.jsonl", ".jsonl"),
            ("a.b.JSONL.gz", ".jsonl.gz"),
            ("../../etc/passwd", ""),
            ("x.../..", ""),
            ("C:\\x.csv", ".csv"),
            ("x.json\u{0}l", ""),
            ("<script>.json", ".json"),
        ] {
            assert_eq!(ending(name), expected, "{name}");
        }
    }
}
