//! Attention over a batch's segments. A [`Plan`] is made once per pass and used by every layer.
//!
//! | file        | on                                                                            |
//! |-------------|-------------------------------------------------------------------------------|
//! | `cpu.rs`    | the CPU: our kernel takes segments as they are                                |
//! | `cuda.rs`   | NVIDIA GPUs: `crate::cuda`, with the feature of that name                     |
//! | `candle.rs` | Apple GPUs: padded matrix products of candle; no gradients                    |
//! | `groups.rs` | which segments share keys, for the two that pad                               |

mod candle;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod groups;

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use gradus_kernels::Precision;
use gradus_kernels::attention::{Mask, Segment};

use crate::Result;
use crate::device::on_device;

#[cfg(feature = "cuda")]
pub(crate) use cuda::over_rows;
#[cfg(feature = "cuda")]
pub(crate) use groups::{Group, connected, padded};

/// Shape of the attention of one model.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads.
    pub key: usize,
    /// Head dimension.
    pub dim: usize,
}

/// The attention plan of a batch, used by every layer.
pub struct Plan(Box<dyn Attend>);

/// What attention gives.
pub struct Attended {
    /// `[rows, query heads · dim]`.
    pub out: Tensor,
    /// The logarithms of each row's and head's sum, where the gradient needs them.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only NVIDIA GPUs keep them"))]
    sums: Option<Tensor>,
}

impl From<Tensor> for Attended {
    fn from(out: Tensor) -> Self {
        Self { out, sums: None }
    }
}

/// A plan of one device.
trait Attend: Send + Sync {
    /// See [`Plan::attend`].
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended>;

    /// See [`Plan::backward`].
    fn backward(
        &self,
        inputs: &Inputs<'_>,
        attended: &Attended,
        dout: &Tensor,
    ) -> Result<(Tensor, Tensor, Tensor)>;
}

/// What a layer's attention is computed from.
struct Inputs<'a> {
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    heads: Heads,
    mask: Mask,
    precision: Precision,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
struct PlanRequest<'a> {
    segments: &'a [Segment],
    rows: usize,
    /// Every mask that a layer uses.
    masks: &'a [Mask],
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only NVIDIA GPUs plan by heads"))]
    heads: Heads,
    /// Whether this is a pass over a cache, whose gradient nobody asks for.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only NVIDIA GPUs plan such a pass in their own way")
    )]
    cached: bool,
    dtype: DType,
    device: &'a Device,
}

impl Plan {
    /// Plans `segments` over `rows` rows; `masks` has every mask that a layer uses.
    pub(crate) fn new(
        segments: &[Segment],
        rows: usize,
        masks: &[Mask],
        heads: Heads,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let request = PlanRequest { segments, rows, masks, heads, cached: false, dtype, device };
        on_device!(device, plan(&request)).map(Self)
    }

    /// Like [`Plan::new`] for rows over a cache, whose gradient nobody asks for.
    pub(crate) fn cached(
        segments: &[Segment],
        rows: usize,
        masks: &[Mask],
        heads: Heads,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let request = PlanRequest { segments, rows, masks, heads, cached: true, dtype, device };
        on_device!(device, plan(&request)).map(Self)
    }

    /// q `[rows, query heads, dim]` over k and v `[slots, key heads, dim]` → `out`, `[rows, query heads · dim]`.
    pub fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        heads: Heads,
        mask: Mask,
        precision: Precision,
    ) -> Result<Attended> {
        self.0.attend(&Inputs { q, k, v, heads, mask, precision })
    }

    /// Gradients of [`Plan::attend`] with respect to q, k and v; `attended` is what it returned.
    pub fn backward(
        &self,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        attended: &Attended,
        dout: &Tensor,
        heads: Heads,
        mask: Mask,
        precision: Precision,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        self.0.backward(&Inputs { q, k, v, heads, mask, precision }, attended, dout)
    }
}

/// Which of a segment's keys row `within` sees.
pub(crate) fn visible(mask: Mask, keys: usize, rows: usize, within: usize) -> Range<usize> {
    match mask {
        Mask::Full => 0..keys,
        Mask::Causal { window } => {
            let end = keys - rows + within + 1;
            end.saturating_sub(window.unwrap_or(end))..end
        }
    }
}
