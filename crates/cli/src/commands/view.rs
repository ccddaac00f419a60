//! `gradus view`: records as one HTML page; a run folder's curves; where a benchmark's page is.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::exact;
use gradus_backend::{decision_of_scores, has_exact_checks};
use gradus_core::select::{Aggregation, DecisionRule};
use gradus_core::{Record, Solution};
use gradus_view::{LeftOut, ViewOptions, page};
use serde::Serialize;

use super::train::plot;
use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::decision::DecisionOptions;
use crate::arguments::values::count;
use crate::exit::{Status, Usage};
use crate::input::{self, JoinedFiles, Need};
use crate::output;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus view scored.jsonl\n  gradus view scored-by-a.jsonl scored-by-b.jsonl -o both.html\n  gradus view runs/prm -o curves.html\n\n\
Records of the same problem are merged; scores and labels of several files stand side by side. The page needs no network."
)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output HTML page (default: NAME.view.html beside the first input)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum problems on the page
    #[arg(long, default_value_t = 100, value_parser = count)]
    limit: usize,
    /// Maximum solutions of a problem that are shown step by step
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count)]
    solutions: usize,
    #[command(flatten)]
    decision: DecisionOptions,
    /// Aggregation by which chosen solutions are marked: last, min, product, mean or norm_product
    #[arg(long, default_value = "last")]
    aggregation: Aggregation,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct ViewSummary {
    /// Problems on the page.
    problems: usize,
    solutions: usize,
    /// Records of further problems.
    left_out: u64,
    /// Solutions that were in several files.
    united: usize,
    /// Invalid records.
    skipped: u64,
    output: PathBuf,
}

pub(super) fn run(args: &ViewArgs) -> Result<Status> {
    args.decision.check()?;
    let inputs = &args.input.files.inputs;
    if let Some(status) = of_another_kind(args)? {
        return Ok(status);
    }
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&inputs[0])?,
    };
    let mut joined = JoinedFiles::default();
    let (mut known, mut left_out) = (HashSet::new(), LeftOut::default());
    let tally = input::for_each(&args.input, Need::StepsOfAny, |item| {
        let id = &item.record.problem.id;
        if !known.contains(id) && known.len() >= args.limit {
            left_out.records += 1;
            return Ok(());
        }
        known.insert(id.clone());
        joined.add(item).map(drop)
    })?;
    left_out.invalid = tally.skipped;
    let united = joined.united();
    let mut records = joined.into_records();
    let options = view_options(args, &records)?;
    prove(&mut records, &options.exact_checks);
    let html = page(&title(inputs), &records, &left_out, &options);
    write(&output, &html)?;
    let summary = ViewSummary {
        problems: records.len(),
        solutions: records.iter().map(|record| record.solutions.len()).sum(),
        left_out: left_out.records,
        united,
        skipped: tally.skipped,
        output,
    };
    Printer::new(Some(&summary.output)).summary(args.print.json, &summary, print)?;
    Ok(Status::Done)
}

/// How records are shown: by the rule that is named, else by that of each model's profile.
fn view_options(args: &ViewArgs, records: &[Record]) -> Result<ViewOptions> {
    let ViewArgs { aggregation, solutions, .. } = *args;
    let decision = args.decision.over(DecisionRule::default())?;
    let names =
        records.iter().flat_map(|record| &record.solutions).flat_map(|solution| solution.scores.keys());
    let (mut decisions, mut exact_checks) = (BTreeMap::new(), BTreeSet::new());
    for name in names.collect::<BTreeSet<_>>() {
        if has_exact_checks(name) {
            exact_checks.insert(name.clone());
        }
        let own = args.decision.over(decision_of_scores(name))?;
        if own != decision {
            decisions.insert(name.clone(), own);
        }
    }
    Ok(ViewOptions { decision, decisions, exact_checks, aggregation, solutions })
}

/// Labels what is proved wrong in solutions with scores beside which proofs decide.
fn prove(records: &mut [Record], exact_checks: &BTreeSet<String>) {
    for record in records {
        let scored =
            |solution: &&mut Solution| exact_checks.iter().any(|name| solution.scores.contains_key(name));
        for solution in record.solutions.iter_mut().filter(scored) {
            exact::label(&record.problem.text, solution);
        }
    }
}

fn print(printer: Printer, summary: &ViewSummary) -> Result<()> {
    let (problems, solutions) =
        (counted(summary.problems, "problem"), counted(summary.solutions, "solution"));
    printer.line(format!("{problems} with {solutions} {}", printer::written_to(&summary.output)))?;
    if summary.left_out > 0 {
        let more = grouped(summary.left_out);
        printer.line(format!("{more} more {} left out: raise --limit", records_word(summary.left_out)))?;
    }
    printer.counts(&[(summary.united as u64, "solution", "in several files, united")])?;
    printer.skipped(summary.skipped)
}

fn records_word(number: u64) -> &'static str {
    if number == 1 { "record is" } else { "records are" }
}

/// Run folders become the page of their curves; a benchmark run has a page already.
fn of_another_kind(args: &ViewArgs) -> Result<Option<Status>> {
    let inputs = &args.input.files.inputs;
    if inputs.iter().all(|path| path.join("metrics.jsonl").is_file()) {
        let output = args.output.clone().unwrap_or_else(|| inputs[0].join("curves.html"));
        write(&output, &plot::curves_page(inputs)?)?;
        Printer::new(Some(&output)).line(printer::written_to(&output))?;
        return Ok(Some(Status::Done));
    }
    for path in inputs {
        let is_report = path.file_name().is_some_and(|name| name == "report.json");
        let folder = if is_report { path.parent().unwrap_or(Path::new("")) } else { path.as_path() };
        let written = folder.join("report.html");
        if is_report || folder.join("report.json").is_file() {
            if !written.is_file() {
                bail!("{}: a benchmark run without its page: run `gradus bench` again", folder.display());
            }
            bail!("{}: a benchmark run; its page is {}", path.display(), written.display());
        }
        if path.join("metrics.jsonl").is_file() {
            bail!("{}: a run folder among datasets: view run folders alone", path.display());
        }
    }
    Ok(None)
}

fn write(output: &Path, html: &str) -> Result<()> {
    if output == Path::new("-") {
        std::io::stdout().write_all(html.as_bytes())?;
        Ok(())
    } else {
        output::write(output, html.as_bytes())
    }
}

/// `scored.view.html` beside `scored.jsonl.gz`.
fn beside(input: &Path) -> Result<PathBuf> {
    let Some(name) = input.file_name().filter(|_| input != Path::new("-")) else {
        bail!(Usage("standard input has no name: set -o".to_owned()));
    };
    let mut stem = Path::new(name);
    let known = ["gz", "zst", "json", "jsonl", "csv", "tsv", "parquet", "txt", "eval"];
    while stem.extension().is_some_and(|extension| known.iter().any(|known| extension == *known)) {
        stem = Path::new(stem.file_stem().unwrap_or_default());
    }
    let mut name = stem.as_os_str().to_owned();
    name.push(".view.html");
    Ok(input.with_file_name(name))
}

/// The names of the files.
fn title(inputs: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    inputs.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_beside_their_files() {
        let of = |path: &str| beside(Path::new(path)).unwrap();
        assert_eq!(of("a/scored.jsonl"), Path::new("a/scored.view.html"));
        assert_eq!(of("math.v2.json.gz"), Path::new("math.v2.view.html"));
        assert_eq!(of("shards/"), Path::new("shards.view.html"));
        assert!(beside(Path::new("-")).is_err());
    }
}
