//! `gradus bench preference`: preference bias of a judge by the family of models that wrote the solution.

mod analyze;
mod build;

use analyze::regression;
use anyhow::Result;
use clap::{Args, Subcommand};
use gradus_backend::{Local, LocalSettings, Purpose, block_on};
use gradus_bench::report::BenchmarkResults;
use gradus_bench::run::Progress as Done;
use gradus_bench::{perplexity, preference, published};
use gradus_core::contracts::LogProbs;
use serde_json::json;

use super::args::BenchArgs;
use super::judging::AHEAD;
use super::measurement::Measurement;
use super::tables::published_rows;
use crate::exit::Status;
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;
use crate::terminal::{interrupt, paint};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PreferenceArgs {
    #[command(subcommand)]
    command: Option<PreferenceCommand>,
    #[command(flatten)]
    run: MeasureArgs,
}

#[derive(Debug, Subcommand)]
enum PreferenceCommand {
    /// Build a benchmark: the same problems and final answers by several model families, half of them correct
    Build(build::BuildArgs),
    #[command(alias = "analyse")]
    /// Regress bias on perplexity, over the deciles of finished runs
    Analyze(analyze::AnalyzeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Do not compute perplexities that the data lacks
    #[arg(long)]
    no_perplexity: bool,
    /// Model for perplexities (default: the local judge)
    #[arg(long, value_name = "MODEL", conflicts_with = "no_perplexity")]
    perplexity_model: Option<String>,
    #[command(flatten)]
    bench: BenchArgs,
}

impl PreferenceArgs {
    /// The benchmark to run; none for a subcommand.
    pub(super) fn measurement(&self) -> Option<&BenchArgs> {
        self.command.is_none().then_some(&self.run.bench)
    }
}

pub(super) fn run(args: &PreferenceArgs) -> Result<Status> {
    match &args.command {
        Some(PreferenceCommand::Build(args)) => build::run(args),
        Some(PreferenceCommand::Analyze(args)) => analyze::run(args),
        None => measure(&args.run),
    }
}

fn measure(args: &MeasureArgs) -> Result<Status> {
    let bench = &args.bench;
    let mut job = Measurement::read("preference", bench)?;
    job.keep("the outcome is unknown", |sample| sample.solution.outcome.is_correct().is_some());
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    job.with_local_model = args.perplexity_model.is_some() && !args.no_perplexity;
    let judging = job.judge()?;
    let decision = job.decision(&judging)?;
    let judged = job.ask(&judging)?;
    if !args.no_perplexity {
        if let Some(model) = args.perplexity_model.as_ref().or(judging.base.as_ref()) {
            let settings = LocalSettings { adapter: None, ..bench.judge.scorer.local.clone() };
            let other = Local::start(model, &settings, Purpose::Text)?;
            fill(&mut job, &other.engine, &other.identity)?;
            job.extra.insert("perplexity_model".to_owned(), json!(model));
        } else if let Some((local, identity)) = judging.local() {
            fill(&mut job, &local.engine, identity)?;
            job.extra.insert("perplexity_model".to_owned(), json!("the judge's own"));
        }
    }
    let (numbers, facts) = preference::measure(&job.samples, &judged, decision, &job.settings)?;
    show(&numbers, &judging.name, job.printer(bench))?;
    let sections = preference::sections(&numbers, &judging.name);
    job.finish(bench, &judging, BenchmarkResults::Preference(Box::new(numbers)), sections, &facts)
}

/// Computes the perplexities that the data lacks.
fn fill(job: &mut Measurement<'_>, model: &dyn LogProbs, identity: &str) -> Result<()> {
    let mut samples = std::mem::take(&mut job.samples);
    let mut bar = Progress::new(samples.len() as u64, false);
    let filled = perplexity::fill(job.run()?, &mut samples, (model, identity), AHEAD, |done: Done| {
        bar.now(done.done as u64, "perplexities");
        !interrupt::asked()
    });
    let missing = block_on(filled)??;
    drop(bar);
    job.samples = samples;
    if missing > 0 {
        printer::note(format!("{} too long for perplexity, in no decile", counted(missing, "solution")));
    }
    Ok(())
}

fn show(numbers: &preference::PreferenceResults, judge: &str, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .generators
        .iter()
        .map(|generator| {
            vec![
                generator.name.clone(),
                grouped(generator.bias.correct),
                grouped(generator.bias.wrong),
                grouped(generator.bias.undecided),
                generator.fpr.percent(),
                generator.fnr.percent(),
                generator.bi.signed(),
                generator.accuracy.percent(),
                generator.median_perplexity.map_or(String::new(), |value| format!("{value:.2}")),
            ]
        })
        .collect();
    rows.push(vec![
        paint::bold("mean (|BI|)"),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        numbers.mean_absolute_bi.percent(),
        numbers.accuracy.percent(),
        String::new(),
    ]);
    printer.line(judge)?;
    let heading =
        ["generator", "correct", "wrong", "undecided", "fpr", "fnr", "bi", "accuracy", "perplexity"];
    printer.table(&heading, &rows)?;
    if let Some(analysis) = &numbers.perplexity {
        regression(analysis, printer)?;
    }
    published_rows(printer, &published::preference(), "Published results (other problems):")
}
