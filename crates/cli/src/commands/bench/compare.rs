//! `gradus bench compare`: finished runs side by side.

use anyhow::{Context, Result};
use gradus_bench::compare::{FinishedRun, compare, page};
use gradus_core::metrics::bootstrap::Settings;

use crate::args::bench::Compare;
use crate::commands::Status;
use crate::paint;
use crate::printer::{Printer, count};

pub(super) fn run(args: &Compare) -> Result<Status> {
    let runs = args.runs.iter().map(|folder| FinishedRun::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let settings = Settings { resamples: args.resamples, seed: args.seed, ..Settings::default() };
    let found = compare(&runs, &settings)?;
    let last = args.runs.last().context("clap asks for at least two runs")?;
    let output = args.output.clone().unwrap_or_else(|| last.join("compare.html"));
    std::fs::write(&output, page(&found).html()).with_context(|| output.display().to_string())?;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&found)?;
        return Ok(Status::Done);
    }
    for other in &found.others {
        printer.line(format!("\n{} against {}", paint::bold(&other.name), found.first))?;
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
        printer.table(&["number", &found.first, &other.name, "difference", "p"], &rows)?;
        printer.line(format!(
            "{} samples in both; {} only in {}, {} only in {}",
            count(other.paired as u64),
            count(other.only_first as u64),
            found.first,
            count(other.only_other as u64),
            other.name
        ))?;
    }
    printer.line(format!("page: {}", output.display()))?;
    Ok(Status::Done)
}
