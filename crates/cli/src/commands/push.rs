//! `gradus push`: sends files and folders to the Hugging Face hub or an object store.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use gradus_core::count::counted;
use gradus_remote::hub::{self, Upload};
use gradus_remote::{Address, Expected};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::{Status, Usage};
use crate::terminal::printer::Printer;
use crate::terminal::progress::Progress;

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// Files and folders to send
    #[arg(required = true, value_name = "FILE")]
    sources: Vec<PathBuf>,
    /// Where to send them: hf://datasets/OWNER/NAME (with /FOLDER or @REVISION), s3://BUCKET/KEY, gs://BUCKET/KEY,
    /// az://CONTAINER/KEY or https://…; a folder if it ends with / or several files are sent
    #[arg(required = true, value_name = "ADDRESS")]
    destination: String,
    /// Commit message on the hub (default: Upload and the names)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Make a new repository on the hub private
    #[arg(long)]
    private: bool,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct PushSummary {
    files: Vec<SentFile>,
    /// The commit on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Where a browser shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
}

#[derive(Debug, Serialize)]
struct SentFile {
    file: PathBuf,
    address: String,
    bytes: u64,
}

/// A file, and its path below the destination.
struct Source {
    file: PathBuf,
    name: String,
    bytes: u64,
}

pub(super) fn run(args: &PushArgs) -> Result<Status> {
    let Some(destination) = Address::parse(&args.destination) else {
        bail!(Usage(format!(
            "`{}` is no address: write hf://datasets/OWNER/NAME, s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY or https://…",
            args.destination
        )));
    };
    let mut sources = Vec::new();
    for path in &args.sources {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let start = if path.is_dir() { String::new() } else { name };
        collect(path, &start, &mut sources)?;
    }
    if sources.is_empty() {
        bail!("there is no file in {}", args.sources[0].display());
    }
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(twice) = sources.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!(
            "{} and {} have the same name: send them to folders of their own",
            twice[0].file.display(),
            twice[1].file.display()
        );
    }
    let into_folder = args.destination.ends_with('/') || args.sources.len() > 1 || args.sources[0].is_dir();
    let summary = match destination {
        Address::Hub(_) => to_hub(args, &destination, &sources, into_folder)?,
        _ => one_by_one(&args.destination, &sources, into_folder)?,
    };
    Printer::new(None).summary(args.print.json, &summary, print)?;
    Ok(Status::Done)
}

/// The files of a folder, or the file. Hidden ones, such as locks and temporary files, are left out.
fn collect(path: &Path, name: &str, sources: &mut Vec<Source>) -> Result<()> {
    let about = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    if !about.is_dir() {
        sources.push(Source { file: path.to_owned(), name: name.to_owned(), bytes: about.len() });
        return Ok(());
    }
    let failed = || format!("cannot read the folder {}", path.display());
    for entry in std::fs::read_dir(path).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let part = entry.file_name().to_string_lossy().into_owned();
        if !part.starts_with('.') {
            let name = if name.is_empty() { part } else { format!("{name}/{part}") };
            collect(&entry.path(), &name, sources)?;
        }
    }
    Ok(())
}

fn one_by_one(destination: &str, sources: &[Source], into_folder: bool) -> Result<PushSummary> {
    let mut progress = Progress::new(sources.iter().map(|source| source.bytes).sum(), true);
    let (mut files, mut sent) = (Vec::new(), 0);
    for source in sources {
        let text = match into_folder {
            true => format!("{}/{}", destination.trim_end_matches('/'), source.name),
            false => destination.to_owned(),
        };
        let address = Address::parse(&text).context("the address of a file is none")?;
        gradus_remote::put(&address, &source.file, &Expected::now(&address)?)?;
        sent += source.bytes;
        files.push(SentFile { file: source.file.clone(), address: address.to_string(), bytes: source.bytes });
        progress.at(sent, files.len() as u64);
    }
    Ok(PushSummary { files, commit: None, page: None })
}

/// All files are one commit.
fn to_hub(
    args: &PushArgs,
    destination: &Address,
    sources: &[Source],
    into_folder: bool,
) -> Result<PushSummary> {
    let (repo, folder) = hub::destination(destination)?;
    let path = |source: &Source| match (folder.is_empty(), into_folder) {
        (true, _) => source.name.clone(),
        (false, true) => format!("{folder}/{}", source.name),
        (false, false) => folder.clone(),
    };
    let uploads: Vec<Upload> =
        sources.iter().map(|source| Upload { from: source.file.clone(), path: path(source) }).collect();
    let message = args.message.clone().unwrap_or_else(|| match uploads.as_slice() {
        [one] => format!("Upload {}", one.path),
        several => format!("Upload {}", counted(several.len(), "file")),
    });
    let commit = hub::Commit { message, expected: &Expected::Anything, private: args.private };
    let pushed = hub::push(&repo, &uploads, &commit)?;
    let sent = |(source, upload): (&Source, Upload)| SentFile {
        file: source.file.clone(),
        address: format!("hf://datasets/{}/{}", repo.id, upload.path),
        bytes: source.bytes,
    };
    let files = sources.iter().zip(uploads).map(sent).collect();
    Ok(PushSummary { files, commit: Some(pushed.commit), page: Some(pushed.page) })
}

fn print(printer: Printer, summary: &PushSummary) -> Result<()> {
    for file in &summary.files {
        printer.line(format!("{} sent to {}", file.file.display(), file.address))?;
    }
    if let (Some(commit), Some(page)) = (&summary.commit, &summary.page) {
        printer.line(format!("commit {commit} of {page}"))?;
    }
    Ok(())
}
