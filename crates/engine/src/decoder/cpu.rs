//! A pass without a cache on a CPU: each thread takes a few texts through all layers by itself, on memory that it uses
//! again from layer to layer and that stays in its core's cache. One thread multiplies while another normalizes, and none
//! waits. Where one text is longer than the others together, threads take group after group and share each product.
//!
//! A row's numbers depend on its own text alone, so the cut into groups changes nothing.

use std::ops::Range;

use candle_core::{Device, Tensor};
use gradus_kernels::attention::{Attention, Segment};
use gradus_kernels::cpu::Level;
use gradus_kernels::{Activations, Matrix, Projection, alone, rows};
use rayon::prelude::*;

use super::{AWAKE_ROWS, Decoder, Layer};
use crate::Result;
use crate::batch::Batch;
use crate::linear::Linear;
use crate::rope;
use crate::weights::Weight;

/// Tokens that a thread takes at once: enough for the products to be fast, few enough for the caches. AMX multiplies so fast
/// that reading the weights more often would show.
fn tokens_at_once() -> usize {
    if Level::current() == Level::Amx { 512 } else { 192 }
}

/// With fewer tokens for each thread it is faster to read the weights once for all of them.
const FEWEST: usize = 128;
/// How much more than its share of the tokens the longest group may have: the other threads wait for it.
const LONGEST_SHARE: f64 = 1.25;
/// Quantized weights that take no more than this when they are expanded are expanded once for all prompts.
const EXPANDED_BYTES: usize = 1 << 30;

/// Normalized hidden states of a batch, one row per token; none on a GPU, and for few tokens.
pub(super) fn forward(decoder: &Decoder, batch: &Batch) -> Result<Option<Tensor>> {
    if !decoder.device.is_cpu() || batch.len() < FEWEST {
        return Ok(None);
    }
    // On machines with many cores, some of them.
    let threads = rayon::current_num_threads().min(batch.len() / FEWEST);
    let groups = groups(batch, threads);
    let longest = groups.iter().map(Range::len).max().unwrap_or(0);
    let is_shared = threads < rayon::current_num_threads().min(2)
        || (longest * threads) as f64 > LONGEST_SHARE * batch.len() as f64;
    // Threads that share short products had better stay awake between them.
    if is_shared && batch.len() <= AWAKE_ROWS {
        return Ok(None);
    }
    decoder.check_tokens(&batch.tokens)?;
    let model = Passes::of(decoder)?;
    let width = decoder.config.hidden;
    let mut hidden = vec![0.0; batch.len() * width];
    let mut rest = &mut hidden[..];
    let mut parts = Vec::with_capacity(groups.len());
    for group in groups {
        let (part, after) = rest.split_at_mut(group.len() * width);
        parts.push((group, part));
        rest = after;
    }
    if is_shared {
        parts.into_iter().for_each(|(group, hidden)| model.pass(batch, group, hidden));
    } else {
        let parts = parts.into_par_iter().with_max_len(1);
        parts.for_each(|(group, hidden)| alone(|| model.pass(batch, group, hidden)));
    }
    Ok(Some(Tensor::from_vec(hidden, (batch.len(), width), &Device::Cpu)?))
}

/// Ranges of rows that see no row outside of them, of about [`tokens_at_once`] each, as many for every thread.
fn groups(batch: &Batch, threads: usize) -> Vec<Range<usize>> {
    let rounds = batch.len().div_ceil(tokens_at_once() * threads).max(1);
    let wanted = batch.len().div_ceil(rounds * threads);
    // Where a group may end: no later row sees one before it.
    let mut first_seen = batch.len();
    let mut ends = Vec::new();
    for segment in batch.segments.iter().rev() {
        if first_seen >= segment.rows.end {
            ends.push(segment.rows.end);
        }
        first_seen =
            segment.keys.iter().map(|keys| keys.start).fold(first_seen.min(segment.rows.start), usize::min);
    }
    let (mut groups, mut first) = (Vec::new(), 0);
    let mut ends = ends.into_iter().rev().peekable();
    while let Some(end) = ends.next() {
        // A group ends where it is closest to a whole number of shares from the start.
        let share = wanted * (groups.len() + 1);
        let is_last =
            ends.peek().is_none_or(|next| *next > share && next - share > share.saturating_sub(end));
        if is_last {
            groups.push(first..end);
            first = end;
        }
    }
    groups
}

/// A decoder as plain memory, for one pass.
struct Passes<'a> {
    decoder: &'a Decoder,
    layers: Vec<LayerPass<'a>>,
    norm: Vec<f32>,
}

struct LayerPass<'a> {
    q: Projection<'a>,
    k: Projection<'a>,
    v: Projection<'a>,
    o: Projection<'a>,
    gate: Projection<'a>,
    up: Projection<'a>,
    down: Projection<'a>,
    attention_norm: Vec<f32>,
    q_norm: Option<Vec<f32>>,
    k_norm: Option<Vec<f32>>,
    mlp_norm: Vec<f32>,
    attention: Attention,
}

impl<'a> Passes<'a> {
    fn of(decoder: &'a Decoder) -> Result<Self> {
        let layers =
            decoder.layers.iter().map(|layer| LayerPass::of(decoder, layer)).collect::<Result<Vec<_>>>()?;
        let matrices = || layers.iter().flat_map(LayerPass::matrices);
        if decoder.expands && matrices().map(Matrix::expanded_bytes).sum::<usize>() <= EXPANDED_BYTES {
            matrices().for_each(Matrix::expand);
        }
        Ok(Self { decoder, layers, norm: decoder.norm.to_vec1()? })
    }

    /// Takes a group of rows through all layers.
    fn pass(&self, batch: &Batch, group: Range<usize>, hidden: &mut [f32]) {
        let Decoder { config, .. } = self.decoder;
        let (tokens, positions) = (&batch.tokens[group.clone()], &batch.positions[group.clone()]);
        let count = tokens.len();
        let segments = segments(batch, &group);
        let (cos, sin) = rope::angles(&self.decoder.frequencies, positions);
        let own: Vec<u32> = (0..count as u32).collect();
        let (dim, eps) = (config.head_dim, config.norm_eps);
        let (wide, narrow) = (config.heads * dim, config.kv_heads * dim);
        let buffer = |width: usize| vec![0.0; count * width];
        let (mut x, mut q, mut k, mut v) =
            (buffer(config.hidden), buffer(wide), buffer(narrow), buffer(narrow));
        let mut seen = buffer(wide);
        for (token, x) in tokens.iter().zip(x.chunks_exact_mut(config.hidden)) {
            self.decoder.embedding.row(*token, x);
        }
        for layer in &self.layers {
            let LayerPass { q: to_q, k: to_k, v: to_v, .. } = layer;
            let h = Activations::rms_norm(&x, &layer.attention_norm, eps, &[to_q, to_k, to_v]);
            to_q.apply(&h, &mut q);
            to_k.apply(&h, &mut k);
            to_v.apply(&h, &mut v);
            normalize(&mut q, layer.q_norm.as_deref(), eps, &mut seen);
            normalize(&mut k, layer.k_norm.as_deref(), eps, &mut seen);
            rows::rope_in_place(&mut q, dim, &cos, &sin, &own);
            rows::rope_in_place(&mut k, dim, &cos, &sin, &own);
            layer.attention.attend(&q, &k, &v, &segments, &mut seen);
            layer.o.add_to(&Activations::new(&seen), &mut x);
            let h = Activations::rms_norm(&x, &layer.mlp_norm, eps, &[&layer.gate, &layer.up]);
            let h = Projection::gated(&layer.gate, &layer.up, &h, &layer.down);
            layer.down.add_to(&h, &mut x);
        }
        rows::rms_norm(&x, &self.norm, eps, hidden);
    }
}

/// The norm of each head, where there is one; `room` is at least as long.
fn normalize(heads: &mut [f32], weight: Option<&[f32]>, eps: f32, room: &mut [f32]) {
    if let Some(weight) = weight {
        let room = &mut room[..heads.len()];
        room.copy_from_slice(heads);
        rows::rms_norm(room, weight, eps, heads);
    }
}

/// The segments of a group of rows, counted from its first.
fn segments(batch: &Batch, group: &Range<usize>) -> Vec<Segment> {
    let within = |range: &Range<usize>| range.start - group.start..range.end - group.start;
    let first = batch.segments.partition_point(|segment| segment.rows.start < group.start);
    let own = batch.segments[first..].iter().take_while(|segment| segment.rows.start < group.end);
    own.map(|segment| Segment {
        rows: within(&segment.rows),
        keys: segment.keys.iter().map(within).collect(),
    })
    .collect()
}

impl<'a> LayerPass<'a> {
    fn of(decoder: &Decoder, layer: &'a Layer) -> Result<Self> {
        let norm = |weight: &Option<Tensor>| weight.as_ref().map(Tensor::to_vec1).transpose();
        let heads = decoder.heads();
        Ok(Self {
            q: projection(&layer.q)?,
            k: projection(&layer.k)?,
            v: projection(&layer.v)?,
            o: projection(&layer.o)?,
            gate: projection(&layer.gate)?,
            up: projection(&layer.up)?,
            down: projection(&layer.down)?,
            attention_norm: layer.attention_norm.to_vec1()?,
            q_norm: norm(&layer.q_norm)?,
            k_norm: norm(&layer.k_norm)?,
            mlp_norm: layer.mlp_norm.to_vec1()?,
            attention: Attention {
                heads: heads.query,
                kv_heads: heads.key,
                head_dim: heads.dim,
                scale: 1.0 / (heads.dim as f32).sqrt(),
                mask: layer.mask,
                precision: decoder.precision,
            },
        })
    }

    fn matrices(&self) -> impl Iterator<Item = &'a Matrix> + use<'a> {
        [&self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down]
            .map(|projection| projection.weights)
            .into_iter()
    }
}

fn projection(linear: &Linear) -> Result<Projection<'_>> {
    let adapter = linear.lora.as_ref().map(|lora| (packed(&lora.a), packed(&lora.b)));
    let bias = linear.bias.as_ref().map(Tensor::to_vec1).transpose()?;
    Ok(Projection { weights: packed(&linear.weight), bias, adapter })
}

fn packed(weight: &Weight) -> &Matrix {
    match weight {
        Weight::Packed(matrix) => matrix,
        _ => unreachable!("weights on the CPU are packed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Forest;
    use crate::golden::reference;
    use crate::models::ModelPath;
    use crate::{LoadOptions, Model, Precision};

    /// Texts of 1 to 96 tokens, every third of them a tree: a trunk with branches, and a branch of a branch.
    fn texts(count: usize) -> Batch {
        let mut batch = Batch::default();
        for number in 0..count {
            let run = |length: usize, salt: usize| {
                (0..length).map(|at| ((at * 7 + salt * 13) % 90) as u32).collect()
            };
            let mut forest = Forest::sequence(run(1 + number * 29 % 96, number));
            if number % 3 == 0 {
                let trunk = 1 + number * 29 % 96;
                let branch = forest.branch(0, trunk / 2, run(5, number + 1));
                forest.branch(branch, 3, run(2, number + 2));
                forest.branch(0, trunk, run(4, number + 3));
            }
            batch.add(&forest);
        }
        batch
    }

    #[test]
    fn groups_cover_all_rows_and_see_no_others() {
        for (count, threads) in [(1, 1), (1, 2), (7, 2), (60, 2), (60, 7), (300, 2)] {
            let batch = texts(count);
            let groups = groups(&batch, threads);
            let mut next = 0;
            for group in &groups {
                assert_eq!(group.start, next);
                next = group.end;
                let rows: usize = segments(&batch, group).iter().map(|segment| segment.rows.len()).sum();
                assert_eq!(rows, group.len());
                for segment in batch.segments.iter().filter(|segment| group.contains(&segment.rows.start)) {
                    assert!(
                        segment.keys.iter().all(|keys| group.start <= keys.start && keys.end <= group.end)
                    );
                }
            }
            assert_eq!(next, batch.len());
            if count == 300 {
                assert!(groups.len().is_multiple_of(threads), "{groups:?}");
            }
        }
    }

    #[test]
    fn threads_on_their_own_give_the_bits_of_shared_products() {
        let folder = |name: &str| ModelPath::Folder(reference(&format!("models/{name}")));
        let gguf = |name: &str| ModelPath::Gguf(reference(&format!("gguf/{name}.gguf")));
        let adapter = Some(reference("models/llama-lora"));
        let cases = [
            (folder("llama"), None, None),
            (folder("llama"), adapter, None),
            (folder("mistral"), None, Some(Precision::Bf16)),
            (folder("qwen2"), None, Some(Precision::F32)),
            (folder("qwen3"), None, None),
            (gguf("llama-q4_1"), None, None),
            (gguf("llama-q8_0"), None, Some(Precision::Bf16x3)),
            (gguf("llama-k"), None, Some(Precision::Bf16)),
        ];
        // Shared by all threads: one text that is longer than the others together.
        let mut uneven = texts(5);
        uneven.add(&Forest::sequence((0..700).map(|at| at * 7 % 90).collect()));
        uneven.add(&Forest::sequence((0..40).map(|at| at * 11 % 90).collect()));
        let batches = [texts(40), uneven];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for ((path, adapter, precision), batch) in
            cases.iter().flat_map(|case| batches.iter().map(move |batch| (case.clone(), batch)))
        {
            let model =
                Model::load(&path, &LoadOptions { adapter, precision, ..LoadOptions::default() }).unwrap();
            let decoder = model.decoder().unwrap();
            pool.install(|| {
                // The weights of quantized models are expanded by the second.
                let shared = decoder.forward_observed(batch, None, &mut |_| Ok(())).unwrap();
                let own = forward(decoder, batch).unwrap().expect("enough tokens");
                let again = decoder.forward_observed(batch, None, &mut |_| Ok(())).unwrap();
                let [shared, own, again]: [Vec<Vec<f32>>; 3] =
                    [shared, own, again].map(|hidden| hidden.to_vec2().unwrap());
                assert!(shared == own && shared == again, "{path:?}");
            });
        }
    }

    #[test]
    fn quantized_weights_are_expanded_for_prompts_unless_they_are_to_be_kept() {
        let path = ModelPath::Gguf(reference("gguf/llama-q4_1.gguf"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        for dequantize in [None, Some(false)] {
            let model = Model::load(&path, &LoadOptions { dequantize, ..LoadOptions::default() }).unwrap();
            let decoder = model.decoder().unwrap();
            let before = decoder.bytes();
            assert!(pool.install(|| forward(decoder, &texts(40))).unwrap().is_some());
            let matrices =
                decoder.layers.iter().flat_map(|layer| LayerPass::of(decoder, layer).unwrap().matrices());
            let expanded: usize = matrices.map(Matrix::expanded_bytes).sum();
            let wanted = if dequantize.is_none() { expanded } else { 0 };
            assert_eq!(decoder.bytes() - before, wanted);
        }
    }

    #[test]
    fn few_tokens_are_left_to_threads_that_stay_awake() {
        let model =
            Model::load(&ModelPath::Folder(reference("models/llama")), &LoadOptions::default()).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let mut long = texts(3);
        long.add(&Forest::sequence(vec![1; 400]));
        for (batch, is_taken) in [(texts(3), false), (long, true)] {
            let taken = pool.install(|| forward(model.decoder().unwrap(), &batch)).unwrap();
            assert_eq!(taken.is_some(), is_taken);
        }
    }
}
