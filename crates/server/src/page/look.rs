//! Look: what is pasted or dropped, scored by the chosen models, as HTML.

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use gradus_annotate::exact;
use gradus_core::{Outcome, Problem, Record, Solution};
use gradus_grade::Verdict;
use gradus_view::{LeftOut, ViewOptions};
use serde::Deserialize;

use super::Fragment;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside, read};
use crate::limits::Limits;
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
    let solutions = Steps::of(solutions, &app.limits).await?;
    let problem =
        Problem { id: "pasted".to_owned(), text: body.problem, answer: body.answer, ..Problem::default() };
    // Final answers and their comparison may take long.
    let mut records = beside(move || vec![pasted(problem, solutions)]).await?;
    let options = score_all(&app, &mut records, &body.models).await?;
    shown(records, LeftOut::default(), options).await
}

fn pasted(problem: Problem, solutions: Vec<Steps>) -> Record {
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
    Record::new(problem, solutions)
}

/// Records as HTML, with proofs where a model's profile asks for exact checks.
async fn shown(
    mut records: Vec<Record>,
    left_out: LeftOut,
    options: ViewOptions,
) -> Result<Fragment, ApiError> {
    let show = move || {
        if !options.exact_checks.is_empty() {
            prove(&mut records);
        }
        Fragment(gradus_view::records(&records, &left_out, &options))
    };
    beside(show).await
}

pub(crate) async fn file(
    State(app): State<Arc<App>>,
    _place: Place,
    Query(query): Query<FileQuery>,
    body: Body,
) -> Result<Fragment, ApiError> {
    let bytes = read(body, &app).await?;
    let (mut records, left_out) = opened(bytes, &query.name, Most::Shown(SHOWN), &app.limits).await?;
    let models: Vec<String> = query
        .models
        .iter()
        .flat_map(|models| models.split(','))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let options = score_all(&app, &mut records, &models).await?;
    shown(records, left_out, options).await
}

/// Adds the scores of the models; each is shown by its own rule. A solution that cannot be scored stays without; where none
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
    app.limits.copies(shared(records), 1)?;
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
    Ok(options)
}

/// Bytes of the problems, once for each of their solutions.
pub(super) fn shared(records: &[Record]) -> usize {
    let of = |record: &Record| {
        let Problem { text, context, .. } = &record.problem;
        let context: usize = context.iter().map(String::len).sum();
        (text.len() + context).saturating_mul(record.solutions.len())
    };
    records.iter().map(of).fold(0, usize::saturating_add)
}

/// Labels arithmetic that is proved wrong.
fn prove(records: &mut [Record]) {
    for Record { problem, solutions, .. } in records {
        for solution in solutions {
            exact::label(&problem.text, solution);
        }
    }
}

/// How much of a file is taken.
pub(super) enum Most {
    /// So many records; the others are counted.
    Shown(usize),
    /// All of it, with so many solutions at most.
    Labeled(usize),
}

/// The records of a file of any format that is read.
pub(super) async fn opened(
    bytes: Vec<u8>,
    name: &str,
    most: Most,
    limits: &Limits,
) -> Result<(Vec<Record>, LeftOut), ApiError> {
    let (ending, limits) = (ending(name), limits.clone());
    beside(move || records(&bytes, &ending, &most, &limits)).await?
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

fn records(
    bytes: &[u8],
    ending: &str,
    most: &Most,
    limits: &Limits,
) -> Result<(Vec<Record>, LeftOut), ApiError> {
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
    let (mut size, mut solutions) = (0, 0);
    for item in items {
        if let Ok(item) = &item {
            // A short file may hold much: compressed, or a text that many rows share. What is only counted costs time.
            size += written(&item.record);
            limits.grows_to(size, "when its file is read")?;
        }
        match (item, most) {
            (Ok(_), Most::Shown(shown)) if records.len() >= *shown => left_out.records += 1,
            (Ok(item), Most::Labeled(labeled)) => {
                solutions += item.record.solutions.len();
                if solutions > *labeled {
                    return Err(ApiError::invalid(format!(
                        "the file has more than {labeled} solutions, which a job here may have (--max-inputs): use \
                         gradus annotate"
                    )));
                }
                records.push(item.record);
            }
            (Ok(item), Most::Shown(_)) => records.push(item.record),
            (Err(error), _) if records.is_empty() => return Err(named(&error)),
            (Err(_), _) => left_out.invalid += 1,
        }
    }
    for solution in records.iter_mut().flat_map(|record| &mut record.solutions) {
        if let (true, Some(text)) = (solution.steps.is_empty(), &solution.text) {
            solution.steps = cut(text);
        }
    }
    Ok((records, left_out))
}

/// Bytes of a record in JSON.
fn written(record: &Record) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, record).expect("a record is written");
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_becomes_is_bounded() {
        let row =
            serde_json::json!({"question": "What is 2 + 3?", "response": "a".repeat(1000), "gold": "5"});
        let file = format!("{row}\n").repeat(10);
        let read = |most, body_bytes| {
            records(file.as_bytes(), ".jsonl", &most, &Limits { body_bytes, ..Limits::default() })
        };
        let (shown, left_out) = read(Most::Shown(3), 1 << 20).unwrap();
        assert_eq!((shown.len(), left_out.records), (3, 7));
        let refused = read(Most::Shown(3), 1000).unwrap_err().message;
        assert!(refused.contains("4 times --max-body-bytes"), "{refused}");
        assert_eq!(read(Most::Labeled(10), 1 << 20).unwrap().0.len(), 10);
        let refused = read(Most::Labeled(9), 1 << 20).unwrap_err().message;
        assert!(refused.contains("more than 9 solutions"), "{refused}");
    }

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
