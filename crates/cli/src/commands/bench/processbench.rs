//! `gradus bench processbench`: locates the first error of each solution.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use gradus_backend::{ScorerSettings, trained_profile};
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{MetricEstimate, processbench, published};
use gradus_core::FirstError;
use gradus_core::select::DecisionRule;
use gradus_engine::models::{self, SHIPPED, TrainedModel};
use gradus_engine::profile::Profile;
use serde_json::json;

use super::args::BenchArgs;
use super::judging::Judging;
use super::measurement::Measurement;
use super::tables::{cell, published_rows};
use crate::exit::{Status, Usage};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::grouped;

#[derive(Debug, Args)]
pub(crate) struct ProcessBenchArgs {
    /// Fit the decision rule (the threshold, or the prior of --rule posterior) on this data and write it to FILE.toml (the
    /// profile with this rule) or into the folder of a trained model or adapter; needs held-out labels, ProcessBench is refused
    #[arg(long, value_name = "FILE|FOLDER", conflicts_with = "critic")]
    fit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) bench: BenchArgs,
}

pub(super) fn run(ProcessBenchArgs { fit, bench: args }: &ProcessBenchArgs) -> Result<Status> {
    let mut job = Measurement::read("processbench", args)?;
    if let Some(target) = fit {
        check_target(target, &job, args)?;
    }
    job.keep("the first error is unknown", |sample| sample.first_error() != FirstError::Unknown);
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let decision = job.decision(&judging)?;
    let fit = match fit {
        Some(target) => Some((target, profile_to_write(target, &judging, &args.judge.scorer)?)),
        None => None,
    };
    let judged = job.ask(&judging)?;
    let decider = processbench::Decider { rule: decision, exact_checks: judging.exact_checks };
    let (numbers, facts) = processbench::measure(&job.samples, &judged, decider, &job.settings)?;
    show(&numbers, &judging.name, job.printer(args))?;
    if let Some((target, profile)) = fit {
        let Some(fitted) = numbers.fitted() else {
            bail!("--fit needs scores, and solutions with and without an error");
        };
        write_fitted(target, fitted, profile.as_deref())?;
        job.extra.insert("fitted".to_owned(), json!(fitted));
        if let Some(printer) = job.printer(args) {
            let count = grouped(job.samples.len());
            printer.line(format!("{fitted} fitted on {count} solutions: {}", printer::written_to(target)))?;
        }
    }
    let sections = processbench::sections(&numbers, &judging.name, &job.samples, &judged);
    job.finish(args, &judging, BenchmarkResults::ProcessBench(Box::new(numbers)), sections, &facts)
}

/// Refuses what cannot be fitted or written before anything is asked.
fn check_target(target: &Path, job: &Measurement<'_>, args: &BenchArgs) -> Result<()> {
    if processbench::is_official(&job.samples) {
        bail!(Usage(
            "--fit on ProcessBench would choose by what is measured: use other, held-out labels".to_owned()
        ));
    }
    if target.is_dir() && args.judge.scorer.profile.is_some() {
        bail!(Usage(
            "--fit FOLDER is for the profile that the model was trained with: omit --profile".to_owned()
        ));
    }
    if target.is_dir() && TrainedModel::read(target)?.is_none() {
        bail!(Usage(format!(
            "{}: not the folder of a model or adapter that was trained here",
            target.display()
        )));
    }
    if !target.is_dir() && target.extension().is_none_or(|extension| extension != "toml") {
        bail!(Usage(format!("--fit {}: neither a folder nor a .toml file", target.display())));
    }
    let measured = if target.is_dir() { measured(args)? } else { None };
    if let Some(measured) = measured.filter(|measured| !is_same(measured, target)) {
        bail!(Usage(format!(
            "--fit {}: the scores are of another model, {}: a number is fitted for one model alone",
            target.display(),
            measured.display()
        )));
    }
    Ok(())
}

/// Whether two folders are one; a folder that is not there is reported where it is opened.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_none_or(|(one, other)| one == other)
}

/// The folder of the model or adapter that gives the scores; none where they are recorded or a server's, which may be of
/// any folder.
fn measured(args: &BenchArgs) -> Result<Option<PathBuf>> {
    let scorer = &args.judge.scorer;
    if args.judge.scores.is_some() || !scorer.endpoints.endpoint.is_empty() {
        return Ok(None);
    }
    if let Some(adapter) = &scorer.local.adapter {
        return Ok(Some(adapter.clone()));
    }
    let model = scorer.model.as_deref().unwrap_or(SHIPPED);
    Ok(Some(models::resolve(model)?.as_path().to_owned()))
}

/// The profile that is written with its fitted rule; none for a trained model's folder.
fn profile_to_write(target: &Path, judging: &Judging, scorer: &ScorerSettings) -> Result<Option<String>> {
    if target.is_dir() {
        return Ok(None);
    }
    let named = scorer.profile.clone().map_or_else(|| trained_profile(scorer), |named| Ok(Some(named)))?;
    match named.or(judging.profile.clone()) {
        Some(profile) => Ok(Some(profile)),
        None => bail!(Usage(
            "--fit FILE.toml writes a profile, and these scores name none: use --fit FOLDER".to_owned()
        )),
    }
}

fn write_fitted(target: &Path, rule: DecisionRule, profile: Option<&str>) -> Result<()> {
    match profile {
        None => Ok(TrainedModel::decide(target, rule)?),
        Some(profile) => {
            let text = Profile::text_with(profile, rule)?;
            Ok(gradus_durable::replace_file(target, text.as_bytes())?)
        }
    }
}

fn show(numbers: &processbench::ProcessBenchResults, judge: &str, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .subsets
        .iter()
        .map(|part| {
            vec![
                part.name.clone(),
                grouped(part.scores.erroneous + part.scores.error_free),
                grouped(part.scores.undecided),
                part.acc_err.percent(),
                part.acc_cor.percent(),
                part.f1.percent(),
                part.accuracy.percent(),
            ]
        })
        .collect();
    let blank = || String::new();
    rows.push(vec![
        paint::bold("average"),
        blank(),
        blank(),
        blank(),
        blank(),
        numbers.average_f1.percent(),
        numbers.average_accuracy.percent(),
    ]);
    printer.line(format!("{judge}, {}", numbers.decision))?;
    printer
        .table(&["subset", "solutions", "undecided", "error acc", "correct acc", "f1", "accuracy"], &rows)?;
    without_a_model(numbers, judge, printer)?;
    if let Some(best) = numbers.best_threshold() {
        printer.line(format!(
            "best threshold on this data: {:.2}, average F1 {} (chosen on the same data)",
            best.threshold,
            cell(best.average)
        ))?;
    }
    if let Some(best) = numbers.best_prior() {
        printer.line(format!(
            "best prior of the posterior: {}, average F1 {} (chosen on the same data)",
            best.prior,
            cell(best.average)
        ))?;
    }
    if let Some(steps) = &numbers.steps {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        printer.line(format!(
            "steps: ROC AUC {}, average precision for wrong steps {}, ECE {}",
            number(steps.roc_auc),
            number(steps.average_precision),
            number(steps.ece)
        ))?;
    }
    if !numbers.is_official() {
        return Ok(());
    }
    published_rows(
        printer,
        &published::processbench(),
        "Published results (full benchmark, other models and thresholds):",
    )
}

/// F1 against the other rule on the same scores, and baselines without a model.
fn without_a_model(numbers: &processbench::ProcessBenchResults, judge: &str, printer: Printer) -> Result<()> {
    let row = |name: String, subsets: Vec<MetricEstimate>, average: &MetricEstimate| -> Vec<String> {
        [name].into_iter().chain(subsets.iter().chain([average]).map(MetricEstimate::percent)).collect()
    };
    let own: Vec<MetricEstimate> = numbers.subsets.iter().map(|part| part.f1).collect();
    let mut rows = vec![row(paint::bold(judge), own, &numbers.average_f1)];
    if let Some(alone) = &numbers.without_checks {
        rows.push(row(format!("{judge}, without exact checks"), alone.f1.clone(), &alone.average));
    }
    if let Some(other) = &numbers.other_rule {
        rows.push(row(format!("{judge}, {}", other.decision), other.f1.clone(), &other.average));
    }
    for simple in &numbers.baselines {
        rows.push(row(paint::dim(&simple.name), simple.f1.clone(), &simple.average));
    }
    let subsets = numbers.subsets.iter().map(|part| part.name.as_str());
    let heading: Vec<&str> =
        ["f1 against baselines without a model"].into_iter().chain(subsets).chain(["average"]).collect();
    printer.line("")?;
    printer.table(&heading, &rows)
}
