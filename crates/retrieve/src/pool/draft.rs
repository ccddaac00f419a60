//! A pool in memory: which records count, and what is kept of them.
//!
//! A solution counts up to its first error, by the most trusted annotation; a model's opinion is no reference unless that
//! is asked for. What is unknown ends it. A record without such a solution counts with its reference
//! solution, whose steps are right. Questions with the same text are one question; a solution that is there already, with
//! the same steps and marks, is not added again.

use std::collections::{HashMap, HashSet};

use gradus_core::{LabelChoice, Mark, Record, Solution};
use serde::{Deserialize, Serialize};

use super::Pool;
use crate::embed::{Key, key};

#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) questions: Vec<Question>,
    /// Step texts that differ.
    pub(crate) steps: Vec<String>,
    by_question: HashMap<Key, usize>,
    by_step: HashMap<Key, u32>,
    solutions: HashSet<Key>,
    /// Whose labels count.
    labels: LabelChoice,
    pub(crate) dropped: Dropped,
}

pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) solutions: Vec<Labeled>,
}

pub(crate) struct Labeled {
    pub(crate) id: String,
    pub(crate) steps: Vec<(u32, Mark)>,
}

/// What of the records is not in the pool, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Records with neither a labeled nor a reference solution.
    #[serde(alias = "unlabelled_records")]
    pub unlabeled_records: usize,
    /// Records whose question is empty.
    pub empty_questions: usize,
    /// Solutions without a label that counts.
    #[serde(alias = "unlabelled_solutions")]
    pub unlabeled_solutions: usize,
    /// Steps after a first error or without a label, in solutions that count.
    #[serde(alias = "unlabelled_steps")]
    pub unlabeled_steps: usize,
    /// Solutions that were there already.
    pub known_solutions: usize,
}

impl Draft {
    pub(crate) fn new(labels: LabelChoice) -> Self {
        Self { labels, ..Self::default() }
    }

    /// All of a pool.
    pub(crate) fn of(pool: &Pool, labels: LabelChoice) -> Self {
        let mut draft = Self { steps: pool.step_texts().map(str::to_owned).collect(), ..Self::new(labels) };
        draft.by_step = (0..).zip(&draft.steps).map(|(row, text)| (key(text), row)).collect();
        for question in pool.questions() {
            let solutions = question.solutions();
            let solutions = solutions.map(|solution| {
                let steps = solution.steps().map(|step| (step.row, step.mark)).collect();
                Labeled { id: solution.id.to_owned(), steps }
            });
            let (id, text) = (question.id.to_owned(), question.text.to_owned());
            draft.push(id, text, solutions.collect());
        }
        draft.dropped = Dropped::default();
        draft
    }

    /// Adds what counts of a record.
    pub(crate) fn add(&mut self, record: &Record) {
        let Some(counted) = counted(record, &self.labels, &mut self.dropped) else { return };
        let labeled = |solution: CountedSolution<'_>| Labeled {
            id: solution.id,
            steps: solution.steps.iter().map(|(text, mark)| (self.row(text), *mark)).collect(),
        };
        let solutions = counted.solutions.into_iter().map(labeled).collect();
        self.push(record.problem.id.clone(), counted.question, solutions);
    }

    fn push(&mut self, id: String, text: String, solutions: Vec<Labeled>) {
        let new = self.questions.len();
        let at = *self.by_question.entry(key(&text)).or_insert(new);
        if at == new {
            self.questions.push(Question { id, text, solutions: Vec::new() });
        }
        for solution in solutions {
            if self.solutions.insert(name(at, &solution.steps)) {
                self.questions[at].solutions.push(solution);
            } else {
                self.dropped.known_solutions += 1;
            }
        }
    }

    fn row(&mut self, text: &str) -> u32 {
        let new = u32::try_from(self.steps.len()).expect("a pool has fewer than four billion steps");
        let row = *self.by_step.entry(key(text)).or_insert(new);
        if row == new {
            self.steps.push(text.to_owned());
        }
        row
    }
}

/// What counts of a record.
pub(crate) struct Counted<'a> {
    pub(crate) question: String,
    /// At least one.
    pub(crate) solutions: Vec<CountedSolution<'a>>,
}

/// What counts of a solution.
pub(crate) struct CountedSolution<'a> {
    pub(crate) id: String,
    pub(crate) steps: Vec<(&'a str, Mark)>,
}

/// What counts of a record, if anything does; what does not is counted as dropped.
pub(crate) fn counted<'a>(
    record: &'a Record,
    labels: &LabelChoice,
    dropped: &mut Dropped,
) -> Option<Counted<'a>> {
    let question = record.problem.question();
    if question.trim().is_empty() {
        dropped.empty_questions += 1;
        return None;
    }
    let mut solutions = Vec::new();
    for solution in &record.solutions {
        let marks = marks(solution, labels);
        if marks.is_empty() {
            dropped.unlabeled_solutions += 1;
            continue;
        }
        dropped.unlabeled_steps += solution.steps.len() - marks.len();
        let steps = solution.steps.iter().map(String::as_str).zip(marks).collect();
        solutions.push(CountedSolution { id: solution.id.clone(), steps });
    }
    if solutions.is_empty() && !record.problem.reference.is_empty() {
        let steps = record.problem.reference.iter().map(|text| (text.as_str(), Mark::Correct)).collect();
        solutions.push(CountedSolution { id: format!("{}/reference", record.problem.id), steps });
    }
    if solutions.is_empty() {
        dropped.unlabeled_records += 1;
        return None;
    }
    Some(Counted { question, solutions })
}

/// The marks that count, from the first step on.
fn marks(solution: &Solution, labels: &LabelChoice) -> Vec<Mark> {
    let Some(annotation) = solution.labels(labels) else { return Vec::new() };
    let targets = annotation.targets().enumerate().take_while(|(index, (step, _))| index == step);
    targets.map(|(_, (_, label))| label.mark).take(solution.steps.len()).collect()
}

/// Tells a solution from others: its question, and its steps with their marks.
pub(crate) fn name(question: usize, steps: &[(u32, Mark)]) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(question as u64).to_le_bytes());
    for (row, mark) in steps {
        hasher.update(&row.to_le_bytes()).update(&mark.rating().to_le_bytes());
    }
    Key::try_from(&hasher.finalize().as_bytes()[..16]).expect("sixteen bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::{Annotation, LabelSource, Problem};

    #[test]
    fn people_and_programs_count_up_to_the_first_error() {
        let judge = LabelSource::Judge { model: "m".to_owned(), agreeing: 1, votes: 1 };
        let of = |annotations| Solution {
            steps: ["a", "b", "c"].map(str::to_owned).to_vec(),
            annotations,
            ..Solution::default()
        };
        let human = Annotation::from_first_error(3, Some(1), &LabelSource::Human);
        let opinion = Annotation::from_first_error(3, None, &judge);
        assert_eq!(
            marks(&of(vec![opinion.clone(), human.clone()]), &LabelChoice::MostTrusted),
            [Mark::Correct, Mark::Incorrect]
        );
        assert_eq!(marks(&of(vec![opinion.clone()]), &LabelChoice::Truth), []);
        assert_eq!(marks(&of(vec![opinion]), &LabelChoice::MostTrusted), [Mark::Correct; 3]);
        let mut gap = human;
        gap.labels[0] = None;
        assert_eq!(marks(&of(vec![gap]), &LabelChoice::Truth), []);
    }

    #[test]
    fn a_reference_counts_where_nothing_is_labeled_and_nothing_counts_twice() {
        let reference = vec!["2 + 3 = 5".to_owned()];
        let problem =
            Problem { id: "p".to_owned(), text: "2 + 3?".to_owned(), reference, ..Problem::default() };
        let record = Record::new(problem, vec![Solution::default()]);
        let mut draft = Draft::default();
        draft.add(&record);
        draft.add(&record);
        assert_eq!((draft.questions.len(), draft.questions[0].solutions.len()), (1, 1));
        assert_eq!(draft.questions[0].solutions[0].id, "p/reference");
        assert_eq!(
            draft.dropped,
            Dropped { unlabeled_solutions: 2, known_solutions: 1, ..Dropped::default() }
        );
    }
}
