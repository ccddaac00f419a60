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
        let mut y = match &self.weight {
            Weight::Dense(weight) => {
                let [y] = ops::multiply_dense(x, [(weight, self.bias.as_ref())])?;
                y
            }
            other => {
                let y = other.multiply(x)?;
                match &self.bias {
                    Some(bias) => ops::add_bias(y, bias)?,
                    None => y,
                }
            }
        };
        if let Some(lora) = &self.lora {
            y = lora.b.add_multiply(y, &lora.a.multiply(x)?)?;
        }
        Ok(y)
    }

    /// Its weight and bias, where these are tensors without an adapter beside them.
    fn plain(&self) -> Option<(&Tensor, Option<&Tensor>)> {
        match (&self.weight, &self.lora) {
            (Weight::Dense(weight), None) => Some((weight, self.bias.as_ref())),
            _ => None,
        }
    }

    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> usize {
        let lora = self.lora.as_ref().map_or(0, |lora| lora.a.bytes() + lora.b.bytes());
        self.weight.bytes() + lora
    }
}

/// Several projections of the same rows: one launch where a GPU can.
pub(crate) fn together<const N: usize>(linears: [&Linear; N], x: &Tensor) -> Result<[Tensor; N]> {
    let plain: Option<Vec<_>> = linears.iter().map(|linear| linear.plain()).collect();
    if let Some(Ok(plain)) = plain.map(<[_; N]>::try_from) {
        return ops::multiply_dense(x, plain);
    }
    let each: Vec<Tensor> = linears.iter().map(|linear| linear.forward(x)).collect::<Result<_>>()?;
    Ok(each.try_into().expect("one for each"))
}

/// silu(gate x) · up x.
pub(crate) fn gated(gate: &Linear, up: &Linear, x: &Tensor) -> Result<Tensor> {
    if let (Some((gate, None)), Some((up, None))) = (gate.plain(), up.plain()) {
        return ops::gated_dense(x, gate, up);
    }
    ops::silu_mul(&gate.forward(x)?, &up.forward(x)?)
}
