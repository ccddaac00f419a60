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
use crate::parameters::{Gradients, Id, Parameters};

/// What training knows of one projection.
pub(crate) struct Site {
    /// The transposed weight. Absent over a quantised base: it is made for each pass and dropped again.
    transposed: Option<Weight>,
    lora: Option<LoraSite>,
    whole: Option<WholeSite>,
}

struct LoraSite {
    a: Id,
    b: Id,
    scale: f64,
    dropout: f32,
    /// Distinguishes this projection's dropped places from another's.
    salt: u64,
    a_transposed: Weight,
    b_transposed: Weight,
}

struct WholeSite {
    weight: Id,
    bias: Option<Id>,
}

/// A LoRA addition to be attached.
pub(crate) struct NewLora {
    pub(crate) a: Id,
    pub(crate) b: Id,
    pub(crate) scale: f64,
    pub(crate) dropout: f32,
    pub(crate) salt: u64,
}

/// How numbers are kept for products.
#[derive(Clone, Copy)]
pub(crate) struct Arithmetic {
    pub(crate) dtype: DType,
    pub(crate) precision: Precision,
}

impl Site {
    /// A frozen projection; `keep` its transposed weight, or make it anew for each pass.
    pub(crate) fn frozen(linear: &Linear, keep: bool, dtype: DType) -> Result<Self> {
        let transposed = keep.then(|| linear.weight.transposed(dtype)).transpose()?;
        Ok(Self { transposed, lora: None, whole: None })
    }

    /// Puts a LoRA addition beside the frozen weight.
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
        self.lora = Some(LoraSite { a, b, scale, dropout, salt, a_transposed, b_transposed });
        Ok(())
    }

    /// Trains the weight itself, and the bias if there is one.
    pub(crate) fn open(&mut self, weight: Id, bias: Option<Id>) {
        self.whole = Some(WholeSite { weight, bias });
    }

    /// The weight's own parameter, when it is trained.
    pub(crate) fn weight_parameter(&self) -> Option<Id> {
        self.whole.as_ref().map(|site| site.weight)
    }

    /// Takes the parameters' numbers over after an update.
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
        if let Some(site) = &self.whole {
            let Arithmetic { dtype, precision } = arithmetic;
            linear.weight = Weight::from_values(parameters.value(site.weight), dtype, precision)?;
            self.transposed = Some(linear.weight.transposed(dtype)?);
            if let Some(bias) = site.bias {
                linear.bias = Some(parameters.value(bias).to_dtype(dtype)?);
            }
        }
        Ok(())
    }

    /// y for x `[m, inputs]`; the seed decides what dropout drops.
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

    /// Adds the gradients of what is trained, and returns the gradient with respect to x.
    pub(crate) fn backward(
        &self,
        linear: &Linear,
        x: &Tensor,
        dy: &Tensor,
        seed: Option<u64>,
        gradients: &mut Gradients,
        precision: Precision,
    ) -> Result<Tensor> {
        self.backward_onto(None, linear, x, dy, seed, gradients, precision)
    }

    /// Like [`Site::backward`], added to the gradient that x has already got from elsewhere.
    #[allow(clippy::too_many_arguments, reason = "those of backward and one more")]
    pub(crate) fn backward_onto(
        &self,
        past: Option<Tensor>,
        linear: &Linear,
        x: &Tensor,
        dy: &Tensor,
        seed: Option<u64>,
        gradients: &mut Gradients,
        precision: Precision,
    ) -> Result<Tensor> {
        let made;
        let transposed = match &self.transposed {
            Some(transposed) => transposed,
            None => {
                made = linear.weight.transposed(dy.dtype())?;
                &made
            }
        };
        let mut dx = match past {
            Some(past) => transposed.add_multiply(past, dy)?,
            None => transposed.multiply(dy)?,
        };
        if let Some(site) = &self.whole {
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
            // Dropping is linear: its gradient drops and scales the same places.
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

impl LoraSite {
    /// x without what dropout drops; all of it outside training.
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
    a: Id,
    b: Id,
    scale: f64,
    Arithmetic { dtype, precision }: Arithmetic,
) -> Result<(Lora, Weight, Weight)> {
    let place = |values: &Tensor| Weight::from_values(values, dtype, precision);
    let a = place(parameters.value(a))?;
    let b = place(&(parameters.value(b) * scale)?)?;
    let (a_transposed, b_transposed) = (a.transposed(dtype)?, b.transposed(dtype)?);
    Ok((Lora { a, b }, a_transposed, b_transposed))
}
