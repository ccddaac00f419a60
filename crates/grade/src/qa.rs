//! Answers in words: exact match and F1 of question answering, as SQuAD's and MuSiQue's evaluations compute them.
//!
//! Both compare answers in lower case, without punctuation and the articles `a`, `an` and `the`. F1 is the harmonic mean of
//! the shares of words that the two have in common.

use std::collections::HashMap;

use super::extract::{Extracted, Found, announced, before_end_token, stated, tail};

/// True when two answers are the same words.
///
/// ```
/// use gradus_grade::qa::{exact_match, f1};
/// assert!(exact_match("The City of York", "city of York."));
/// assert_eq!(f1("City of York", "York"), 0.5);
/// ```
pub fn exact_match(gold: &str, answer: &str) -> bool {
    words(gold) == words(answer)
}

/// The F1 of the words of two answers.
pub fn f1(gold: &str, answer: &str) -> f64 {
    let (gold, answer) = (words(gold), words(answer));
    if gold.is_empty() || answer.is_empty() {
        return f64::from(gold == answer);
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in &gold {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in &answer {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    2.0 * f64::from(common) / (gold.len() + answer.len()) as f64
}

/// The final answer in words: what is boxed or after `####`, or else the rest of the line after the last 'answer is'.
///
/// ```
/// let text = "The voice is his. The answer is Mr. Lawrence.";
/// assert_eq!(gradus_grade::qa::extract(text).unwrap().answer, "Mr. Lawrence");
/// ```
pub fn extract(solution: &str) -> Option<Extracted> {
    let solution = before_end_token(solution);
    if let Some(found) = stated(solution) {
        return found;
    }
    let rest = announced(tail(solution))?.lines().next()?;
    let answer = rest.trim().trim_end_matches('.').trim_matches(['"', '*', ' ']);
    (!answer.is_empty()).then(|| Extracted { answer: answer.to_owned(), found: Found::Phrase })
}

fn words(answer: &str) -> Vec<String> {
    let lower = answer.to_lowercase();
    let clean: String = lower.chars().filter(|letter| !letter.is_ascii_punctuation()).collect();
    let words = clean.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the"));
    words.map(str::to_owned).collect()
}
