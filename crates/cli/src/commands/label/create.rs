//! `gradus label create`: solutions of any format become a folder that people label.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::count::counted;
use gradus_label::{Order, Project, Settings};

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::values::{count, finite};
use crate::exit::Status;
use crate::input::{self, JoinedFiles, Need};
use crate::output::local_folder;
use crate::terminal::paint;
use crate::terminal::printer::Printer;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus label create scored.jsonl -o project --order uncertainty\n  \
gradus label create judged.jsonl scored.jsonl -o project --order disagreement --people-per-item 2\n\n\
Problems of several files are joined by id: their annotations and scores are united.")]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Folder of the new project
    #[arg(short, long, value_name = "FOLDER", value_parser = local_folder)]
    output: PathBuf,
    /// Order of the queue: disagreement (of annotators, reward models and people about the first error), uncertainty (a
    /// score nearest the threshold) or file
    #[arg(long, value_name = "ORDER", default_value = "file")]
    order: Order,
    /// How many different people label each solution
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    people_per_item: usize,
    /// Score of a reward model below which a step is suspected
    #[arg(long, default_value = "0.5", value_parser = finite)]
    threshold: f64,
    /// Error categories (default: SPARE's)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    categories: Vec<String>,
    /// Minutes that a solution stays with a person whose page gives no sign
    #[arg(long, value_name = "MINUTES", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    lease: u64,
    /// Name of the project on the page (default: the folder's)
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &CreateArgs) -> Result<Status> {
    let mut joined = JoinedFiles::default();
    let tally = input::for_each(&args.input, Need::Steps, |item| joined.add(item).map(drop))?;
    let mut settings = Settings {
        name: args.name.clone(),
        order: args.order,
        threshold: args.threshold,
        people_per_item: args.people_per_item,
        lease_seconds: args.lease * 60,
        ..Settings::default()
    };
    if !args.categories.is_empty() {
        settings.categories.clone_from(&args.categories);
    }
    let created = Project::create(&args.output, joined.into_records(), settings)?;
    Printer::new(None).summary(args.print.json, &created, |printer, created| {
        printer.line(format!(
            "{} of {} to label in {}",
            paint::bold(&counted(created.items, "solution")),
            counted(created.problems, "problem"),
            args.output.display()
        ))?;
        printer.counts(&[
            (created.united as u64, "solution", "equal to another one, labeled once"),
            (created.without_steps as u64, "solution", "without steps, left out"),
            (tally.skipped, "record", "skipped (invalid)"),
        ])?;
        printer.line(format!("Label: gradus serve --label {}", args.output.display()))
    })?;
    Ok(Status::Done)
}
