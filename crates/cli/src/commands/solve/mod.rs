//! `gradus solve`: a model generates solutions, a reward model or a vote selects one.
//!
//! `plan` turns options into a search, `parties` opens the models, `show` prints an outcome, `dataset` solves many
//! problems.

pub(super) mod args;
mod dataset;
mod parties;
mod plan;
mod show;

use anyhow::{Result, bail};
use args::SolveArgs;
use gradus_backend::block_on;
use parties::Parties;
use plan::{plan, solve};

use crate::cost;
use crate::exit::{Status, Usage};
use crate::input::standard_input;
use crate::terminal::printer::Printer;

pub(super) fn run(args: &SolveArgs) -> Result<Status> {
    let plan = plan(args.strategy, &args.search)?;
    if !args.dataset.data.is_empty() {
        return dataset::run(args, &plan);
    }
    let problem = match &args.problem {
        Some(problem) => problem.clone(),
        None => standard_input("a problem")?,
    };
    if problem.trim().is_empty() {
        bail!(Usage("the problem is empty".to_owned()));
    }
    let parties = Parties::open(args)?;
    let outcome = block_on(solve(&parties, &plan, &problem))??;
    parties.spending().for_each(cost::conclude);
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&outcome)?;
    } else {
        show::outcome(printer, &outcome, plan.settings())?;
    }
    Ok(Status::Done)
}
