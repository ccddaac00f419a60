//! Search among vectors of length 1, where cosine similarity is the dot product.

pub mod approximate;
pub mod exact;

pub use approximate::Approximate;
pub use exact::{Hit, top_k};
