//! The second stage: the steps of a few questions, and the nearest of them to each step of a target.

use std::collections::HashSet;

use gradus_core::{Mark, ReferenceStep};

use super::found::Neighbor;
use super::guard::Barred;
use super::search::{Choice, drawn, measured};
use crate::search::{Hit, top_k};
use crate::source::Questions;
use crate::tfidf::TfIdf;

/// The steps of a few questions, each text once, as it stands in the nearest question that has it.
pub(super) struct Database<'a> {
    dimension: usize,
    steps: Vec<SourceStep<'a>>,
    vectors: Vec<f32>,
}

/// A step with the solution and question it comes from.
struct SourceStep<'a> {
    question: &'a str,
    solution: &'a str,
    step: usize,
    text: &'a str,
    mark: Mark,
}

impl<'a> Database<'a> {
    pub(super) fn new(
        at_hand: &'a dyn Questions,
        dimension: usize,
        questions: &[Hit],
        barred: &Barred,
    ) -> Self {
        let (mut seen, mut steps, mut vectors) = (HashSet::new(), Vec::new(), Vec::new());
        for hit in questions {
            for solution in barred.allowed(hit.row, at_hand.solutions(hit.row)) {
                for (number, step) in solution.steps.iter().enumerate() {
                    if seen.insert(step.row) {
                        vectors.extend_from_slice(step.vector);
                        steps.push(SourceStep {
                            question: at_hand.id(hit.row),
                            solution: solution.id,
                            step: number,
                            text: step.text,
                            mark: step.mark,
                        });
                    }
                }
            }
        }
        Self { dimension, steps, vectors }
    }

    /// For each of a target's steps the `count` nearest; `queries` are their vectors, which only the nearest by vector
    /// need.
    pub(super) fn nearest(
        &self,
        queries: &[f32],
        texts: &[String],
        count: usize,
        choice: Choice,
    ) -> (Vec<Vec<ReferenceStep>>, Vec<Vec<Neighbor>>) {
        let found: Vec<Vec<Hit>> = match choice {
            Choice::Nearest => top_k(&self.vectors, self.dimension, queries, count, |_, _, _| true),
            Choice::Words => self.by_words(texts, count),
            Choice::Random(mut random) => {
                texts.iter().map(|_| drawn(&mut random, self.steps.len(), count)).collect()
            }
        };
        found.iter().map(|hits| hits.iter().map(|hit| self.describe(hit)).unzip()).unzip()
    }

    /// By words, whose rarity is that within the database.
    fn by_words(&self, texts: &[String], count: usize) -> Vec<Vec<Hit>> {
        let steps: Vec<&str> = self.steps.iter().map(|step| step.text).collect();
        let index = TfIdf::fit(&steps);
        let search = |text: &String| {
            let found = index.search(text, count, |_| true).into_iter();
            found.map(|(row, similarity)| Hit { row: row as u32, similarity }).collect()
        };
        texts.iter().map(search).collect()
    }

    fn describe(&self, hit: &Hit) -> (ReferenceStep, Neighbor) {
        let source = &self.steps[hit.row as usize];
        let from = Neighbor {
            question: source.question.to_owned(),
            solution: source.solution.to_owned(),
            step: Some(source.step),
            similarity: measured(*hit),
        };
        (ReferenceStep { text: source.text.to_owned(), mark: source.mark }, from)
    }
}
