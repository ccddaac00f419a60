//! Math-Shepherd: steps end in the tag `ки`; a second copy of the text has `+` or `-` in the tag's place.
//!
//! ```json
//! {"input": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12 ки\nStep 2: 2 + 12 = 15. The answer is: 15 ки",
//!  "label": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12 +\nStep 2: 2 + 12 = 15. The answer is: 15 -",
//!  "task": "GSM8K"}
//! ```
//!
//! The labels are Monte-Carlo estimates whose counts were not published. The question ends where `Step 1:` begins.
//! The white space around question, steps and tags is kept in the metadata when it is not the usual one. A record
//! whose number of tags and labels differ is refused: public trainers shift such labels by one in silence.

use serde_json::Value;

use super::row::labelled_prefix;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use crate::data::{Annotation, LabelSource, Mark, Metadata, Problem, Record, Solution, StepLabel, id};
use crate::error::Fault;

const NAME: &str = "math-shepherd";
const TAG: &str = "ки";
const BETWEEN: &str = " ";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "Math-Shepherd: text with the tag ки, and + or - in its place",
    recognises: |record| {
        has(record, &["input", "label"])
            && record["label"].is_string()
            && record["input"].as_str().is_some_and(|text| text.contains(TAG))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let input = fields.string("input")?;
    let label = fields.string("label")?;
    let pieces: Vec<&str> = input.split(TAG).collect();
    let (tail, pieces) = pieces.split_last().expect("split yields at least one piece");
    let marks = read_marks(pieces, tail, &label)?;
    let Some((first, later)) = pieces.split_first() else {
        return Err(Fault::new("input", "has no step tag `ки`"));
    };
    let start = first.find("Step 1:").unwrap_or(0);
    let (question, first) = first.split_at(start);

    // Everything but the trimmed texts: before and after the question, around each step, after the last tag.
    let mut spacing = vec![white_tail(question)];
    let mut steps = Vec::with_capacity(pieces.len());
    for piece in std::iter::once(first).chain(later.iter().copied()) {
        let step = piece.trim();
        let lead = piece.len() - piece.trim_start().len();
        spacing.push(&piece[..lead]);
        spacing.push(&piece[lead + step.len()..]);
        steps.push(step.to_owned());
    }
    spacing.push(tail);

    let text = question.trim_end().to_owned();
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    let labels = marks.into_iter().map(|mark| Some(StepLabel::hard(mark, LabelSource::Unstated))).collect();
    let usual = usual_spacing(steps.len());
    let unusual =
        (spacing != usual).then(|| spacing.iter().map(|&white| Value::from(white)).collect::<Vec<_>>());
    let mut metadata = fields.rest();
    if let Some(spacing) = unusual {
        metadata.insert("spacing".into(), spacing.into());
    }
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        answer: steps
            .last()
            .and_then(|step| step.rsplit_once("The answer is:"))
            .map(|(_, a)| a.trim().to_owned()),
        annotations: vec![Annotation::from_labels(labels)],
        steps,
        metadata,
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// Walks along `label`, which must equal `input` but for one `+` or `-` where each tag was.
fn read_marks(pieces: &[&str], tail: &str, label: &str) -> Result<Vec<Mark>, Fault> {
    let mut rest = label;
    let mut marks = Vec::with_capacity(pieces.len());
    for (step, piece) in pieces.iter().enumerate() {
        let after = rest.strip_prefix(piece).ok_or_else(|| {
            Fault::new("label", format!("differs from `input` in step {}, apart from the tags", step + 1))
        })?;
        let mark = match after.chars().next() {
            Some('+') => Mark::Correct,
            Some('-') => Mark::Incorrect,
            _ => {
                let message = format!("has no + or - in the place of tag {} of `input`", step + 1);
                return Err(Fault::new("label", message));
            }
        };
        marks.push(mark);
        rest = &after[1..];
    }
    if rest != tail {
        return Err(Fault::new("label", "differs from `input` after the last tag"));
    }
    Ok(marks)
}

fn white_tail(text: &str) -> &str {
    &text[text.trim_end().len()..]
}

/// `question␣step␣ки\nstep␣ки`.
fn usual_spacing(steps: usize) -> Vec<&'static str> {
    let mut spacing = vec![BETWEEN];
    for step in 0..steps {
        spacing.push(if step == 0 { "" } else { "\n" });
        spacing.push(BETWEEN);
    }
    spacing.push("");
    spacing
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    for solution in &record.solutions {
        let Some(labelled) = labelled_prefix(solution, &mut written) else { continue };
        let kept = kept_spacing(&solution.metadata);
        let usual = usual_spacing(labelled.steps.len());
        let spacing = if kept.len() == usual.len() { kept } else { usual };
        let numbered = record.problem.source == NAME || labelled.steps[0].starts_with("Step 1");
        let mut input = format!("{}{}", record.problem.text, spacing[0]);
        let mut label = input.clone();
        for (index, (step, mark)) in labelled.steps.iter().zip(&labelled.labels).enumerate() {
            let step = if numbered { step.clone() } else { format!("Step {}: {step}", index + 1) };
            let body = format!("{}{step}{}", spacing[2 * index + 1], spacing[2 * index + 2]);
            input += &body;
            input += TAG;
            label += &body;
            label += if mark.mark == Mark::Incorrect { "-" } else { "+" };
        }
        input += spacing[spacing.len() - 1];
        label += spacing[spacing.len() - 1];
        let mut metadata = solution.metadata.clone();
        metadata.remove("spacing");
        let row = Row::default().with("input", input).with("label", label).with_metadata(
            &metadata,
            &record.problem,
            NAME,
        );
        written.rows.push(row.done());
    }
    written
}

fn kept_spacing(metadata: &Metadata) -> Vec<&str> {
    metadata
        .get("spacing")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
