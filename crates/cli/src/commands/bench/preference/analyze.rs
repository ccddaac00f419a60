//! `gradus bench preference analyze`: bias over deciles of perplexity, from finished runs.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_bench::compare::FinishedRun;
use gradus_bench::fact::Observation;
use gradus_bench::preference::perplexity_bias::{PerplexityBias, perplexity_bias};
use gradus_bench::{Error, preference};
use gradus_core::metrics::bias::Judgment;
use gradus_plot::{Page, Section};

use super::super::tables::cell;
use crate::arguments::JsonOption;
use crate::arguments::dataset::OnError;
use crate::exit::Status;
use crate::input;
use crate::output;
use crate::terminal::printer::Printer;
use gradus_core::count::grouped;

#[derive(Debug, Args)]
pub(super) struct AnalyzeArgs {
    /// Run folders of gradus bench preference
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Dataset with perplexities, matched by solution id (default: those in the runs)
    #[arg(long, value_name = "FILE")]
    perplexities: Option<PathBuf>,
    /// Output HTML page (default: analysis.html in the first run folder)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &AnalyzeArgs) -> Result<Status> {
    let perplexities = args.perplexities.as_ref().map(perplexities_of).transpose()?;
    let printer = Printer::new(None);
    let mut found: Vec<(String, PerplexityBias)> = Vec::new();
    for (folder, run) in args.runs.iter().zip(FinishedRun::read(&args.runs)?) {
        let judged: Vec<(Option<f64>, Judgment)> = run
            .facts
            .iter()
            .filter_map(|fact| {
                let Observation::Judged { correct, judged, perplexity } = &fact.observation else {
                    return None;
                };
                let perplexity = match &perplexities {
                    Some(known) => known.get(&fact.id).copied(),
                    None => *perplexity,
                };
                Some((perplexity, Judgment { correct: *correct, judged: *judged }))
            })
            .collect();
        let analysis = perplexity_bias(&judged).ok_or_else(|| {
            Error::Data(format!(
                "{}: fewer than ten solutions have a perplexity: run gradus bench preference with perplexities, or use --perplexities",
                folder.display()
            ))
        })?;
        found.push((run.report.judge, analysis));
    }
    let section = |(name, analysis): &(String, PerplexityBias)| Section {
        heading: name.clone(),
        intro: String::new(),
        blocks: analysis.blocks(),
    };
    let page = Page {
        title: "Bias over perplexity".to_owned(),
        subtitle: "BI = FPR − FNR per perplexity decile.".to_owned(),
        sections: found.iter().map(section).collect(),
        data_json: serde_json::to_string_pretty(&found).ok(),
    };
    let output = args.output.clone().unwrap_or_else(|| args.runs[0].join("analysis.html"));
    output::write(&output, page.html().as_bytes())?;
    if args.print.json {
        printer.json(&found)?;
        return Ok(Status::Done);
    }
    for (name, analysis) in &found {
        printer.line(format!("\n{name}"))?;
        let rows: Vec<Vec<String>> = analysis
            .deciles
            .iter()
            .map(|decile| {
                let bias = &decile.bias;
                let tenth = [decile.number.to_string(), format!("{:.2}–{:.2}", decile.low, decile.high)];
                let counts = [bias.correct, bias.wrong, bias.undecided].map(grouped);
                let shares = [bias.fpr, bias.fnr, bias.bi].map(cell);
                tenth.into_iter().chain(counts).chain(shares).collect()
            })
            .collect();
        printer
            .table(&["decile", "perplexity", "correct", "wrong", "undecided", "fpr", "fnr", "bi"], &rows)?;
        regression(analysis, printer)?;
    }
    printer.line(format!("page: {}", output.display()))?;
    Ok(Status::Done)
}

/// Perplexities by solution id, as `gradus perplexity --data -o` leaves them.
fn perplexities_of(path: &PathBuf) -> Result<HashMap<String, f64>> {
    let mut known = HashMap::new();
    input::read(std::slice::from_ref(path), Default::default(), OnError::Fail, &mut |item| {
        for solution in item.record.solutions {
            if let Some(perplexity) = solution.metadata.get("perplexity").and_then(serde_json::Value::as_f64)
            {
                known.insert(solution.id, perplexity);
            }
        }
        Ok(())
    })?;
    Ok(known)
}

/// The regression over deciles in one line.
pub(super) fn regression(
    analysis: &preference::perplexity_bias::PerplexityBias,
    printer: Printer,
) -> Result<()> {
    match &analysis.fit {
        Some(fit) => printer.line(format!(
            "BI over deciles of perplexity: slope {:.4} ± {:.4}, r {:.3}, p {:.2e} ({} solutions, {} without perplexity)",
            fit.slope, fit.stderr, fit.r, fit.p, analysis.solutions, analysis.without
        )),
        None => printer.line("BI over deciles of perplexity: fewer than three deciles have a BI"),
    }
}
