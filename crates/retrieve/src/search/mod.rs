//! Search among vectors of length 1, where cosine similarity is the dot product.

pub(crate) mod approximate;
mod exact;

pub(crate) use approximate::Approximate;
pub(crate) use exact::{Hit, top_k};
