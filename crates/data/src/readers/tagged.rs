//! One text of question and steps with the tag `ки` after each step: what Math-Shepherd and OpenRLHF have in common.
//!
//! The question ends where `Step 1` begins; without that, after the last question mark, or else at the first blank
//! line. Where none of these is found, the whole first piece is the first step and stands for the question too. A step's
//! number (`Step 2:`) and GSM8K's calculator marks (`<<3*4=12>>`) are no part of its text. Steps as they were, and the white
//! space around question, steps and tags, are kept in the metadata where the writer would put them otherwise.

use std::borrow::Cow;

use serde_json::Value;

use gradus_core::{
    Annotation, Fault, Metadata, Problem, Record, Solution, StepLabel, id, without_calculator,
};

use super::row::{Labeled, labeled_prefix};
use super::{Fields, Written};

pub(crate) const TAG: &str = "ки";

/// Metadata key: the white space around question, steps and tags.
const SPACING: &str = "gradus:spacing";

/// Metadata key: the steps as the source has them.
const RAW_STEPS: &str = "gradus:raw_steps";

/// Metadata key: the question could not be told from the first step.
pub(crate) const JOINED: &str = "gradus:joined";

/// A text cut at its tags.
pub(crate) struct Tagged {
    pub(crate) question: String,
    pub(crate) steps: Vec<String>,
    /// [`SPACING`], [`RAW_STEPS`] and [`JOINED`], where they are needed to write the text back.
    pub(crate) metadata: Metadata,
}

/// Cuts `input`; `None` without a tag.
pub(crate) fn cut(input: &str) -> Option<Tagged> {
    let (body, tail) = input.rsplit_once(TAG)?;
    let mut pieces: Vec<&str> = body.split(TAG).collect();
    let end = question_end(pieces[0]);
    let (question, first) = pieces[0].split_at(end.unwrap_or(0));
    pieces[0] = first;

    // Everything but the trimmed texts: after the question, around each step, after the last tag.
    let mut spacing = vec![&question[question.trim_end().len()..]];
    let mut raw_steps: Vec<&str> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let step = piece.trim();
        let lead = piece.len() - piece.trim_start().len();
        spacing.push(&piece[..lead]);
        spacing.push(&piece[lead + step.len()..]);
        raw_steps.push(step);
    }
    spacing.push(tail);
    let steps: Vec<String> = (1..).zip(&raw_steps).map(|(number, raw)| clean(number, raw)).collect();

    let mut metadata = Metadata::new();
    if spacing != usual_spacing(steps.len()) {
        metadata.insert(SPACING.into(), spacing.into());
    }
    if !(1..).zip(&steps).map(|(number, step)| with_number(number, step)).eq(raw_steps.iter().copied()) {
        metadata.insert(RAW_STEPS.into(), raw_steps.into());
    }
    let question = if end.is_some() {
        question.trim_end().to_owned()
    } else {
        metadata.insert(JOINED.into(), true.into());
        steps[0].clone()
    };
    Some(Tagged { question, steps, metadata })
}

/// Cuts the field `input`.
pub(crate) fn take_input(fields: &mut Fields) -> Result<(String, Tagged), Fault> {
    let input = fields.string("input")?;
    let text = cut(&input).ok_or_else(|| Fault::new("input", "has no step tag `ки`"))?;
    Ok((input, text))
}

/// The record of a text and its labels; `beside` is what else its row says.
pub(crate) fn record(text: Tagged, labels: Vec<Option<StepLabel>>, beside: Metadata, format: &str) -> Record {
    let problem = Problem {
        id: id::problem(&text.question),
        text: text.question,
        source: format.into(),
        ..Problem::default()
    };
    let mut metadata = beside;
    metadata.extend(text.metadata);
    let solution = Solution {
        id: id::solution(&problem.id, None, &text.steps),
        problem_id: problem.id.clone(),
        answer: final_answer(&text.steps),
        annotations: vec![Annotation::from_labels(labels)],
        steps: text.steps,
        metadata,
        ..Solution::default()
    };
    Record::new(problem, vec![solution])
}

/// Where the question ends in a text of the question and the first step.
pub(crate) fn question_end(text: &str) -> Option<usize> {
    let numbered = text.match_indices("Step 1").map(|(at, _)| at);
    let numbered = numbered.into_iter().find(|at| !text[at + 6..].starts_with(|c: char| c.is_ascii_digit()));
    let asked = || {
        let marks = text.rmatch_indices('?').map(|(at, _)| at + 1);
        marks.into_iter().find(|&at| {
            let rest = &text[at..];
            rest.starts_with(char::is_whitespace) && !rest.trim().is_empty()
        })
    };
    let blank = || text.find("\n\n").filter(|&at| at > 0 && !text[at..].trim().is_empty());
    numbered.or_else(asked).or_else(blank)
}

/// The steps as they follow the question. Those of another format are numbered, so that the question's end can be
/// found.
pub(crate) fn numbered(steps: &[String], own: bool) -> Cow<'_, [String]> {
    if own || steps.first().is_none_or(|step| step.starts_with("Step 1")) {
        return Cow::Borrowed(steps);
    }
    (1..).zip(steps).map(|(number, step)| with_number(number, step)).collect()
}

fn with_number(number: usize, step: &str) -> String {
    format!("Step {number}: {step}")
}

/// A step without its number and without calculator marks.
fn clean(number: usize, raw: &str) -> String {
    let text = raw.strip_prefix(&format!("Step {number}:")).map_or(raw, str::trim_start);
    without_calculator(text)
}

/// The steps of a record of the same format as its source had them.
fn as_read(steps: &[String], solution: &Solution) -> Vec<String> {
    let kept = solution.metadata.get(RAW_STEPS).and_then(Value::as_array);
    let raw = |index: usize| kept?.get(index)?.as_str();
    let restore = |(index, step): (usize, &String)| match raw(index) {
        Some(raw) if clean(index + 1, raw) == *step => raw.to_owned(),
        _ => with_number(index + 1, step),
    };
    steps.iter().enumerate().map(restore).collect()
}

/// The text again, with `tags` after the steps.
pub(crate) fn join<'a>(
    problem: &Problem,
    solution: &Solution,
    own: bool,
    steps: &[String],
    tags: impl Iterator<Item = &'a str>,
) -> String {
    let kept = solution.metadata.get(SPACING).and_then(Value::as_array);
    let kept: Vec<&str> = kept.into_iter().flatten().filter_map(Value::as_str).collect();
    let usual = usual_spacing(steps.len());
    let spacing = if own && kept.len() == usual.len() { kept } else { usual };
    let joined = own && solution.metadata.contains_key(JOINED);
    let mut text = if joined { String::new() } else { problem.text.clone() };
    text += spacing[0];
    let written = if own { as_read(steps, solution).into() } else { numbered(steps, false) };
    for (index, (step, tag)) in written.iter().zip(tags).enumerate() {
        text += spacing[2 * index + 1];
        text += step;
        text += spacing[2 * index + 2];
        text += tag;
    }
    text + spacing[spacing.len() - 1]
}

/// `question␣step␣ки\nstep␣ки`.
fn usual_spacing(steps: usize) -> Vec<&'static str> {
    let mut spacing = vec![" "];
    for step in 0..steps {
        spacing.push(if step == 0 { "" } else { "\n" });
        spacing.push(" ");
    }
    spacing.push("");
    spacing
}

/// Why a solution cannot be written with tags, if it cannot.
fn obstacle(problem: &Problem, steps: &[String]) -> Option<&'static str> {
    if steps.is_empty() {
        Some("no steps")
    } else if problem.text.contains(TAG) || steps.iter().any(|step| step.contains(TAG)) {
        Some("the text already contains the step tag")
    } else {
        None
    }
}

/// What follows `The answer is:` in the last step.
fn final_answer(steps: &[String]) -> Option<String> {
    let (_, answer) = steps.last()?.rsplit_once("The answer is:")?;
    Some(answer.trim().to_owned())
}

/// A row for each solution that can be written with tags; the others are counted. `row` is told whether the record was
/// read from the format `name`.
pub(crate) fn write(
    record: &Record,
    name: &str,
    row: impl Fn(&Solution, &Labeled<'_>, bool) -> Value,
) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let Some(labelled) = labeled_prefix(solution, &mut written) else { continue };
        match obstacle(problem, labelled.steps) {
            Some(reason) => written.dropped.push(reason),
            None => written.rows.push(row(solution, &labelled, problem.source == name)),
        }
    }
    written
}
