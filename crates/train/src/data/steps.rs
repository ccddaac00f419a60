//! Labelled steps as a reward model sees them: the profile writes the solution out and says where verdicts are read.

use gradus_core::{Mark, Record, StepLabel};
use gradus_engine::batch::Forest;
use gradus_engine::profile::{Assembled, Assembler};
use gradus_engine::text::Tokenizer;

use super::{LeftOut, each_solution};
use crate::Result;
use crate::example::Example;
use crate::run::recipe::Neutral;

/// One example per solution, with a target in [0, 1] for each step that may be trained on: the known ones up to and
/// including the first error. `soft` takes a label's own value where it has one; `by_problem` makes one example of a
/// problem's solutions.
pub fn labelled_steps(
    records: &[Record],
    assembler: &Assembler,
    tokenizer: &Tokenizer,
    most_tokens: usize,
    neutral: Neutral,
    soft: bool,
    by_problem: bool,
) -> Result<(Vec<Example<f32>>, LeftOut)> {
    each_solution(records, assembler, tokenizer, most_tokens, by_problem, |solution| {
        let annotation = solution.annotations.first().ok_or("solution without labels")?;
        let targets: Vec<(usize, f32)> = annotation
            .targets()
            .filter_map(|(step, label)| Some((step, target(label, neutral, soft)?)))
            .collect();
        if targets.is_empty() { Err("solution without a step to train on") } else { Ok(targets) }
    })
}

pub(super) fn target(label: &StepLabel, neutral: Neutral, soft: bool) -> Option<f32> {
    match (label.value, label.mark) {
        (Some(value), _) if soft => Some(value as f32),
        (_, Mark::Correct) => Some(1.0),
        (_, Mark::Incorrect) => Some(0.0),
        (_, Mark::Neutral) => match neutral {
            Neutral::Correct => Some(1.0),
            Neutral::Incorrect => Some(0.0),
            Neutral::Skip => None,
        },
    }
}

/// The prompts of the wanted steps, joined where they begin alike and cut after the last place that is read: what
/// comes later changes nothing before it.
pub(crate) fn example(id: &str, assembled: &Assembled, targets: &[(usize, f32)]) -> Example<f32> {
    let mut forest = Forest::default();
    let mut reads: Vec<Vec<_>> = Vec::new();
    let mut end = assembled.prompts.iter().map(|(_, places)| places.len()).sum::<usize>();
    // The last prompt is the longest: the others branch off it.
    for (tokens, places) in assembled.prompts.iter().rev() {
        let steps = end - places.len()..end;
        end = steps.start;
        let wanted: Vec<(usize, f32)> = targets
            .iter()
            .filter(|(step, _)| steps.contains(step))
            .map(|(step, target)| (places[step - steps.start], *target))
            .collect();
        let Some((last, _)) = wanted.iter().max_by_key(|(place, _)| *place) else { continue };
        let path = forest.insert(&tokens[..=*last]);
        reads.push(wanted.into_iter().map(|(place, target)| (path.locate(place), target)).collect());
    }
    Example { id: id.to_owned(), forest, reads: reads.into_iter().rev().flatten().collect() }
}
