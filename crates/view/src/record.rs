//! One record: the problem, its candidates, and each solution step by step.

use std::fmt::Write as _;

use gradus_core::count::counted;
use gradus_core::{Outcome, Record};
use gradus_plot::{escaped, prose};

use crate::ViewOptions;
use crate::candidate::Candidates;
use crate::metadata::metadata;
use crate::solution::{Place, answer_text, kinds, solution};
use crate::table::table;
use crate::tree::tree;

/// Solutions that are open at once where they are few and short.
const FEW_STEPS: usize = 24;

/// A record as an `<article>`. `number` counts the records of a page from 1 and makes ids unique on it.
pub fn record(number: usize, record: &Record, options: &ViewOptions) -> String {
    let problem = &record.problem;
    let candidates = Candidates::of(record);
    let prefix = format!("r{number}-s");
    let mut out = format!(
        "<article class=\"record\" id=\"record-{number}\" tabindex=\"-1\" aria-labelledby=\"record-{number}-name\" data-kinds=\"{}\">\n\
         <h2 id=\"record-{number}-name\"><span class=\"soft\">{number}</span> {}</h2>\n",
        record_kinds(record, &candidates, options).join(" "),
        escaped(&problem.id)
    );
    let _ = writeln!(out, "<div class=\"problem\">{}</div>", prose(problem.text.trim()));
    out += &known(record);
    out += &table(&candidates, number, &prefix, options);
    out += &tree(record, &candidates, &prefix, options);
    let first = candidates.first(options);
    let shown = record.solutions.len().min(options.solutions);
    for (index, one) in record.solutions.iter().enumerate().take(shown) {
        let place = Place {
            id: format!("{prefix}-{index}"),
            record: number,
            index,
            candidate: &candidates.all[index],
            chosen: candidates.chosen(index, options),
            open: index == first || (shown == 2 && one.steps.len() <= FEW_STEPS),
        };
        out += &solution(one, &place, options);
    }
    if shown < record.solutions.len() {
        let more = counted(record.solutions.len() - shown, "solution");
        let _ = writeln!(
            out,
            "<p class=\"soft\">{more} more: the first {shown} are shown, all of them count.</p>"
        );
    }
    if record.solutions.is_empty() {
        out += "<p class=\"soft\">No solutions.</p>\n";
    }
    out + "</article>\n"
}

/// What the source knows about the problem.
fn known(record: &Record) -> String {
    let problem = &record.problem;
    let mut out = String::new();
    if let Some(answer) = &problem.answer {
        let _ = writeln!(out, "<p class=\"gold\">Gold answer: {}</p>", answer_text(answer));
    }
    let list = |name: &str, items: &[String]| {
        let items: String = items.iter().map(|item| format!("<li>{}</li>", prose(item.trim()))).collect();
        format!("<details class=\"aside\"><summary>{name}</summary><ol start=\"0\">{items}</ol></details>\n")
    };
    if !problem.context.is_empty() {
        out += &list("Context", &problem.context);
    }
    if !problem.reference.is_empty() {
        out += &list("Reference solution", &problem.readable_reference());
    }
    out + &metadata(&problem.metadata)
}

/// What a page can filter by.
pub(crate) fn record_kinds(
    record: &Record,
    candidates: &Candidates,
    options: &ViewOptions,
) -> Vec<&'static str> {
    let mut found = Vec::new();
    if candidates.all.iter().any(|one| one.outcome == Outcome::Wrong) {
        found.push("wrong");
    }
    let shown = record.solutions.iter().take(options.solutions);
    let (errors, disagreements): (Vec<bool>, Vec<bool>) =
        shown.map(|solution| kinds(solution, options)).unzip();
    if errors.contains(&true) {
        found.push("error");
    }
    if disagreements.contains(&true) {
        found.push("disagreement");
    }
    found
}
