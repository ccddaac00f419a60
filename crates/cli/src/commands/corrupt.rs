//! `gradus data corrupt`: wrong solutions out of right ones.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gradus_core::{Problem, Record, Solution};
use gradus_data::corrupt::{Kind, Layout, right, right_part, wrong};
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use super::Status;
use crate::args::Corrupt;
use crate::input;
use crate::printer::{self, Printer};

#[derive(Debug, Default, Serialize)]
struct Report {
    /// Problems that were written.
    problems: u64,
    /// Problems without a reference solution, or with `--solutions` without any solution.
    without_material: u64,
    /// Problems that were left out because nothing in their solutions could be changed.
    unchanged: u64,
    /// Solutions that have no labels, or are wrong from their first step on: no wrong copies are made of them.
    without_right_steps: u64,
    /// Right solutions for which fewer wrong ones could be made than were asked for.
    short: u64,
    /// Solutions that were written as they are.
    kept: u64,
    wrong: u64,
    by_kind: BTreeMap<String, u64>,
    skipped: u64,
}

pub(super) fn run(args: &Corrupt) -> Result<Status> {
    let mut report = Report::default();
    let mut sink = Sink::create(Target::new(&args.output))?;
    let tally = input::for_each(&args.input, |item| {
        let Record { problem, solutions, .. } = item.record;
        let made = if args.solutions {
            (!solutions.is_empty()).then(|| from_solutions(args, &problem, solutions, &mut report))
        } else {
            right(&problem).map(|reference| from_reference(args, &problem, &reference, &mut report))
        };
        match made {
            None => report.without_material += 1,
            Some(made) if made.is_empty() => report.unchanged += 1,
            Some(made) => {
                report.problems += 1;
                sink.push(&Record::new(problem, made))?;
            }
        }
        Ok(())
    })?;
    report.skipped = tally.skipped;
    if report.kept + report.wrong == 0 {
        bail!("no problem of the input has a {} that can be corrupted", material(args));
    }
    sink.finish()?;
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} solutions and {} wrong ones made from them, to {} {}",
        printer::count(report.kept),
        printer::count(report.wrong),
        printer::counted(report.problems, "problem"),
        printer::written_to(&args.output)
    ))?;
    for (kind, count) in &report.by_kind {
        printer.line(format!("{:>8}  {kind}", printer::count(*count)))?;
    }
    printer.counts(&[
        (report.without_material as usize, &format!("problems have no {} and are left out", material(args))),
        (report.unchanged as usize, "problems are left out: nothing in their solutions could be changed"),
        (
            report.without_right_steps as usize,
            "solutions have no labels, or none of their steps is right: no wrong copies are made of them",
        ),
        (
            report.short as usize,
            "solutions got fewer wrong copies than asked for: nothing else could be changed",
        ),
        (report.skipped as usize, "records were skipped: they could not be read"),
    ])?;
    Ok(Status::Done)
}

fn material(args: &Corrupt) -> &'static str {
    if args.solutions { "solution" } else { "reference solution" }
}

/// The reference as it is and in other layouts, each with its wrong copies.
fn from_reference(
    args: &Corrupt,
    problem: &Problem,
    reference: &Solution,
    report: &mut Report,
) -> Vec<Solution> {
    let mut made = Vec::new();
    for number in 0..=args.layouts {
        let layout = (number > 0).then(|| Layout::draw(problem, number, args.seed));
        let fine = match &layout {
            None => reference.clone(),
            Some(layout) => layout.arrange(problem, reference, number),
        };
        let mut wrong = copies(args, problem, &fine, report);
        if !args.only_wrong {
            report.kept += 1;
            wrong.insert(0, fine);
        }
        if let Some(layout) = layout {
            wrong.iter_mut().for_each(|solution| layout.head(solution));
        }
        made.append(&mut wrong);
    }
    made
}

/// Labelled solutions as they are, each with wrong copies of its right steps.
fn from_solutions(
    args: &Corrupt,
    problem: &Problem,
    solutions: Vec<Solution>,
    report: &mut Report,
) -> Vec<Solution> {
    let mut made = Vec::new();
    for solution in solutions {
        let fine = right_part(&solution);
        report.without_right_steps += u64::from(fine.is_none());
        let mut wrong = fine.map_or_else(Vec::new, |fine| copies(args, problem, &fine, report));
        if !args.only_wrong {
            report.kept += 1;
            made.push(solution);
        }
        made.append(&mut wrong);
    }
    made
}

fn copies(args: &Corrupt, problem: &Problem, fine: &Solution, report: &mut Report) -> Vec<Solution> {
    let kinds = if args.kinds.is_empty() { &Kind::ALL[..] } else { &args.kinds };
    let made = wrong(problem, fine, args.copies, kinds, args.seed);
    report.short += u64::from(made.len() < args.copies);
    report.wrong += made.len() as u64;
    for solution in &made {
        let kind = solution.metadata.get("error").and_then(|kind| kind.as_str()).unwrap_or_default();
        *report.by_kind.entry(kind.to_owned()).or_default() += 1;
    }
    made
}
