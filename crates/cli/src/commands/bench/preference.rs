//! `gradus bench preference`, with `build` and `analyse`.

use std::collections::HashMap;

use anyhow::{Context, Result};
use gradus_bench::compare::FinishedRun;
use gradus_bench::fact::Observation;
use gradus_bench::preference::build::{self, PreferencePlan};
use gradus_bench::preference::perplexity_bias::{PerplexityBias, perplexity_bias};
use gradus_bench::report::BenchmarkResults;
use gradus_bench::run::Progress as Done;
use gradus_bench::{Error, perplexity, preference};
use gradus_core::Record;
use gradus_core::contracts::LogProbs;
use gradus_core::metrics::bias::Judgement;
use gradus_data::files::{Sink, Target};
use gradus_plot::{Page, Section};
use serde_json::json;

use super::judging::AHEAD;
use super::{Job, show};
use crate::args::OnError;
use crate::args::bench::{Preference, PreferenceAnalyse, PreferenceBuild, PreferenceCommand, PreferenceTask};
use crate::commands::Status;
use crate::input;
use crate::interrupt;
use crate::local::{self, Purpose};
use crate::printer::{self, Printer, count};
use crate::progress::Progress;

pub(super) fn run(args: &PreferenceCommand) -> Result<Status> {
    match &args.command {
        Some(PreferenceTask::Build(args)) => build(args),
        Some(PreferenceTask::Analyse(args)) => analyse_runs(args),
        None => measure(&args.run),
    }
}

fn measure(args: &Preference) -> Result<Status> {
    let bench = &args.bench;
    let mut job = Job::read("preference", bench)?;
    job.keep("the outcome is unknown", |sample| sample.solution.outcome.is_correct().is_some());
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let judged = job.ask(&judging)?;
    if !args.no_perplexity {
        if let Some(model) = args.perplexity_model.as_ref().or(judging.base.as_ref()) {
            let other = local::start(model, &bench.options, &Purpose::default())?;
            fill(&mut job, &other.engine, &other.identity)?;
            job.extra.insert("perplexity_model".to_owned(), json!(model));
        } else if let Some((local, identity)) = judging.local() {
            fill(&mut job, &local.engine, identity)?;
            job.extra.insert("perplexity_model".to_owned(), json!("the judge's own"));
        }
    }
    let (numbers, facts) = preference::measure(&job.samples, &judged, bench.judge.threshold, &job.settings)?;
    show::preference(&numbers, &judging.name, job.printer(bench))?;
    let sections = preference::sections(&numbers, &judging.name);
    job.finish(bench, &judging, BenchmarkResults::Preference(Box::new(numbers)), sections, &facts)
}

/// Fills in the perplexities that the data does not have.
fn fill(job: &mut Job<'_>, model: &dyn LogProbs, identity: &str) -> Result<()> {
    let mut samples = std::mem::take(&mut job.samples);
    let mut bar = Progress::new(samples.len() as u64, false);
    let filled = perplexity::fill(job.run()?, &mut samples, (model, identity), AHEAD, |done: Done| {
        bar.now(done.done as u64, "perplexities");
        !interrupt::asked()
    });
    let missing = local::wait(filled)??;
    drop(bar);
    job.samples = samples;
    if missing > 0 {
        printer::note(format!("{missing} solutions are too long for a perplexity and in no decile"));
    }
    Ok(())
}

fn build(args: &PreferenceBuild) -> Result<Status> {
    let mut records: Vec<Record> = Vec::new();
    input::for_each(&args.input, |item| {
        records.push(item.record);
        Ok(())
    })?;
    let printer = Printer::new(Some(&args.output));
    let write = |records: &[Record]| -> Result<()> {
        let mut sink = Sink::create(Target::new(&args.output))?;
        records.iter().try_for_each(|record| sink.push(record))?;
        Ok(sink.finish().map(drop)?)
    };
    if args.candidates {
        let (candidates, dropped) = build::candidates(&records);
        write(&candidates)?;
        let kept: usize = candidates.iter().map(|record| record.solutions.len()).sum();
        if args.print.json {
            printer.json(&json!({ "candidates": kept, "dropped": dropped }))?;
        } else {
            printer.line(format!(
                "{} candidates {}",
                count(kept as u64),
                printer::written_to(&args.output)
            ))?;
            left_out(printer, &dropped)?;
        }
        return Ok(Status::Done);
    }
    let plan = PreferencePlan {
        count: args.count,
        families: args.families.clone(),
        limit: args.limit,
        prm: args.prm.clone(),
        threshold: args.threshold,
        seed: args.seed,
    };
    let built = build::build(&records, &plan)?;
    write(&built.records)?;
    if args.print.json {
        printer.json(&built)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} correct and {} wrong answers by {} each, to {} problems: {} solutions {}",
        built.per_class,
        built.per_class,
        built.families.join(", "),
        count(built.problems as u64),
        count((2 * built.per_class * built.families.len()) as u64),
        printer::written_to(&args.output)
    ))?;
    printer.line(format!(
        "before balancing: {} problems with a common right answer, {} with a common wrong one",
        count(built.correct_units as u64),
        count(built.wrong_units as u64)
    ))?;
    let models: Vec<Vec<String>> =
        built.models.iter().map(|(model, number)| vec![model.clone(), count(*number as u64)]).collect();
    printer.table(&["model", "solutions"], &models)?;
    left_out(printer, &built.dropped)?;
    Ok(Status::Done)
}

fn left_out(printer: Printer, dropped: &std::collections::BTreeMap<&'static str, usize>) -> Result<()> {
    for (reason, number) in dropped {
        printer.line(format!("left out: {} × {reason}", count(*number as u64)))?;
    }
    Ok(())
}

fn analyse_runs(args: &PreferenceAnalyse) -> Result<Status> {
    let perplexities = args.perplexities.as_ref().map(perplexities_of).transpose()?;
    let printer = Printer::new(None);
    let mut found: Vec<(String, PerplexityBias)> = Vec::new();
    for folder in &args.runs {
        let run = FinishedRun::read(folder)?;
        let judged: Vec<(Option<f64>, Judgement)> = run
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
                Some((perplexity, Judgement { correct: *correct, judged: *judged }))
            })
            .collect();
        let analysis = perplexity_bias(&judged).ok_or_else(|| {
            Error::Data(format!(
                "{}: fewer than ten solutions have a perplexity: is it a run of gradus bench preference with perplexities, or are they in --perplexities?",
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
        subtitle: "BI = FPR − FNR of each tenth of the solutions, by perplexity.".to_owned(),
        sections: found.iter().map(section).collect(),
        data_json: serde_json::to_string_pretty(&found).ok(),
    };
    let output = args.output.clone().unwrap_or_else(|| args.runs[0].join("analysis.html"));
    std::fs::write(&output, page.html()).with_context(|| output.display().to_string())?;
    if args.print.json {
        printer.json(&found)?;
        return Ok(Status::Done);
    }
    for (name, analysis) in &found {
        printer.line(format!("\n{name}"))?;
        let share =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{:.1}", 100.0 * value));
        let rows: Vec<Vec<String>> = analysis
            .deciles
            .iter()
            .map(|decile| {
                vec![
                    decile.number.to_string(),
                    format!("{:.2}–{:.2}", decile.low, decile.high),
                    count(decile.bias.correct as u64),
                    count(decile.bias.wrong as u64),
                    count(decile.bias.undecided as u64),
                    share(decile.bias.fpr),
                    share(decile.bias.fnr),
                    share(decile.bias.bi),
                ]
            })
            .collect();
        printer
            .table(&["decile", "perplexity", "correct", "wrong", "undecided", "fpr", "fnr", "bi"], &rows)?;
        show::regression(analysis, printer)?;
    }
    printer.line(format!("page: {}", output.display()))?;
    Ok(Status::Done)
}

/// Perplexities by solution id, as `gradus perplexity --data -o` leaves them.
fn perplexities_of(path: &std::path::PathBuf) -> Result<HashMap<String, f64>> {
    let mut known = HashMap::new();
    input::read(std::slice::from_ref(path), None, OnError::Fail, &mut |item| {
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
