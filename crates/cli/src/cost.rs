//! Cost of a job: requests, tokens, time and money, while it runs and at its end.

use std::cell::RefCell;

use anyhow::Result;
use gradus_backend::{Spending, Traffic};
use gradus_core::Cost;
use serde::Serialize;

use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

/// Notes before a run that the price table lacks its model.
pub(crate) fn announce(spending: &Spending) {
    if let Some(note) = spending.note() {
        printer::note(note);
    }
}

/// Notes after a run what its requests to servers cost, where prices are known.
pub(crate) fn conclude(spending: &Spending) {
    let Some(traffic) = spending.traffic() else { return };
    let Traffic { requests, prompt_tokens, completion_tokens, .. } = traffic;
    let cost = Cost { requests, prompt_tokens, completion_tokens, ..Cost::default() };
    if let Some(money) = spending.money(&cost) {
        printer::note(format!(
            "this run: {}, {}, {}, {money}",
            counted(requests, "request"),
            counted(prompt_tokens, "prompt token"),
            counted(completion_tokens, "completion token"),
        ));
    }
}

/// What was spent so far in this run.
#[derive(Debug, Default)]
pub(crate) struct Running(RefCell<Cost>);

impl Running {
    pub(crate) fn add(&self, cost: &Cost) {
        add(&mut self.0.borrow_mut(), cost);
    }

    /// For the progress bar.
    pub(crate) fn message(&self, spending: &Spending) -> String {
        let cost = self.0.borrow();
        let tokens = counted(cost.prompt_tokens + cost.completion_tokens, "token");
        let money = spending.money(&cost).map_or_else(String::new, |money| format!("  {money}"));
        format!("{tokens}{money}")
    }
}

pub(crate) fn add(all: &mut Cost, one: &Cost) {
    all.requests += one.requests;
    all.prompt_tokens += one.prompt_tokens;
    all.completion_tokens += one.completion_tokens;
    all.seconds += one.seconds;
}

/// What a job cost. A request counts as often as it was needed, also when its answer came from the cache or from an
/// earlier run; `traffic` is what this run really sent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CostSummary {
    pub(crate) cost: Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) money: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traffic: Option<Traffic>,
}

impl CostSummary {
    pub(crate) fn add(&mut self, cost: &Cost) {
        add(&mut self.cost, cost);
    }

    /// Adds the price and what was sent.
    pub(crate) fn complete(&mut self, spending: &Spending) {
        self.money = spending.money(&self.cost);
        self.traffic = spending.traffic();
    }

    /// Prints the lines at the end of a job about solutions.
    pub(crate) fn print(&self, printer: Printer, solutions: usize) -> Result<()> {
        let Self { cost, money, traffic } = self;
        let each = |amount: f64| if solutions == 0 { 0.0 } else { amount / solutions as f64 };
        let tokens = cost.prompt_tokens + cost.completion_tokens;
        printer.line(paint::dim(&format!(
            "{}, {}, {} ({:.0} tokens and {:.2} s per solution){}",
            counted(cost.requests, "request"),
            counted(cost.prompt_tokens, "prompt token"),
            counted(cost.completion_tokens, "completion token"),
            each(tokens as f64),
            each(cost.seconds),
            money.as_ref().map_or_else(String::new, |money| format!(", {money}")),
        )))?;
        if let Some(traffic) = traffic {
            printer.line(paint::dim(&format!(
                "this run: {}, retries: {}, failures: {}, cache hits: {}, latency: median {:.2} s, p99 {:.2} s",
                counted(traffic.requests, "request"),
                grouped(traffic.retries),
                grouped(traffic.failures),
                grouped(traffic.from_cache),
                traffic.median_seconds,
                traffic.p99_seconds,
            )))?;
        }
        Ok(())
    }
}
