//! The reward of a critic's answer (Perplexity-aware GRPO, Tian et al., 2026).
//!
//! Format: 0.1 if strict. Answer: 0.8 if the solution is correct and said to be; 0.6 + F1 if it is wrong and said to
//! be, with F1 between the texts of the named and the true first wrong step, rounded to one decimal; else 0.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Parsed, Verdict};

/// A reward and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reward {
    /// For the format: 0.1 or 0.
    pub(crate) format: f64,
    /// For the verdict and the step: 0, 0.8, or 0.6 to 1.6.
    pub(crate) answer: f64,
    /// Their sum.
    pub(crate) total: f64,
}

/// The reward of an answer about `steps`, whose first wrong step is `truth` (none: all are right).
pub(crate) fn reward(parsed: &Parsed, truth: Option<usize>, steps: &[String]) -> Reward {
    let format = if parsed.strict { 0.1 } else { 0.0 };
    let answer = match (truth, parsed.verdict) {
        (None, Some(Verdict::Correct)) => 0.8,
        (Some(truth), Some(Verdict::Wrong)) => {
            // A verdict without a step in range names nothing: F1 with an empty text is 0.
            let named = parsed.step.and_then(|step| steps.get(step)).map_or("", String::as_str);
            let f1 = text_f1(named, &steps[truth]);
            0.6 + (f1 * 10.0).round() / 10.0
        }
        _ => 0.0,
    };
    Reward { format, answer, total: format + answer }
}

/// Token F1 of two texts. As in SQuAD's evaluation, tokens are split at white space after lower-casing and
/// dropping ASCII punctuation; unlike there, articles stay, and a token that is nothing but punctuation stays as it
/// is, because `+` and `=` are words in a calculation. Texts without a token have F1 0.
fn text_f1(predicted: &str, truth: &str) -> f64 {
    let (predicted, truth) = (tokens(predicted), tokens(truth));
    let mut left: HashMap<&str, usize> = HashMap::new();
    for token in &truth {
        *left.entry(token).or_default() += 1;
    }
    let mut common = 0;
    for token in &predicted {
        if let Some(count) = left.get_mut(token.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    if common == 0 { 0.0 } else { 2.0 * f64::from(common) / (predicted.len() + truth.len()) as f64 }
}

fn tokens(text: &str) -> Vec<String> {
    let normal = |word: &str| {
        let bare: String = word.chars().filter(|c| !c.is_ascii_punctuation()).collect();
        if bare.is_empty() { word.to_owned() } else { bare.to_lowercase() }
    };
    text.split_whitespace().map(normal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(verdict: Option<Verdict>, step: Option<usize>, strict: bool) -> Parsed {
        Parsed { critique: String::new(), verdict, step, strict, problem: None }
    }

    #[test]
    fn every_case() {
        // Tokens {a b c d} and {a b x}: common 2, F1 = 4/7 = 0.57, rounded 0.6.
        let steps = ["a b c d".to_owned(), "A, b. x".to_owned(), "z".to_owned()];
        let (correct, wrong) = (Some(Verdict::Correct), Some(Verdict::Wrong));
        for (answer, truth, total) in [
            (parsed(correct, None, true), None, 0.9),
            (parsed(correct, None, false), None, 0.8),
            (parsed(correct, None, true), Some(0), 0.1),
            (parsed(wrong, Some(0), true), None, 0.1),
            (parsed(wrong, Some(0), true), Some(0), 1.7),
            (parsed(wrong, Some(1), false), Some(0), 1.2),
            (parsed(wrong, Some(2), true), Some(0), 0.7),
            (parsed(wrong, None, false), Some(0), 0.6),
            (parsed(None, None, false), None, 0.0),
            (parsed(None, None, false), Some(0), 0.0),
        ] {
            let found = reward(&answer, truth, &steps);
            assert!((found.total - total).abs() < 1e-12, "{answer:?} {truth:?}: {found:?}");
        }
    }

    #[test]
    fn of_a_parsed_answer() {
        let steps = ["2 + 2 = 5".to_owned(), "So 5.".to_owned()];
        let parsed =
            crate::critic::parse("<critique>No.</critique>\n<verdict>wrong</verdict>\n<step>0</step>", 2);
        assert!((reward(&parsed, Some(0), &steps).total - 1.7).abs() < 1e-12);
        assert!((reward(&parsed, None, &steps).total - 0.1).abs() < 1e-12);
    }

    #[test]
    fn overlap_counts_repeats() {
        assert_eq!(text_f1("a a b", "a b b"), 2.0 / 3.0);
        assert_eq!(text_f1("The SUM, is 4.", "the sum is 4"), 1.0);
        assert_eq!(text_f1("", ""), 0.0);
        assert_eq!(text_f1("2 + 2", "2 - 2"), 2.0 / 3.0);
    }
}
