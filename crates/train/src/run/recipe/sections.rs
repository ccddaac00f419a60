//! The sections that every objective has.

use std::path::PathBuf;

pub use gradus_engine::Precision;
use serde::{Deserialize, Serialize};

use super::objectives::{Objective, Pairs};

/// `[model]`: what is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// A model's name, folder or .gguf file, as `gradus models` finds it.
    pub base: String,
    /// `cpu`, `cuda` or `cuda:1`. Default `cpu`.
    #[serde(default = "cpu")]
    pub device: String,
    /// An adapter folder (PEFT layout) to start from. Default none: a fresh one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PathBuf>,
    /// Whether the base stays quantised, as in QLoRA. Default false.
    #[serde(default)]
    pub quantised: bool,
    /// Arithmetic of matrix products. Default bf16x3 on a CPU, bf16 on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "gradus_engine::precision")]
    pub precision: Option<Precision>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// Which weights change.
#[derive(Debug, Clone, PartialEq)]
pub enum Tuning {
    /// Low-rank adapters on a frozen base.
    Lora(Lora),
    /// All of them.
    Full(Full),
}

/// `[lora]`: low-rank adapters on a frozen base. This is what happens when the recipe says nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// Default 32.
    pub rank: usize,
    /// The adapter's output counts alpha / rank times. Default 64.
    pub alpha: f64,
    /// Share of the adapter's inputs that are dropped in training. Default 0.1.
    pub dropout: f64,
    /// The projections that get an adapter. Default `q_proj` and `v_proj`.
    pub targets: Vec<String>,
    /// Scale by alpha / √rank instead. Default false.
    pub rslora: bool,
    /// How the finished adapter's numbers are written. Default `f32`; `bf16` halves the file.
    pub stored: Stored,
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// As they were trained.
    #[default]
    F32,
    /// Rounded to what a GPU multiplies with.
    Bf16,
}

impl Default for Lora {
    fn default() -> Self {
        let targets = ["q_proj", "v_proj"].map(str::to_owned).to_vec();
        Self { rank: 32, alpha: 64.0, dropout: 0.1, targets, rslora: false, stored: Stored::F32 }
    }
}

/// `[full]`: all weights change. It has no settings; the section itself says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {}

/// `[data]`: what the model is trained and evaluated on.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// Files or folders of shards, relative to the working folder.
    pub train: Vec<PathBuf>,
    /// The same, for evaluation. Default none.
    pub eval: Vec<PathBuf>,
    /// The files' format. Default: told from the first record.
    pub format: Option<String>,
    /// Only the first so many training records. Default all.
    pub limit: Option<usize>,
    /// Most tokens of a sequence; examples with more are skipped and counted. Default 2048.
    pub max_tokens: usize,
    /// What a neutral step label counts as; only where step labels are used. Default `correct`.
    pub neutral: Option<Neutral>,
    /// Whether every epoch has an order of its own. Default true.
    pub shuffle: bool,
}

/// What a neutral step label counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neutral {
    /// A correct step.
    Correct,
    /// An incorrect step.
    Incorrect,
    /// A step without a label.
    Skip,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenData {
    train: Vec<PathBuf>,
    #[serde(default)]
    eval: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(default = "max_tokens")]
    max_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    neutral: Option<Neutral>,
    #[serde(default = "yes")]
    shuffle: bool,
}

fn max_tokens() -> usize {
    2048
}

fn yes() -> bool {
    true
}

impl WrittenData {
    pub(super) fn resolve(self, objective: &Objective) -> Result<Data, String> {
        let labels = match objective {
            Objective::Prm(_) => true,
            Objective::Orpo(orpo) => orpo.pairs == Pairs::OutcomeAndSteps,
            Objective::Sft(_) | Objective::Orm(_) | Objective::Grpo(_) => false,
        };
        if self.neutral.is_some() && !labels {
            return Err(
                "`neutral` in [data] has no effect: this objective does not look at step labels".to_owned()
            );
        }
        let neutral = self.neutral.or(labels.then_some(Neutral::Correct));
        let Self { train, eval, format, limit, max_tokens, shuffle, .. } = self;
        Ok(Data { train, eval, format, limit, max_tokens, neutral, shuffle })
    }
}

impl From<Data> for WrittenData {
    fn from(data: Data) -> Self {
        let Data { train, eval, format, limit, max_tokens, neutral, shuffle } = data;
        Self { train, eval, format, limit, max_tokens, neutral, shuffle }
    }
}

/// `[optimiser]`: AdamW and its learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimiser {
    /// The highest learning rate, after the warm-up.
    pub learning_rate: f64,
    /// What it does after the warm-up. Default `linear`.
    #[serde(default)]
    pub schedule: Schedule,
    /// How long it rises: a share of all steps below 1, or a number of steps. Default 0.
    #[serde(default)]
    pub warmup: Warmup,
    /// Default 0.0.
    #[serde(default)]
    pub weight_decay: f64,
    /// Default 0.9.
    #[serde(default = "beta1")]
    pub beta1: f64,
    /// Default 0.999.
    #[serde(default = "beta2")]
    pub beta2: f64,
    /// Default 1e-8.
    #[serde(default = "epsilon")]
    pub epsilon: f64,
    /// Longest gradient; longer ones are shortened to it. Default 1.0.
    #[serde(default = "clip")]
    pub clip: f64,
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

fn epsilon() -> f64 {
    1e-8
}

fn clip() -> f64 {
    1.0
}

/// What the learning rate does after the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Falls to 0 in a straight line.
    #[default]
    Linear,
    /// Falls to 0 along half a cosine.
    Cosine,
    /// Stays.
    Constant,
}

/// How long the learning rate rises.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a share of all steps below 1, or a whole number of steps")]
pub enum Warmup {
    /// A number of steps.
    Steps(u64),
    /// A share of all steps, rounded up to whole steps.
    Share(f64),
}

impl Default for Warmup {
    fn default() -> Self {
        Self::Steps(0)
    }
}

/// `[batch]`: how much at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batch {
    /// Most tokens of one packed pass; this sets the memory that is needed. Default 4096.
    pub tokens: usize,
    /// Examples between two changes of weights. Default 64.
    pub examples: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { tokens: 4096, examples: 64 }
    }
}

/// `[steps]`: how long, and what happens how often. A step is a change of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// How long.
    pub length: Length,
    /// Evaluate after every so many steps, and after the last. Default `checkpoint_every`; none without data to
    /// evaluate on.
    pub eval_every: Option<u64>,
    /// Save after every so many steps, and after the last. Default 100.
    pub checkpoint_every: u64,
    /// How many of the last checkpoints stay; the best one always does. Default 2.
    pub keep: usize,
    /// Which checkpoint is the best, and becomes the result. Default the lowest `loss`, for GRPO the highest `reward`;
    /// none without data to evaluate on, and where the last one is wanted (`result = "last"`).
    pub best: Option<Best>,
}

/// How long a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// `total`: so many steps.
    Total(u64),
    /// `epochs`: every training example so many times.
    Epochs(u64),
}

/// Which checkpoint is the best, by a metric of the evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// The metric's name.
    pub metric: String,
    /// Whether a `lowest` or a `highest` value is wanted.
    pub is: Better,
}

/// Which of two values is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The lower one.
    Lowest,
    /// The higher one.
    Highest,
}

/// Which checkpoint becomes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Best,
    Last,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSteps {
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_every: Option<u64>,
    #[serde(default = "hundred")]
    checkpoint_every: u64,
    #[serde(default = "two")]
    keep: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Wanted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Best>,
}

fn hundred() -> u64 {
    100
}

fn two() -> usize {
    2
}

impl WrittenSteps {
    pub(super) fn resolve(self, evaluates: bool, objective: &Objective) -> Result<Steps, String> {
        let length = match (self.total, self.epochs) {
            (Some(total), None) => Length::Total(total),
            (None, Some(epochs)) => Length::Epochs(epochs),
            (None, None) => {
                return Err("[steps] needs `total` or `epochs`, which say how long to train".to_owned());
            }
            (Some(_), Some(_)) => {
                return Err("[steps] has both `total` and `epochs`: keep the one that is meant".to_owned());
            }
        };
        let idle = [
            ("eval_every", self.eval_every.is_some()),
            ("result", self.result.is_some()),
            ("best", self.best.is_some()),
        ];
        if let (false, Some((key, _))) = (evaluates, idle.iter().find(|(_, given)| *given)) {
            return Err(format!(
                "`{key}` in [steps] has no effect without data to evaluate on: name files in `eval` in [data]"
            ));
        }
        let last = self.result == Some(Wanted::Last);
        if last && self.best.is_some() {
            return Err(
                "`best` in [steps] has no effect with `result = \"last\"`: keep the one that is meant"
                    .to_owned(),
            );
        }
        let (metric, is) = match objective {
            Objective::Sft(_) | Objective::Prm(_) | Objective::Orm(_) | Objective::Orpo(_) => {
                ("loss", Better::Lowest)
            }
            Objective::Grpo(_) => ("reward", Better::Highest),
        };
        let usual = || Best { metric: metric.to_owned(), is };
        Ok(Steps {
            length,
            eval_every: evaluates.then_some(self.eval_every.unwrap_or(self.checkpoint_every)),
            checkpoint_every: self.checkpoint_every,
            keep: self.keep,
            best: (evaluates && !last).then(|| self.best.unwrap_or_else(usual)),
        })
    }
}

impl From<Steps> for WrittenSteps {
    fn from(steps: Steps) -> Self {
        let (total, epochs) = match steps.length {
            Length::Total(total) => (Some(total), None),
            Length::Epochs(epochs) => (None, Some(epochs)),
        };
        let Steps { eval_every, checkpoint_every, keep, best, .. } = steps;
        let result = (eval_every.is_some() && best.is_none()).then_some(Wanted::Last);
        Self { total, epochs, eval_every, checkpoint_every, keep, result, best }
    }
}

impl Data {
    /// The reader that `format` names.
    pub fn reader(&self) -> crate::Result<Option<gradus_data::readers::Format>> {
        let known = |name: &String| {
            gradus_data::readers::Format::from_name(name).ok_or_else(|| {
                crate::Error::Data(format!("`format` in [data] is `{name}`: see gradus data formats"))
            })
        };
        self.format.as_ref().map(known).transpose()
    }
}
