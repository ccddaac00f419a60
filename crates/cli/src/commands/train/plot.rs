//! `gradus train plot`: the curves of runs as a web page.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_train::curves;
use gradus_train::run::metrics;

use crate::exit::Status;
use crate::output;
use crate::terminal::printer::Printer;

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// Run folders to plot together
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Output HTML page (default: curves.html in the first run folder)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &PlotArgs) -> Result<Status> {
    let output = args.output.clone().unwrap_or_else(|| args.runs[0].join("curves.html"));
    output::write(&output, curves_page(&args.runs)?.as_bytes())?;
    Printer::new(None).line(format!("written to {}", output.display()))?;
    Ok(Status::Done)
}

/// The page of these run folders.
pub(in crate::commands) fn curves_page(folders: &[PathBuf]) -> Result<String> {
    let mut runs = Vec::new();
    for run in folders {
        let path = run.join("metrics.jsonl");
        let lines = metrics::read(&path)?;
        if lines.is_empty() {
            bail!("{}: no metrics yet", path.display());
        }
        let name = run
            .file_name()
            .map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned());
        runs.push(curves::RunCurves { name, lines });
    }
    Ok(curves::page(&runs))
}
