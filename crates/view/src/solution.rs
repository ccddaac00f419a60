//! One solution: a summary that stays in sight, and a table of its steps with a column for each model and annotator.

use std::fmt::Write as _;

use gradus_core::{FirstError, Solution};
use gradus_plot::{escaped, prose};

use crate::candidate::{Candidate, Reason};
use crate::columns::{Column, Opinions, columns};
use crate::evidence::{beside, reference_problems};
use crate::metadata::metadata;
use crate::{ViewOptions, cell};

/// What is known about a solution from the outside.
pub(crate) struct Place<'a> {
    /// Its id on the page.
    pub(crate) id: String,
    pub(crate) record: usize,
    pub(crate) index: usize,
    pub(crate) candidate: &'a Candidate,
    /// Why it is chosen.
    pub(crate) chosen: Vec<Reason>,
    pub(crate) open: bool,
}

/// The solution as `<details>`.
pub(crate) fn solution(solution: &Solution, place: &Place<'_>, options: &ViewOptions) -> String {
    let columns = columns(solution, options);
    let open = if place.open { " open=\"open\"" } else { "" };
    let mut out = format!("<details class=\"solution\" id=\"{}\"{open}>\n", place.id);
    out += &summary(solution, &columns, place);
    if solution.steps.is_empty() {
        let text = solution.text.as_deref().unwrap_or_default();
        let _ = writeln!(out, "<div class=\"say alone\">{}</div>", prose(text.trim()));
    } else {
        out += &steps(solution, &columns, place);
    }
    out += &reference_problems(solution);
    out += &metadata(&solution.metadata);
    out + "</details>\n"
}

/// The line that is seen when the solution is closed, and stays at the top while it is read.
fn summary(solution: &Solution, columns: &[Column<'_>], place: &Place<'_>) -> String {
    let mut out =
        format!("<summary><span class=\"lines\"><span class=\"line\"><b>Solution {}</b>", place.index + 1);
    if let Some(generator) = &solution.generator {
        let _ = write!(out, " <span class=\"soft\">{}</span>", escaped(generator));
    }
    for reason in &place.chosen {
        let _ = write!(
            out,
            " <span class=\"badge chosen\"><span aria-hidden=\"true\">★</span> {}</span>",
            escaped(&reason.words())
        );
    }
    if let Some(answer) = &place.candidate.answer {
        let _ = write!(out, " <span class=\"answer\">answer {}</span>", answer_text(answer));
    }
    out += " ";
    out += cell::outcome(place.candidate.outcome);
    out += "</span>";
    // A square a step, in the color of the first column's score.
    if let Some(first) = columns.iter().find(|column| !column.is_labels()) {
        let squares: String = (0..solution.steps.len())
            .map(|step| match first.score(step) {
                Some(score) => format!("<i class=\"{}\"></i>", cell::tone(score)),
                None => "<i></i>".to_owned(),
            })
            .collect();
        let error = match first.first_error() {
            FirstError::At(step) => format!("first suspected error: step {step}"),
            _ => "no suspected error".to_owned(),
        };
        let _ = write!(
            out,
            "<span class=\"line\"><span class=\"strip\" aria-hidden=\"true\">{squares}</span> <span class=\"soft\">{error}</span></span>"
        );
    }
    out + "</span></summary>\n"
}

/// An answer in its own words, or as the formula that it is.
pub(crate) fn answer_text(answer: &str) -> String {
    let trimmed = answer.trim();
    let is_latex = trimmed.contains('\\') && !trimmed.contains('$');
    if is_latex { prose(&format!("\\({trimmed}\\)")) } else { prose(trimmed) }
}

fn steps(solution: &Solution, columns: &[Column<'_>], place: &Place<'_>) -> String {
    let number = place.index + 1;
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Steps of solution {number} of record {}\">\n\
         <table class=\"steps\"><thead><tr><th scope=\"col\" class=\"number\">#</th><th scope=\"col\">Step</th>",
        place.record
    );
    for column in columns {
        let kind = if column.is_labels() { "labels" } else { "scores" };
        let name = escaped(&column.name);
        let _ = write!(out, "<th scope=\"col\" class=\"who\"><span class=\"kind\">{kind}</span> {name}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for step in 0..solution.steps.len() {
        out += &row(solution, columns, place, step);
    }
    out += "</tbody>\n";
    if !columns.is_empty() {
        out += "<tfoot><tr><td></td><th scope=\"row\">First error</th>";
        for column in columns {
            let error = cell::first_error(column.first_error());
            let _ = write!(out, "<td class=\"who\" data-name=\"{}\">{error}</td>", escaped(&column.name));
        }
        out += "</tr>";
        out += &posteriors(columns);
        out += "</tfoot>\n";
    }
    out + "</table>\n</div>\n"
}

/// The most probable first error by each model's scores, whatever its rule says, and how probable it is.
fn posteriors(columns: &[Column<'_>]) -> String {
    let found: Vec<_> = columns.iter().map(|column| (column, column.posterior())).collect();
    if found.iter().all(|(_, posterior)| posterior.is_none()) {
        return String::new();
    }
    let mut out = "<tr><td></td><th scope=\"row\">Most probable first error</th>".to_owned();
    for (column, posterior) in found {
        let text = posterior.map_or_else(String::new, |posterior| {
            let first = posterior.most_probable();
            let share = first.map_or(posterior.none, |step| posterior.steps[step]);
            let place = cell::first_error(first.map_or(FirstError::None, FirstError::At));
            format!("{place} <span class=\"soft\">{}</span>", cell::number(share))
        });
        let _ = write!(out, "<td class=\"who\" data-name=\"{}\">{text}</td>", escaped(&column.name));
    }
    out + "</tr>"
}

fn row(solution: &Solution, columns: &[Column<'_>], place: &Place<'_>, step: usize) -> String {
    let scores: Vec<f64> = columns.iter().filter_map(|column| column.score(step)).collect();
    let labels = columns.iter().filter_map(|column| column.label(step));
    let tone = match scores.as_slice() {
        [] => labels.into_iter().next().map(|label| cell::label(label).0).unwrap_or_default(),
        scores => cell::tone(scores.iter().sum::<f64>() / scores.len() as f64),
    };
    let mut out = format!(
        "<tr id=\"{}-{step}\" tabindex=\"-1\"><th scope=\"row\" class=\"number\">{step}</th><td class=\"say {tone}\">",
        place.id
    );
    out += &flags(columns, step);
    let _ = write!(out, "<div class=\"text\">{}</div>", prose(solution.steps[step].trim()));
    out += &disagreement(columns, step);
    out += &beside(solution, columns, step);
    out += "</td>";
    for column in columns {
        let (class, text) = match (column.score(step), column.label(step)) {
            (Some(score), _) => (format!("score {}", cell::tone(score)), cell::number(score)),
            (_, Some(label)) => cell::label(label),
            (None, None) => ("unknown".to_owned(), "<span class=\"soft\">–</span>".to_owned()),
        };
        let _ = write!(out, "<td class=\"who {class}\" data-name=\"{}\">{text}</td>", escaped(&column.name));
    }
    out + "</tr>\n"
}

/// Who says that the solution first goes wrong here.
fn flags(columns: &[Column<'_>], step: usize) -> String {
    let here = |labels: bool| {
        let found = columns
            .iter()
            .filter(|column| column.is_labels() == labels && column.first_error() == FirstError::At(step));
        found.map(|column| escaped(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let mut out = String::new();
    let (models, annotators) = (here(false), here(true));
    if !models.is_empty() {
        let _ = write!(
            out,
            "<strong class=\"flag\">◆ first suspected error <span class=\"soft\">{models}</span></strong>"
        );
    }
    if !annotators.is_empty() {
        let _ = write!(
            out,
            "<strong class=\"flag\">▲ labeled first error <span class=\"soft\">{annotators}</span></strong>"
        );
    }
    out
}

/// A remark where some hold the step for right and some for wrong.
fn disagreement(columns: &[Column<'_>], step: usize) -> String {
    let said = columns.iter().filter_map(|column| column.accepts(step));
    let (right, wrong): (Vec<bool>, Vec<bool>) = said.partition(|right| *right);
    if right.is_empty() || wrong.is_empty() {
        return String::new();
    }
    format!("<p class=\"split\">≠ disagreement: {} correct, {} incorrect</p>", right.len(), wrong.len())
}

/// Whether a solution has a suspected or labeled error, and whether somebody disagrees.
pub(crate) fn kinds(solution: &Solution, options: &ViewOptions) -> (bool, bool) {
    let columns = columns(solution, options);
    let is_error = |column: &Column<'_>| match column.opinions {
        Opinions::Scores(_) => matches!(column.first_error(), FirstError::At(_)),
        Opinions::Labels(annotation) => annotation.has_error(),
    };
    let is_known = |column: &&Column<'_>| match column.opinions {
        Opinions::Scores(scores) => !scores.is_empty(),
        Opinions::Labels(annotation) => {
            !annotation.is_partial() && annotation.first_error != FirstError::Unknown
        }
    };
    let error = columns.iter().any(is_error);
    let mut first = columns.iter().filter(is_known).map(Column::first_error);
    let disagree = first.next().is_some_and(|one| first.any(|other| other != one));
    (error, disagree)
}
