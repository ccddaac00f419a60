//! Solutions as a reward model reads them: the profile formats the solution and says at which tokens verdicts are read.

use std::hash::{DefaultHasher, Hash, Hasher};

use gradus_core::contracts::ScoreRequest;
use gradus_core::{Record, Solution};
use gradus_engine::batch::Forest;
use gradus_engine::profile::{Assembled, Assembler};
use gradus_engine::text::Tokenizer;
use rayon::prelude::*;

use super::left_out::{Examples, LeftOut};
use crate::Result;
use crate::example::Example;

/// How solutions become prompts.
#[derive(Clone, Copy)]
pub(crate) struct SolutionPrompts<'a> {
    /// Formats solutions by a profile.
    pub(crate) assembler: &'a Assembler,
    /// The model's tokenizer.
    pub(crate) tokenizer: &'a Tokenizer,
    /// Maximum tokens per prompt; solutions with a longer one are left out and counted. The prompts of a solution's
    /// steps, packed into one tree, may have more together.
    pub(crate) max_tokens: usize,
    /// Merge the solutions of one problem into one example, as many as `max_tokens` hold.
    pub(crate) by_problem: bool,
}

/// One example per solution for which `targets` gives steps and their targets, or a reason to leave it out. All cores
/// work on it.
pub(super) fn examples(
    records: &[Record],
    prompts: &SolutionPrompts<'_>,
    targets: impl Fn(&Solution) -> Result<Vec<(usize, f32)>, &'static str> + Sync,
) -> Result<Examples<Example<f32>>> {
    let SolutionPrompts { assembler, tokenizer, max_tokens, by_problem } = *prompts;
    let of_record = |record: &Record| -> Result<Examples<Example<f32>>> {
        let (mut found, mut left_out) = (Vec::<Example<f32>>::new(), LeftOut::default());
        if record.solutions.is_empty() {
            left_out.add("problem without a solution");
        }
        for solution in &record.solutions {
            if solution.steps.iter().any(|step| step.trim().is_empty()) {
                left_out.add("solution with an empty step");
                continue;
            }
            let targets = match targets(solution) {
                Ok(targets) => targets,
                Err(reason) => {
                    left_out.add(reason);
                    continue;
                }
            };
            let request = ScoreRequest::of(&record.problem, solution);
            let assembled = assembler.assemble(&request, tokenizer, usize::MAX)?;
            let (example, longest) = example(solution, &assembled, &targets);
            if longest > max_tokens {
                left_out.add("prompt longer than data.max_tokens");
                continue;
            }
            let tokens = example.forest.tokens();
            match found.last_mut() {
                Some(last) if by_problem && last.forest.tokens() + tokens <= max_tokens => {
                    last.join(&example);
                }
                _ => found.push(example),
            }
        }
        Ok((found, left_out))
    };
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for part in records.par_iter().map(of_record).collect::<Result<Vec<_>>>()? {
        found.extend(part.0);
        left_out.join(&part.1);
    }
    Ok((found, left_out))
}

/// The prompts of the wanted steps, merged into a prefix tree and cut after the last position that is read: later
/// tokens change nothing before them. Also the tokens of the longest prompt, which is what the model sees at once.
fn example(solution: &Solution, assembled: &Assembled, targets: &[(usize, f32)]) -> (Example<f32>, usize) {
    let mut longest = 0;
    let mut forest = Forest::default();
    let mut reads: Vec<Vec<_>> = Vec::new();
    let mut end = assembled.prompts.iter().map(|(_, positions)| positions.len()).sum::<usize>();
    // The last prompt is the longest: the others branch off it.
    for (tokens, positions) in assembled.prompts.iter().rev() {
        let steps = end - positions.len()..end;
        end = steps.start;
        let wanted: Vec<(usize, f32)> = targets
            .iter()
            .filter(|(step, _)| steps.contains(step))
            .map(|(step, target)| (positions[step - steps.start], *target))
            .collect();
        let Some((last, _)) = wanted.iter().max_by_key(|(position, _)| *position) else { continue };
        longest = longest.max(last + 1);
        let path = forest.insert(&tokens[..=*last]);
        reads.push(wanted.into_iter().map(|(position, target)| (path.locate(position), target)).collect());
    }
    let reads = reads.into_iter().rev().flatten().collect();
    let prefixes = targets.iter().map(|(step, _)| prefix(&solution.steps[..*step])).collect();
    (Example { id: solution.id.clone(), forest, reads, prefixes }, longest)
}

/// A number for steps: continuations of the same ones have it in common.
fn prefix(steps: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    steps.hash(&mut hasher);
    hasher.finish()
}
