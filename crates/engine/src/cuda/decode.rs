//! Generation's pass over one new token of each sequence, as a CUDA graph: the host starts a pass by one call, and tokens are drawn
//! where the logits are.
//!
//! A graph is fixed in what it reads and where. So rows are padded to few counts, each with a graph of its own, and what differs
//! from pass to pass lies in one buffer that is sent before each: tokens, positions, slots, ranges of keys, temperatures and random
//! numbers, then the keys' slots. Padding rows read and write a slot that belongs to nobody else.
//!
//! A count's first pass runs without a graph, since kernels are loaded and libraries prepare themselves then. Where captures fail again
//! and again, all passes run so.

use std::collections::HashMap;

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::result;
use candle_core::{CudaDevice, DType, Tensor};
use gradus_kernels::attention::Mask;

use super::graph::Graph;
use super::launch::{address, unfilled};
use super::{Rows, product, sample, vector};
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
/// Captures in a row that may fail before no more are tried.
const FAILURES: usize = 3;

/// Passes as graphs.
pub(crate) struct Graphs {
    device: CudaDevice,
    /// Cosines and sines of the first positions, `[positions, half]`.
    angles: Option<(Tensor, Tensor)>,
    /// By padded rows and by threads of attention. All read and write the tensors beside them, and go when one of those does.
    by_rows: HashMap<(usize, usize), Graph>,
    /// Captures that have failed since the last that did not.
    failures: usize,
    /// What was sent for the pass: rows' words, then keys.
    sent: Vec<u32>,
    inputs: Option<Tensor>,
    /// For the most rows so far.
    outputs: Option<Outputs>,
    /// Which of the cache's tensors the graphs use.
    generation: u64,
    logits: Box<dyn crate::host_buffer::HostBuffer>,
}

/// What a pass writes, a row for each of its own.
struct Outputs {
    logits: Tensor,
    /// Token and the bits of its log-probability.
    drawn: Tensor,
}

impl Outputs {
    fn first(&self, rows: usize) -> Result<Self> {
        Ok(Self { logits: self.logits.narrow(0, 0, rows)?, drawn: self.drawn.narrow(0, 0, rows)? })
    }
}

impl Graphs {
    /// For decoders whose weights are tensors, on GPUs that allocate in stream order, as a graph must; others keep the general way.
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
        let device = decoder.device().as_cuda_device()?;
        if !fits || !device.cuda_stream().context().has_async_alloc() {
            return Ok(None);
        }
        Ok(Some(Self {
            device: device.clone(),
            angles: None,
            by_rows: HashMap::new(),
            failures: 0,
            sent: Vec::new(),
            inputs: None,
            outputs: None,
            generation: 0,
            logits: Box::new(super::Pinned::default()),
        }))
    }

    /// How many graphs there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_rows.len()
    }

    /// Makes the tensors that graphs use large enough for a pass. Graphs of tensors that were replaced are gone.
    fn prepare(&mut self, decoder: &Decoder, cache: &Cache, rows: &[NewRow], padded: usize) -> Result<()> {
        if self.generation != cache.generation() {
            self.by_rows.clear();
            self.generation = cache.generation();
        }
        let last = rows.iter().map(|row| row.position as usize).max().unwrap_or(0);
        if self.angles.as_ref().is_none_or(|(cos, _)| cos.elem_count() <= last * decoder.config.head_dim / 2)
        {
            self.by_rows.clear();
            self.angles = Some(angles(decoder, (last + 1).next_power_of_two().max(POSITIONS))?);
        }
        if self.outputs.as_ref().is_none_or(|outputs| outputs.drawn.elem_count() < 2 * padded) {
            self.by_rows.clear();
            let logits = unfilled((padded, decoder.config.vocabulary), decoder.dtype, &decoder.norm)?;
            let drawn = unfilled((padded, 2), DType::U32, &decoder.norm)?;
            self.outputs = Some(Outputs { logits, drawn });
        }
        Ok(())
    }

    /// Puts what a pass reads into the buffer and sends it.
    fn send(&mut self, rows: &[NewRow], padded: usize, masks: &[Mask], spare: usize) -> Result<()> {
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
        if room < self.sent.len() {
            let device = candle_core::Device::Cuda(self.device.clone());
            self.by_rows.clear();
            self.inputs =
                Some(Tensor::zeros(self.sent.len().next_power_of_two().max(1 << 16), DType::U32, &device)?);
        }
        let target = address(self.inputs.as_ref().expect("made above"))?;
        let stream = self.device.cuda_stream();
        stream.context().bind_to_thread().w()?;
        // SAFETY: the buffer is as large as what is sent, which stays as it is until the pass has been waited for.
        unsafe { result::memcpy_htod_async(target, &self.sent, stream.cu_stream()) }.w()?;
        Ok(())
    }

    /// The pass itself: kernels that read the buffer and write logits and draws.
    fn pass(
        &self,
        decoder: &Decoder,
        cache: &Cache,
        padded: usize,
        threads: usize,
        to: &Outputs,
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

    /// Runs a pass by its graph, or without one and makes the graph for the next time.
    fn run(
        &mut self,
        decoder: &Decoder,
        cache: &Cache,
        padded: usize,
        threads: usize,
        to: &Outputs,
    ) -> Result<()> {
        if let Some(graph) = self.by_rows.get_mut(&(padded, threads)) {
            return graph.launch();
        }
        self.pass(decoder, cache, padded, threads, to)?;
        if self.failures < FAILURES {
            let pass = || self.pass(decoder, cache, padded, threads, to);
            match Graph::capture(self.device.cuda_stream(), pass) {
                Some(graph) => {
                    self.failures = 0;
                    self.by_rows.insert((padded, threads), graph);
                }
                None => self.failures += 1,
            }
        }
        Ok(())
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
        let padded = padded_rows(rows.len());
        self.prepare(decoder, cache, rows, padded)?;
        self.send(rows, padded, &decoder.masks(), spare)?;
        let most =
            rows.iter().map(|row| row.keys.iter().map(ExactSizeIterator::len).sum()).max().unwrap_or(0);
        let threads = Rows::threads(most, decoder.heads(), decoder.dtype);
        let outputs = self.outputs.as_ref().expect("prepared above").first(padded)?;
        self.run(decoder, cache, padded, threads, &outputs)?;
        if rows.iter().all(|row| row.draw.is_some()) {
            let drawn = outputs.drawn.to_vec2::<u32>()?;
            let each = drawn.into_iter().take(rows.len());
            return Ok(Logits::Drawn(
                each.map(|pair| Drawn { token: pair[0], logprob: f32::from_bits(pair[1]) }).collect(),
            ));
        }
        let logits = outputs.logits.narrow(0, 0, rows.len())?.to_dtype(DType::F32)?;
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
