//! A projection y = W x + b, with a LoRA adapter beside it: y += B (A x).

use candle_core::Tensor;

use crate::Result;
use crate::ops;
use crate::weights::Weight;

/// A projection.
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Weight,
    /// One number per output.
    pub bias: Option<Tensor>,
    /// A low-rank addition.
    pub lora: Option<Lora>,
}

/// A low-rank addition to a projection; its scale is already in `b`.
pub struct Lora {
    /// `[rank, inputs]`.
    pub a: Weight,
    /// `[outputs, rank]`.
    pub b: Weight,
}

impl Linear {
    /// x `[m, inputs]` → `[m, outputs]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if let Weight::Packed(weight) = &self.weight {
            let lora = self.lora.as_ref().map(|lora| match (&lora.a, &lora.b) {
                (Weight::Packed(a), Weight::Packed(b)) => (&**a, &**b),
                _ => unreachable!("an adapter is on its model's device"),
            });
            return ops::project(x, weight, self.bias.as_ref(), lora);
        }
        let mut y = self.weight.multiply(x)?;
        if let Some(bias) = &self.bias {
            y = ops::add_bias(y, bias)?;
        }
        if let Some(lora) = &self.lora {
            y = lora.b.add_multiply(y, &lora.a.multiply(x)?)?;
        }
        Ok(y)
    }

    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> usize {
        let lora = self.lora.as_ref().map_or(0, |lora| lora.a.bytes() + lora.b.bytes());
        self.weight.bytes() + lora
    }
}
