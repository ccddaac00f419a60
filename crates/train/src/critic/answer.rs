//! Reads a critic's answer, strictly and, where there is no doubt, leniently.
//!
//! Strict is what the prompt asks for: one of each tag in their order, a known verdict, an index in range when the
//! verdict is wrong and none when it is correct, and nothing else around them. Lenient takes a verdict that is given
//! once, or several times alike, and an index likewise; anything else is unread, which is not the same as wrong.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// A well-formed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The critique.
    pub critique: String,
    /// The 0-based first wrong step; none when every step is right.
    pub first_error: Option<usize>,
}

/// Why an answer is not strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// No verdict tag with a known verdict.
    NoVerdict,
    /// Verdicts that contradict each other.
    ManyVerdicts,
    /// A wrong solution without an index.
    NoStep,
    /// Indices that contradict each other.
    ManySteps,
    /// The index is not a number, or there is no such step.
    StepOutOfRange,
    /// A correct solution with an index.
    StepOfCorrect,
    /// The verdict can be read, but the layout is not the one asked for.
    Layout,
}

/// What could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parsed {
    /// The critique, or the whole text where its tags are missing.
    pub critique: String,
    /// The verdict, if it is clear.
    pub verdict: Option<Verdict>,
    /// The 0-based first wrong step, if it is clear and in range.
    pub step: Option<usize>,
    /// Whether the format was followed exactly.
    pub strict: bool,
    /// Why not.
    pub problem: Option<Problem>,
}

/// The answer as text. A critique must not hold the format's own tags.
pub fn format(answer: &Answer) -> String {
    let critique = &answer.critique;
    match answer.first_error {
        None => format!("<critique>{critique}</critique>\n<verdict>correct</verdict>"),
        Some(step) => {
            format!("<critique>{critique}</critique>\n<verdict>wrong</verdict>\n<step>{step}</step>")
        }
    }
}

/// Reads an answer about a solution of `steps` steps. White space at either end does not count.
///
/// ```
/// use gradus_train::critic::{Verdict, parse};
/// let parsed = parse("<critique>7 is odd.</critique>\n<verdict>wrong</verdict>\n<step>1</step>", 3);
/// assert!(parsed.strict);
/// assert_eq!((parsed.verdict, parsed.step), (Some(Verdict::Wrong), Some(1)));
/// ```
pub fn parse(text: &str, steps: usize) -> Parsed {
    let text = text.trim();
    let (verdict, step, problem) = read(text, steps);
    let critique = contents(text, "critique").next().unwrap_or(text).to_owned();
    let problem = problem.or_else(|| {
        let answer = Answer { critique: critique.clone(), first_error: step };
        let tagged = ["<critique>", "</critique>", "<verdict>", "</verdict>", "<step>", "</step>"];
        let clean = !tagged.iter().any(|tag| critique.contains(tag));
        (!clean || format(&answer) != text).then_some(Problem::Layout)
    });
    Parsed { critique, verdict, step, strict: problem.is_none(), problem }
}

type Reading = (Option<Verdict>, Option<usize>, Option<Problem>);

fn read(text: &str, steps: usize) -> Reading {
    let verdicts = contents(text, "verdict").map(|word| match word.trim().to_ascii_lowercase().as_str() {
        "correct" => Some(Verdict::Correct),
        "wrong" => Some(Verdict::Wrong),
        _ => None,
    });
    let verdict = match agreed(verdicts) {
        Agreed::Nothing | Agreed::One(None) => return (None, None, Some(Problem::NoVerdict)),
        Agreed::Several => return (None, None, Some(Problem::ManyVerdicts)),
        Agreed::One(Some(verdict)) => verdict,
    };
    let indices = contents(text, "step").map(|index| index.trim().parse::<usize>().ok());
    let (step, problem) = match (verdict, agreed(indices)) {
        (Verdict::Correct, Agreed::Nothing) => (None, None),
        (Verdict::Correct, _) => (None, Some(Problem::StepOfCorrect)),
        (Verdict::Wrong, Agreed::Nothing) => (None, Some(Problem::NoStep)),
        (Verdict::Wrong, Agreed::Several) => (None, Some(Problem::ManySteps)),
        (Verdict::Wrong, Agreed::One(Some(index))) if index < steps => (Some(index), None),
        (Verdict::Wrong, Agreed::One(_)) => (None, Some(Problem::StepOutOfRange)),
    };
    (Some(verdict), step, problem)
}

enum Agreed<T> {
    Nothing,
    One(T),
    Several,
}

fn agreed<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Agreed<T> {
    let Some(first) = values.next() else { return Agreed::Nothing };
    if values.all(|value| value == first) { Agreed::One(first) } else { Agreed::Several }
}

/// What stands between each `<tag>` and the next `</tag>`.
fn contents<'a>(text: &'a str, tag: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let end = start + rest[start..].find(&close)?;
        let inside = &rest[start..end];
        rest = &rest[end + close.len()..];
        Some(inside)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_as(text: &str) -> (Option<Verdict>, Option<usize>, Option<Problem>) {
        let parsed = parse(text, 3);
        assert_eq!(parsed.strict, parsed.problem.is_none());
        (parsed.verdict, parsed.step, parsed.problem)
    }

    #[test]
    fn what_is_not_strict_says_why() {
        let (correct, wrong) = (Some(Verdict::Correct), Some(Verdict::Wrong));
        let c = "<critique>c</critique>\n";
        for (text, expected) in [
            (format!("{c}<verdict>correct</verdict>"), (correct, None, None)),
            (format!(" {c}<verdict>wrong</verdict>\n<step>2</step>\n"), (wrong, Some(2), None)),
            (
                format!("{c}<verdict>wrong</verdict>\n<step>3</step>"),
                (wrong, None, Some(Problem::StepOutOfRange)),
            ),
            (
                format!("{c}<verdict>wrong</verdict>\n<step>-1</step>"),
                (wrong, None, Some(Problem::StepOutOfRange)),
            ),
            (format!("{c}<verdict>wrong</verdict>"), (wrong, None, Some(Problem::NoStep))),
            (
                format!("{c}<verdict>correct</verdict>\n<step>1</step>"),
                (correct, None, Some(Problem::StepOfCorrect)),
            ),
            (format!("{c}<verdict>correct</verdict> Done."), (correct, None, Some(Problem::Layout))),
            (
                format!("{c}<verdict>wrong</verdict>\n<step>02</step>"),
                (wrong, Some(2), Some(Problem::Layout)),
            ),
            ("<verdict>Correct</verdict>".into(), (correct, None, Some(Problem::Layout))),
            (format!("{c}<verdict>maybe</verdict>"), (None, None, Some(Problem::NoVerdict))),
            ("It is correct.".into(), (None, None, Some(Problem::NoVerdict))),
            (
                format!("{c}<verdict>correct</verdict>\n<verdict>wrong</verdict>"),
                (None, None, Some(Problem::ManyVerdicts)),
            ),
            (
                format!("{c}<verdict>correct</verdict>\n<verdict>correct</verdict>"),
                (correct, None, Some(Problem::Layout)),
            ),
            (
                format!("{c}<verdict>wrong</verdict>\n<step>0</step>\n<step>1</step>"),
                (wrong, None, Some(Problem::ManySteps)),
            ),
            (String::new(), (None, None, Some(Problem::NoVerdict))),
            ("<verdict>correct".into(), (None, None, Some(Problem::NoVerdict))),
        ] {
            assert_eq!(read_as(&text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(critique in "[^<>]{0,40}", steps in 1..9usize, at in proptest::option::of(0..9usize)) {
            let answer = Answer { critique, first_error: at.map(|at| at % steps) };
            let parsed = parse(&format(&answer), steps);
            prop_assert!(parsed.strict);
            prop_assert_eq!(parsed.verdict, Some(Verdict::from_first_error(answer.first_error)));
            prop_assert_eq!((parsed.critique, parsed.step), (answer.critique, answer.first_error));
        }

        #[test]
        fn nothing_panics(text in "(<|>|/|verdict|step|critique|wrong|correct|[0-9é ]){0,30}", steps in 0..4usize) {
            let parsed = parse(&text, steps);
            prop_assert!(parsed.step.is_none_or(|step| step < steps));
        }
    }
}
