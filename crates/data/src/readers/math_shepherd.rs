//! Math-Shepherd: steps end in the tag `ки`; a second copy of the text has `+` or `-` in the tag's place.
//!
//! ```json
//! {"input": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12 ки\nStep 2: 2 + 12 = 15. The answer is: 15 ки",
//!  "label": "What is 2 + 3 * 4? Step 1: 3 * 4 = 12 +\nStep 2: 2 + 12 = 15. The answer is: 15 -",
//!  "task": "GSM8K"}
//! ```
//!
//! The labels are Monte-Carlo estimates whose counts were not published. How the text is cut: `tagged.rs`. A record
//! whose number of tags and labels differ is refused: public trainers shift such labels by one in silence.

use super::tagged::{self, TAG};
use super::verdicts::sign;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Fault, LabelSource, Mark, Record, StepLabel};

const NAME: &str = "math-shepherd";

/// Hard labels from completions that were counted, but whose counts were not published.
const ESTIMATED: LabelSource = LabelSource::MonteCarlo { model: String::new(), successes: 0, samples: 0 };

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "Math-Shepherd: text with the tag ки, and + or - in its place",
    recognizes: |record| {
        has(record, &["input", "label"])
            && record["label"].is_string()
            && record["input"].as_str().is_some_and(|text| text.contains(TAG))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let (input, text) = tagged::take_input(&mut fields)?;
    let label = fields.string("label")?;
    let labels = read_marks(&input, &label)?;
    let labels = labels.into_iter().map(|mark| Some(StepLabel::hard(mark, ESTIMATED))).collect();
    Ok(tagged::record(text, labels, fields.rest(), NAME).into())
}

/// Walks along `label`, which must equal `input` but for one `+` or `-` where each tag was.
fn read_marks(input: &str, label: &str) -> Result<Vec<Mark>, Fault> {
    let mut pieces = input.split(TAG).peekable();
    let mut rest = label;
    let mut marks = Vec::new();
    while let Some(piece) = pieces.next() {
        let step = marks.len() + 1;
        if pieces.peek().is_none() {
            if rest == piece {
                break;
            }
            return Err(Fault::new("label", "differs from `input` after the last tag"));
        }
        let after = rest.strip_prefix(piece).ok_or_else(|| {
            Fault::new("label", format!("differs from `input` in step {step}, apart from the tags"))
        })?;
        let mark = match after.chars().next() {
            Some('+') => Mark::Correct,
            Some('-') => Mark::Incorrect,
            _ => {
                let message = format!("has no + or - in the place of tag {step} of `input`");
                return Err(Fault::new("label", message));
            }
        };
        marks.push(mark);
        rest = &after[1..];
    }
    Ok(marks)
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    tagged::write(record, NAME, |solution, labelled, own| {
        let tags = labelled.labels.iter().map(|_| TAG);
        let signs = labelled.labels.iter().map(|label| sign(label));
        Row::default()
            .with("input", tagged::join(problem, solution, own, labelled.steps, tags))
            .with("label", tagged::join(problem, solution, own, labelled.steps, signs))
            .with_metadata(&solution.metadata, problem, NAME)
            .done()
    })
}
