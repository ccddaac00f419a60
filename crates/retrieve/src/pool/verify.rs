//! Whether a pool's vectors are those of its texts: texts are embedded again and compared.
//!
//! Checksums find what was damaged after a pool was written. Vectors that were swapped, or made by another model under
//! the same name, are found only by asking the encoder again.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Encoder;
use crate::embed::{Batches, embed};
use crate::error::{Error, Result};
use crate::source::{Parts, PoolSource};

/// How far a vector of length 1 may be from the one that its text has now. Arithmetic of another device or precision
/// moves it by less than a hundredth; this is a cosine similarity of 0.99875.
const TOLERANCE: f32 = 0.05;

/// Texts that are held at once.
const AT_ONCE: usize = 1 << 13;

/// Which texts are embedded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorSample {
    /// So many, spread evenly over questions and steps, drawn with a seed.
    Some {
        /// Texts.
        count: usize,
        /// Random seed.
        seed: u64,
    },
    /// Every text.
    All,
}

/// What a comparison of vectors found where all of them are right.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VectorCheck {
    /// Texts that were embedded again.
    pub checked: usize,
    /// Texts of the pool.
    pub total: usize,
    /// The largest distance between two vectors of a text; the vectors have length 1.
    pub largest_distance: f32,
}

/// Embeds texts of a pool again and refuses the pool if their vectors are not those that it has. `watch` hears how many
/// texts of how many are done, and says whether to go on.
pub async fn verify_vectors(
    pool: &dyn PoolSource,
    encoder: &Encoder<'_>,
    sample: VectorSample,
    mut watch: impl FnMut(usize, usize) -> bool,
) -> Result<VectorCheck> {
    pool.expect(encoder)?;
    let manifest = pool.manifest();
    let questions = manifest.counts.questions;
    let total = questions + manifest.counts.step_texts;
    let rows = drawn(total, sample);
    let mut check = VectorCheck { checked: 0, total, largest_distance: 0.0 };
    let mut wrong: Vec<usize> = Vec::new();
    for rows_now in rows.chunks(AT_ONCE) {
        let known = texts(pool, rows_now).await?;
        let texts: Vec<&str> = known.iter().map(|(text, _)| text.as_str()).collect();
        embed(encoder.model, &texts, Batches { size: 256, ahead: 2 }, |batch, answer| {
            if answer.dimension != manifest.dimension {
                let (expected, found) = (manifest.dimension, answer.dimension);
                let message =
                    format!("has vectors of {expected} dimensions, but the encoder now gives {found}");
                return Err(Error::pool(pool.place(), message));
            }
            let vectors = pool.project(answer.values);
            for (&index, vector) in batch.iter().zip(vectors.chunks_exact(manifest.kept)) {
                let distance = distance(&known[index].1, vector);
                check.largest_distance = check.largest_distance.max(distance);
                if distance.is_nan() || distance > TOLERANCE {
                    wrong.push(rows_now[index]);
                }
            }
            check.checked += batch.len();
            Ok(watch(check.checked, rows.len()))
        })
        .await?;
    }
    let Some(&first) = wrong.iter().min() else { return Ok(check) };
    let which = match first < questions {
        true => {
            let number = [first as u32];
            let question = pool.questions(&number, Parts::Texts).await?;
            format!("question {} ({:?})", first + 1, question.id(number[0]))
        }
        false => format!("step text {}", first - questions + 1),
    };
    let (count, checked) = (wrong.len(), check.checked);
    let message = format!(
        "{count} of {checked} vectors are not those of their texts, first that of {which}: build the pool again"
    );
    Err(Error::pool(pool.place(), message))
}

/// Texts and their vectors by number, ascending: the questions, then the step texts.
async fn texts(pool: &dyn PoolSource, rows: &[usize]) -> Result<Vec<(String, Vec<f32>)>> {
    let first_step = rows.partition_point(|&row| row < pool.manifest().counts.questions);
    let (questions, steps) = rows.split_at(first_step);
    let questions: Vec<u32> = questions.iter().map(|&row| row as u32).collect();
    let steps: Vec<u32> = steps.iter().map(|row| (row - pool.manifest().counts.questions) as u32).collect();
    let at_hand = pool.questions(&questions, Parts::Vectors).await?;
    let mut known: Vec<(String, Vec<f32>)> = questions
        .iter()
        .map(|&number| (at_hand.text(number).to_owned(), at_hand.vector(number).to_vec()))
        .collect();
    known.extend(pool.steps(&steps).await?);
    Ok(known)
}

/// One row of each of as many equal parts as rows are wanted.
fn drawn(total: usize, sample: VectorSample) -> Vec<usize> {
    let (count, seed) = match sample {
        VectorSample::Some { count, seed } if count < total => (count, seed),
        _ => return (0..total).collect(),
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let start = |part: usize| (part as u128 * total as u128 / count as u128) as usize;
    (0..count).map(|part| random.random_range(start(part)..start(part + 1))).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_rows() {
        let some = |count, seed| drawn(1000, VectorSample::Some { count, seed });
        let rows = some(10, 3);
        assert!(rows.iter().enumerate().all(|(part, row)| row / 100 == part), "{rows:?}");
        assert_eq!(rows, some(10, 3));
        assert_ne!(rows, some(10, 4));
        assert_eq!(drawn(5, VectorSample::Some { count: 9, seed: 0 }), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(3, VectorSample::All), [0, 1, 2]);
    }
}
