//! `gradus bench prmbench`: classifies every step, by error class.

use anyhow::Result;
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{prmbench, published};

use super::args::BenchArgs;
use super::measurement::Measurement;
use super::tables::{cell, published_rows};
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};
use gradus_core::select::DecisionRule;

pub(super) fn run(args: &BenchArgs) -> Result<Status> {
    args.judge.decision.of_steps(DecisionRule::default())?;
    let mut job = Measurement::read("prmbench", args)?;
    job.keep("it is no PRMBench record", |sample| prmbench::class_of(sample).is_some());
    let judging = job.judge()?;
    let threshold = job.step_threshold(judging.decision)?;
    let judged = job.ask(&judging)?;
    let (numbers, facts) = prmbench::measure(&job.samples, &judged, threshold, &job.settings)?;
    show(&numbers, &judging.name, job.printer(args))?;
    let sections = prmbench::sections(&numbers, &judging.name);
    job.finish(args, &judging, BenchmarkResults::PrmBench(Box::new(numbers)), sections, &facts)
}

fn show(numbers: &prmbench::PrmBenchResults, judge: &str, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    let mut rows: Vec<Vec<String>> = numbers
        .classes
        .iter()
        .map(|class| {
            vec![
                class.name.clone(),
                grouped(class.samples),
                class.f1.percent(),
                class.negative_f1.percent(),
                class.score.percent(),
            ]
        })
        .collect();
    for (group, score) in &numbers.groups {
        let name = serde_json::to_value(group).ok().and_then(|name| name.as_str().map(str::to_owned));
        rows.push(vec![name.unwrap_or_default(), String::new(), String::new(), String::new(), cell(*score)]);
    }
    let overall = numbers.overall.percent();
    rows.push(vec![paint::bold("overall"), String::new(), String::new(), String::new(), overall]);
    printer.line(format!("{judge}, threshold {}", numbers.threshold))?;
    printer.table(&["class", "solutions", "f1", "negative f1", "prmscore"], &rows)?;
    if numbers.ours.unlabeled > 0 {
        printer.line(format!("{} excluded: invalid labels", counted(numbers.ours.unlabeled, "solution")))?;
    }
    let official =
        numbers.official.as_ref().and_then(|metrics| metrics.overall).and_then(|overall| overall.prm_score);
    printer.line(format!("overall (official implementation): {}", cell(official)))?;
    published_rows(printer, &published::prmbench(), "Published results:")
}
