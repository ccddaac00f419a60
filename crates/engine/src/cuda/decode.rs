//! Generation's pass over one new token of each sequence, as a CUDA graph: the host starts a pass by one call, and tokens are drawn
//! where the logits are.
//!
//! A graph is fixed in what it reads and where. So rows are padded to few counts, each with a graph of its own, and what differs
//! from pass to pass lies in one buffer that is sent before each: tokens, positions, slots, ranges of keys, temperatures and random
//! numbers, then the keys' slots. Padding rows read and write a slot that belongs to nobody else.
//!
//! A count's first pass runs without a graph, since kernels are loaded and libraries prepare themselves then.

use std::collections::HashMap;

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{CudaGraph, result, sys};
use candle_core::{CudaDevice, DType, Tensor};
use gradus_kernels::attention::Mask;

use super::launch::{address, unfilled};
use super::{Rows, device, product, sample, vector};
use crate::Result;
use crate::attention::{over_rows, visible};
use crate::cache::{Cache, WriteTargets};
use crate::decode::{Decode, Drawn, Logits, NewRow};
use crate::decoder::{Decoder, Pass};
use crate::rope;
use crate::weights::Weight;

/// Words that each row takes in the buffer, after two for each mask.
const WORDS: usize = 5;
/// Positions whose angles are made at first.
const POSITIONS: usize = 4096;

/// Passes as graphs.
pub(crate) struct Graphs {
    device: CudaDevice,
    /// Cosines and sines of the first positions, `[positions, half]`.
    angles: Option<(Tensor, Tensor)>,
    by_rows: HashMap<(usize, usize), Captured>,
    /// What was sent for the pass: rows' words, then keys.
    sent: Vec<u32>,
    inputs: Option<Tensor>,
    /// Where the cache's first layer was when the graphs were made.
    cache_at: u64,
    logits: Box<dyn crate::host_buffer::HostBuffer>,
}

/// A pass over a number of rows.
struct Captured {
    graph: Option<Graph>,
    logits: Tensor,
    /// Token and the bits of its log-probability.
    drawn: Tensor,
}

/// A graph that is used by one thread at a time.
struct Graph(CudaGraph);

// SAFETY: graphs are not synchronized by themselves; a `Graphs` is used through `&mut` only.
unsafe impl Send for Graph {}

impl Graphs {
    /// For decoders whose weights are tensors; others keep the general way.
    pub(crate) fn new(decoder: &Decoder) -> Result<Option<Self>> {
        let dense = |weight: &Weight| matches!(weight, Weight::Dense(_));
        let layers = decoder
            .layers
            .iter()
            .flat_map(|layer| [&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down]);
        let fits = layers.into_iter().all(|linear| dense(&linear.weight))
            && dense(&decoder.embedding)
            && decoder.output.as_ref().is_some_and(|output| {
                dense(&output.weight) && output.lora.is_none() && output.bias.is_none()
            })
            && Rows::fits(decoder.heads(), decoder.dtype);
        if !fits {
            return Ok(None);
        }
        Ok(Some(Self {
            device: decoder.device().as_cuda_device()?.clone(),
            angles: None,
            by_rows: HashMap::new(),
            sent: Vec::new(),
            inputs: None,
            cache_at: 0,
            logits: Box::new(super::Pinned::default()),
        }))
    }

    /// Puts what a pass reads into the buffer and sends it; returns whether the buffer has moved.
    fn send(&mut self, rows: &[NewRow], padded: usize, masks: &[Mask], spare: usize) -> Result<bool> {
        let words = padded * (WORDS + 2 * masks.len());
        self.sent.clear();
        self.sent.resize(words, 0);
        let mut count = 0;
        let first_word = 2 * masks.len();
        for row in 0..padded {
            let sent = &mut self.sent;
            let [token, position, slot, temperature, uniform] = match rows.get(row) {
                Some(new) => {
                    let [temperature, uniform] = new.draw.unwrap_or([1.0, 0.0]).map(f32::to_bits);
                    [new.token, new.position, new.slot as u32, temperature, uniform]
                }
                None => [0, 0, spare as u32, 0, 0],
            };
            for (place, word) in [token, position, slot, temperature, uniform].into_iter().enumerate() {
                sent[(first_word + place) * padded + row] = word;
            }
            match rows.get(row) {
                Some(new) => sent.extend(new.keys.iter().cloned().flatten().map(|key| key as u32)),
                None => sent.push(spare as u32),
            }
            let keys = sent.len() - words - count;
            for (number, mask) in masks.iter().enumerate() {
                let seen = visible(*mask, keys, 1, 0);
                let at = 2 * (number * padded + row);
                sent[at] = (count + seen.start) as u32;
                sent[at + 1] = (count + seen.end) as u32;
            }
            count += keys;
        }
        let room = self.inputs.as_ref().map_or(0, Tensor::elem_count);
        let moved = room < self.sent.len();
        if moved {
            let device = candle_core::Device::Cuda(self.device.clone());
            self.inputs =
                Some(Tensor::zeros(self.sent.len().next_power_of_two().max(1 << 16), DType::U32, &device)?);
        }
        let target = address(self.inputs.as_ref().expect("made above"))?;
        let stream = self.device.cuda_stream();
        stream.context().bind_to_thread().w()?;
        // SAFETY: the buffer is as large as what is sent, which stays as it is until the pass has been waited for.
        unsafe { result::memcpy_htod_async(target, &self.sent, stream.cu_stream()) }.w()?;
        Ok(moved)
    }

    /// The pass itself: kernels that read the buffer and write logits and draws.
    fn pass(
        &self,
        decoder: &Decoder,
        cache: &Cache,
        padded: usize,
        threads: usize,
        to: &Captured,
    ) -> Result<()> {
        let inputs = self.inputs.as_ref().expect("sent before");
        let masks = decoder.masks();
        let ranges = masks
            .iter()
            .enumerate()
            .map(|(number, mask)| Ok((*mask, inputs.narrow(0, 2 * number * padded, 2 * padded)?)));
        let word = |place: usize| inputs.narrow(0, (2 * masks.len() + place) * padded, padded);
        let (tokens, positions, slots) = (word(0)?, word(1)?, word(2)?);
        let first_key = padded * (WORDS + 2 * masks.len());
        let keys = inputs.narrow(0, first_key, inputs.elem_count() - first_key)?;
        let plan = over_rows(Rows::over(keys, ranges.collect::<Result<_>>()?, threads));
        let (cos, sin) = self.angles.as_ref().expect("made before");
        let Weight::Dense(table) = &decoder.embedding else { unreachable!("only such decoders are taken") };
        let x = super::rows::take_rows(table, &tokens)?;
        let pass = Pass {
            plan,
            cos: super::rows::take_rows(cos, &positions)?,
            sin: super::rows::take_rows(sin, &positions)?,
        };
        let targets = WriteTargets::of_index(slots);
        let hidden = decoder.through_layers(x, &pass, Some((cache, &targets)), &mut |_| Ok(()))?;
        let output = decoder.output.as_ref().expect("only such decoders are taken");
        let Weight::Dense(weight) = &output.weight else { unreachable!("only such decoders are taken") };
        if !vector::vector_product_into(&to.logits, &hidden, weight)? {
            product::product_into(&to.logits, &hidden, &weight.t()?)?;
        }
        sample::draw(&to.logits, address(&word(3)?)?, address(&word(4)?)?, &to.drawn)
    }

    /// Captures what `run` starts. None where something else in this process came between; the next pass tries again.
    fn capture(&self, run: impl FnOnce() -> Result<()>) -> Option<Graph> {
        let _alone = device::alone();
        let stream = self.device.cuda_stream();
        stream.begin_capture(sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED).ok()?;
        let outcome = run();
        // A capture is ended whatever happened in it.
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).ok()??;
        outcome.ok()?;
        graph.upload().ok()?;
        Some(Graph(graph))
    }
}

impl Decode for Graphs {
    fn spare_slots(&self) -> usize {
        1
    }

    fn step(
        &mut self,
        decoder: &Decoder,
        cache: &Cache,
        spare: usize,
        rows: &[NewRow],
    ) -> Result<Logits<'_>> {
        let masks = decoder.masks();
        let padded = padded_rows(rows.len());
        let last = rows.iter().map(|row| row.position as usize).max().unwrap_or(0);
        if self.angles.as_ref().is_none_or(|(cos, _)| cos.elem_count() <= last * decoder.config.head_dim / 2)
        {
            self.angles = Some(angles(decoder, (last + 1).next_power_of_two().max(POSITIONS))?);
            self.by_rows.clear();
        }
        let most =
            rows.iter().map(|row| row.keys.iter().map(ExactSizeIterator::len).sum()).max().unwrap_or(0);
        let threads = Rows::threads(most, decoder.heads(), decoder.dtype);
        let moved = self.send(rows, padded, &masks, spare)?;
        let cache_at = cache.first().map_or(Ok(0), address)?;
        if moved || cache_at != self.cache_at {
            self.by_rows.clear();
            self.cache_at = cache_at;
        }
        let key = (padded, threads);
        match self.by_rows.get(&key) {
            Some(Captured { graph: Some(graph), .. }) => graph.0.launch().w()?,
            _ => {
                let logits = unfilled((padded, decoder.config.vocabulary), decoder.dtype, &decoder.norm)?;
                let drawn = unfilled((padded, 2), DType::U32, &decoder.norm)?;
                let mut made = Captured { graph: None, logits, drawn };
                self.pass(decoder, cache, padded, threads, &made)?;
                made.graph = self.capture(|| self.pass(decoder, cache, padded, threads, &made));
                self.by_rows.insert(key, made);
            }
        }
        let made = &self.by_rows[&key];
        if rows.iter().all(|row| row.draw.is_some()) {
            let drawn = made.drawn.to_vec2::<u32>()?;
            let each = drawn.into_iter().take(rows.len());
            return Ok(Logits::Drawn(
                each.map(|pair| Drawn { token: pair[0], logprob: f32::from_bits(pair[1]) }).collect(),
            ));
        }
        let logits = made.logits.narrow(0, 0, rows.len())?.to_dtype(DType::F32)?;
        Ok(Logits::Rows(self.logits.read(&logits)?))
    }
}

/// Few counts, so that graphs are used again as sequences end: 1, 2, 4, then eighths of the next power of two.
fn padded_rows(count: usize) -> usize {
    let power = count.next_power_of_two();
    count.next_multiple_of((power / 8).max(if count > 4 { 4 } else { power }))
}

/// Cosines and sines of the first `count` positions, as rows.
fn angles(decoder: &Decoder, count: usize) -> Result<(Tensor, Tensor)> {
    let positions: Vec<u32> = (0..count as u32).collect();
    let (cos, sin) = rope::angles(&decoder.frequencies, &positions);
    let half = decoder.config.head_dim / 2;
    let table = |values: Vec<f32>| -> Result<Tensor> {
        Ok(Tensor::from_vec(values, (positions.len(), half), decoder.device())?.to_dtype(decoder.dtype)?)
    };
    Ok((table(cos)?, table(sin)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_to_few_counts() {
        let counts: Vec<usize> =
            [1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65, 190, 192, 200, 256].map(padded_rows).to_vec();
        assert_eq!(counts, [1, 2, 4, 4, 8, 8, 12, 16, 20, 40, 64, 80, 192, 192, 224, 256]);
    }
}
