//! `[data]` of a recipe: the datasets, whose step labels count, and what neutral ones count as.

use std::path::PathBuf;

use gradus_core::LabelsAfterError;
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
    /// Maximum tokens per sequence, which for a reward model is the prompt of one step; longer ones are skipped and
    /// counted. Default 2048.
    #[serde(default = "max_tokens")]
    pub(crate) max_tokens: usize,
    /// Use only step labels of this annotator: a name or a kind. Default: the most trusted that a solution has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) annotator: Option<String>,
    /// What a neutral step label counts as; only where step labels are used. Default `correct`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) neutral: Option<NeutralLabels>,
    /// Whether labels after the first error are targets; only where step labels are used. Default by source: `keep`
    /// for reference-guided labels (SPARE), else `drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) labels_after_error: Option<LabelsAfterError>,
    /// Shuffle the examples anew in every epoch. Default true.
    #[serde(default = "yes")]
    pub(crate) shuffle: bool,
}

/// How step labels become targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepLabels {
    /// What a neutral label counts as.
    pub(crate) neutral: NeutralLabels,
    /// Whether labels after the first error are targets; by default their source says.
    pub(crate) after_error: Option<LabelsAfterError>,
}

/// What a neutral step label counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NeutralLabels {
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
    /// Fills in the default of `neutral` where step labels are used, and refuses what reads them where they are not.
    pub(crate) fn resolve(mut self, uses_step_labels: bool) -> Result<Self, String> {
        let given = [
            ("neutral", self.neutral.is_some()),
            ("annotator", self.annotator.is_some()),
            ("labels_after_error", self.labels_after_error.is_some()),
        ];
        if !uses_step_labels && let Some((key, _)) = given.iter().find(|(_, given)| *given) {
            return Err(format!("`{key}` in [data] has no effect: this objective does not use step labels"));
        }
        self.neutral = self.neutral.or(uses_step_labels.then_some(NeutralLabels::Correct));
        Ok(self)
    }

    /// How step labels become targets.
    pub(crate) fn step_labels(&self) -> StepLabels {
        StepLabels {
            neutral: self.neutral.unwrap_or(NeutralLabels::Correct),
            after_error: self.labels_after_error,
        }
    }

    /// The training set.
    pub(crate) fn training_set(&self) -> DataSource<'_> {
        DataSource {
            paths: &self.train,
            format: self.format.as_deref(),
            limit: self.limit,
            annotator: self.annotator.as_deref(),
            training: true,
        }
    }

    /// The evaluation set, if the recipe has one.
    pub(crate) fn evaluation_set(&self) -> Option<DataSource<'_>> {
        let set = DataSource { paths: &self.eval, limit: None, training: false, ..self.training_set() };
        (!self.eval.is_empty()).then_some(set)
    }
}
