//! The numbers that are trained, their gradients, and AdamW.
//!
//! Values, gradients and moments are f32 wherever the model runs.

use candle_core::{DType, Tensor};
use gradus_engine::ops::{self, AdamWStep};

use crate::Result;

/// A trained tensor.
pub struct Parameter {
    /// Its name in a checkpoint, such as `layers.0.self_attn.q_proj.lora_A.weight`.
    pub name: String,
    /// Its numbers, in f32.
    pub value: Tensor,
    /// AdamW's running means of the gradient and of its square.
    pub moments: (Tensor, Tensor),
}

/// Where a parameter is among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(usize);

/// All trained tensors, in a fixed order.
#[derive(Default)]
pub struct Parameters {
    list: Vec<Parameter>,
}

/// AdamW's settings (Loshchilov and Hutter, 2019), as in PyTorch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    /// How fast the gradient's mean forgets.
    pub beta1: f64,
    /// How fast the mean of its square forgets.
    pub beta2: f64,
    /// Keeps the division sane.
    pub epsilon: f64,
    /// Share of the rate by which matrices shrink at each step; vectors (norms, biases) do not.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl Parameters {
    /// Adds a tensor and returns its place.
    pub fn add(&mut self, name: impl Into<String>, value: &Tensor) -> Result<Id> {
        let value = value.to_dtype(DType::F32)?.contiguous()?;
        let moments = (value.zeros_like()?, value.zeros_like()?);
        self.list.push(Parameter { name: name.into(), value, moments });
        Ok(Id(self.list.len() - 1))
    }

    /// The numbers of one.
    pub fn value(&self, id: Id) -> &Tensor {
        &self.list[id.0].value
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.list.iter()
    }

    /// Their places, in the same order.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        (0..self.list.len()).map(Id)
    }

    /// All of them, to be restored.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        self.list.iter_mut()
    }

    /// Numbers that are trained.
    pub fn count(&self) -> usize {
        self.list.iter().map(|parameter| parameter.value.elem_count()).sum()
    }

    /// One step of AdamW; `step` counts from 1. Parameters without a gradient stay as they are.
    pub fn update(&mut self, gradients: &Gradients, rate: f64, step: usize, adam: &AdamW) -> Result<()> {
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

/// Sums of gradients, one for each parameter that has got any.
pub struct Gradients {
    list: Vec<Option<Tensor>>,
}

impl Gradients {
    /// None yet.
    pub fn new(parameters: &Parameters) -> Self {
        Self { list: parameters.list.iter().map(|_| None).collect() }
    }

    /// Adds to a parameter's gradient.
    pub fn add(&mut self, id: Id, gradient: &Tensor) -> Result<()> {
        let gradient = gradient.to_dtype(DType::F32)?;
        let slot = &mut self.list[id.0];
        *slot = Some(match slot.take() {
            Some(sum) => (sum + gradient)?,
            None => gradient,
        });
        Ok(())
    }

    /// A parameter's gradient.
    pub fn get(&self, id: Id) -> Option<&Tensor> {
        self.list[id.0].as_ref()
    }

    /// The length of all gradients taken as one vector.
    pub fn norm(&self) -> Result<f64> {
        Ok(ops::sum_of_squares(self.list.iter().flatten())?.sqrt())
    }

    /// Multiplies all gradients.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        for gradient in self.list.iter_mut().flatten() {
            *gradient = (&*gradient * factor)?;
        }
        Ok(())
    }

    /// Shortens the gradient to `limit` when it is longer, as PyTorch does; returns its length before.
    pub fn clip(&mut self, limit: f64) -> Result<f64> {
        let norm = self.norm()?;
        if limit > 0.0 && norm > limit {
            self.scale(limit / (norm + 1e-6))?;
        }
        Ok(norm)
    }
}
