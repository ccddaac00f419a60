//! Search among vectors of length 1, where cosine similarity is the dot product.

pub mod approximate;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod exact;
mod product;

pub use approximate::Approximate;
pub use exact::{Hit, top_k};
pub(crate) use product::{dot, normalise};
