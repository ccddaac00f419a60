//! How far apart sets of vectors are (the first figure of RetrievalPRM, Zhu et al., 2025): numbers and a picture.
//!
//! - [`shifts`]: how similar the nearest vector of one set is to each of another, as a [`Shift`] for each pair
//! - [`layout()`]: every vector as a point in the plane; [`questions`]: those of a pool
//!
//! ```
//! use gradus_retrieve::map::{Layout, Set, layout, shifts};
//! let (easy, hard) = ([1.0, 0.0, 0.8, 0.6], [0.0, 1.0, 0.0, 1.0]);
//! let sets = [Set { name: "easy", rows: &easy }, Set { name: "hard", rows: &hard }];
//! let found = shifts(&sets, 2)?;
//! assert_eq!((found[1].from.as_str(), found[1].to.as_str()), ("easy", "hard"));
//! // Hard questions have a copy among themselves, and 0.6 at best among the easy ones.
//! assert!((found[1].shift.unwrap().value - 0.4).abs() < 1e-6);
//! assert_eq!(layout(&[easy, hard].concat(), 2, Layout::Pca)?.len(), 4);
//! # Ok::<(), gradus_retrieve::Error>(())
//! ```

mod layout;
mod shift;

use crate::Result;
use crate::source::{Parts, PoolSource};

pub use layout::{Layout, layout};
pub use shift::{Distance, Set, Shift, Spread, shifts};

/// Questions of a pool with their places in the plane of the first two principal components: `most` of them at most, evenly
/// spread over the pool.
pub async fn questions(pool: &dyn PoolSource, most: usize) -> Result<Vec<(String, [f32; 2])>> {
    let (total, kept) = (pool.manifest().counts.questions, pool.manifest().kept);
    let shown = total.min(most);
    let chosen: Vec<u32> = (0..shown).map(|place| (place * total / shown) as u32).collect();
    let questions = pool.questions(&chosen, Parts::Vectors).await?;
    let rows: Vec<f32> = chosen.iter().flat_map(|&number| questions.vector(number)).copied().collect();
    let places = layout(&rows, kept, Layout::Pca)?;
    Ok(chosen.iter().map(|&number| questions.text(number).to_owned()).zip(places).collect())
}
