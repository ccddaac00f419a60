//! The candidates of a problem: answers, outcomes, and what each aggregation of each reward model says.

use std::fmt::Write as _;

use gradus_core::select::Aggregation;
use gradus_plot::escaped;

use crate::candidate::{Candidates, Choice};
use crate::solution::answer_text;
use crate::{ViewOptions, cell};

/// The table; empty where no solution has a score and there is only one.
pub(crate) fn table(candidates: &Candidates, number: usize, prefix: &str, options: &ViewOptions) -> String {
    let (all, choices) = (&candidates.all, &candidates.choices);
    if choices.is_empty() && all.len() < 2 {
        return String::new();
    }
    let mut out = format!(
        "<div class=\"scroll candidates\" role=\"region\" tabindex=\"0\" aria-label=\"Candidates of record {number}\">\n<table>\n<thead>",
    );
    if choices.is_empty() {
        out += "<tr><th scope=\"col\">Solution</th><th scope=\"col\">Answer</th></tr></thead>\n<tbody>\n";
    } else {
        out += "<tr><th scope=\"col\" rowspan=\"2\">Solution</th><th scope=\"col\" rowspan=\"2\">Answer</th>";
        for model in choices.chunks(Aggregation::ALL.len()) {
            let _ = write!(
                out,
                "<th scope=\"colgroup\" colspan=\"{}\" class=\"model\">{}</th>",
                model.len(),
                escaped(&model[0].model)
            );
        }
        out += "</tr>\n<tr>";
        for choice in choices {
            let _ = write!(out, "<th scope=\"col\" class=\"number\">{}</th>", choice.aggregation);
        }
        out += "</tr></thead>\n<tbody>\n";
    }
    for index in 0..all.len().min(options.solutions) {
        out += &row(candidates, index, prefix, options);
    }
    out += "</tbody>\n";
    if all.len() > 1 && !choices.is_empty() {
        out += "<tfoot>\n";
        out += &chosen_row("Best-of-N", candidates, |choice| choice.best);
        out += &chosen_row("Weighted vote", candidates, |choice| choice.vote);
        out += "</tfoot>\n";
    }
    out += "</table>\n</div>\n";
    out + &majority(candidates)
}

fn row(candidates: &Candidates, index: usize, prefix: &str, options: &ViewOptions) -> String {
    let candidate = &candidates.all[index];
    let chosen = candidates.chosen(index, options);
    let class = if chosen.is_empty() { "" } else { " class=\"chosen\"" };
    let star = if chosen.is_empty() { "" } else { "<span aria-hidden=\"true\">★</span> " };
    let mut out = format!(
        "<tr{class}><th scope=\"row\"><a href=\"#{prefix}-{index}\">{star}Solution {}</a>",
        index + 1
    );
    if !chosen.is_empty() {
        let kinds: Vec<&str> = chosen.iter().map(|reason| reason.kind).collect();
        let _ = write!(out, "<small>{}</small>", kinds.join(", "));
    }
    let answer =
        candidate.answer.as_deref().map_or("<span class=\"soft\">none</span>".to_owned(), answer_text);
    let _ = write!(out, "</th><td>{answer} {}</td>", cell::outcome(candidate.outcome));
    for choice in &candidates.choices {
        let best = choice.best == Some(index) && candidates.all.len() > 1;
        let _ = match choice.aggregates[index] {
            Some(value) if best => write!(
                out,
                "<td class=\"number {}\"><b>{}</b><span class=\"hide\"> highest</span></td>",
                cell::tone(value),
                cell::number(value)
            ),
            Some(value) => {
                write!(out, "<td class=\"number {}\">{}</td>", cell::tone(value), cell::number(value))
            }
            None => write!(out, "<td class=\"number\"><span class=\"soft\">–</span></td>"),
        };
    }
    out + "</tr>\n"
}

/// The solution that each column chooses, with whether its answer is right.
fn chosen_row(name: &str, candidates: &Candidates, of: fn(&Choice) -> Option<usize>) -> String {
    let mut out = format!("<tr><th scope=\"row\">{name}</th><td></td>");
    for choice in &candidates.choices {
        let text = of(choice).map_or("–".to_owned(), |index| {
            let sign = match candidates.all[index].outcome.is_correct() {
                Some(true) => " <span class=\"sign correct\">✓<span class=\"hide\"> correct</span></span>",
                Some(false) => " <span class=\"sign incorrect\">✗<span class=\"hide\"> wrong</span></span>",
                None => "",
            };
            format!("{}{sign}", index + 1)
        });
        let _ = write!(out, "<td class=\"number\">{text}</td>");
    }
    out + "</tr>\n"
}

fn majority(candidates: &Candidates) -> String {
    let Some((winner, votes)) = candidates.majority.filter(|_| candidates.all.len() > 1) else {
        return String::new();
    };
    if votes == 1 {
        return "<p class=\"majority soft\">No majority: all answers differ.</p>\n".to_owned();
    }
    let candidate = &candidates.all[winner];
    let answer = candidate.answer.as_deref().map(answer_text).unwrap_or_default();
    let (total, outcome) = (candidates.all.len(), cell::outcome(candidate.outcome));
    format!("<p class=\"majority\">Majority: {answer} ({votes} of {total}) {outcome}</p>\n")
}
