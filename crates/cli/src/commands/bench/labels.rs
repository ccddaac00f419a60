//! `gradus bench labels`: annotators, and a judge if one is named, against people.

use std::collections::HashMap;

use anyhow::Result;
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{Error, labels};
use gradus_core::Annotation;

use super::judging::Judging;
use super::{Job, show};
use crate::args::bench::Labels;
use crate::commands::Status;
use crate::input;

pub(super) fn run(args: &Labels) -> Result<Status> {
    let bench = &args.bench;
    let mut job = Job::read("labels", bench)?;
    if !args.truth.is_empty() {
        join(&mut job, args)?;
    }
    job.keep("nobody says which steps are right", |sample| sample.marks().iter().any(Option::is_some));
    let asked = bench.judge.model.is_some() || bench.judge.scores.is_some() || bench.judge.critic;
    let (judging, judged) = if asked {
        let judging = job.judge()?;
        let judged = job.ask(&judging)?;
        (judging, Some(judged))
    } else {
        if job.samples.is_empty() {
            return Err(Error::Data(
                "no solution has labels that are truth: bring them with --truth".to_owned(),
            )
            .into());
        }
        let recorded = Judging::recorded("annotators", &bench.judge);
        job.open(&recorded)?;
        job.counts.samples = job.samples.len();
        (recorded, None)
    };
    let named = judged.as_ref().map(|judged| (judging.name.as_str(), judged.as_slice()));
    let numbers = labels::measure(&job.samples, named, bench.judge.threshold)?;
    show::labels(&numbers, job.printer(bench))?;
    let sections = labels::sections(&numbers);
    job.finish(bench, &judging, BenchmarkResults::Labels(Box::new(numbers)), sections, &[])
}

/// Puts the labels of `--truth` beside those of the same solutions in the input.
fn join(job: &mut Job<'_>, args: &Labels) -> Result<()> {
    let mut truth: HashMap<String, Vec<Annotation>> = HashMap::new();
    input::read(&args.truth, None, args.bench.input.on_error, &mut |item| {
        for solution in item.record.solutions {
            truth.insert(solution.id, solution.annotations);
        }
        Ok(())
    })?;
    for sample in &mut job.samples {
        let steps = sample.solution.steps.len();
        let known = truth.get(&sample.solution.id).into_iter().flatten();
        let usable = known.filter(|annotation| annotation.labels.len() == steps);
        sample.solution.annotations.splice(0..0, usable.cloned());
    }
    Ok(())
}
