//! Outcome reward models: whether the whole solution is right, read where the last step's verdict is.

use gradus_engine::profile::{Assembler, Profile};

use super::prm::{StepsRead, train_on};
use super::verdict::{OrmConfig, Verdict};
use crate::Result;
use crate::data::{SolutionPrompts, last_steps};
use crate::example::Example;
use crate::heads;
use crate::losses::LabelLoss;
use crate::observer::{TrainingEnd, TrainingObserver};
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};

/// Trains until the recipe's last step.
pub(crate) fn train(
    mut prepared: PreparedRecipe,
    folder: RunFolder,
    config: &OrmConfig,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let (verdict, examples) = prepare(&mut prepared, config)?;
    train_on(prepared, folder, verdict, &examples, StepsRead::Last, observer)
}

/// Adds the head to what is trained, and reads the examples.
pub(crate) fn prepare(
    prepared: &mut PreparedRecipe,
    config: &OrmConfig,
) -> Result<(Verdict, ExampleSets<Example<f32>>)> {
    let tokenizer = prepared.trainable.model.tokenizer().clone();
    let assembler = Assembler::new(Profile::find(&config.profile)?, &tokenizer)?;
    let verdict = Verdict::new(&assembler, config.head, config.readout, LabelLoss::CrossEntropy)?;
    heads::prepare(&mut prepared.trainable, config.head)?;
    let prompts = SolutionPrompts {
        assembler: &assembler,
        tokenizer: &tokenizer,
        max_tokens: prepared.max_tokens(),
        by_problem: false,
    };
    let examples = prepared.read_examples(|set| set.examples(|records| last_steps(records, &prompts)))?;
    Ok((verdict, examples))
}
