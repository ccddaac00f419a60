//! `[data]` of a recipe: the datasets, and what neutral step labels count as.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::source::DataSource;

/// `[data]`: training and evaluation data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    /// Training files or folders of shards, relative to the working folder.
    pub(crate) train: Vec<PathBuf>,
    /// Evaluation files or folders. Default none.
    #[serde(default)]
    pub(crate) eval: Vec<PathBuf>,
    /// The files' format. Default: detected from the first record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<String>,
    /// Use at most this many training records. Default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
    /// Maximum tokens per sequence; longer examples are skipped and counted. Default 2048.
    #[serde(default = "max_tokens")]
    pub(crate) max_tokens: usize,
    /// What a neutral step label counts as; only where step labels are used. Default `correct`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) neutral: Option<NeutralLabels>,
    /// Shuffle the examples anew in every epoch. Default true.
    #[serde(default = "yes")]
    pub(crate) shuffle: bool,
}

/// What a neutral step label counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeutralLabels {
    /// A correct step.
    Correct,
    /// An incorrect step.
    Incorrect,
    /// A step without a label.
    Skip,
}

fn max_tokens() -> usize {
    2048
}

fn yes() -> bool {
    true
}

impl DataConfig {
    /// Fills in the default of `neutral` where step labels are used, and refuses it where they are not.
    pub(crate) fn resolve(mut self, uses_step_labels: bool) -> Result<Self, String> {
        if !uses_step_labels && self.neutral.is_some() {
            return Err(
                "`neutral` in [data] has no effect: this objective does not use step labels".to_owned()
            );
        }
        self.neutral = self.neutral.or(uses_step_labels.then_some(NeutralLabels::Correct));
        Ok(self)
    }

    /// The training set.
    pub(crate) fn training_set(&self) -> DataSource<'_> {
        DataSource { paths: &self.train, format: self.format.as_deref(), limit: self.limit, training: true }
    }

    /// The evaluation set, if the recipe has one.
    pub(crate) fn evaluation_set(&self) -> Option<DataSource<'_>> {
        let set = DataSource { paths: &self.eval, limit: None, training: false, ..self.training_set() };
        (!self.eval.is_empty()).then_some(set)
    }
}
