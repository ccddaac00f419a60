//! Training objectives as pure functions of numbers, each with its gradient; no tensors.
//!
//! - [`cross_entropy`], [`binary_cross_entropy`], [`squared_error_of_probability`], [`squared_error_of_sigmoid`]:
//!   step labels, hard and soft
//! - [`negative_log_likelihood`]: next tokens
//! - [`orpo()`]: a chosen answer against a rejected one
//! - [`grpo()`], [`advantages()`], [`perplexity_weights`]: critics from rewards
//! - [`log_softmax`], [`log_sigmoid`] and their kin, which all of them share
//!
//! The sums run in `f64`; a gradient is with respect to the function's own inputs, in their order. A number that is
//! not a number makes the value not a number: the caller stops on it. Slices whose lengths contradict each other
//! are a mistake of the program and panic. A batch without rows has loss 0.

mod advantages;
mod grpo;
mod labels;
mod likelihood;
mod orpo;
mod stable;

pub use advantages::{Advantages, Judged, advantages, perplexity_weights};
pub use grpo::{Grpo, GrpoSample, GrpoSettings, LengthNormalisation, grpo};
pub use labels::{
    binary_cross_entropy, cross_entropy, squared_error_of_probability, squared_error_of_sigmoid,
};
pub use likelihood::negative_log_likelihood;
pub use orpo::{Orpo, OrpoBatch, OrpoPair, PairGradient, orpo, orpo_part};
pub use stable::{log_one_minus_exp, log_sigmoid, log_softmax, sigmoid, softmax};

/// A loss and its gradient with respect to the inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The loss.
    pub value: f64,
    /// One entry per input, in the inputs' order.
    pub gradient: Vec<f32>,
}
