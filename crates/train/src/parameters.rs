//! Trainable parameters with AdamW's moments, and their gradients.
//!
//! Values, gradients and moments are f32 wherever the model runs.

use candle_core::{DType, Tensor};
use gradus_engine::ops::{self, AdamWStep};

use crate::Result;
use crate::optimizer::AdamW;

/// A trainable tensor.
pub(crate) struct Parameter {
    /// Its name in a checkpoint, such as `layers.0.self_attn.q_proj.lora_A.weight`.
    pub(crate) name: String,
    /// Its values, in f32.
    pub(crate) value: Tensor,
    /// AdamW's first and second moments.
    pub(crate) moments: (Tensor, Tensor),
}

/// Index of a parameter in [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParameterId(usize);

/// All trainable tensors, in a fixed order.
#[derive(Default)]
pub(crate) struct Parameters {
    list: Vec<Parameter>,
}

impl Parameters {
    /// Adds a tensor and returns its index.
    pub(crate) fn add(&mut self, name: impl Into<String>, value: &Tensor) -> Result<ParameterId> {
        let value = value.to_dtype(DType::F32)?.contiguous()?;
        let moments = (value.zeros_like()?, value.zeros_like()?);
        self.list.push(Parameter { name: name.into(), value, moments });
        Ok(ParameterId(self.list.len() - 1))
    }

    /// The value of a parameter.
    pub(crate) fn value(&self, id: ParameterId) -> &Tensor {
        &self.list[id.0].value
    }

    /// All parameters.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.list.iter()
    }

    /// All indices, in the same order.
    #[cfg(test)]
    pub(crate) fn ids(&self) -> impl Iterator<Item = ParameterId> {
        (0..self.list.len()).map(ParameterId)
    }

    /// All parameters, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        self.list.iter_mut()
    }

    /// How many numbers the parameters have together.
    pub(crate) fn count(&self) -> usize {
        self.list.iter().map(|parameter| parameter.value.elem_count()).sum()
    }

    /// One optimizer step; `step` counts from 1. Parameters without a gradient stay as they are.
    pub(crate) fn update(
        &mut self,
        gradients: &Gradients,
        rate: f64,
        step: usize,
        adam: &AdamW,
    ) -> Result<()> {
        for (parameter, gradient) in self.list.iter_mut().zip(&gradients.list) {
            let Some(gradient) = gradient else { continue };
            let decay = if parameter.value.rank() > 1 { adam.weight_decay } else { 0.0 };
            let AdamW { beta1, beta2, epsilon, .. } = *adam;
            let by = AdamWStep { rate, beta1, beta2, epsilon, decay, step };
            (parameter.value, parameter.moments) =
                ops::adamw(&parameter.value, &parameter.moments, gradient, &by)?;
        }
        Ok(())
    }
}

/// Accumulated gradients, one for each parameter that has any.
pub(crate) struct Gradients {
    list: Vec<Option<Tensor>>,
}

impl Gradients {
    /// No gradients yet.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self { list: parameters.list.iter().map(|_| None).collect() }
    }

    /// Adds to a parameter's gradient.
    pub(crate) fn add(&mut self, id: ParameterId, gradient: &Tensor) -> Result<()> {
        let gradient = gradient.to_dtype(DType::F32)?;
        let slot = &mut self.list[id.0];
        *slot = Some(match slot.take() {
            Some(sum) => (sum + gradient)?,
            None => gradient,
        });
        Ok(())
    }

    /// A parameter's gradient.
    #[cfg(test)]
    pub(crate) fn get(&self, id: ParameterId) -> Option<&Tensor> {
        self.list[id.0].as_ref()
    }

    /// The global L2 norm.
    fn norm(&self) -> Result<f64> {
        Ok(ops::sum_of_squares(self.list.iter().flatten())?.sqrt())
    }

    /// Multiplies all gradients.
    fn scale(&mut self, factor: f64) -> Result<()> {
        for gradient in self.list.iter_mut().flatten() {
            *gradient = (&*gradient * factor)?;
        }
        Ok(())
    }

    /// Clips the global norm to `max_norm`, as PyTorch's `clip_grad_norm_` does; returns the norm before clipping.
    pub(crate) fn clip(&mut self, max_norm: f64) -> Result<f64> {
        let norm = self.norm()?;
        if max_norm > 0.0 && norm > max_norm {
            self.scale(max_norm / (norm + 1e-6))?;
        }
        Ok(norm)
    }
}
