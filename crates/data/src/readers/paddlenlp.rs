//! PaddleNLP's process-reward data.
//!
//! ```json
//! {"src": ["What is 2 + 3 * 4?"], "tgt": [], "responses": ["3 * 4 = 12", "2 + 12 = 15"], "labels": ["+", "-"]}
//! ```
//!
//! `src` is the question, alone or as a list of turns, which are put together line by line. `labels` has one `+` or
//! `-`, boolean, or number from 0 to 1 for each of `responses`. `tgt`, earlier answers, is kept as metadata.

use serde_json::{Value, json};

use super::fields::{expected, strings_of};
use super::row::labeled_prefix;
use super::verdicts::{self, Spelling};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, Problem, Record, Solution, id};

const NAME: &str = "paddlenlp";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PaddleNLP: src, responses, labels",
    recognizes: |record| has(record, &["src", "responses", "labels"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let src = match fields.value("src") {
        Some(src) => src,
        None => return Err(Fault::new("src", "is missing: expected a question")),
    };
    let text = match src.clone() {
        Value::String(question) => question,
        Value::Array(turns) => strings_of(turns, "src")?.join("\n"),
        other => return Err(Fault::new("src", expected("a question or a list of turns", &other))),
    };
    let steps = fields.strings("responses")?;
    let list = fields.list("labels")?;
    let labels = verdicts::read(&list, "labels")?;
    let mut problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    if src != json!([problem.text]) {
        problem.metadata.insert("src".into(), src);
    }
    let mut metadata = fields.rest();
    verdicts::keep(&mut metadata, "labels", list, &labels, Spelling::Sign);
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        annotations: vec![Annotation::from_labels(labels).check_length(steps.len(), "labels")?],
        steps,
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    // The format's own records have their `tgt`, or its absence, in the metadata.
    let tgt = (problem.source != NAME).then(|| json!([]));
    for solution in &record.solutions {
        let Some(labelled) = labeled_prefix(solution, &mut written) else { continue };
        let kept = solution.metadata.get("labels").filter(|_| problem.source == NAME);
        let row = Row::default()
            .with("src", json!([problem.text]))
            .with_some("tgt", tgt.clone())
            .with("responses", labelled.steps)
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME)
            .with("labels", verdicts::write(&labelled.labels, Spelling::Sign, kept));
        written.rows.push(row.done());
    }
    written
}
