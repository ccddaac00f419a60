//! A pool in a folder as a source: everything is at hand already.

use std::collections::HashSet;
use std::path::Path;

use gradus_core::Mark;
use rayon::prelude::*;

use super::guard::{Duplicate, decide};
use super::{Pool, PoolManifest};
use crate::pca::Pca;
use crate::search::{Hit, top_k};
use crate::source::{
    Lookup, MarkCounts, NamedSolution, Parts, PoolSource, Questions, SolutionView, StepView,
};

fn ready<'a, T: Send + 'a>(value: T) -> Lookup<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl PoolSource for Pool {
    fn place(&self) -> &Path {
        &self.folder
    }

    fn manifest(&self) -> &PoolManifest {
        &self.manifest
    }

    fn components(&self) -> Option<&Pca> {
        self.pca.as_ref()
    }

    fn is_approximate(&self) -> bool {
        self.graph.is_some()
    }

    fn duplicates<'a>(
        &'a self,
        questions: &'a [&'a str],
        threshold: f64,
    ) -> Lookup<'a, Vec<Vec<(u32, Duplicate)>>> {
        let (keys, filed) = self.guard_table();
        let filing = gradus_data::dedup::Filing::new(&self.manifest.guard);
        let one = |question: &&str| {
            let mut candidates: Vec<u32> = Vec::new();
            for key in filing.keys(question) {
                let start = keys.partition_point(|&found| found < key);
                let same = keys[start..].iter().take_while(|&&found| found == key).count();
                candidates.extend_from_slice(&filed[start..start + same]);
            }
            candidates.sort_unstable();
            candidates.dedup();
            let candidates = candidates.iter().map(|&number| (number, self.question(number as usize).text));
            decide(question, candidates, &self.manifest.guard, threshold)
        };
        ready(questions.par_iter().map(one).collect())
    }

    fn solutions_of<'a>(&'a self, ids: &'a [&'a str]) -> Lookup<'a, Vec<NamedSolution>> {
        let ids: HashSet<&str> = ids.iter().copied().collect();
        let mut found = Vec::new();
        for question in self.questions() {
            for (nth, solution) in
                question.solutions().enumerate().filter(|(_, solution)| ids.contains(solution.id))
            {
                found.push(NamedSolution {
                    id: solution.id.to_owned(),
                    question: question.index as u32,
                    nth: nth as u32,
                    of: question.solutions().count() as u32,
                });
            }
        }
        ready(found)
    }

    fn nearest<'a>(
        &'a self,
        queries: &'a [f32],
        k: usize,
        barred: &'a [&'a [u32]],
    ) -> Lookup<'a, Vec<Vec<Hit>>> {
        let keep = |query: usize, question: u32, _: f32| barred[query].binary_search(&question).is_err();
        ready(match &self.graph {
            Some(graph) => graph.search(self.question_rows(), queries, k, keep),
            None => top_k(self.question_rows(), self.dimension(), queries, k, keep),
        })
    }

    fn questions<'a>(&'a self, _: &'a [u32], _: Parts) -> Lookup<'a, Box<dyn Questions + 'a>> {
        ready(Box::new(AtHand(self)))
    }

    fn steps<'a>(&'a self, rows: &'a [u32]) -> Lookup<'a, Vec<(String, Vec<f32>)>> {
        let one = |&row: &u32| (self.step_text(row as usize).to_owned(), self.step_vector(row).to_vec());
        ready(rows.iter().map(one).collect())
    }

    fn each_text<'a>(&'a self, take: &'a mut (dyn FnMut(&str) + Send)) -> Lookup<'a, ()> {
        self.questions().for_each(|question| take(question.text));
        ready(())
    }

    fn marks(&self) -> Lookup<'_, MarkCounts> {
        let mut counts = MarkCounts::default();
        for solution in self.questions().flat_map(|question| question.solutions()) {
            let before = counts.incorrect;
            for step in solution.steps() {
                match step.mark {
                    Mark::Correct => counts.correct += 1,
                    Mark::Incorrect => counts.incorrect += 1,
                    Mark::Neutral => counts.neutral += 1,
                }
            }
            counts.wrong_solutions += usize::from(counts.incorrect > before);
        }
        ready(counts)
    }

    fn bytes(&self) -> Lookup<'_, u64> {
        ready(self.manifest.files.values().map(|entry| entry.bytes).sum())
    }
}

/// All of a pool's questions, in its maps.
struct AtHand<'a>(&'a Pool);

impl Questions for AtHand<'_> {
    fn text(&self, question: u32) -> &str {
        self.0.question(question as usize).text
    }

    fn id(&self, question: u32) -> &str {
        self.0.question(question as usize).id
    }

    fn vector(&self, question: u32) -> &[f32] {
        self.0.question(question as usize).vector()
    }

    fn solutions(&self, question: u32) -> Vec<SolutionView<'_>> {
        let solutions = self.0.question(question as usize).solutions().enumerate();
        let views = solutions.map(|(nth, solution)| {
            let steps = solution.steps().map(|step| StepView {
                row: step.row,
                text: step.text,
                mark: step.mark,
                vector: self.0.step_vector(step.row),
            });
            SolutionView { nth: nth as u32, id: solution.id, steps: steps.collect() }
        });
        views.collect()
    }
}

impl Pool {
    fn step_vector(&self, row: u32) -> &[f32] {
        &self.step_rows()[row as usize * self.dimension()..][..self.dimension()]
    }
}
