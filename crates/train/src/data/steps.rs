//! Labeled steps, for process reward models: each step's label is a target where its verdict is read.

use gradus_core::{Mark, Record, StepLabel};

use super::config::{NeutralLabels, StepLabels};
use super::left_out::Examples;
use super::solutions::{SolutionPrompts, examples};
use crate::Result;
use crate::example::Example;

/// One example per solution, with a target in [0, 1] for each step that may be trained on: the known ones, up to and
/// including the first error unless `labels` keeps those after it. `soft` takes a label's own value where it has one.
pub(crate) fn labeled_steps(
    records: &[Record],
    prompts: &SolutionPrompts<'_>,
    labels: StepLabels,
    soft: bool,
) -> Result<Examples<Example<f32>>> {
    examples(records, prompts, |solution| {
        let annotation = solution.annotations.first().ok_or("solution without labels")?;
        let targets: Vec<(usize, f32)> = annotation
            .training_targets(labels.after_error)
            .filter_map(|(step, label)| Some((step, target(label, labels.neutral, soft)?)))
            .collect();
        if targets.is_empty() { Err("solution without a step to train on") } else { Ok(targets) }
    })
}

pub(super) fn target(label: &StepLabel, neutral: NeutralLabels, soft: bool) -> Option<f32> {
    match (label.value, label.mark) {
        (Some(value), _) if soft => Some(value as f32),
        (_, Mark::Correct) => Some(1.0),
        (_, Mark::Incorrect) => Some(0.0),
        (_, Mark::Neutral) => match neutral {
            NeutralLabels::Correct => Some(1.0),
            NeutralLabels::Incorrect => Some(0.0),
            NeutralLabels::Skip => None,
        },
    }
}
