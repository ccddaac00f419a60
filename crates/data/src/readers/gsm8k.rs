//! GSM8K: word problems with a worked solution.
//!
//! ```json
//! {"question": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?",
//!  "answer": "The bags hold 3*4=<<3*4=12>>12 nuts.\nIn all 12+2=<<12+2=14>>14.\n#### 14"}
//! ```
//!
//! The reference steps are the lines above `####`, without the calculator marks; the gold answer is what follows it.

use super::row::problem_row;
use super::worked::{keep_unless, lines};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Fault, Problem, Record, id};

const NAME: &str = "gsm8k";
/// Stands before the gold answer.
pub(super) const GOLD: &str = "####";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "GSM8K: question, and an answer with #### before the gold answer",
    recognizes: |record| {
        has(record, &["question", "answer"])
            && record["answer"].as_str().is_some_and(|answer| answer.contains(GOLD))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let worked = fields.string("answer")?;
    let Some((steps, gold)) = worked.rsplit_once(GOLD) else {
        return Err(Fault::new("answer", "has no `####` before the final answer"));
    };
    let reference = lines(steps);
    let answer = gold.trim().to_owned();
    keep_unless(&mut fields, "answer", worked, Some(&join(&reference, &answer)));
    let problem = Problem {
        id: id::problem(&text),
        text,
        reference,
        answer: Some(answer),
        source: NAME.into(),
        metadata: fields.rest(),
        ..Problem::default()
    };
    Ok(Record::new(problem, Vec::new()).into())
}

fn join(reference: &[String], answer: &str) -> String {
    let mut worked = reference.join("\n");
    if !worked.is_empty() {
        worked.push('\n');
    }
    worked + GOLD + " " + answer
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let row = match &problem.answer {
        Some(answer) => Ok(Row::default()
            .with("question", problem.text.as_str())
            .with("answer", join(&problem.reference, answer))
            .with_metadata(&problem.metadata, problem, NAME)),
        None => Err("no gold answer"),
    };
    problem_row(record, row)
}
