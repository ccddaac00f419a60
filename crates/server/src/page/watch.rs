//! Watch: models and their throughput, jobs of this server and of the command line, and the curves of training runs.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Html;
use gradus_core::count::grouped;
use gradus_engine::models::Store as Home;
use gradus_plot::escaped;
use gradus_store::{Job, SqliteStore, Store as _};
use gradus_train::curves::{self, RunCurves};
use gradus_view::shell::{Tab, navigation};

use super::Fragment;
use crate::app::App;
use crate::error::ApiError;
use crate::jobs::JobStatus;
use crate::keys::Caller;

/// Jobs of the command line that are listed at most.
const LISTED: usize = 50;

/// The page without what is going on.
pub(super) fn shell() -> String {
    include_str!("../../page/watch.html").replace("{{navigation}}", &navigation(Tab::Watch))
}

/// What is going on.
pub(crate) async fn now(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>) -> Fragment {
    let mut out = String::new();
    models(&mut out, &app);
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
                _ => String::new(),
            };
            vec![
                id,
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
                true => format!("<a href=\"/watch/run/{}\">{}</a>", job.id, escaped(&output)),
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
