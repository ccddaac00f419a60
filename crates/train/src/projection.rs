//! One projection in training: y = W x + b + s · B (A drop(x)), and its gradients.
//!
//! ```text
//! dx = dy·W + drop′((dy·sB)·A)     dA = (dy·sB)ᵀ·drop(x)     dB = s · dyᵀ·(drop(x)·Aᵀ)     dW = dyᵀ·x     db = Σ dy
//! ```

use candle_core::{DType, Tensor};
use gradus_engine::Precision;
use gradus_engine::ops;
use gradus_engine::parts::{Linear, Lora, Weight};

use crate::Result;
use crate::parameters::{Gradients, ParameterId, Parameters};

/// A projection's trainable parameters, and what its backward pass needs.
pub(crate) struct TrainableProjection {
    /// The transposed weight. Absent over a quantized base: it is made for each backward pass and dropped again.
    transposed: Option<Weight>,
    lora: Option<LoraParameters>,
    full: Option<FullParameters>,
}

struct LoraParameters {
    a: ParameterId,
    b: ParameterId,
    scale: f64,
    dropout: f32,
    /// Gives this projection a dropout mask of its own.
    salt: u64,
    a_transposed: Weight,
    b_transposed: Weight,
}

struct FullParameters {
    weight: ParameterId,
    bias: Option<ParameterId>,
}

/// A LoRA adapter to be attached.
pub(crate) struct NewLora {
    pub(crate) a: ParameterId,
    pub(crate) b: ParameterId,
    pub(crate) scale: f64,
    pub(crate) dropout: f32,
    pub(crate) salt: u64,
}

/// Data type and precision of matrix products.
#[derive(Clone, Copy)]
pub(crate) struct Arithmetic {
    pub(crate) dtype: DType,
    pub(crate) precision: Precision,
}

/// What every projection of one backward pass shares.
pub(crate) struct BackwardPass<'a> {
    /// Seed of the dropout masks; none outside training.
    pub(crate) seed: Option<u64>,
    /// Arithmetic of weight gradients.
    pub(crate) precision: Precision,
    /// Where gradients are accumulated.
    pub(crate) gradients: &'a mut Gradients,
}

impl TrainableProjection {
    /// A frozen projection; `keep` its transposed weight, or make it anew for each pass.
    pub(crate) fn frozen(linear: &Linear, keep: bool, dtype: DType) -> Result<Self> {
        let transposed = keep.then(|| linear.weight.transposed(dtype)).transpose()?;
        Ok(Self { transposed, lora: None, full: None })
    }

    /// Puts a LoRA adapter beside the frozen weight.
    pub(crate) fn attach(
        &mut self,
        new: &NewLora,
        linear: &mut Linear,
        parameters: &Parameters,
        arithmetic: Arithmetic,
    ) -> Result<()> {
        let NewLora { a, b, scale, dropout, salt } = *new;
        let (lora, a_transposed, b_transposed) = packed(parameters, a, b, scale, arithmetic)?;
        linear.lora = Some(lora);
        self.lora = Some(LoraParameters { a, b, scale, dropout, salt, a_transposed, b_transposed });
        Ok(())
    }

    /// Trains the weight itself, and the bias if there is one.
    pub(crate) fn unfreeze(&mut self, weight: ParameterId, bias: Option<ParameterId>) {
        self.full = Some(FullParameters { weight, bias });
    }

    /// The weight's own parameter, when it is trained.
    pub(crate) fn weight_parameter(&self) -> Option<ParameterId> {
        self.full.as_ref().map(|site| site.weight)
    }

    /// Copies the parameters' values into the model after an update.
    pub(crate) fn refresh(
        &mut self,
        linear: &mut Linear,
        parameters: &Parameters,
        arithmetic: Arithmetic,
    ) -> Result<()> {
        if let Some(site) = &mut self.lora {
            let (lora, a, b) = packed(parameters, site.a, site.b, site.scale, arithmetic)?;
            (linear.lora, site.a_transposed, site.b_transposed) = (Some(lora), a, b);
        }
        if let Some(site) = &self.full {
            let Arithmetic { dtype, precision } = arithmetic;
            linear.weight = Weight::from_values(parameters.value(site.weight), dtype, precision)?;
            self.transposed = Some(linear.weight.transposed(dtype)?);
            if let Some(bias) = site.bias {
                linear.bias = Some(parameters.value(bias).to_dtype(dtype)?);
            }
        }
        Ok(())
    }

    /// y for x `[m, inputs]`; `seed` is that of the dropout mask.
    pub(crate) fn forward(&self, linear: &Linear, x: &Tensor, seed: Option<u64>) -> Result<Tensor> {
        let mut y = linear.weight.expanded(x.dtype())?.multiply(x)?;
        if let Some(bias) = &linear.bias {
            y = ops::add_bias(y, bias)?;
        }
        if let (Some(site), Some(lora)) = (&self.lora, &linear.lora) {
            y = lora.b.add_multiply(y, &lora.a.multiply(&site.dropped(x, seed)?)?)?;
        }
        Ok(y)
    }

    /// Accumulates the gradients of what is trained, and returns the gradient with respect to x, added to `dx` where
    /// x has a gradient from elsewhere already.
    pub(crate) fn backward(
        &self,
        dx: Option<Tensor>,
        linear: &Linear,
        x: &Tensor,
        dy: &Tensor,
        backward: &mut BackwardPass<'_>,
    ) -> Result<Tensor> {
        let BackwardPass { seed, precision, gradients } = backward;
        let (seed, precision) = (*seed, *precision);
        let made;
        let transposed = match &self.transposed {
            Some(transposed) => transposed,
            None => {
                made = linear.weight.transposed(dy.dtype())?;
                &made
            }
        };
        let mut dx = match dx {
            Some(dx) => transposed.add_multiply(dx, dy)?,
            None => transposed.multiply(dy)?,
        };
        if let Some(site) = &self.full {
            gradients.add(site.weight, &ops::weight_gradient(dy, x, precision)?)?;
            if let Some(bias) = site.bias {
                gradients.add(bias, &dy.to_dtype(DType::F32)?.sum(0)?)?;
            }
        }
        if let (Some(site), Some(lora)) = (&self.lora, &linear.lora) {
            let dropped = site.dropped(x, seed)?;
            let narrow = lora.a.multiply(&dropped)?;
            let d_narrow = site.b_transposed.multiply(dy)?;
            let db = ops::weight_gradient(dy, &narrow, precision)?;
            gradients.add(site.b, &(db * site.scale)?)?;
            gradients.add(site.a, &ops::weight_gradient(&d_narrow, &dropped, precision)?)?;
            // Dropout is linear: its gradient has the same mask and scale.
            dx = match seed {
                Some(_) if site.dropout > 0.0 => {
                    (dx + site.dropped(&site.a_transposed.multiply(&d_narrow)?, seed)?)?
                }
                _ => site.a_transposed.add_multiply(dx, &d_narrow)?,
            };
        }
        Ok(dx)
    }
}

impl LoraParameters {
    /// x after dropout; unchanged outside training.
    fn dropped(&self, x: &Tensor, seed: Option<u64>) -> Result<Tensor> {
        match seed {
            Some(seed) if self.dropout > 0.0 => Ok(ops::dropout(x, self.dropout, seed ^ self.salt)?),
            _ => Ok(x.clone()),
        }
    }
}

/// A and scaled B, and both transposed, ready for products.
fn packed(
    parameters: &Parameters,
    a: ParameterId,
    b: ParameterId,
    scale: f64,
    Arithmetic { dtype, precision }: Arithmetic,
) -> Result<(Lora, Weight, Weight)> {
    let pack = |values: &Tensor| Weight::from_values(values, dtype, precision);
    let a = pack(parameters.value(a))?;
    let b = pack(&(parameters.value(b) * scale)?)?;
    let (a_transposed, b_transposed) = (a.transposed(dtype)?, b.transposed(dtype)?);
    Ok((Lora { a, b }, a_transposed, b_transposed))
}
