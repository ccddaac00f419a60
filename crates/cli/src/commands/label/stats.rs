//! `gradus label stats`: how far a project is, and how well its people agree. Works while it is being labeled.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::count::{counted, grouped, percent_of};
use gradus_label::Labeling;
use gradus_label::agreement::Overview;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::Printer;

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Folder of the project
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &StatsArgs) -> Result<Status> {
    let overview = Labeling::read(&args.folder)?.overview();
    Printer::new(None).summary(args.print.json, &overview, show)?;
    Ok(Status::Done)
}

fn show(printer: Printer, overview: &Overview) -> Result<()> {
    let share = percent_of(overview.done, overview.items);
    let people = match overview.people_per_item {
        1 => "1 person each".to_owned(),
        people => format!("{people} people each"),
    };
    printer.line(format!(
        "{}: {} of {} done ({share}), {people}",
        paint::bold(&overview.name),
        grouped(overview.done),
        counted(overview.items, "solution")
    ))?;
    if overview.damaged_lines > 0 {
        let lines = counted(overview.damaged_lines, "line");
        printer.line(format!("{lines} of the journal could not be read: those saves are lost"))?;
    }
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    if !overview.people.is_empty() {
        let rows: Vec<Vec<String>> = overview
            .people
            .iter()
            .map(|person| {
                let counts =
                    [person.finished, person.begun, person.marks, person.errors, person.suggestions_seen];
                std::iter::once(person.name.clone()).chain(counts.map(grouped)).collect()
            })
            .collect();
        let heading = ["person", "finished", "begun", "marks", "with an error", "after suggestions"];
        printer.table(&heading, &rows)?;
    }
    if !overview.pairs.is_empty() {
        let rows: Vec<Vec<String>> = overview
            .pairs
            .iter()
            .map(|pair| {
                vec![
                    pair.people.join(" – "),
                    grouped(pair.items),
                    grouped(pair.steps),
                    number(pair.kappa),
                    number(pair.same_first_error),
                ]
            })
            .collect();
        printer.table(&["people", "solutions", "steps", "Cohen's κ", "same first error"], &rows)?;
    }
    if let Some(estimate) = &overview.estimate {
        let rows: Vec<Vec<String>> = estimate
            .people
            .iter()
            .map(|person| {
                let reliability = person.reliability;
                vec![
                    person.name.clone(),
                    number(Some(reliability.sensitivity)),
                    number(Some(reliability.false_alarm)),
                ]
            })
            .collect();
        printer.table(&["Dawid–Skene", "finds errors", "false alarms"], &rows)?;
        printer.line(format!(
            "estimated: {} with an error, {} without; mean certainty {:.2}",
            counted(estimate.with_error, "solution"),
            grouped(estimate.without_error),
            estimate.mean_probability
        ))?;
    }
    Ok(())
}
