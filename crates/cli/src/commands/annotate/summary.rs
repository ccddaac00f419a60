//! Summary of a labeling run: counts, agreement with existing labels, cost.

use std::collections::BTreeMap;

use anyhow::Result;
use gradus_annotate::{Annotated, LabelCounts};
use gradus_backend::Continuation;
use gradus_core::Solution;
use gradus_core::metrics::labels::Agreement;
use gradus_core::metrics::process::ProcessScores;
use gradus_store::JobId;
use serde::Serialize;

use crate::cost::CostSummary;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped, percent_of};

#[derive(Debug, Default, Serialize)]
pub(super) struct LabelingSummary {
    pub(super) annotator: String,
    #[serde(skip)]
    pub(super) job: JobId,
    pub(super) model: String,
    pub(super) solutions: usize,
    pub(super) labeled: usize,
    pub(super) steps_labeled: usize,
    /// Labeled solutions with an error.
    pub(super) with_error: usize,
    pub(super) undecided: usize,
    pub(super) undecided_by_reason: BTreeMap<String, u64>,
    pub(super) notes: BTreeMap<String, u64>,
    pub(super) failed: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) failed_by_reason: BTreeMap<String, u64>,
    /// How partial solutions were continued, where they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continuation: Option<Continuation>,
    /// Sampled without seeds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unseeded: bool,
    pub(super) resumed: usize,
    /// Solutions with the text of another one of their problem: labeled once.
    pub(super) repeated: usize,
    pub(super) skipped: u64,
    #[serde(flatten)]
    pub(super) cost: CostSummary,
    /// Agreement with labels that the input already has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agreement: Option<Agreement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_errors: Option<ProcessScores>,
    #[serde(skip)]
    pub(super) labels: LabelCounts,
}

impl LabelingSummary {
    /// Counts a solution, before its new labels are added to it.
    pub(super) fn count(&mut self, solution: &Solution, found: Option<&Annotated>, is_repeated: bool) {
        self.solutions += 1;
        self.repeated += usize::from(is_repeated);
        let Some(found) = found else { return };
        self.cost.add(&found.cost);
        for (note, count) in &found.notes {
            *self.notes.entry(note.clone()).or_default() += count;
        }
        if let Some(undecided) = &found.undecided {
            self.undecided += 1;
            *self.undecided_by_reason.entry(undecided.reason.clone()).or_default() += 1;
        }
        self.labels.add(solution.truth(), found.annotation.as_ref());
    }

    /// Takes over what the labels say together.
    fn complete(&mut self) {
        self.labeled = self.labels.decided;
        self.steps_labeled = self.labels.labels;
        self.with_error = self.labels.errors;
        self.agreement = self.labels.agreement();
        self.first_errors = self.labels.first_errors();
    }

    pub(super) fn print(mut self, output: &std::path::Path, json: bool) -> Result<Status> {
        self.complete();
        let printer = Printer::new(None);
        if json {
            printer.json(&self)?;
            return Ok(Status::Done);
        }
        let share = percent_of(self.labeled, self.solutions);
        printer.line(format!(
            "{} of {} labeled by {} with {} ({share}), {}",
            paint::bold(&grouped(self.labeled)),
            counted(self.solutions, "solution"),
            self.annotator,
            self.model,
            printer::written_to(output)
        ))?;
        printer.counts(&[
            (self.steps_labeled as u64, "step", "labeled"),
            (self.with_error as u64, "solution", "with an error"),
            (self.undecided as u64, "solution", "undecided"),
        ])?;
        for (reason, count) in &self.undecided_by_reason {
            printer.line(format!("{:>8}    {reason}", grouped(count)))?;
        }
        // With one vote, why a vote does not count is why its solution is undecided.
        let is_told = |(note, count): &(&String, &u64)| self.undecided_by_reason.get(*note) == Some(*count);
        for (note, count) in self.notes.iter().filter(|counted| !is_told(counted)) {
            printer.line(format!("{:>8}  {note}", grouped(count)))?;
        }
        printer.counts(&[(self.failed as u64, "solution", "failed and unlabeled")])?;
        for (reason, count) in &self.failed_by_reason {
            printer.line(format!("{:>8}    {reason}", grouped(count)))?;
        }
        printer.counts(&[
            (self.repeated as u64, "solution", "with the text of an earlier one, labeled once"),
            (self.resumed as u64, "solution", "resumed from an earlier run"),
            (self.skipped, "record", "skipped (invalid)"),
        ])?;
        if let Some(agreement) = &self.agreement {
            let percent =
                |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share));
            let heading = ["existing labels", "steps", "undecided", "precision", "recall"];
            let row = |name: &str, class: &gradus_core::metrics::labels::ClassScores, undecided: usize| {
                let steps = grouped(class.steps);
                let undecided = grouped(undecided);
                vec![name.to_owned(), steps, undecided, percent(class.precision), percent(class.recall)]
            };
            let rows = [
                row("correct", &agreement.right, agreement.said_of_right.undecided),
                row("wrong", &agreement.wrong, agreement.said_of_wrong.undecided),
            ];
            printer.line(format!("\nagreement with existing labels: {} %", percent(agreement.accuracy)))?;
            printer.table(&heading, &rows)?;
        }
        self.cost.print(printer, self.solutions)?;
        if self.undecided > 0 {
            let show = format!("responses of undecided solutions: gradus jobs show {} --undecided", self.job);
            printer.line(paint::dim(&show))?;
        }
        Ok(Status::Done)
    }
}
