//! One new token for each sequence that is being generated: what a device is asked for, and the way that suits all of them.
//!
//! NVIDIA GPUs have a way of their own (`cuda/decode.rs`), which also draws tokens.

use std::ops::Range;

use candle_core::Device;
use gradus_kernels::attention::Segment;

use crate::batch::Batch;
use crate::cache::Cache;
use crate::decoder::Decoder;
use crate::host_buffer::HostBuffer;
pub(crate) use crate::sample::Drawn;
use crate::{Result, ops};

/// A sequence's newest token.
pub(crate) struct NewRow {
    pub(crate) token: u32,
    pub(crate) position: u32,
    /// Where its keys and values go.
    pub(crate) slot: usize,
    /// The slots that it sees, its own at the end.
    pub(crate) keys: Vec<Range<usize>>,
    /// Temperature and a random number in [0, 1), where the device may draw the next token.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only NVIDIA GPUs draw tokens"))]
    pub(crate) draw: Option<[f32; 2]>,
}

/// What a pass gives for each row.
pub(crate) enum Logits<'a> {
    /// Logits of the whole vocabulary, row after row.
    Rows(&'a [f32]),
    /// The next tokens, where all rows might be drawn. `u32::MAX` says that the logits are no distribution.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only NVIDIA GPUs draw tokens"))]
    Drawn(Vec<Drawn>),
}

/// Passes over one new token of each sequence.
pub(crate) trait Decode: Send {
    /// Slots of the cache that it wants for itself.
    fn spare_slots(&self) -> usize {
        0
    }

    /// Runs a pass; `spare` is the first of its own slots.
    fn step(&mut self, decoder: &Decoder, cache: &Cache, spare: usize, rows: &[NewRow])
    -> Result<Logits<'_>>;
}

/// The way of the decoder's ordinary passes.
pub(crate) struct Plain(Box<dyn HostBuffer>);

impl Plain {
    pub(crate) fn new(device: &Device) -> Self {
        Self(ops::host_buffer(device))
    }
}

/// The way for a decoder on its device.
pub(crate) fn of(decoder: &Decoder) -> Result<Box<dyn Decode>> {
    #[cfg(feature = "cuda")]
    if decoder.device().is_cuda()
        && let Some(graphs) = crate::cuda::Graphs::new(decoder)?
    {
        return Ok(Box::new(graphs));
    }
    Ok(Box::new(Plain::new(decoder.device())))
}

impl Decode for Plain {
    fn step(&mut self, decoder: &Decoder, cache: &Cache, _: usize, rows: &[NewRow]) -> Result<Logits<'_>> {
        let mut batch = Batch::default();
        for (row, new) in rows.iter().enumerate() {
            batch.tokens.push(new.token);
            batch.positions.push(new.position);
            batch.slots.push(new.slot..new.slot + 1);
            batch.segments.push(Segment { rows: row..row + 1, keys: new.keys.clone() });
        }
        let hidden = decoder.forward(&batch, Some(cache))?;
        Ok(Logits::Rows(self.0.read(&decoder.logits(&hidden, None)?)?))
    }
}
