//! Search among vectors of length 1, where cosine similarity is the dot product.

pub mod exact;
mod product;

pub use exact::{Hit, top_k};
pub(crate) use product::{dot, normalise};
