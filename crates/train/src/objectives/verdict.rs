//! A reward model's verdict at chosen places, what it should have been, and the way back.

use candle_core::Tensor;
use gradus_engine::profile::{Assembler, Score};

use crate::losses::{self, Loss};
use crate::parameters::Gradients;
use crate::readout::TokenLogProbs;
use crate::run::recipe;
use crate::trainee::Trainee;
use crate::{Error, Result};

/// What is read, and what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    read: Read,
    loss: recipe::Loss,
    /// How much more a wrong step counts in the gradient.
    wrong_weight: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Read {
    /// The logits of two tokens, right and wrong, against each other.
    Tokens([u32; 2]),
    /// The same two tokens among all.
    Vocabulary([u32; 2]),
    /// A head's classes; this one is "right".
    Classes(usize),
    /// A head's value through a sigmoid.
    Value,
}

/// Verdicts, how far they are off, and what the way back needs.
pub(super) struct Judged {
    /// The mean loss.
    pub(super) value: f64,
    /// How probably each place is right.
    pub(super) scores: Vec<f64>,
    gradient: Vec<f32>,
    logprobs: Option<TokenLogProbs>,
}

impl Verdict {
    /// What a profile reads, checked against what the recipe says.
    pub(super) fn new(
        assembler: &Assembler,
        head: recipe::Head,
        readout: Option<recipe::Readout>,
        loss: recipe::Loss,
    ) -> Result<Self> {
        let profile = assembler.profile();
        let read = match (&profile.score, head) {
            (Score::Tokens { .. }, recipe::Head::Tokens) => {
                let tokens = assembler.verdict().expect("two tokens are looked up for this kind");
                match readout.unwrap_or_default() {
                    recipe::Readout::VerdictTokens => Read::Tokens(tokens),
                    recipe::Readout::Vocabulary => Read::Vocabulary(tokens),
                }
            }
            (Score::Classes { positive }, recipe::Head::Classes) => Read::Classes(*positive),
            (Score::Value, recipe::Head::Value) => Read::Value,
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

    /// Lets wrong steps count this much more. Reported losses stay those of steps that count alike, so that runs compare.
    pub(super) fn weighing(self, wrong_weight: f64) -> Self {
        Self { wrong_weight, ..self }
    }

    /// Judges rows of hidden states.
    pub(super) fn judge(self, trainee: &Trainee, hidden: &Tensor, targets: &[f32]) -> Result<Judged> {
        let mut judged = self.unweighted(trainee, hidden, targets)?;
        if self.wrong_weight != 1.0 && !targets.is_empty() {
            let outputs = judged.gradient.len() / targets.len();
            for (row, target) in judged.gradient.chunks_exact_mut(outputs).zip(targets) {
                let weight = f64::from(*target) + self.wrong_weight * (1.0 - f64::from(*target));
                row.iter_mut().for_each(|slope| *slope = (f64::from(*slope) * weight) as f32);
            }
        }
        Ok(judged)
    }

    fn unweighted(self, trainee: &Trainee, hidden: &Tensor, targets: &[f32]) -> Result<Judged> {
        match self.read {
            Read::Tokens(tokens) => Ok(self.of_logits(&trainee.few_logits(hidden, &tokens)?, 2, 0, targets)),
            Read::Classes(positive) => {
                let (classes, logits) = trainee.head_outputs(hidden)?;
                if classes != 2 || positive > 1 {
                    let message = format!("the head has {classes} classes: expected 2, right and wrong");
                    return Err(Error::Model(message));
                }
                Ok(self.of_logits(&logits, 2, positive, targets))
            }
            Read::Value => {
                let (_, values) = trainee.head_outputs(hidden)?;
                let Loss { value, gradient } = match self.loss {
                    recipe::Loss::CrossEntropy => losses::binary_cross_entropy(&values, targets),
                    recipe::Loss::SquaredError => losses::squared_error_of_sigmoid(&values, targets),
                };
                let scores = values.iter().map(|value| losses::sigmoid(f64::from(*value))).collect();
                Ok(Judged { value, scores, gradient, logprobs: None })
            }
            Read::Vocabulary(tokens) => {
                let answers: Vec<u32> =
                    targets.iter().map(|target| tokens[usize::from(*target < 0.5)]).collect();
                let logprobs = trainee.token_logprobs(hidden, &answers, true)?;
                let weights = vec![1.0; targets.len()];
                let Loss { value, gradient } = losses::negative_log_likelihood(&logprobs.values, &weights);
                let logits = trainee.few_logits(hidden, &tokens)?;
                let scores = probabilities(&logits, 2, 0);
                Ok(Judged { value, scores, gradient, logprobs: Some(logprobs) })
            }
        }
    }

    fn of_logits(self, logits: &[f32], classes: usize, positive: usize, targets: &[f32]) -> Judged {
        let Loss { value, gradient } = match self.loss {
            recipe::Loss::CrossEntropy => {
                let class = |target: &f32| if *target >= 0.5 { positive } else { 1 - positive };
                let targets: Vec<usize> = targets.iter().map(class).collect();
                losses::cross_entropy(logits, classes, &targets)
            }
            recipe::Loss::SquaredError => {
                losses::squared_error_of_probability(logits, classes, positive, targets)
            }
        };
        Judged { value, scores: probabilities(logits, classes, positive), gradient, logprobs: None }
    }

    /// The gradient of the rows, `weight` times that of their mean loss.
    pub(super) fn backward(
        self,
        trainee: &mut Trainee,
        hidden: &Tensor,
        judged: Judged,
        weight: f64,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let gradient: Vec<f32> =
            judged.gradient.iter().map(|slope| (f64::from(*slope) * weight) as f32).collect();
        match (self.read, judged.logprobs) {
            (Read::Tokens(tokens), _) => trainee.few_logits_backward(hidden, &tokens, &gradient, gradients),
            (Read::Vocabulary(_), Some(logprobs)) => {
                trainee.token_logprobs_backward(hidden, logprobs, &gradient, gradients)
            }
            _ => trainee.head_backward(hidden, &gradient, gradients),
        }
    }
}

fn probabilities(logits: &[f32], classes: usize, positive: usize) -> Vec<f64> {
    logits.chunks_exact(classes).map(|row| losses::softmax(row)[positive]).collect()
}
