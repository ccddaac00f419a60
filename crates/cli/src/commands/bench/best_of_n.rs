//! `gradus bench best-of-n`: accuracy of the solution selected among N.

use anyhow::Result;
use clap::Args;
use gradus_bench::report::BenchmarkResults;
use gradus_bench::{MetricEstimate, best_of_n};
use gradus_core::select::Aggregation;
use gradus_core::select::vote::Power;
use serde_json::json;

use super::args::BenchArgs;
use super::judging::Judging;
use super::measurement::Measurement;
use super::tables::cell;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct BestOfNArgs {
    /// Exponent of scores in the weighted vote; above 1 favors the best candidate, below 1 the majority
    #[arg(long, value_name = "POWER", default_value_t = Power::ONE)]
    vote_power: Power,
    #[command(flatten)]
    pub(super) bench: BenchArgs,
}

pub(super) fn run(BestOfNArgs { vote_power, bench: args }: &BestOfNArgs) -> Result<Status> {
    args.judge.decision.refuse("best-of-n chooses solutions and looks for no first error")?;
    let mut job = Measurement::read("best-of-n", args)?;
    let (judging, pools) = if args.judge.is_named()? {
        let judging = job.judge()?;
        let judged = job.ask(&judging)?;
        let pools = best_of_n::pools(&job.samples, Some((&judging.name, &judged)));
        (judging, pools)
    } else {
        let recorded = Judging::recorded("recorded", &args.judge);
        job.open(&recorded)?;
        job.counts.samples = job.samples.len();
        (recorded, best_of_n::pools(&job.samples, None))
    };
    job.extra.insert("vote_power".to_owned(), json!(vote_power));
    best_of_n::write_groups(job.run()?.folder(), &pools)?;
    let sizes = best_of_n::sizes(&pools);
    let (numbers, facts) = best_of_n::measure(&pools, &sizes, *vote_power, &job.settings)?;
    show(&numbers, job.printer(args))?;
    let sections = best_of_n::sections(&numbers);
    job.finish(args, &judging, BenchmarkResults::BestOfN(Box::new(numbers)), sections, &facts)
}

fn show(numbers: &best_of_n::BestOfNResults, printer: Option<Printer>) -> Result<()> {
    let Some(printer) = printer else { return Ok(()) };
    for set in &numbers.sets {
        printer.line(format!(
            "\n{}: {}, {}",
            paint::bold(&set.name),
            counted(set.problems, "problem"),
            counted(set.candidates, "candidate")
        ))?;
        let mut heading = vec!["choice".to_owned()];
        heading.extend(numbers.sizes.iter().map(|size| format!("N={size}")));
        heading.push("gain over chance, majority".to_owned());
        let over_n = |name: String, figures: &[MetricEstimate], gain: &[MetricEstimate]| {
            let last = figures.len().saturating_sub(1);
            let cells = figures.iter().enumerate();
            let cells = cells
                .map(|(index, figure)| if index == last { figure.percent() } else { cell(figure.value) });
            let gain = gain.last().map_or_else(String::new, MetricEstimate::signed);
            std::iter::once(name).chain(cells).chain([gain]).collect::<Vec<String>>()
        };
        let mut rows = vec![
            over_n("pass@N".to_owned(), &set.pass, &[]),
            over_n("majority".to_owned(), &set.majority, &[]),
            over_n("chance".to_owned(), &set.chance, &[]),
        ];
        let mut by_outcome = Vec::new();
        for scorer in &set.scorers {
            let shown = [Aggregation::Last, Aggregation::Min, Aggregation::Product, Aggregation::Mean];
            for choice in scorer.choices.iter().filter(|choice| shown.contains(&choice.aggregation)) {
                let name = format!("{} {}", scorer.name, choice.aggregation);
                by_outcome.push(outcome_row(&name, &choice.by_outcome));
                rows.push(over_n(format!("{name} best"), &choice.best, &choice.best_over_chance));
                rows.push(over_n(format!("{name} vote"), &choice.vote, &choice.vote_over_majority));
            }
        }
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        printer.table(&heading, &rows)?;
        printer.line("\nscores of solutions with a correct and with a wrong answer")?;
        let heading =
            ["score", "correct", "mean", "median", "wrong", "mean", "median", "AUC (correct above wrong)"];
        printer.table(&heading, &by_outcome)?;
        for scorer in set.scorers.iter().filter(|scorer| scorer.unscored > 0) {
            printer.line(format!(
                "{}: {} without scores",
                scorer.name,
                counted(scorer.unscored, "candidate")
            ))?;
        }
        if set.graded > 0 {
            printer.line(format!("{} graded", counted(set.graded, "outcome")))?;
        }
        if set.unknown_outcomes > 0 {
            let unknown = counted(set.unknown_outcomes, "candidate");
            printer.line(format!("{unknown} with unknown outcome (counted as wrong)"))?;
        }
    }
    Ok(())
}

fn outcome_row(name: &str, found: &best_of_n::ScoresByOutcome) -> Vec<String> {
    let class = |of: &best_of_n::OutcomeScores| {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        [grouped(of.solutions), number(of.mean), number(of.median)]
    };
    let classes = [class(&found.right), class(&found.wrong)].concat();
    [vec![name.to_owned()], classes, vec![found.auc.decimal()]].concat()
}
