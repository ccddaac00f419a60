//! The table of an annotator's labels by what their steps are aligned with (SPARE).

use anyhow::Result;
use gradus_core::count::grouped;
use gradus_core::metrics::alignment::AlignedLabels;
use gradus_core::metrics::exact::Share;

use crate::terminal::printer::Printer;

/// Prints it; nothing for an annotator that aligns nothing. Columns that need true labels are there if any step has one.
pub(crate) fn show(printer: Printer, annotator: &str, cases: &[AlignedLabels]) -> Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    let truth = cases.iter().any(|case| case.with_truth > 0);
    let row = |case: &AlignedLabels| {
        let share = case.share.map_or_else(String::new, |share| format!("{:.1}", 100.0 * share));
        let mut row =
            vec![case.alignment.to_string(), grouped(case.steps), share, percent(case.labeled_wrong)];
        if truth {
            let shares = [case.accuracy, case.recall_right, case.recall_wrong, case.precision_wrong];
            row.push(grouped(case.with_truth));
            row.extend(shares.map(percent));
        }
        row
    };
    let mut heading = vec!["aligned with", "steps", "share, %", "labeled wrong, %"];
    if truth {
        heading.extend(["true label", "accuracy", "recall correct", "recall wrong", "precision wrong"]);
    }
    printer.line(format!("\n{annotator}: labels by alignment (95 % Wilson intervals)"))?;
    printer.table(&heading, &cases.iter().map(row).collect::<Vec<_>>())
}

/// `87.5 (81.0–92.0)`.
fn percent(share: Option<Share>) -> String {
    share.map_or_else(
        || "–".to_owned(),
        |found| format!("{:.1} ({:.1}–{:.1})", 100.0 * found.share, 100.0 * found.low, 100.0 * found.high),
    )
}
