//! Matrix products and attention on CPUs: AMX, AVX-512 and AVX2, chosen at run time, and NEON.
//!
//! - [`Matrix`]: a weight matrix packed for products, or kept in ggml's quantized blocks
//! - [`Activations`]: rows that several matrices are multiplied with
//! - [`Projection`]: a product with its bias and adapter, added to a residual or gated without leaving the core's cache
//! - [`gradient`]: gradients of weights, a product of two activations
//! - [`attention`]: exact attention over segments of packed rows
//! - [`rows`]: norms, rotary positions, activations, logit statistics
//! - [`vectors`]: dot products for retrieval
//! - [`cpu`]: which instructions this machine has
//! - [`alone`]: work that keeps to its own thread; [`awake`]: work that keeps the other threads awake
//! - [`keep_freed_memory`]: spares page faults between steps
//!
//! Results depend on a row's own numbers only: not on the other rows of a call, nor on the number of threads.
//! Gradients that are sums over rows (of weights, keys and values) add them in a fixed order, on any number of threads.

#[cfg(target_arch = "x86_64")]
mod amx;
pub mod attention;
mod blocks;
pub mod cpu;
mod crew;
mod exp;
mod matrix;
mod memory;
pub mod rows;
mod simd;
mod threads;
pub mod vectors;

pub use blocks::{BlockKind, dequantize};
pub use crew::awake;
pub use matrix::{Activations, Matrix, Precision, Projection, SharedBytes, gradient};
pub use memory::keep_freed_memory;
pub use threads::alone;
