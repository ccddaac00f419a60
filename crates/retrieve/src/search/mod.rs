//! Search among vectors of length 1, where cosine similarity is the dot product.

pub(crate) mod approximate;
mod exact;

pub(crate) use approximate::Approximate;
pub use exact::Hit;
#[cfg(feature = "postgres")]
pub(crate) use exact::sort;
pub(crate) use exact::top_k;
