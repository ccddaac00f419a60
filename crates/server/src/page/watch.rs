//! Watch: models and their throughput, pools and their maps, jobs of this server and of the command line, and the curves of
//! training runs. Who has a key that allows it starts and stops jobs here.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use gradus_core::count::grouped;
use gradus_engine::models::Store as Home;
use gradus_plot::cloud::{Cloud, CloudSeries, Dot};
use gradus_plot::{Block, Page, Section, escaped};
use gradus_store::{Job, SqliteStore, Store as _};
use gradus_train::curves::{self, RunCurves};
use gradus_view::shell::{Tab, navigation};

use serde::{Deserialize, Serialize};

use super::{Fragment, look};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, ShortJsonBody, read};
use crate::jobs::{JobState, JobStatus};
use crate::keys::Caller;
use crate::models::Ability;
use crate::steps::annotate::{Method, MethodName, start};

/// Jobs of the command line that are listed at most.
const LISTED: usize = 50;
/// Characters of a job's id that are shown.
const SHORT_ID: usize = 12;
/// Questions on a pool's map at most.
const DOTS: usize = 2000;
/// Pages that a browser opens by itself, without a key.
pub(crate) const PAGES: &str = "/watch/";

/// The page without what is going on.
pub(super) fn shell() -> String {
    include_str!("../../page/watch.html").replace("{{navigation}}", &navigation(Tab::Watch))
}

/// What is going on.
pub(crate) async fn now(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>) -> Fragment {
    let mut out = String::new();
    if caller.manage {
        let generators: Vec<&str> = app
            .models
            .all()
            .iter()
            .filter(|model| model.generator().is_ok())
            .map(|model| model.name.as_str())
            .collect();
        let generators = serde_json::to_string(&generators).expect("names are written");
        let _ = writeln!(out, "<div id=\"manage\" data-generators=\"{}\"></div>", escaped(&generators));
    }
    models(&mut out, &app);
    pools(&mut out, &app);
    server_jobs(&mut out, &app, caller.manage);
    match command_line_jobs().await {
        Ok(jobs) => command_line(&mut out, &jobs),
        Err(message) => {
            let _ = writeln!(
                out,
                "<p class=\"note\">Jobs of the command line cannot be read: {}</p>",
                escaped(&message)
            );
        }
    }
    Fragment(out)
}

fn table(out: &mut String, heading: &str, columns: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(out, "<h2>{heading}</h2>");
    if rows.is_empty() {
        let _ = writeln!(out, "<p>None.</p>");
        return;
    }
    let head: String = columns.iter().map(|column| format!("<th scope=\"col\">{column}</th>")).collect();
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{heading}\"><table><thead><tr>{head}</tr></thead><tbody>"
    );
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn models(out: &mut String, app: &App) {
    let rows: Vec<Vec<String>> = app
        .models
        .engines()
        .map(|(name, metrics)| {
            vec![
                escaped(name),
                grouped(metrics.queue_length),
                grouped(metrics.running_sequences),
                grouped(metrics.prompt_tokens),
                grouped(metrics.generated_tokens),
                format!("{:.0}", metrics.tokens_per_second),
                format!("{:.0} %", 100.0 * metrics.batch_fill),
            ]
        })
        .collect();
    let columns = [
        "model",
        "queue",
        "sequences",
        "prompt tokens",
        "generated tokens",
        "tokens/s when busy",
        "fill of passes",
    ];
    table(out, "Models", &columns, &rows);
}

fn pools(out: &mut String, app: &App) {
    let served = app.models.all().iter().filter_map(|model| Some((model, model.library.as_ref()?)));
    let rows: Vec<Vec<String>> = served
        .map(|(model, library)| {
            let (counts, encoder) = library.counts();
            let name = escaped(&model.name);
            vec![
                name,
                escaped(encoder),
                grouped(counts.questions),
                grouped(counts.solutions),
                grouped(counts.steps),
                format!("<a href=\"{PAGES}pool/{}\" data-page>Map</a>", encoded(&model.name)),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let columns = ["model", "encoder", "questions", "solutions", "steps", ""];
        table(out, "Pools", &columns, &rows);
    }
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(letter).collect()
}

fn server_jobs(out: &mut String, app: &App, manage: bool) {
    let rows: Vec<Vec<String>> = app
        .jobs
        .all()
        .into_iter()
        .rev()
        .map(|job| {
            let id = escaped(&job.id);
            let progress = format!(
                "<progress value=\"{}\" max=\"{}\" aria-label=\"{id}\"></progress> {} / {}",
                job.done,
                job.total.max(1),
                job.done,
                job.total
            );
            let action = match (job.status, manage) {
                (JobStatus::Running, true) => {
                    format!("<button type=\"button\" data-cancel=\"{id}\">Cancel</button>")
                }
                (JobStatus::Done | JobStatus::Cancelled, _) => {
                    format!("<button type=\"button\" data-result=\"{id}\">Download</button>")
                }
                _ => String::new(),
            };
            // Enough of the id to tell jobs apart; a phone has no room for all of it.
            let short: String = job.id.chars().take(SHORT_ID).collect();
            vec![
                format!("<span title=\"{id}\">{}</span>", escaped(&short)),
                escaped(job.kind),
                job.status.name().to_owned(),
                progress,
                grouped(job.undecided),
                escaped(&job.error.unwrap_or_default()),
                action,
            ]
        })
        .collect();
    table(out, "Jobs of this server", &["job", "kind", "state", "done", "undecided", "error", ""], &rows);
}

async fn command_line_jobs() -> Result<Vec<Job>, String> {
    let path = Home::from_env().map_err(|error| error.to_string())?.home.join("jobs.sqlite");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let store = SqliteStore::open(&path).map_err(|error| error.to_string())?;
    store.jobs().await.map_err(|error| error.to_string())
}

fn command_line(out: &mut String, jobs: &[Job]) {
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .take(LISTED)
        .map(|job| {
            let (done, total) = (job.tasks.done, job.tasks.total());
            let output = job.output.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            let output = match has_curves(job) {
                true => format!("<a href=\"{PAGES}run/{}\" data-page>{}</a>", job.id, escaped(&output)),
                false => escaped(&output),
            };
            let progress = format!(
                "<progress value=\"{done}\" max=\"{}\" aria-label=\"job {}\"></progress> {} / {}",
                total.max(1),
                job.id,
                grouped(done),
                grouped(total)
            );
            vec![
                job.id.to_string(),
                escaped(&job.kind),
                job.state.name().to_owned(),
                progress,
                grouped(job.tasks.failed),
                output,
            ]
        })
        .collect();
    table(out, "Jobs of the command line", &["job", "kind", "state", "done", "failed", "output"], &rows);
    if jobs.len() > LISTED {
        let _ =
            writeln!(out, "<p class=\"note\">{} older jobs are not shown.</p>", grouped(jobs.len() - LISTED));
    }
}

fn has_curves(job: &Job) -> bool {
    job.output.as_ref().is_some_and(|folder| job.folder.join(folder).join("metrics.jsonl").is_file())
}

/// The curves of a training run, as they are now.
pub(crate) async fn run(Path(id): Path<i64>) -> Result<Html<String>, ApiError> {
    let missing = || ApiError::new(StatusCode::NOT_FOUND, format!("job {id} has no curves"));
    let jobs = command_line_jobs().await.map_err(ApiError::invalid)?;
    let job = jobs.into_iter().find(|job| job.id == id && has_curves(job)).ok_or_else(missing)?;
    let folder = job.folder.join(job.output.ok_or_else(missing)?);
    let lines = gradus_train::run::metrics::read(&folder.join("metrics.jsonl"))
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    let name = folder.file_name().map_or_else(|| id.to_string(), |name| name.to_string_lossy().into_owned());
    Ok(Html(curves::page(&[RunCurves { name, lines }])))
}

/// The questions of a model's pool in the plane.
pub(crate) async fn pool(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Html<String>, ApiError> {
    let model = app.models.find(Some(&name), Ability::Retrieve)?;
    let library = model.library.as_ref().expect("a model that retrieves has a pool");
    let placed = library.map(DOTS).await?;
    let (counts, encoder) = library.counts();
    let subtitle = format!(
        "{} of {} questions, embeddings of {encoder}",
        grouped(placed.len()),
        grouped(counts.questions)
    );
    let dots = placed.into_iter().map(|(text, [x, y])| {
        let name = text.chars().take(80).collect();
        Dot { name, x: f64::from(x), y: f64::from(y) }
    });
    let cloud = Cloud {
        title: "Questions".to_owned(),
        caption: "Each dot is a question, projected onto the first two principal components (PCA)."
            .to_owned(),
        series: vec![CloudSeries { name: name.clone(), dots: dots.collect() }],
    };
    let section =
        Section { heading: "Map".to_owned(), intro: String::new(), blocks: vec![Block::Cloud(cloud)] };
    let page = Page { title: format!("Pool of {name}"), subtitle, sections: vec![section], data_json: None };
    Ok(Html(page.html()))
}

/// A page that the browser is to open.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenPage {
    path: String,
}

/// The path with a ticket.
pub(crate) async fn ticket(
    State(app): State<Arc<App>>,
    JsonBody(body): ShortJsonBody<OpenPage>,
) -> Result<Json<OpenPage>, ApiError> {
    if !body.path.starts_with(PAGES) || body.path.contains(['?', '#']) {
        return Err(ApiError::invalid(format!("`path` must begin with {PAGES}")));
    }
    let ticket = app.tickets.issue(&body.path)?;
    Ok(Json(OpenPage { path: format!("{}?ticket={ticket}", body.path) }))
}

/// What to label, beside the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnotateQuery {
    name: String,
    method: MethodName,
    model: String,
}

/// Starts a job that labels the steps of a file.
pub(crate) async fn annotate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    place: Place,
    Query(query): Query<AnnotateQuery>,
    body: Body,
) -> Result<(StatusCode, Json<JobState>), ApiError> {
    if !caller.manage {
        let message = "this key may not start jobs here (manage in --key-file)";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let method = Method::new(query.method, &serde_json::Map::new())?;
    let model = app.models.find(Some(&query.model), Ability::Generate)?.name.clone();
    let bytes = read(body, &app).await?;
    let most = look::Most::Labeled(app.limits.inputs);
    let (records, left_out) = look::opened(bytes, &query.name, most, &app.limits).await?;
    if left_out.invalid > 0 {
        let message = format!("{} records of the file are not valid: mend it first", left_out.invalid);
        return Err(ApiError::invalid(message));
    }
    app.limits.copies(look::shared(&records), 1)?;
    if records.iter().all(|record| record.solutions.is_empty()) {
        return Err(ApiError::invalid("the file has no solutions to label"));
    }
    if query.method == MethodName::MonteCarlo && records.iter().any(|record| record.problem.answer.is_none())
    {
        return Err(ApiError::invalid("Monte Carlo grades completions, and a problem has no answer"));
    }
    Ok((StatusCode::ACCEPTED, Json(start(app, model, method, records, place)?)))
}
