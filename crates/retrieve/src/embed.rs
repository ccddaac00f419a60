//! Many texts through an encoder: each once, texts of like length together, the longest first.

use futures_util::{StreamExt, stream};
use gradus_core::contracts::{Embed, Embeddings};

use crate::error::{Error, Result};

/// Names a text: BLAKE3, 128 bits.
pub(crate) type Key = [u8; 16];

pub(crate) fn key(text: &str) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    key
}

/// How texts travel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    /// Texts in a request.
    pub(crate) size: usize,
    /// Requests in flight.
    pub(crate) ahead: usize,
}

/// Embeds `texts`, which differ, and hands each batch to `take` as its indices and vectors, in the order in which they
/// come; `take` says whether to go on.
pub(crate) async fn embed(
    encoder: &dyn Embed,
    texts: &[&str],
    batches: Batches,
    mut take: impl FnMut(&[usize], Embeddings) -> Result<bool>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    // The longest first: what does not fit in memory fails at once, and the end comes no later than promised.
    order.sort_by_key(|&index| (std::cmp::Reverse(texts[index].len()), index));
    let requests: Vec<(Vec<usize>, Vec<String>)> = order
        .chunks(batches.size.max(1))
        .map(|batch| (batch.to_vec(), batch.iter().map(|&index| texts[index].to_owned()).collect()))
        .collect();
    let mut answers = stream::iter(requests)
        .map(|(batch, texts)| async move { (batch, encoder.embed(texts).await) })
        .buffer_unordered(batches.ahead.max(1));
    let (mut done, total) = (0, texts.len());
    while let Some((batch, answer)) = answers.next().await {
        let fail = |message: String| Error::Encoder { done, total, message };
        let answer = answer.map_err(|error| fail(error.to_string()))?;
        check(&answer, batch.len()).map_err(fail)?;
        done += batch.len();
        if !take(&batch, answer)? {
            return Err(Error::Stopped);
        }
    }
    Ok(())
}

fn check(answer: &Embeddings, texts: usize) -> std::result::Result<(), String> {
    let Embeddings { dimension, values, .. } = answer;
    if *dimension == 0 || values.len() != texts * dimension {
        return Err(format!("{} values came back for {texts} texts of {dimension} dimensions", values.len()));
    }
    if values.iter().any(|value| !value.is_finite()) {
        return Err("a vector has a value that is no finite number".to_owned());
    }
    Ok(())
}
