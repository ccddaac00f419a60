//! The case that is compared: a question, its context sentences, a reference solution and the solution to label.

use gradus_core::steps;
use gradus_core::steps::Strategy;
use gradus_core::{Problem, Solution};

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// The question.
    pub(super) question: String,
    /// Sentences C.
    pub(super) context: Vec<String>,
    /// Reference steps R.
    pub(super) reference: Vec<String>,
    /// The solution's steps O.
    pub(super) solution: Vec<String>,
}

impl Case {
    /// A problem without context sentences lends its own.
    pub(super) fn of(problem: &Problem, solution: &Solution) -> Self {
        let sentences = || {
            let config =
                steps::SplitConfig { strategy: Strategy::Sentences, ..steps::SplitConfig::default() };
            steps::split(&problem.text, &config).steps().map(str::to_owned).collect()
        };
        Self {
            question: problem.text.clone(),
            context: if problem.context.is_empty() { sentences() } else { problem.context.clone() },
            reference: problem.readable_reference(),
            solution: solution.steps.clone(),
        }
    }

    /// As the model sees it.
    pub(super) fn written(&self) -> String {
        let list = |letter: char, lines: &[String]| {
            let lines: Vec<String> = lines
                .iter()
                .enumerate()
                .map(|(index, line)| format!("[{letter}{}] {line}", index + 1))
                .collect();
            if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
        };
        format!(
            "Question:\n{}\n\nContext:\n{}\n\nReference solution:\n{}\n\nSolution to label:\n{}",
            self.question,
            list('C', &self.context),
            list('R', &self.reference),
            list('O', &self.solution)
        )
    }
}
