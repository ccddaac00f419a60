//! Matrix products and attention on CPUs: AMX, AVX-512 and AVX2, chosen at run time.
//!
//! - [`Matrix`]: weights, dense or in ggml blocks, multiplied by rows of activations.
//! - [`BlockKind`], [`dequantise`]: ggml's quantised formats.
//! - [`cpu::Level`]: which instructions are used, and how to ask for others.
//!
//! ```
//! use gradus_kernels::{Matrix, Precision};
//! let matrix = Matrix::from_f32(2, 2, &[1.0, 2.0, 3.0, 4.0], Precision::F32);
//! let mut y = [0f32; 2];
//! matrix.multiply(&[1.0, 1.0], &mut y);
//! assert_eq!(y, [3.0, 7.0]);
//! ```

#[cfg(target_arch = "x86_64")]
mod amx;
mod blocks;
pub mod cpu;
mod matrix;

pub use blocks::{BlockKind, dequantise};
pub use matrix::{Matrix, Precision, SharedBytes};
