//! `gradus bench compare`: finished runs side by side.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use gradus_bench::compare::{FinishedRun, compare, page};
use gradus_core::metrics::bootstrap::Settings;

use crate::arguments::JsonOption;
use crate::arguments::values::count_or_none;
use crate::exit::Status;
use crate::output;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Run folders of one benchmark; the first is the baseline
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Output HTML page (default: compare.html in the last run folder)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Bootstrap resamples
    #[arg(long, default_value_t = 1000, value_parser = count_or_none)]
    resamples: usize,
    /// Random seed of the bootstrap
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &CompareArgs) -> Result<Status> {
    let runs = FinishedRun::read(&args.runs)?;
    let settings = Settings { resamples: args.resamples, seed: args.seed, ..Settings::default() };
    let found = compare(&runs, &settings)?;
    let last = args.runs.last().context("clap asks for at least two runs")?;
    let output = args.output.clone().unwrap_or_else(|| last.join("compare.html"));
    output::write(&output, page(&found).html().as_bytes())?;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&found)?;
        return Ok(Status::Done);
    }
    for other in &found.others {
        printer.line(format!("\n{} vs. {}", paint::bold(&other.name), found.first))?;
        let rows: Vec<Vec<String>> = other
            .differences
            .iter()
            .map(|difference| {
                let p = difference.p.map_or("–".to_owned(), |p| format!("{p:.3}"));
                vec![
                    difference.number.clone(),
                    difference.first.percent(),
                    difference.other.percent(),
                    difference.difference.signed(),
                    p,
                ]
            })
            .collect();
        printer.table(&["metric", &found.first, &other.name, "difference", "p"], &rows)?;
        printer.line(format!(
            "{} in both; {} only in {}, {} only in {}",
            counted(other.paired, "sample"),
            grouped(other.only_first),
            found.first,
            grouped(other.only_other),
            other.name
        ))?;
    }
    printer.line(format!("page: {}", output.display()))?;
    Ok(Status::Done)
}
