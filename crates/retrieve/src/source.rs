//! Where a pool is: what is asked of one, in a folder or on a server.
//!
//! Retrieval is written once, over [`PoolSource`]. A source proposes, by vectors or by keys, and lends the questions that
//! are looked at; what is chosen among them, and in which order, does not depend on the source.

use std::path::Path;
use std::pin::Pin;

use gradus_core::Mark;

use crate::error::{Error, Result};
use crate::pca::Pca;
use crate::pool::{Duplicate, Encoder, PoolManifest, project};
pub use crate::search::Hit;

/// What a source will answer.
pub type Lookup<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// An open pool, wherever it is.
pub trait PoolSource: Send + Sync {
    /// The folder, or the address without the password.
    fn place(&self) -> &Path;

    /// What the pool says about itself.
    fn manifest(&self) -> &PoolManifest;

    /// The components that vectors were reduced with.
    fn components(&self) -> Option<&Pca>;

    /// Whether questions are found through a graph, approximately.
    fn is_approximate(&self) -> bool;

    /// For each of these questions those of the pool that are the same, ascending. A `threshold` (similarity from 0 to 1)
    /// below the one that the pool was built with finds fewer than there are.
    fn duplicates<'a>(
        &'a self,
        questions: &'a [&'a str],
        threshold: f64,
    ) -> Lookup<'a, Vec<Vec<(u32, Duplicate)>>>;

    /// Solutions with one of these ids.
    fn solutions_of<'a>(&'a self, ids: &'a [&'a str]) -> Lookup<'a, Vec<NamedSolution>>;

    /// For each query, a vector of the pool's dimensions, the `k` nearest questions that are not barred, the most similar
    /// first, equal ones by their number. `barred` has an ascending list for each query.
    fn nearest<'a>(
        &'a self,
        queries: &'a [f32],
        k: usize,
        barred: &'a [&'a [u32]],
    ) -> Lookup<'a, Vec<Vec<Hit>>>;

    /// Lends questions, each named once, with these parts at least.
    fn questions<'a>(&'a self, numbers: &'a [u32], parts: Parts) -> Lookup<'a, Box<dyn Questions + 'a>>;

    /// Some step texts with their vectors, by their rows.
    fn steps<'a>(&'a self, rows: &'a [u32]) -> Lookup<'a, Vec<(String, Vec<f32>)>>;

    /// Shows the text of every question, in order.
    fn each_text<'a>(&'a self, take: &'a mut (dyn FnMut(&str) + Send)) -> Lookup<'a, ()>;

    /// Counts of steps by label, and of solutions with a wrong step.
    fn marks(&self) -> Lookup<'_, MarkCounts>;

    /// Bytes that the pool takes where it is.
    fn bytes(&self) -> Lookup<'_, u64>;

    /// Refuses another encoder than the one that the pool was built with: its vectors mean something else.
    fn expect(&self, encoder: &Encoder<'_>) -> Result<()> {
        let (built, name) = (&self.manifest().encoder, encoder.name);
        if self.manifest().fingerprint == encoder.fingerprint {
            return Ok(());
        }
        let other = if built == name { "another encoder of that name" } else { &format!("`{name}`") };
        let message =
            format!("was built with the encoder `{built}`: vectors of {other} cannot be compared with it");
        Err(Error::pool(self.place(), message))
    }

    /// An encoder's vectors as the pool's own were made: length 1, reduced, length 1.
    fn project(&self, vectors: Vec<f32>) -> Vec<f32> {
        project(vectors, self.manifest().dimension, self.components())
    }
}

/// What is wanted of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Their ids and texts.
    Texts,
    /// Their vectors, too.
    Vectors,
    /// Their solutions, too; the steps with their texts and vectors.
    Solutions,
}

/// Questions at hand, by their numbers.
pub trait Questions: Send + Sync {
    /// The text of a question.
    ///
    /// # Panics
    /// Here and below: when the question, or this part of it, is not at hand.
    fn text(&self, question: u32) -> &str;

    /// The id of the problem.
    fn id(&self, question: u32) -> &str;

    /// Its vector.
    fn vector(&self, question: u32) -> &[f32];

    /// Its solutions, at least one.
    fn solutions(&self, question: u32) -> Vec<SolutionView<'_>>;
}

/// A labeled solution of a question at hand.
#[derive(Debug, Clone)]
pub struct SolutionView<'a> {
    /// Its place among the question's solutions.
    pub nth: u32,
    /// Solution id.
    pub id: &'a str,
    /// Its steps.
    pub steps: Vec<StepView<'a>>,
}

/// A labeled step of a question at hand.
#[derive(Debug, Clone, Copy)]
pub struct StepView<'a> {
    /// The row of its vector; equal texts share one.
    pub row: u32,
    /// Text of the step.
    pub text: &'a str,
    /// Right or wrong.
    pub mark: Mark,
    /// Its vector.
    pub vector: &'a [f32],
}

/// A solution that was found by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSolution {
    /// Its id.
    pub id: String,
    /// The number of its question.
    pub question: u32,
    /// Its place among the question's solutions.
    pub nth: u32,
    /// How many solutions the question has.
    pub of: u32,
}

/// Counts of steps by label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// Correct steps.
    pub correct: usize,
    /// Wrong steps.
    pub incorrect: usize,
    /// Neutral steps.
    pub neutral: usize,
    /// Solutions with a wrong step.
    pub wrong_solutions: usize,
}
