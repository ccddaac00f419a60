//! Spatial reasoning over a story: StepGame, SpaRTUN and what resembles them.
//!
//! ```json
//! {"story": ["B is to the left of A.", "C is above B."], "question": "Where is C in relation to A?",
//!  "label": "upper-left", "k_hop": 2}
//! {"story": ["B is to the left of A."], "question": "Is A right of B?", "answer": ["Yes"], "q_type": "YN",
//!  "candidate_answers": ["Yes", "No"]}
//! ```
//!
//! The story's sentences are the context. Several right answers are one answer, joined by commas. StepGame's files are one
//! object of such objects by number; SpaRTUN's have several `questions` to a story under `data`: [`unpack`] makes a row of
//! each question.

use serde_json::Value;

use super::fields::{expected, strings_of};
use super::row::problem_row;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::steps::{SplitConfig, Strategy, split};
use gradus_core::{Domain, Fault, Metadata, Problem, Record, id};

const NAME: &str = "spatial";
const STORY: &str = "story";

/// Metadata key: the answer was in the field `answer`, not in `label`.
const ANSWER_IN: &str = "gradus:answer_in";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "StepGame, SpaRTUN: a story, a question about places, its answer",
    recognizes: |record| {
        has(record, &[STORY, "question"]) && (record.contains_key("label") || record.contains_key("answer"))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let context = match fields.value(STORY) {
        Some(Value::Array(sentences)) => strings_of(sentences, STORY)?,
        Some(Value::String(story)) => {
            let context = sentences(&story);
            fields.keep(STORY, story);
            context
        }
        Some(other) => return Err(Fault::new(STORY, expected("a list of sentences, or a text", &other))),
        None => return Err(Fault::new(STORY, "is missing: expected a list of sentences, or a text")),
    };
    let key = if fields.peek("label").is_none() { "answer" } else { "label" };
    let answer = match fields.peek(key) {
        Some(Value::Array(answers)) => Some(strings_of(answers.clone(), key)?.join(", ")),
        Some(_) => fields.opt_string(key)?,
        None => None,
    };
    if key == "answer" {
        fields.keep(ANSWER_IN, true);
    }
    let problem = Problem {
        id: id::hashed("p", context.iter().map(String::as_str).chain([text.as_str()])),
        text,
        context,
        answer,
        domain: Domain::Spatial,
        source: NAME.into(),
        metadata: fields.rest(),
        ..Problem::default()
    };
    Ok(Record::new(problem, Vec::new()).into())
}

fn sentences(story: &str) -> Vec<String> {
    let config = SplitConfig { strategy: Strategy::Sentences, ..SplitConfig::default() };
    split(story, &config).steps().map(str::to_owned).collect()
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let own = problem.source == NAME;
    let key = if own && problem.metadata.contains_key(ANSWER_IN) { "answer" } else { "label" };
    let row = Row::default()
        .with(STORY, problem.context.as_slice())
        .with("question", problem.text.as_str())
        .with_some(key, problem.answer.as_deref())
        .with_metadata(&problem.metadata, problem, NAME);
    problem_row(record, Ok(row))
}

/// The questions of a file that is one object, or of a story with several; none where the row is something else.
pub(crate) fn unpack(row: &mut Metadata) -> Option<Vec<Value>> {
    let is_story = |value: &Value| value.get(STORY).is_some();
    let stories = if row.contains_key(STORY) && row.get("questions").is_some_and(Value::is_array) {
        vec![Value::Object(std::mem::take(row))]
    } else if !row.is_empty() && row.values().all(is_story) {
        std::mem::take(row).into_iter().map(|(_, story)| story).collect()
    } else {
        match row.get_mut("data") {
            Some(Value::Array(stories)) if !stories.is_empty() && stories.iter().all(is_story) => {
                std::mem::take(stories)
            }
            _ => return None,
        }
    };
    Some(stories.into_iter().flat_map(questions).collect())
}

/// A row for each question of a story.
fn questions(mut story: Value) -> Vec<Value> {
    let asked = story.as_object_mut().and_then(|story| story.shift_remove("questions"));
    let Some(Value::Array(asked)) = asked else { return vec![story] };
    let row = |mut question: Value| {
        if let (Some(question), Some(story)) = (question.as_object_mut(), story.as_object()) {
            for (name, value) in story {
                question.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        question
    };
    asked.into_iter().map(row).collect()
}
