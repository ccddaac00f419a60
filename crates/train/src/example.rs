//! Training examples, and how they are packed into forward passes.
//!
//! An example is a prefix tree: shared prefixes are computed once (the steps of a solution, the samples of one
//! prompt, the two sides of a pair). Several examples are packed into one pass; none attends to another.

use gradus_engine::batch::{Batch, Forest};
use serde::{Deserialize, Serialize};

/// `[batch]`: batch sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BatchConfig {
    /// Maximum tokens per packed forward pass; this sets the memory that is needed. An example whose prompts have more
    /// together gets a pass of its own. Default 4096.
    pub(crate) tokens: usize,
    /// Examples per optimizer step. Default 64.
    pub(crate) examples: usize,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self { tokens: 4096, examples: 64 }
    }
}

/// Prompts that belong together, the positions that are read, and the target of each: a token, a label.
#[derive(Debug, Clone)]
pub(crate) struct Example<T> {
    /// Names it in messages.
    pub(crate) id: String,
    /// Its prompts.
    pub(crate) forest: Forest,
    /// Node and offset of each position that is read, and its target.
    pub(crate) reads: Vec<((usize, usize), T)>,
    /// For each read a number that continuations of the same steps have in common; empty where nobody asks.
    pub(crate) prefixes: Vec<u64>,
}

impl<T: Clone> Example<T> {
    /// Adds another example's reads after the own ones; the shared prefix is computed once.
    pub(crate) fn join(&mut self, other: &Self) {
        let start = self.reads.len();
        // The last read has the longest prompt: the others lie on its way.
        for ((node, offset), target) in other.reads.iter().rev() {
            let tokens = other.forest.prefix(*node, *offset);
            let position = self.forest.insert(&tokens).locate(tokens.len() - 1);
            self.reads.push((position, target.clone()));
        }
        self.reads[start..].reverse();
        self.prefixes.extend(&other.prefixes);
    }
}

/// Examples packed into one forward pass.
pub(crate) struct Packed<'a, T> {
    /// Their rows.
    pub(crate) batch: Batch,
    /// The examples, in the order of their rows.
    pub(crate) examples: Vec<&'a Example<T>>,
    /// The rows that are read, example after example.
    pub(crate) rows: Vec<usize>,
    /// Their targets.
    pub(crate) targets: Vec<T>,
}

impl<'a, T> Packed<'a, T> {
    /// The example that read number `read` belongs to.
    pub(crate) fn owner(&self, read: usize) -> Option<&'a Example<T>> {
        let mut end = 0;
        self.examples.iter().copied().find(|example| {
            end += example.reads.len();
            read < end
        })
    }
}

impl Packed<'_, f32> {
    /// Reads of right and wrong continuations of the same steps of a problem, by their number: (right, wrong).
    pub(crate) fn pairs(&self) -> Vec<(usize, usize)> {
        let (mut pairs, mut start) = (Vec::new(), 0);
        for example in &self.examples {
            let is_right = |read: usize| example.reads[read].1 >= 0.5;
            for right in (0..example.prefixes.len()).filter(|read| is_right(*read)) {
                let prefix = example.prefixes[right];
                let wrong = (0..example.prefixes.len()).filter(|wrong| example.prefixes[*wrong] == prefix);
                pairs.extend(
                    wrong.filter(|wrong| !is_right(*wrong)).map(|wrong| (start + right, start + wrong)),
                );
            }
            start += example.reads.len();
        }
        pairs
    }
}

/// Packs examples, in their order, into as few passes of at most `limit` tokens as possible; a longer example gets a
/// pass of its own.
pub(crate) fn pack<'a, T: Clone>(examples: &[&'a Example<T>], limit: usize) -> Vec<Packed<'a, T>> {
    let mut passes: Vec<Packed<'a, T>> = Vec::new();
    for example in examples {
        let fits = |pass: &Packed<'a, T>| pass.batch.len() + example.forest.tokens() <= limit;
        if !passes.last().is_some_and(fits) {
            let (batch, rows) = (Batch::default(), Vec::new());
            passes.push(Packed { batch, examples: Vec::new(), rows, targets: Vec::new() });
        }
        let pass = passes.last_mut().expect("one was just added if there was none");
        let starts = pass.batch.add(&example.forest);
        for ((node, offset), target) in &example.reads {
            pass.rows.push(starts[*node] + offset);
            pass.targets.push(target.clone());
        }
        pass.examples.push(example);
    }
    passes
}

impl Example<u32> {
    /// A prompt and its continuations, whose tokens are each predicted from what comes before them. The prompt is
    /// processed once. Returns the example and the range of its reads that each continuation has.
    pub(crate) fn continuations(
        id: impl Into<String>,
        prompt: &[u32],
        continuations: &[Vec<u32>],
    ) -> (Self, Vec<std::ops::Range<usize>>) {
        let mut forest = Forest::default();
        let (mut reads, mut spans) = (Vec::new(), Vec::new());
        for continuation in continuations {
            let whole = [prompt, continuation].concat();
            let path = forest.insert(&whole);
            let start = reads.len();
            let positions = prompt.len().max(1)..whole.len();
            reads.extend(positions.map(|index| (path.locate(index - 1), whole[index])));
            spans.push(start..reads.len());
        }
        (Self { id: id.into(), forest, reads, prefixes: Vec::new() }, spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_share_their_prompt() {
        let (example, spans) = Example::continuations("x", &[1, 2, 3], &[vec![4, 5], vec![4, 6, 7]]);
        assert_eq!(example.forest.tokens(), 7);
        assert_eq!(spans, [0..2, 2..5]);
        let targets: Vec<u32> = example.reads.iter().map(|(_, target)| *target).collect();
        assert_eq!(targets, [4, 5, 4, 6, 7]);
        for ((node, offset), target) in &example.reads {
            let before = example.forest.prefix(*node, *offset);
            assert!(before.starts_with(&[1, 2, 3]), "{before:?} before {target}");
        }
    }

    #[test]
    fn joined_examples_share_what_they_begin_with() {
        let (mut right, _) = Example::continuations("x", &[1, 2], &[vec![3, 4, 5]]);
        let (wrong, _) = Example::continuations("x", &[1, 2], &[vec![3, 9]]);
        right.join(&wrong);
        assert_eq!(right.forest.tokens(), 5, "a token is not read where nothing comes after it");
        let read = |((node, offset), target): &((usize, usize), u32)| {
            [&right.forest.prefix(*node, *offset)[..], &[*target]].concat()
        };
        let reads: Vec<Vec<u32>> = right.reads.iter().map(read).collect();
        assert_eq!(
            reads,
            [vec![1, 2, 3], vec![1, 2, 3, 4], vec![1, 2, 3, 4, 5], vec![1, 2, 3], vec![1, 2, 3, 9]]
        );
    }

    #[test]
    fn pairs_are_of_one_prefix_and_one_example() {
        let example = |reads: &[(f32, u64)]| {
            let mut forest = Forest::default();
            let tokens: Vec<u32> = (0..reads.len() as u32).collect();
            let path = forest.insert(&tokens);
            Example {
                id: String::new(),
                reads: (0..reads.len()).map(|read| (path.locate(read), reads[read].0)).collect(),
                prefixes: reads.iter().map(|read| read.1).collect(),
                forest,
            }
        };
        let one = example(&[(1.0, 7), (0.0, 7), (1.0, 8), (0.0, 9), (1.0, 7)]);
        let two = example(&[(0.0, 8), (1.0, 8)]);
        let passes = pack(&[&one, &two], 100);
        assert_eq!(passes[0].pairs(), [(0, 1), (4, 1), (6, 5)]);
        let mut both = one.clone();
        both.join(&two);
        assert_eq!(pack(&[&both], 100)[0].pairs(), [(0, 1), (2, 5), (4, 1), (6, 5)]);
    }

    #[test]
    fn passes_hold_what_fits() {
        let example = |length: u32| Example::continuations("x", &[0], &[(1..length).collect()]).0;
        let examples = [example(3), example(4), example(9), example(2)];
        let all: Vec<&Example<u32>> = examples.iter().collect();
        let passes = pack(&all, 8);
        assert_eq!(passes.iter().map(|pass| pass.batch.len()).collect::<Vec<_>>(), [7, 9, 2]);
        assert_eq!(passes[0].rows, [0, 1, 3, 4, 5]);
        assert_eq!(passes[0].targets, [1, 2, 1, 2, 3]);
    }
}
