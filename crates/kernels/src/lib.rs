//! Matrix products and attention on CPUs: AMX, AVX-512 and AVX2, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod amx;
pub mod attention;
mod blocks;
pub mod cpu;
mod exp;
mod matrix;
pub mod rows;
mod simd;

pub use blocks::{BlockKind, dequantise};
pub use matrix::{Matrix, Precision, SharedBytes};
