//! Operations of training and scoring on an NVIDIA GPU: fused kernels in CUDA C over candle's tensors.
//!
//! | file            | kernels                | what                                                         |
//! |-----------------|------------------------|--------------------------------------------------------------|
//! | `norm.rs`       | `kernels/norm.cu`      | RMSNorm, with the residual addition, and its gradients        |
//! | `pointwise.rs`  | `kernels/pointwise.cu` | SwiGLU, biases, rotary positions, dropout, and their gradients |
//! | `flash.rs`      | `kernels/flash.cu`     | attention that never writes its scores, and its gradient     |
//! | `attention.rs`  | `kernels/attention.cu` | attention over groups of rows, and its gradient: f32, odd widths |
//! | `rows.rs`       | `kernels/attention.cu` | attention of single rows over a cache                        |
//! | `decode.rs`     |                        | passes over new tokens as graphs                             |
//! | `graph.rs`      |                        | captures and starts graphs                                   |
//! | `sample.rs`     | `kernels/sample.cu`    | draws of tokens                                              |
//! | `logprobs.rs`   | `kernels/logprobs.cu`  | log-probabilities of tokens, and their gradient              |
//! | `optimizer.rs`  | `kernels/optimizer.cu` | a step of AdamW, the sum of squares                          |
//! | `vector.rs`     | `kernels/vector.cu`    | products of few rows, several in one launch                  |
//! | `product.rs`    | cuBLAS                 | products that add to a tensor or keep f32                    |
//! | `pinned.rs`     |                        | a pinned host buffer                                         |
//! | `launch.rs`     |                        | starts kernels, for all of the above                         |
//! | `device.rs`     |                        | how a GPU is opened                                          |
//!
//! Tensors are bf16 or f32 and contiguous; arithmetic is f32. An operation "in place" writes over its argument: nobody
//! else may still need the numbers that were there. Kernels are compiled by `build.rs`.

// Kernels take raw addresses; each call has a SAFETY line.
#![allow(unsafe_code)]

mod attention;
mod decode;
mod device;
mod flash;
mod graph;
mod launch;
mod logprobs;
mod norm;
mod optimizer;
mod pinned;
mod pointwise;
mod product;
mod rows;
mod sample;
#[cfg(test)]
mod tests;
mod vector;

pub(crate) use attention::Groups;
pub(crate) use decode::Graphs;
pub(crate) use device::open;
pub(crate) use flash::Flash;
pub(crate) use logprobs::{token_logprobs, token_logprobs_backward};
pub(crate) use norm::{add_rms_norm, rms_norm, rms_norm_backward, rms_norm_weight_gradient};
pub(crate) use optimizer::{AdamW, adamw, sum_of_squares};
pub(crate) use pinned::Pinned;
pub(crate) use pointwise::{add_bias, dropout, rope, rope_backward, rope_into, silu_mul, silu_mul_backward};
pub(crate) use product::{add_product, weight_gradient};
pub(crate) use rows::Rows;
pub(crate) use vector::{vector_gated, vector_products};
