//! EIC: right solutions to word problems into which a model wrote one error of a known kind.
//!
//! ```json
//! {"question": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?",
//!  "original_solution": "3*4=12\n12+2=14\n#### 14", "original_answer": 14.0,
//!  "transformed_solution": "3*4=12\n12+2=15\n#### 15", "transformed_answer": 15.0,
//!  "wrong_step": 2, "wrong_type": "calculation_error", "is_single_error": true, "explanation": "12 + 2 is 14."}
//! ```
//!
//! `wrong_step` counts from 1. Both solutions are lines, with the answer after `####` or without; some of the steps named
//! are not there, which is an issue of the source.

use serde_json::Value;

use super::gsm8k::GOLD;
use super::row::known_first_error;
use super::worked::{keep_unless, lines};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Outcome, Problem, Record, Solution, id};

const NAME: &str = "eic";
const ORIGINAL: &str = "original_solution";
const CHANGED: &str = "transformed_solution";
const WRONG: &str = "wrong_step";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "EIC: solutions with one error written in, its step and kind",
    recognizes: |record| has(record, &["question", CHANGED, WRONG]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let original = fields.opt_string(ORIGINAL)?;
    let (reference, stated) = original.map(|text| worked(&mut fields, ORIGINAL, text)).unwrap_or_default();
    let changed = fields.string(CHANGED)?;
    let (steps, answer) = worked(&mut fields, CHANGED, changed);
    let wrong = fields.int(WRONG)?;
    let index = usize::try_from(wrong).ok().and_then(|wrong| wrong.checked_sub(1));
    let index = index.filter(|&index| index < steps.len());
    let mut issues = Vec::new();
    let annotation = match index {
        Some(index) => Annotation::from_first_error(steps.len(), Some(index), &LabelSource::Injected),
        None => {
            issues.push(Fault::new(WRONG, format!("is {wrong}: expected 1 to {}", steps.len())));
            fields.keep(WRONG, wrong);
            Annotation { labels: vec![None; steps.len()], ..Annotation::default() }
        }
    };
    let answers = [fields.peek("original_answer"), fields.peek("transformed_answer")];
    let outcome = match answers {
        [Some(right), Some(reached)] => Outcome::from_correct(right == reached),
        _ => Outcome::Unknown,
    };
    let gold = answers[0].and_then(|gold| match gold {
        Value::String(_) | Value::Number(_) => fields.clone().answer("original_answer").ok().flatten(),
        _ => None,
    });
    let problem = Problem {
        id: id::problem(&text),
        text,
        reference,
        answer: stated.or(gold),
        source: NAME.into(),
        metadata: fields.only(&[ORIGINAL, "original_answer"]),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        steps,
        answer,
        outcome,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Parsed { issues, ..Record::new(problem, vec![solution]).into() })
}

/// The lines of a worked solution, and its answer where it is stated; what would be written otherwise is kept.
fn worked(fields: &mut Fields, key: &str, text: String) -> (Vec<String>, Option<String>) {
    let (steps, answer) = cut(&text);
    // The right answer that is not stated here is known from elsewhere, and would be written.
    let again = join(&steps, answer.as_deref());
    let is_stated = !steps.is_empty() && answer.is_some();
    keep_unless(fields, key, text, (key == CHANGED || is_stated).then_some(again.as_str()));
    (steps, answer)
}

/// The lines of a worked solution, and its answer where it is stated.
fn cut(text: &str) -> (Vec<String>, Option<String>) {
    match text.rsplit_once(GOLD) {
        Some((steps, answer)) => (lines(steps), Some(answer.trim().to_owned())),
        None => (lines(text), None),
    }
}

fn join(steps: &[String], answer: Option<&str>) -> String {
    let answer = answer.map(|answer| format!("{GOLD} {answer}"));
    steps.iter().map(String::as_str).chain(answer.as_deref()).collect::<Vec<_>>().join("\n")
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let own = problem.source == NAME;
    let original =
        (!problem.reference.is_empty()).then(|| join(&problem.reference, problem.answer.as_deref()));
    for solution in &record.solutions {
        // An index that is not there is in the metadata.
        let kept = solution.metadata.contains_key(WRONG) && own;
        let index = match kept {
            true => None,
            false => match known_first_error(solution, &mut written) {
                None => continue,
                Some(None) => {
                    written.dropped.push("the solution has no error");
                    continue;
                }
                Some(index) => index,
            },
        };
        let text = join(&solution.steps, solution.answer.as_deref());
        if !own && cut(&text).0 != solution.steps {
            written.dropped.push("a step is not one line");
            continue;
        }
        let row = Row::default()
            .with("question", problem.text.as_str())
            .with_some(ORIGINAL, original.as_deref())
            .with(CHANGED, text)
            .with_some(WRONG, index.map(|index| index + 1))
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}

#[cfg(test)]
mod tests {
    use crate::readers::Format;

    /// Found by fuzzing: a record without a solution was read, and written with an empty one.
    #[test]
    fn a_solution_is_needed() {
        let row = serde_json::json!({"question": "1 + 1?", "wrong_step": 1});
        let fault = Format::Eic.read(row.as_object().unwrap().clone()).err().unwrap().to_string();
        assert!(
            fault.contains("transformed_solution") && fault.contains("is missing: expected a string"),
            "{fault}"
        );
    }
}
