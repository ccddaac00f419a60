//! How a question and the beginning of a solution become a prompt, and when a solution is at its end.

use crate::contracts::{Choice, Prompt};
use gradus_grade::{Found, extract};

/// What a search must know about the generator: its prompt, and its end.
///
/// `Prompt::Chat` opens a new turn, so a chat model that is to go on with a solution needs its template written out,
/// followed by what it has said so far. A template that writes the token which begins every text must lose it here if
/// the tokenizer adds it to `Prompt::Text`. Any `Fn(&str, &str) -> Prompt` will do:
///
/// ```
/// use gradus_core::contracts::Prompt;
/// use gradus_core::select::search::Ask;
/// let ask = |question: &str, begun: &str| {
///     Prompt::Text(format!("<|user|>{question}<|end|><|assistant|>{begun}"))
/// };
/// let Prompt::Text(text) = ask.prompt("1 + 1?", "Add.\n\n") else { panic!("it is text") };
/// assert!(text.ends_with("<|assistant|>Add.\n\n"));
/// ```
pub trait Ask: Send + Sync {
    /// The prompt after which the next step is expected. `begun` is empty, or the steps so far with a separator after
    /// each.
    fn prompt(&self, question: &str, begun: &str) -> Prompt;

    /// Whether the model itself ended a sample. Who knows its end tokens looks for one at the end of `choice.tokens`;
    /// without such knowledge the answer is no.
    fn is_end(&self, choice: &Choice) -> bool {
        let _ = choice;
        false
    }

    /// Whether a solution, as far as it goes, states its final answer and so needs no further step.
    fn states_answer(&self, solution: &str) -> bool {
        states_answer(solution)
    }
}

impl<F: Fn(&str, &str) -> Prompt + Send + Sync> Ask for F {
    fn prompt(&self, question: &str, begun: &str) -> Prompt {
        self(question, begun)
    }
}

/// The question, a blank line, and the solution: for models without a template.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Ask for Plain {
    fn prompt(&self, question: &str, begun: &str) -> Prompt {
        Prompt::Text(format!("{question}\n\n{begun}"))
    }
}

/// What is searched for.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The problem's text, as the reward model sees it.
    pub text: &'a str,
    /// How the generator is asked.
    pub ask: &'a dyn Ask,
}

impl<'a> Question<'a> {
    /// A question that is put as it is.
    pub fn plain(text: &'a str) -> Self {
        Self { text, ask: &Plain }
    }
}

/// Words that lead to an answer which directly follows them.
const LEADS: [&str; 5] = ["is", "be", "answer", "option", "choice"];

/// Whether a solution, as far as it goes, states its final answer: in a box, after `####`, under a heading, as JSON, or
/// directly after words such as 'the answer is'. A number that happens to stand last is no such statement, nor is
/// `#### Step 2`, nor `Answer: first, 3 + 4 = 7`.
pub fn states_answer(solution: &str) -> bool {
    let Some(found) = extract(solution) else { return false };
    match found.found {
        Found::Boxed | Found::Heading | Found::Json => true,
        Found::Hashes => !found.answer.split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 2),
        Found::Phrase => solution.rfind(&found.answer).is_some_and(|at| {
            let before = solution[..at].trim_end_matches(|c: char| !c.is_alphanumeric());
            let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            LEADS.iter().any(|lead| lead.eq_ignore_ascii_case(word))
        }),
        Found::Choice | Found::Bare | Found::LastNumber => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_from_numbers_in_passing() {
        for stated in [
            "Half of 8 is 4.\n#### 4",
            "# Answer\n\n42",
            "{\"answer\": \"42\"}",
            "Therefore, the answer is $12$ dollars.",
            "Final answer: **(B)**",
            "The correct option is B.",
            "Answer = 3/4",
            "The answer is upper left.",
        ] {
            assert!(states_answer(stated), "{stated}");
        }
        for passing in [
            "",
            "First, 3 + 4 = 7.",
            "#### Step 2",
            "#### 1. Compute the total",
            "Answer: first we add, 3 + 4 = 7",
            "We look for the answer in \\boxed{",
            "It is one of these (A)",
        ] {
            assert!(!states_answer(passing), "{passing}");
        }
    }
}
