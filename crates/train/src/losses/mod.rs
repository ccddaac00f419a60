//! Losses as pure functions of numbers, each with its gradient and the recipe's section that configures it; no tensors.
//!
//! - [`cross_entropy`], [`binary_cross_entropy`], [`cross_entropy_of_probability`],
//!   [`squared_error_of_probability`], [`squared_error_of_sigmoid`]:
//!   step labels, hard and soft
//! - [`negative_log_likelihood`]: next tokens
//! - [`pair_ranking`]: right against wrong continuations of the same steps
//! - [`orpo()`]: a chosen answer against a rejected one
//! - [`grpo()`], [`advantages()`]: critics from rewards
//!
//! The sums run in `f64`; a gradient is with respect to the function's own inputs, in their order. A number that is
//! not a number makes the value not a number: the caller stops on it. Slices whose lengths contradict each other
//! are a mistake of the program and panic. A batch without rows has loss 0.

mod advantages;
mod grpo;
mod labels;
mod likelihood;
mod orpo;
mod pairs;
mod stable;

pub(crate) use advantages::{JudgedCritique, advantages, perplexity_weights};
#[cfg(test)]
pub(crate) use grpo::LengthNormalization;
pub(crate) use grpo::{GrpoConfig, GrpoLossConfig, GrpoSample, LengthWeight, grpo};
pub(crate) use labels::{
    LabelLoss, binary_cross_entropy, cross_entropy, cross_entropy_of_probability,
    squared_error_of_probability, squared_error_of_sigmoid,
};
pub(crate) use likelihood::{SftConfig, negative_log_likelihood};
pub(crate) use orpo::{OrpoBatch, OrpoConfig, OrpoLoss, OrpoPair, orpo};
pub(crate) use pairs::pair_ranking;
pub(crate) use stable::{sigmoid, softmax};

/// A loss and its gradient with respect to the inputs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    /// The loss.
    pub(crate) value: f64,
    /// One entry per input, in the inputs' order.
    pub(crate) gradient: Vec<f32>,
}
