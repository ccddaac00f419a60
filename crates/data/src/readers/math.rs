//! MATH and what copies its form: MATH-500, Minerva's problems.
//!
//! ```json
//! {"problem": "What is $2 + 3 \\cdot 4$?", "level": "Level 1", "type": "Prealgebra",
//!  "solution": "First, $3 \\cdot 4 = 12$.\n\nThen $2 + 12 = \\boxed{14}$.", "unique_id": "made/up/1.json"}
//! ```
//!
//! The gold answer is `answer` where the record has it, or else the last `\boxed{…}` of `solution`. The reference steps
//! are the paragraphs of `solution`.

use serde_json::Value;

use super::row::problem_row;
use super::worked::{joined, keep_unless, paragraphs};
use super::{Dataset, Fields, Parsed, Row, SOLUTION_IS_REFERENCE, Written};
use gradus_core::{Fault, Problem, Record, id};

const NAME: &str = "math";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "MATH: problem and solution, the gold in \\boxed{}",
    recognizes: |record| {
        ["problem", "solution"].iter().all(|key| record.get(*key).is_some_and(Value::is_string))
            && ["level", "type", "subject"].iter().any(|key| record.contains_key(*key))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let solution = fields.string("solution")?;
    let source_id = fields.id("unique_id")?;
    // The field stays in the metadata, which tells the writer that it was there.
    let answer = match fields.clone().answer("answer")? {
        Some(answer) => Some(answer),
        None => last_boxed(&solution).map(str::to_owned),
    };
    let reference = paragraphs(&solution);
    keep_unless(&mut fields, "solution", solution, joined(&reference).as_deref());
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        reference,
        answer,
        source: NAME.into(),
        metadata: fields.rest(),
        ..Problem::default()
    };
    Ok(Parsed { note: Some(SOLUTION_IS_REFERENCE.to_owned()), ..Record::new(problem, Vec::new()).into() })
}

/// The content of the last `\boxed{…}` or `\fbox{…}`, braces balanced; `\boxed 3` ends at a `$` or the end.
fn last_boxed(text: &str) -> Option<&str> {
    let command = |name: &str| text.rfind(name).map(|at| (at, &text[at + name.len()..]));
    let (_, rest) = command("\\boxed").max(command("\\fbox"))?;
    let Some(inner) = rest.strip_prefix('{') else {
        let end = rest.find('$').unwrap_or(rest.len());
        return Some(rest[..end].trim()).filter(|bare| rest.starts_with(' ') && !bare.is_empty());
    };
    let mut depth = 1;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inner[..at]);
        }
    }
    None
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    if problem.reference.is_empty() && problem.source != NAME {
        return problem_row(record, Err("no reference solution"));
    }
    let foreign_answer = problem.answer.as_deref().filter(|_| problem.source != NAME);
    let row = Row::default()
        .with("problem", problem.text.as_str())
        .with("solution", problem.reference.join("\n\n"))
        .with_some("answer", foreign_answer)
        .with_problem_id("unique_id", problem, NAME)
        .with_metadata(&problem.metadata, problem, NAME);
    problem_row(record, Ok(row))
}

#[cfg(test)]
mod tests {
    use super::last_boxed;

    #[test]
    fn the_last_box_is_found_with_balanced_braces() {
        for (text, expected) in [
            (r"$\boxed{1}$ and then $\boxed{\frac{1}{2}}$.", Some(r"\frac{1}{2}")),
            (r"$\boxed{\left\{1, 2\right\}}$", Some(r"\left\{1, 2\right\}")),
            (r"$\boxed{1}$, or $\fbox{C}$", Some("C")),
            (r"so $\boxed 3$, done", Some("3")),
            (r"so \boxed 3", Some("3")),
            (r"$\boxed{1", None),
            (r"\boxedness", None),
            ("no box", None),
            (r"\boxed{é𝔸}", Some("é𝔸")),
        ] {
            assert_eq!(last_boxed(text), expected, "{text}");
        }
    }
}
