//! Operations of training and scoring on an NVIDIA GPU: fused kernels in CUDA C over candle's tensors.
//!
//! | file            | kernels                | what                                                         |
//! |-----------------|------------------------|--------------------------------------------------------------|
//! | `norm.rs`       | `kernels/norm.cu`      | RMSNorm, with the residual addition, and its gradients        |
//! | `pointwise.rs`  | `kernels/pointwise.cu` | SwiGLU, biases, rotary positions, dropout, and their gradients |
//! | `attention.rs`  | `kernels/attention.cu` | attention over groups of rows, and its gradient              |
//! | `rows.rs`       | `kernels/attention.cu` | attention of single rows over a cache, and writing it        |
//! | `logprobs.rs`   | `kernels/logprobs.cu`  | log-probabilities of tokens, and their gradient              |
//! | `optimise.rs`   | `kernels/optimise.cu`  | a step of AdamW, the sum of squares                          |
//! | `product.rs`    | cuBLAS                 | products that add to a tensor or keep f32                    |
//! | `pinned.rs`     |                        | numbers from the GPU into memory that stays in place         |
//! | `launch.rs`     |                        | the one place that starts kernels                            |
//! | `device.rs`     |                        | how a GPU is opened                                          |
//!
//! Tensors are bf16 or f32 and contiguous; arithmetic is f32. An operation "in place" writes over its argument: nobody
//! else may still need the numbers that were there. Kernels are compiled by `build.rs`.

// Kernels take raw addresses; each call has a SAFETY line.
#![allow(unsafe_code)]

mod attention;
mod device;
mod launch;
mod logprobs;
mod norm;
mod optimise;
mod pinned;
mod pointwise;
mod product;
mod rows;
#[cfg(test)]
mod tests;

pub use attention::Groups;
pub(crate) use device::open;
pub use logprobs::{token_logprobs, token_logprobs_backward};
pub use norm::{add_rms_norm, rms_norm, rms_norm_backward, rms_norm_weight_gradient};
pub use optimise::{AdamW, adamw, sum_of_squares};
pub(crate) use pinned::Pinned;
pub use pointwise::{add_bias, dropout, rope, rope_backward, silu_mul, silu_mul_backward};
pub use product::{add_product, weight_gradient};
pub use rows::Rows;
pub(crate) use rows::put_rows;
