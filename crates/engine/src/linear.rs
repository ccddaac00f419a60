//! A projection y = W x + b, with a LoRA adapter beside it: y += B (A x).

use candle_core::Tensor;

use crate::Result;
use crate::weights::Weight;

/// A projection.
pub(crate) struct Linear {
    pub(crate) weight: Weight,
    pub(crate) bias: Option<Tensor>,
    pub(crate) lora: Option<Lora>,
}

/// A low-rank addition to a projection; its scale is already in `b`.
pub(crate) struct Lora {
    pub(crate) a: Weight,
    pub(crate) b: Weight,
}

impl Linear {
    /// x `[m, inputs]` → `[m, outputs]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = self.weight.multiply(x)?;
        if let Some(bias) = &self.bias {
            y = y.broadcast_add(bias)?;
        }
        if let Some(lora) = &self.lora {
            y = (y + lora.b.multiply(&lora.a.multiply(x)?)?)?;
        }
        Ok(y)
    }

    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> usize {
        let lora = self.lora.as_ref().map_or(0, |lora| lora.a.bytes() + lora.b.bytes());
        self.weight.bytes() + lora
    }
}
