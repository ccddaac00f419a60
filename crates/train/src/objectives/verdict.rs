//! A reward model's verdict at chosen tokens: `[prm]` and `[orm]` of a recipe, the loss, and the backward pass.

use candle_core::Tensor;
use gradus_engine::profile::{Assembler, Score};
use serde::{Deserialize, Serialize};

use crate::heads::HeadKind;
use crate::losses::{self, LabelLoss, Loss};
use crate::parameters::Gradients;
use crate::readout::TokenLogProbs;
use crate::trainable::TrainableModel;
use crate::{Error, Result};

/// `[prm]`: a process reward model, which judges each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PrmConfig {
    /// Prompt format, and where verdicts are read: a built-in profile or a .toml file. Default `plain`.
    pub(crate) profile: String,
    /// The loss. Default `cross_entropy`, which needs hard labels.
    pub(crate) loss: LabelLoss,
    /// What gives the verdict; must be what the profile reads. Default `tokens`.
    pub(crate) head: HeadKind,
    /// Over which tokens the softmax runs, for the head `tokens` only. Default `verdict_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) readout: Option<Readout>,
    /// Merge the solutions of one problem into one example, so that shared prefixes are computed once. Default false.
    pub(crate) by_problem: bool,
    /// Weight of a wrong step relative to a right one. Default 1. Right steps are many: with more weight for the
    /// wrong ones, 0.5 becomes a threshold that finds them.
    pub(crate) wrong_weight: f64,
    /// Weight of the ranking loss between right and wrong continuations of the same steps, beside the loss of the labels.
    /// Default 0: none. Needs `by_problem`.
    pub(crate) pair_weight: f64,
}

/// `[orm]`: an outcome reward model, which judges the whole solution at its last step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OrmConfig {
    /// Like [`PrmConfig::profile`].
    pub(crate) profile: String,
    /// Like [`PrmConfig::head`].
    pub(crate) head: HeadKind,
    /// Like [`PrmConfig::readout`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) readout: Option<Readout>,
}

/// Over which tokens the softmax of a verdict runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Readout {
    /// The two verdict tokens.
    #[default]
    VerdictTokens,
    /// The whole vocabulary, as in ordinary instruction tuning (RetrievalPRM).
    Vocabulary,
}

impl Default for PrmConfig {
    fn default() -> Self {
        let OrmConfig { profile, head, readout } = OrmConfig::default();
        Self {
            profile,
            loss: LabelLoss::default(),
            head,
            readout,
            by_problem: false,
            wrong_weight: 1.0,
            pair_weight: 0.0,
        }
    }
}

impl Default for OrmConfig {
    fn default() -> Self {
        Self { profile: "plain".to_owned(), head: HeadKind::default(), readout: None }
    }
}

impl PrmConfig {
    /// Fills in the default of `readout`, and refuses what contradicts itself.
    pub(crate) fn resolve(mut self) -> Result<Self, String> {
        self.readout = readout("prm", self.head, self.readout)?;
        if self.readout == Some(Readout::Vocabulary) && self.loss.is_soft() {
            let message = "`readout = \"vocabulary\"` in [prm] goes with `loss = \"cross_entropy\"` only";
            return Err(message.to_owned());
        }
        let weight = self.wrong_weight;
        if !(weight.is_finite() && weight > 0.0) {
            return Err(format!("`wrong_weight` in [prm] is {weight}: expected a number above 0"));
        }
        let pairs = self.pair_weight;
        if !(pairs.is_finite() && pairs >= 0.0) {
            return Err(format!("`pair_weight` in [prm] is {pairs}: expected 0 or a number above"));
        }
        if pairs > 0.0 && !self.by_problem {
            let message = "`pair_weight` in [prm] compares solutions of a problem: set `by_problem = true`";
            return Err(message.to_owned());
        }
        if pairs > 0.0 && self.readout == Some(Readout::Vocabulary) {
            let message = "`pair_weight` in [prm] compares two tokens: omit `readout = \"vocabulary\"`";
            return Err(message.to_owned());
        }
        Ok(self)
    }
}

impl OrmConfig {
    /// Fills in the default of `readout`, and refuses it where it has no effect.
    pub(crate) fn resolve(mut self) -> Result<Self, String> {
        self.readout = readout("orm", self.head, self.readout)?;
        Ok(self)
    }
}

fn readout(section: &str, head: HeadKind, given: Option<Readout>) -> Result<Option<Readout>, String> {
    match (head, given) {
        (HeadKind::Tokens, given) => Ok(Some(given.unwrap_or_default())),
        (_, None) => Ok(None),
        (_, Some(_)) => {
            Err(format!("`readout` in [{section}] has no effect: only `head = \"tokens\"` reads tokens"))
        }
    }
}

/// What is read, and its loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    read: Read,
    loss: LabelLoss,
    /// Weight of a wrong step in the gradient, relative to a right one.
    wrong_weight: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Read {
    /// Softmax over the logits of two tokens, right and wrong.
    Tokens([u32; 2]),
    /// Softmax over the whole vocabulary; the same two tokens.
    Vocabulary([u32; 2]),
    /// A classification head; this class is "right".
    Classes(usize),
    /// Sigmoid of a value head.
    Value,
}

/// How a verdict is read from logits, and its loss, for a trainer elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct VerdictReading {
    /// Which logits say right and wrong; none for a value head, which has one.
    columns: Option<[usize; 2]>,
    /// Whether the softmax runs over all logits, not over these two.
    vocabulary: bool,
    /// The loss.
    loss: LabelLoss,
    /// Weight of a wrong step in the gradient, relative to a right one.
    wrong_weight: f64,
}

/// Verdicts, their loss, and what the backward pass needs.
pub(super) struct VerdictLoss {
    /// The mean loss.
    pub(super) value: f64,
    /// The probability that each step is right.
    pub(super) scores: Vec<f64>,
    gradient: Vec<f32>,
    logprobs: Option<TokenLogProbs>,
    /// What the model put out: a row of values for each step.
    outputs: Vec<f32>,
}

impl Verdict {
    /// What a profile reads, checked against what the recipe says.
    pub(super) fn new(
        assembler: &Assembler,
        head: HeadKind,
        readout: Option<Readout>,
        loss: LabelLoss,
    ) -> Result<Self> {
        let profile = assembler.profile();
        let read = match (&profile.score, head) {
            (Score::Tokens { .. }, HeadKind::Tokens) => {
                let tokens = assembler.verdict().expect("two tokens are looked up for this kind");
                match readout.unwrap_or_default() {
                    Readout::VerdictTokens => Read::Tokens(tokens),
                    Readout::Vocabulary => Read::Vocabulary(tokens),
                }
            }
            (Score::Classes { positive }, HeadKind::Classes) => Read::Classes(*positive),
            (Score::Value, HeadKind::Value) => Read::Value,
            (score, _) => {
                let reads = match score {
                    Score::Tokens { .. } => "tokens",
                    Score::Classes { .. } => "classes",
                    Score::Value => "value",
                };
                let message = format!(
                    "profile `{}` reads `{reads}`: set `head = \"{reads}\"`, or choose another profile",
                    profile.name
                );
                return Err(Error::Model(message));
            }
        };
        Ok(Self { read, loss, wrong_weight: 1.0 })
    }

    /// How it is read.
    pub(crate) fn reading(self) -> VerdictReading {
        let (columns, vocabulary) = match self.read {
            Read::Tokens(tokens) => (Some(tokens.map(|token| token as usize)), false),
            Read::Vocabulary(tokens) => (Some(tokens.map(|token| token as usize)), true),
            Read::Classes(positive) => (Some([positive, 1 - positive]), false),
            Read::Value => (None, false),
        };
        VerdictReading { columns, vocabulary, loss: self.loss, wrong_weight: self.wrong_weight }
    }

    /// Weights wrong steps in the gradient. Reported losses stay unweighted, so that runs compare.
    pub(super) fn weighted(self, wrong_weight: f64) -> Self {
        Self { wrong_weight, ..self }
    }

    /// Judges rows of hidden states.
    pub(super) fn judge(
        self,
        trainable: &TrainableModel,
        hidden: &Tensor,
        targets: &[f32],
    ) -> Result<VerdictLoss> {
        let mut judged = self.unweighted(trainable, hidden, targets)?;
        if self.wrong_weight != 1.0 && !targets.is_empty() {
            let outputs = judged.gradient.len() / targets.len();
            for (row, target) in judged.gradient.chunks_exact_mut(outputs).zip(targets) {
                let weight = f64::from(*target) + self.wrong_weight * (1.0 - f64::from(*target));
                row.iter_mut().for_each(|d| *d = (f64::from(*d) * weight) as f32);
            }
        }
        Ok(judged)
    }

    fn unweighted(self, trainable: &TrainableModel, hidden: &Tensor, targets: &[f32]) -> Result<VerdictLoss> {
        match self.read {
            Read::Tokens(tokens) => {
                Ok(self.of_logits(trainable.selected_logits(hidden, &tokens)?, 2, 0, targets))
            }
            Read::Classes(positive) => {
                let (classes, logits) = trainable.head_outputs(hidden)?;
                if classes != 2 || positive > 1 {
                    let message = format!("the head has {classes} classes: expected 2, right and wrong");
                    return Err(Error::Model(message));
                }
                Ok(self.of_logits(logits, 2, positive, targets))
            }
            Read::Value => {
                let (_, values) = trainable.head_outputs(hidden)?;
                let Loss { value, gradient } = match self.loss {
                    LabelLoss::CrossEntropy | LabelLoss::SoftCrossEntropy => {
                        losses::binary_cross_entropy(&values, targets)
                    }
                    LabelLoss::SquaredError => losses::squared_error_of_sigmoid(&values, targets),
                };
                let scores = values.iter().map(|value| losses::sigmoid(f64::from(*value))).collect();
                Ok(VerdictLoss { value, scores, gradient, logprobs: None, outputs: values })
            }
            Read::Vocabulary(tokens) => {
                let answers: Vec<u32> =
                    targets.iter().map(|target| tokens[usize::from(*target < 0.5)]).collect();
                let logprobs = trainable.token_logprobs(hidden, &answers, true)?;
                let weights = vec![1.0; targets.len()];
                let Loss { value, gradient } = losses::negative_log_likelihood(&logprobs.values, &weights);
                let logits = trainable.selected_logits(hidden, &tokens)?;
                let scores = probabilities(&logits, 2, 0);
                Ok(VerdictLoss { value, scores, gradient, logprobs: Some(logprobs), outputs: logits })
            }
        }
    }

    fn of_logits(self, logits: Vec<f32>, classes: usize, positive: usize, targets: &[f32]) -> VerdictLoss {
        let Loss { value, gradient } = match self.loss {
            LabelLoss::CrossEntropy => {
                let class = |target: &f32| if *target >= 0.5 { positive } else { 1 - positive };
                let targets: Vec<usize> = targets.iter().map(class).collect();
                losses::cross_entropy(&logits, classes, &targets)
            }
            LabelLoss::SquaredError => {
                losses::squared_error_of_probability(&logits, classes, positive, targets)
            }
            LabelLoss::SoftCrossEntropy => losses::cross_entropy_of_probability(&logits, positive, targets),
        };
        let scores = probabilities(&logits, classes, positive);
        VerdictLoss { value, scores, gradient, logprobs: None, outputs: logits }
    }

    /// Adds `weight` times the ranking loss of pairs of rows, right and wrong, to the gradient. Returns the ranking loss.
    pub(super) fn rank(self, judged: &mut VerdictLoss, pairs: &[(usize, usize)], weight: f64) -> f64 {
        let (classes, positive) = match self.read {
            Read::Tokens(_) => (2, 0),
            Read::Classes(positive) => (2, positive),
            Read::Value => (1, 0),
            Read::Vocabulary(_) => unreachable!("the recipe is refused"),
        };
        let Loss { value, gradient } = losses::pair_ranking(&judged.outputs, classes, positive, pairs);
        for (sum, own) in judged.gradient.iter_mut().zip(gradient) {
            *sum = (f64::from(*sum) + weight * f64::from(own)) as f32;
        }
        value
    }

    /// The gradient of the rows, `weight` times that of their mean loss.
    pub(super) fn backward(
        self,
        trainable: &mut TrainableModel,
        hidden: &Tensor,
        judged: VerdictLoss,
        weight: f64,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let gradient: Vec<f32> = judged.gradient.iter().map(|d| (f64::from(*d) * weight) as f32).collect();
        match (self.read, judged.logprobs) {
            (Read::Tokens(tokens), _) => {
                trainable.selected_logits_backward(hidden, &tokens, &gradient, gradients)
            }
            (Read::Vocabulary(_), Some(logprobs)) => {
                trainable.token_logprobs_backward(hidden, logprobs, &gradient, gradients)
            }
            _ => trainable.head_backward(hidden, &gradient, gradients),
        }
    }
}

fn probabilities(logits: &[f32], classes: usize, positive: usize) -> Vec<f64> {
    logits.chunks_exact(classes).map(|row| losses::softmax(row)[positive]).collect()
}
