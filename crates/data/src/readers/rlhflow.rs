//! RLHFlow's process-reward data: a chat in which the user gives the steps and the assistant judges each.
//!
//! ```json
//! {"messages": [{"role": "user", "content": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12"},
//!               {"role": "assistant", "content": "+"},
//!               {"role": "user", "content": "Step 2: 2 + 12 = 15"}, {"role": "assistant", "content": "-"}]}
//! ```
//!
//! The list is also called `conversations`. The first turn holds the question and the first step; where one ends and
//! the other begins is found as in `tagged.rs`.

use serde_json::Value;

use super::fields::expected;
use super::row::labeled_prefix;
use super::tagged::{JOINED, numbered, question_end};
use super::verdicts::sign;
use super::{Dataset, Fields, Parsed, Row, Written};
use gradus_core::{Annotation, Fault, LabelSource, Mark, Metadata, Problem, Record, Solution, StepLabel, id};

const NAME: &str = "rlhflow";
const NAMES: [&str; 2] = ["messages", "conversations"];

/// Metadata of the solution for the writer: the list's name, what stands between question and first step, fields of
/// the messages other than role and content.
const TURNS_IN: &str = "gradus:turns_in";
const SEPARATOR: &str = "gradus:separator";
const BESIDE: &str = "gradus:beside_turns";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "RLHFlow: a conversation, one turn per step, each answered with + or -",
    recognizes: |record| {
        NAMES
            .iter()
            .filter_map(|name| record.get(*name)?.get(1)?.get("content")?.as_str())
            .any(|c| "+-".contains(c))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let name =
        if fields.peek(NAMES[0]).is_none() && fields.peek(NAMES[1]).is_some() { NAMES[1] } else { NAMES[0] };
    let turns = fields.list(name)?;
    let mut steps = Vec::with_capacity(turns.len() / 2);
    let mut labels = Vec::with_capacity(turns.len() / 2);
    let mut beside = Vec::with_capacity(turns.len());
    for (index, turn) in turns.into_iter().enumerate() {
        let path = format!("{name}[{index}]");
        let mut turn = Fields::nested(turn, &path)?;
        let content = read_turn(&mut turn, index).map_err(|fault| fault.within(&path))?;
        if index % 2 == 0 {
            steps.push(content);
        } else {
            let mark = Mark::from_correct(content == "+");
            labels.push(Some(StepLabel::hard(mark, LabelSource::Unstated)));
        }
        beside.push(Value::Object(turn.rest()));
    }
    if labels.len() != steps.len() {
        return Err(Fault::new(name, "the last step has no answer from the assistant"));
    }
    let Some(first) = steps.first_mut() else {
        return Err(Fault::new(name, "is empty: expected at least one step"));
    };

    let mut metadata = fields.rest();
    let text = match question_end(first) {
        Some(end) => {
            let question = first[..end].trim_end().to_owned();
            let step = first[end..].trim_start().to_owned();
            let separator = &first[question.len()..first.len() - step.len()];
            if separator != " " {
                metadata.insert(SEPARATOR.into(), separator.into());
            }
            *first = step;
            question
        }
        None => {
            metadata.insert(JOINED.into(), true.into());
            first.clone()
        }
    };
    if name != NAMES[0] {
        metadata.insert(TURNS_IN.into(), name.into());
    }
    if beside.iter().any(|rest| rest.as_object().is_some_and(|rest| !rest.is_empty())) {
        metadata.insert(BESIDE.into(), beside.into());
    }
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        steps,
        annotations: vec![Annotation::from_labels(labels)],
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// The content of a turn, user and assistant taking turns.
fn read_turn(turn: &mut Fields, index: usize) -> Result<String, Fault> {
    let speaker = speaker(index);
    let role = turn.string("role")?;
    if role != speaker {
        return Err(Fault::new("role", format!("expected `{speaker}`, found `{role}`")));
    }
    let content = turn.string("content")?;
    if speaker == "assistant" && content != "+" && content != "-" {
        return Err(Fault::new("content", expected("\"+\" or \"-\"", &content.into())));
    }
    Ok(content)
}

fn speaker(index: usize) -> &'static str {
    if index.is_multiple_of(2) { "user" } else { "assistant" }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let none = Metadata::new();
    for solution in &record.solutions {
        let Some(labelled) = labeled_prefix(solution, &mut written) else { continue };
        if labelled.steps.is_empty() {
            written.dropped.push("no steps");
            continue;
        }
        let own = if problem.source == NAME { &solution.metadata } else { &none };
        let separator = own.get(SEPARATOR).and_then(Value::as_str).unwrap_or(" ");
        let steps = numbered(labelled.steps, problem.source == NAME);
        let mut turns = Vec::with_capacity(2 * steps.len());
        for (index, (step, label)) in steps.iter().zip(&labelled.labels).enumerate() {
            let asked = index == 0 && !own.contains_key(JOINED);
            let content = if asked { format!("{}{separator}{step}", problem.text) } else { step.clone() };
            for content in [content.as_str(), sign(label)] {
                let beside = own.get(BESIDE).and_then(|beside| beside.get(turns.len())?.as_object());
                let row = Row::default().with("role", speaker(turns.len())).with("content", content);
                turns.push(row.with_metadata(beside.unwrap_or(&none), problem, NAME).done());
            }
        }
        let name = own.get(TURNS_IN).and_then(Value::as_str).unwrap_or(NAMES[0]);
        let row = Row::default().with(name, turns).with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}
