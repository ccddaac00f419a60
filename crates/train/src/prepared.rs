//! A prepared recipe: the base model loaded, the examples read. A session runs it in a run folder; an export writes it
//! for another trainer.
//!
//! A new run folder is created as the last thing before training starts: what cannot be trained leaves none behind.

use std::path::{Path, PathBuf};

use crate::data::{DataSource, Examples, LeftOut};
use crate::load::{load, load_untrained};
use crate::run::folder::{self, ResumedRun, Run, RunContext};
use crate::run::inputs::RunInput;
use crate::run::recipe::Recipe;
use crate::trainable::TrainableModel;
use crate::{Error, Result, adapter};

/// A recipe whose base model is loaded, and that is ready to read its examples.
pub(crate) struct PreparedRecipe {
    /// The recipe.
    pub(crate) recipe: Recipe,
    /// The base model with its trainable parameters.
    pub(crate) trainable: TrainableModel,
}

/// Where the run is recorded.
pub(crate) enum RunFolder {
    /// In a folder that is created when training starts.
    New { path: PathBuf, command: Vec<String> },
    /// In the folder of an earlier process.
    Resumed(Box<ResumedRun>),
}

/// Training and evaluation examples.
pub(crate) struct ExampleSets<T> {
    /// Training examples.
    pub(crate) train: Vec<T>,
    /// Evaluation examples.
    pub(crate) held_out: Vec<T>,
    /// What could not be used, by reason.
    pub(crate) left_out: LeftOut,
}

impl PreparedRecipe {
    /// Loads the recipe's model.
    pub(crate) fn new(recipe: &Recipe) -> Result<Self> {
        let trainable = load(&recipe.model, &recipe.tuning, recipe.seed)?;
        Ok(Self { recipe: recipe.clone(), trainable })
    }

    /// Like [`PreparedRecipe::new`] for a model that is not trained here.
    pub(crate) fn untrained(recipe: &Recipe) -> Result<Self> {
        let trainable = load_untrained(&recipe.model, &recipe.tuning, recipe.seed)?;
        Ok(Self { recipe: recipe.clone(), trainable })
    }

    /// Starts from the adapter that the recipe names, if it names one. A reward head must be there by then.
    pub(crate) fn restore_adapter(&mut self) -> Result<()> {
        match &self.recipe.model.adapter {
            Some(folder) => adapter::restore(folder, &mut self.trainable),
            None => Ok(()),
        }
    }

    /// Maximum tokens of an example: what the recipe allows and the model's context holds.
    pub(crate) fn max_tokens(&self) -> usize {
        self.recipe.data.max_tokens.min(self.trainable.model.context())
    }

    /// Reads the training set and, if there is one, the evaluation set.
    pub(crate) fn read_examples<T>(
        &self,
        read: impl Fn(&DataSource<'_>) -> Result<Examples<T>>,
    ) -> Result<ExampleSets<T>> {
        let data = &self.recipe.data;
        let train = read(&data.training_set())?;
        let held_out = data.evaluation_set().map(|set| read(&set)).transpose()?;
        refuse_empty(&train, "train on")?;
        if let Some(held_out) = &held_out {
            refuse_empty(held_out, "evaluate on")?;
        }
        let ((train, mut left_out), (held_out, also_left_out)) = (train, held_out.unwrap_or_default());
        left_out.join(&also_left_out);
        Ok(ExampleSets { train, held_out, left_out })
    }
}

impl RunFolder {
    /// A run that `folder` already holds is resumed, if it has the same recipe.
    pub(crate) fn find(recipe: &Recipe, folder: &Path, command: Vec<String>) -> Result<Self> {
        if !folder::exists(folder) {
            return Ok(Self::New { path: folder.to_owned(), command });
        }
        let resumed = Run::resume(folder)?;
        resumed.run.follows(recipe)?;
        Ok(Self::Resumed(Box::new(resumed)))
    }

    /// Creates the folder of a new run.
    pub(crate) fn open(self, recipe: &Recipe) -> Result<ResumedRun> {
        match self {
            Self::Resumed(resumed) => Ok(*resumed),
            Self::New { path, command } => {
                let inputs = RunInput::of(recipe)?;
                let cpu = format!("{:?}", gradus_kernels::cpu::Level::current());
                let run = Run::create(&path, recipe, RunContext { inputs, command, cpu })?;
                Ok(ResumedRun { run, checkpoint: None, warnings: Vec::new() })
            }
        }
    }
}

impl<T> ExampleSets<T> {
    /// Counts for the model card.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let sets = [("examples trained on", self.train.len()), ("examples held out", self.held_out.len())];
        let mut counts = sets.map(|(what, count)| (what.to_owned(), count as u64)).to_vec();
        counts.extend(self.left_out.iter().map(|(reason, count)| (format!("left out: {reason}"), count)));
        counts
    }
}

fn refuse_empty<T>((found, left_out): &Examples<T>, purpose: &str) -> Result<()> {
    if !found.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = left_out.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
    Err(Error::Data(format!("no example is left to {purpose}: {}", reasons.join(", "))))
}
