//! How a score, a mark and an outcome are written: a color that most eyes tell apart, and always the number or the word.

use gradus_core::{FirstError, LabelSource, Mark, Outcome, StepLabel};
use gradus_plot::escaped;

/// The class of a score's color: `t0` (surely wrong) to `t10` (surely right).
pub(crate) fn tone(score: f64) -> String {
    format!("t{}", (score.clamp(0.0, 1.0) * 10.0).round())
}

/// A score in two decimals; large and small rewards as they are.
pub(crate) fn number(score: f64) -> String {
    if score.abs() >= 1000.0 { format!("{score:.1e}") } else { format!("{score:.2}") }
}

/// The class and the sign of a mark.
fn mark(mark: Mark) -> (&'static str, &'static str, &'static str) {
    match mark {
        Mark::Correct => ("correct", "✓", "correct"),
        Mark::Incorrect => ("incorrect", "✗", "incorrect"),
        Mark::Neutral => ("neutral", "○", "neutral"),
    }
}

/// A mark with its word.
pub(crate) fn mark_badge(of: Mark) -> String {
    let (class, sign, word) = mark(of);
    format!("<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

/// A label: its mark, the soft value, the rollouts or votes behind it.
pub(crate) fn label(label: &StepLabel) -> (String, String) {
    let (class, sign, word) = mark(label.mark);
    let mut text = format!("<span class=\"word\"><span aria-hidden=\"true\">{sign}</span> {word}</span>");
    let counts = match &label.source {
        LabelSource::MonteCarlo { successes, samples, .. } => Some(format!("{successes}/{samples} rollouts")),
        LabelSource::Judge { agreeing, votes, .. } if *votes > 1 => Some(format!("{agreeing}/{votes} votes")),
        _ => None,
    };
    let value = label.value.map(number);
    for detail in [value, counts].into_iter().flatten() {
        text += &format!(" <small>{detail}</small>");
    }
    for category in label.evidence.iter().flat_map(|evidence| &evidence.errors) {
        text += &format!(" <small class=\"category\">{}</small>", escaped(category));
    }
    (class.to_owned(), text)
}

/// An outcome as a badge; nothing where it is not known.
pub(crate) fn outcome(of: Outcome) -> &'static str {
    match of {
        Outcome::Correct => {
            "<span class=\"badge correct\"><span aria-hidden=\"true\">✓</span> correct answer</span>"
        }
        Outcome::Wrong => {
            "<span class=\"badge incorrect\"><span aria-hidden=\"true\">✗</span> wrong answer</span>"
        }
        Outcome::Unknown => "",
    }
}

/// Where a solution first goes wrong, in words.
pub(crate) fn first_error(of: FirstError) -> String {
    match of {
        FirstError::Unknown => "unknown".to_owned(),
        FirstError::None => "none".to_owned(),
        FirstError::At(step) => format!("step {step}"),
    }
}
