//! The encoder on a CPU: each thread takes a few texts through all layers by itself, on memory that it uses again from
//! layer to layer and that stays in its core's cache. One thread multiplies while another normalizes, and none waits.
//!
//! A row's numbers depend on its own text alone, so the cut into groups changes nothing.

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use gradus_kernels::attention::{Attention, Mask, Segment};
use gradus_kernels::{Activations, Matrix, Projection, alone, rows};
use rayon::prelude::*;

use super::{Encoder, pool};
use crate::Result;
use crate::linear::Linear;
use crate::weights::Weight;

/// Tokens that a thread takes at once: enough for the products to be fast, few enough for the caches.
const TOKENS: usize = 512;

/// The layers' numbers as plain memory.
pub(super) struct Layers {
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

struct Layer {
    q: Weights,
    k: Weights,
    v: Weights,
    o: Weights,
    attention_norm: Norm,
    up: Weights,
    down: Weights,
    norm: Norm,
}

struct Weights {
    matrix: Arc<Matrix>,
    bias: Option<Vec<f32>>,
}

impl Layers {
    /// The encoder's layers, if they are made for this: on the CPU, and without an adapter.
    pub(super) fn of(encoder: &Encoder) -> Result<Option<Self>> {
        let mut layers = Vec::new();
        for layer in &encoder.layers {
            let parts = [&layer.q, &layer.k, &layer.v, &layer.o, &layer.up, &layer.down];
            let parts: Option<Vec<Weights>> = parts.into_iter().map(Weights::of).collect::<Result<_>>()?;
            let Some(parts) = parts else { return Ok(None) };
            let [q, k, v, o, up, down] = parts.try_into().ok().expect("six went in");
            let (attention_norm, norm) = (Norm::of(&layer.attention_norm)?, Norm::of(&layer.norm)?);
            layers.push(Layer { q, k, v, o, attention_norm, up, down, norm });
        }
        Ok(Some(Self { kind: values(&encoder.kind)?, norm: Norm::of(&encoder.norm)?, layers }))
    }

    /// One vector per text.
    pub(super) fn forward(&self, encoder: &Encoder, texts: &[Vec<u32>]) -> Result<Vec<f32>> {
        let groups = groups(texts);
        let pass = |group: &Range<usize>| self.pass(encoder, &texts[group.clone()]);
        let vectors: Vec<Vec<f32>> = match &groups[..] {
            [only] => vec![pass(only)],
            _ => groups.par_iter().with_max_len(1).map(|group| alone(|| pass(group))).collect(),
        };
        Ok(vectors.concat())
    }

    fn pass(&self, encoder: &Encoder, texts: &[Vec<u32>]) -> Vec<f32> {
        let (width, lengths): (usize, Vec<usize>) = (encoder.dimension, texts.iter().map(Vec::len).collect());
        let tokens: usize = lengths.iter().sum();
        let mut start = 0;
        let segments = lengths.iter().map(|length| {
            let rows = start..start + length;
            start = rows.end;
            Segment { rows: rows.clone(), keys: vec![rows] }
        });
        let segments: Vec<Segment> = segments.filter(|segment| !segment.rows.is_empty()).collect();
        let attention = Attention {
            heads: encoder.heads.query,
            kv_heads: encoder.heads.key,
            head_dim: encoder.heads.dim,
            scale: 1.0 / (encoder.heads.dim as f32).sqrt(),
            mask: Mask::Full,
            precision: encoder.precision,
        };
        let buffer = || vec![0.0; tokens * width];
        let (mut x, mut sum, mut q, mut k, mut v) = (buffer(), buffer(), buffer(), buffer(), buffer());
        self.embed(encoder, texts, &mut sum, &mut q);
        self.norm.apply(&sum, &mut x);
        for layer in &self.layers {
            let [to_q, to_k, to_v, to_o, up, down] = layer.projections();
            let h = Activations::new(&x);
            to_q.apply(&h, &mut q);
            to_k.apply(&h, &mut k);
            to_v.apply(&h, &mut v);
            drop(h);
            attention.attend(&q, &k, &v, &segments, &mut sum);
            to_o.add_to(&Activations::new(&sum), &mut x);
            layer.attention_norm.apply(&x, &mut sum);
            let h = up.gelu(&Activations::new(&sum), &down);
            down.add_to(&h, &mut sum);
            layer.norm.apply(&sum, &mut x);
        }
        pool(&x, &lengths, width, encoder.pooling, encoder.normalized)
    }

    /// Words, positions and the kind of text, added up.
    fn embed(&self, encoder: &Encoder, texts: &[Vec<u32>], sum: &mut [f32], positions: &mut [f32]) {
        let width = encoder.dimension;
        let numbers = texts.iter().flat_map(|text| text.iter().zip(0..));
        let parts = sum.chunks_exact_mut(width).zip(positions.chunks_exact_mut(width));
        for ((token, position), (sum, row)) in numbers.zip(parts) {
            encoder.words.row(*token, sum);
            encoder.positions.row(position, row);
        }
        rows::add(sum, positions);
        rows::add_bias(sum, &self.kind);
    }
}

/// Ranges of neighboring texts of about [`TOKENS`] tokens.
fn groups(texts: &[Vec<u32>]) -> Vec<Range<usize>> {
    let (mut groups, mut first, mut tokens) = (Vec::new(), 0, 0);
    for (index, text) in texts.iter().enumerate() {
        if index > first && tokens + text.len() > TOKENS {
            groups.push(first..index);
            (first, tokens) = (index, 0);
        }
        tokens += text.len();
    }
    groups.push(first..texts.len());
    groups
}

impl Norm {
    fn of(norm: &super::Norm) -> Result<Self> {
        Ok(Self { weight: values(&norm.weight)?, bias: values(&norm.bias)?, eps: norm.eps })
    }

    fn apply(&self, x: &[f32], y: &mut [f32]) {
        rows::layer_norm(x, &self.weight, &self.bias, self.eps, y);
    }
}

impl Layer {
    fn projections(&self) -> [Projection<'_>; 6] {
        [&self.q, &self.k, &self.v, &self.o, &self.up, &self.down].map(|weights| Projection {
            weights: &weights.matrix,
            bias: weights.bias.clone(),
            adapter: None,
        })
    }
}

impl Weights {
    fn of(linear: &Linear) -> Result<Option<Self>> {
        let (Weight::Packed(matrix), None) = (&linear.weight, &linear.lora) else { return Ok(None) };
        let bias = linear.bias.as_ref().map(values).transpose()?;
        Ok(Some(Self { matrix: matrix.clone(), bias }))
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.flatten_all()?.to_vec1()?)
}
