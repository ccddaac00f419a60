//! Similar solved problems and steps, for reward models that see references (RetrievalPRM, Zhu et al., 2025).
//!
//! - [`pool`]: questions with labeled solutions and their vectors, in a folder that opens by memory map
//! - [`pool::build`]: from records to a pool, resumable at every batch; [`pool::add`] appends to one
//! - [`map`]: how far apart sets of vectors are, in numbers and as points in the plane
//! - [`pca`]: vectors in fewer dimensions
//! - [`source`]: what is asked of a pool, whether it is a folder or, with the feature `postgres`, on a server
//! - [`two_stage`]: for each target its nearest questions, then for each of its steps the nearest among the steps of
//!   those questions, never the target's own question
//!
//! Inside, `search` finds the nearest rows, exactly or through a graph, and `tfidf` the nearest texts by their words.
//! Models are known only through [`Embed`](gradus_core::contracts::Embed).
//!
//! ```no_run
//! # async fn example(records: Vec<gradus_core::Record>, encoder: &dyn gradus_core::contracts::Embed)
//! # -> gradus_retrieve::Result<()> {
//! use gradus_retrieve::{pool, two_stage};
//! let folder = std::path::Path::new("math.pool");
//! let named = pool::Encoder { model: encoder, name: "all-MiniLM-L6-v2", fingerprint: "c9745ed1d9f207416be6d2e6f8de32d1f16199bf" };
//! pool::build(folder, records, &named, &pool::Settings::default(), None, |_| true).await?;
//! let pool = pool::Pool::open(folder, &named)?;
//! let target = two_stage::Target { question: "What is 2 + 3?".to_owned(), ..Default::default() };
//! let found = two_stage::retrieve(&pool, Some(encoder), &[target], &two_stage::Settings::default(), |_, _| true).await?;
//! println!("{:?}", found.targets[0].references);
//! # Ok(())
//! # }
//! ```

mod embed;
mod error;
pub mod map;
pub mod pca;
pub mod pool;
mod search;
pub mod source;
#[cfg(test)]
mod tests;
mod tfidf;
pub mod two_stage;

pub use error::{Error, Result};
