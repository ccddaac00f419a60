//! Trees of prompts as plain sequences, for a model that reads one prompt after the other.

use gradus_engine::batch::Forest;

/// A prompt, the positions in it that are read, and the target of each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sequence<T> {
    pub(super) tokens: Vec<u32>,
    pub(super) reads: Vec<(usize, T)>,
}

/// The sequences of some reads of a forest, in the reads' order. Reads that follow each other share a sequence where
/// one of their prompts begins with the other; what comes after the last read is left out.
pub(super) fn of<T: Clone>(forest: &Forest, reads: &[((usize, usize), T)]) -> Vec<Sequence<T>> {
    let mut found: Vec<Sequence<T>> = Vec::new();
    for run in reads.chunk_by(|((node, _), _), ((next, _), _)| node == next) {
        let node = run[0].0.0;
        let last = run.iter().map(|((_, offset), _)| *offset).max().unwrap_or(0);
        let prompt = forest.prefix(node, last);
        let first = prompt.len() - 1 - last;
        let own = run.iter().map(|((_, offset), target)| (first + offset, target.clone()));
        match found.last_mut() {
            Some(sequence) if prompt.starts_with(&sequence.tokens) => {
                sequence.tokens = prompt;
                sequence.reads.extend(own);
            }
            Some(sequence) if sequence.tokens.starts_with(&prompt) => sequence.reads.extend(own),
            _ => {
                let reads = own.collect();
                found.push(Sequence { tokens: prompt, reads });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::Example;

    #[test]
    fn a_conversation_is_one_sequence_without_its_last_token() {
        let (example, _) = Example::continuations("x", &[1, 2], &[vec![3, 4]]);
        let found = of(&example.forest, &example.reads);
        assert_eq!(found, [Sequence { tokens: vec![1, 2, 3], reads: vec![(1, 3), (2, 4)] }]);
    }

    #[test]
    fn answers_to_one_prompt_are_apart() {
        let (example, spans) = Example::continuations("x", &[1, 2], &[vec![3, 4, 5], vec![3, 9, 8]]);
        let [chosen, rejected] =
            [0, 1].map(|answer| of(&example.forest, &example.reads[spans[answer].clone()]));
        assert_eq!(chosen, [Sequence { tokens: vec![1, 2, 3, 4], reads: vec![(1, 3), (2, 4), (3, 5)] }]);
        assert_eq!(rejected, [Sequence { tokens: vec![1, 2, 3, 9], reads: vec![(1, 3), (2, 9), (3, 8)] }]);
    }

    #[test]
    fn steps_with_prompts_of_their_own_keep_their_order() {
        let mut forest = Forest::default();
        let prompts: [&[u32]; 3] = [&[1, 2, 9, 7], &[1, 2, 3, 9, 7], &[1, 2, 3, 4, 9, 7]];
        // The longest first, as examples are made.
        let mut reads: Vec<_> = prompts
            .iter()
            .rev()
            .map(|prompt| (forest.insert(prompt).locate(prompt.len() - 1), 0.5f32))
            .collect();
        reads.reverse();
        let found = of(&forest, &reads);
        assert_eq!(found.iter().map(|sequence| &sequence.tokens[..]).collect::<Vec<_>>(), prompts);
        assert!(
            found.iter().all(|sequence| sequence.reads == [(sequence.tokens.len() - 1, 0.5)]),
            "{found:?}"
        );
    }
}
