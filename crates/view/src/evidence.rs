//! What stands beside a step: explanations of annotators, references that a reward model saw, rollouts.

use std::fmt::Write as _;

use gradus_core::count::counted;
use gradus_core::{ReferenceProblem, ReferenceStep, Solution};
use gradus_plot::{escaped, prose};
use serde_json::Value;

use crate::cell;
use crate::columns::Column;
use crate::solution::answer_text;

/// Rollouts of one step that are shown.
const ROLLOUTS: usize = 16;

/// All that is known about a step besides scores and labels; empty where there is nothing.
pub(crate) fn beside(solution: &Solution, columns: &[Column<'_>], step: usize) -> String {
    let mut out = explanations(columns, step);
    let references = solution.references.as_ref().and_then(|references| references.steps.get(step));
    out += &folded("reference step", references.map_or(&[], Vec::as_slice), reference_step);
    for (model, seen) in retrieved(solution) {
        let neighbors = seen.get("steps").and_then(|steps| steps.get(step)).and_then(Value::as_array);
        out += &neighbors_of(neighbors.map_or(&[], Vec::as_slice), model);
    }
    let rollouts = solution.metadata.get("rollouts").and_then(|all| all.get(step)).and_then(Value::as_array);
    out + &rollouts_of(rollouts.map_or(&[], Vec::as_slice))
}

/// The solved problems that a reward model saw beside the whole solution.
pub(crate) fn reference_problems(solution: &Solution) -> String {
    let questions =
        solution.references.as_ref().map_or(&[][..], |references| references.questions.as_slice());
    let mut out = folded("reference question", questions, reference_problem);
    for (model, seen) in retrieved(solution) {
        let neighbors = seen.get("questions").and_then(Value::as_array);
        out += &neighbors_of(neighbors.map_or(&[], Vec::as_slice), model);
    }
    out
}

/// Explanations and the places they point to. The error categories are with the labels.
fn explanations(columns: &[Column<'_>], step: usize) -> String {
    let mut out = String::new();
    for column in columns {
        let Some(evidence) = column.label(step).and_then(|label| label.evidence.as_ref()) else { continue };
        let mut places = Vec::new();
        for (numbers, noun) in [
            (&evidence.context, "context"),
            (&evidence.steps, "steps"),
            (&evidence.reference, "reference steps"),
        ] {
            if !numbers.is_empty() {
                let listed: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                places.push(format!("{noun} {}", listed.join(", ")));
            }
        }
        if evidence.explanation.trim().is_empty() && places.is_empty() {
            continue;
        }
        let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join("; ")) };
        let _ = write!(
            out,
            "<p class=\"comment\"><b>{}</b>{places}: {}</p>",
            escaped(&column.name),
            prose(evidence.explanation.trim())
        );
    }
    out
}

/// A list that opens on demand.
fn folded<T>(noun: &str, items: &[T], write: fn(&T) -> String) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items_html: String = items.iter().map(write).collect();
    format!(
        "<details class=\"aside\"><summary>{}</summary><ul>{items_html}</ul></details>",
        counted(items.len(), noun)
    )
}

fn reference_step(step: &ReferenceStep) -> String {
    format!("<li>{} {}</li>", cell::mark_badge(step.mark), prose(step.text.trim()))
}

fn reference_problem(problem: &ReferenceProblem) -> String {
    let steps: String = problem
        .steps
        .iter()
        .map(|(text, mark)| format!("<li>{} {}</li>", cell::mark_badge(*mark), prose(text.trim())))
        .collect();
    format!("<li><p>{}</p><ol start=\"0\">{steps}</ol></li>", prose(problem.question.trim()))
}

/// What `gradus score --pool` noted: which references a model saw, by the name of its scores.
fn retrieved(solution: &Solution) -> impl Iterator<Item = (&String, &Value)> {
    solution.metadata.get("retrieval").and_then(Value::as_object).into_iter().flatten()
}

/// Names of references in a pool, with their similarities; their texts are in the pool.
fn neighbors_of(neighbors: &[Value], model: &str) -> String {
    let items: String = neighbors
        .iter()
        .filter_map(|neighbor| {
            let name = neighbor.get("solution").or_else(|| neighbor.get("question"))?.as_str()?;
            let step = neighbor.get("step").and_then(Value::as_u64).map(|step| format!(", step {step}"));
            let similarity = neighbor.get("similarity").and_then(Value::as_f64);
            let similarity = similarity.map(|value| format!("similarity {value:.2}: ")).unwrap_or_default();
            Some(format!("<li>{similarity}{}{}</li>", escaped(name), step.unwrap_or_default()))
        })
        .collect();
    if items.is_empty() {
        return String::new();
    }
    let count = counted(neighbors.len(), "reference");
    let model = escaped(model);
    format!(
        "<details class=\"aside\"><summary>{count} of the pool, seen by {model}</summary><ul>{items}</ul></details>"
    )
}

/// Completions from a step: texts, or objects with a text, whether it is correct, and its answer.
fn rollouts_of(rollouts: &[Value]) -> String {
    let items: String = rollouts
        .iter()
        .take(ROLLOUTS)
        .map(|rollout| {
            let text = rollout.as_str().or_else(|| rollout.get("text")?.as_str()).unwrap_or_default();
            let correct = rollout.get("correct").and_then(Value::as_bool);
            let outcome = gradus_core::Outcome::from_correct;
            let badge = correct.map_or("", |correct| cell::outcome(outcome(correct)));
            let answer = rollout.get("answer").and_then(Value::as_str);
            let answer = answer.map(|answer| format!(" answer {}", answer_text(answer))).unwrap_or_default();
            format!("<li>{badge}{answer} <span class=\"text\">{}</span></li>", prose(text.trim()))
        })
        .collect();
    if items.is_empty() {
        return String::new();
    }
    let more = rollouts.len().saturating_sub(ROLLOUTS);
    let more = if more == 0 { String::new() } else { format!("<li>… and {more} more</li>") };
    let count = counted(rollouts.len(), "rollout");
    format!("<details class=\"aside\"><summary>{count}</summary><ul>{items}{more}</ul></details>")
}
