//! Similar solved problems and steps, for reward models that see references (RetrievalPRM, Zhu et al., 2025).
//!
//! - [`search`]: the nearest rows, exactly

mod error;
pub mod search;

pub use error::{Error, Result};
