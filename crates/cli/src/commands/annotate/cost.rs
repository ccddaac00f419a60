//! What work costs: while it runs, and at its end.

use std::cell::RefCell;

use anyhow::Result;
use gradus_core::Cost;

use crate::generator::{Generator, Traffic};
use crate::paint;
use crate::printer::{self, Printer};

/// What was spent so far in this run.
#[derive(Debug, Default)]
pub(crate) struct Running(RefCell<Cost>);

impl Running {
    pub(crate) fn add(&self, cost: &Cost) {
        add(&mut self.0.borrow_mut(), cost);
    }

    /// For the progress bar.
    pub(crate) fn message(&self, generator: &Generator) -> String {
        let cost = self.0.borrow();
        let tokens = printer::count(cost.prompt_tokens + cost.completion_tokens);
        let money = generator.money(&cost).map_or_else(String::new, |money| format!("  {money}"));
        format!("{tokens} tokens{money}")
    }
}

pub(crate) fn add(all: &mut Cost, one: &Cost) {
    all.requests += one.requests;
    all.prompt_tokens += one.prompt_tokens;
    all.completion_tokens += one.completion_tokens;
    all.seconds += one.seconds;
}

/// The lines at the end. Each request counts as often as it was needed, also when its answer came from a cache or from an
/// earlier run; what was really sent now stands apart.
pub(crate) fn print(
    printer: Printer,
    cost: &Cost,
    units: usize,
    unit: &str,
    money: Option<&str>,
    traffic: Option<&Traffic>,
) -> Result<()> {
    let each = |amount: f64| if units == 0 { 0.0 } else { amount / units as f64 };
    let tokens = cost.prompt_tokens + cost.completion_tokens;
    printer.line(paint::dim(&format!(
        "{}, {} prompt and {} generated tokens ({:.0} tokens and {:.2} s a {unit}){}",
        printer::counted(cost.requests, "request"),
        printer::count(cost.prompt_tokens),
        printer::count(cost.completion_tokens),
        each(tokens as f64),
        each(cost.seconds),
        money.map_or_else(String::new, |money| format!(", {money}")),
    )))?;
    if let Some(traffic) = traffic {
        printer.line(paint::dim(&format!(
            "sent now: {}, of which {} repeated and {} calls failed; {} answers from the cache; median {:.2} s, p99 {:.2} s",
            printer::counted(traffic.requests, "request"),
            printer::count(traffic.retries),
            printer::count(traffic.failures),
            printer::count(traffic.from_cache),
            traffic.median_seconds,
            traffic.p99_seconds,
        )))?;
    }
    Ok(())
}
