//! A trainable model: its parameters, forward pass, backward pass and optimizer step.
//!
//! The backward pass is written out layer by layer, over tensors, without an autograd graph. Each layer's input is
//! kept; its other activations are kept from the last layer down, as far as a memory budget allows, and are recomputed
//! otherwise (activation checkpointing).

use candle_core::{DType, Device, Tensor};
use gradus_engine::batch::Batch;
use gradus_engine::ops;
use gradus_engine::parts::{Head, Pass, Weight};
use gradus_engine::{Model, Precision};

use crate::layer::{
    LayerActivations, LayerPass, MODULES, TrainableLayer, TrainableNorms, activation_bytes, linears,
};
use crate::lora::{self, LoraConfig};
use crate::optimizer::AdamW;
use crate::parameters::{Gradients, ParameterId, Parameters};
use crate::projection::{Arithmetic, NewLora, TrainableProjection};
use crate::{Error, Result};

/// Which weights are trained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tuning {
    /// Low-rank adapters on a frozen base.
    Lora(LoraConfig),
    /// All of them: full fine-tuning.
    Full,
}

/// How a model is trained, whatever the objective.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrainableOptions {
    /// Which weights are trained.
    pub(crate) tuning: Tuning,
    /// Arithmetic of matrix products on a CPU.
    pub(crate) precision: Precision,
    /// Whether frozen weights stay as the file has them (QLoRA) and are expanded layer by layer.
    pub(crate) quantized: bool,
    /// Memory for activations; beyond it, layers are recomputed in the backward pass.
    pub(crate) activation_bytes: usize,
    /// Seed of new parameters.
    pub(crate) seed: u64,
}

/// A model and its trainable parameters.
pub(crate) struct TrainableModel {
    /// The model; it always has the newest parameters, so it can be used between updates.
    pub(crate) model: Model,
    /// The trainable parameters.
    pub(crate) parameters: Parameters,
    layers: Vec<TrainableLayer>,
    /// The embedding table and the final norm, in full fine-tuning.
    ends: Option<EmbeddingAndNorm>,
    /// The output projection, when it is trained apart from the embedding.
    output: Option<TrainableProjection>,
    /// The transposed output projection, for gradients of token probabilities; made when first needed.
    output_transposed: Option<Weight>,
    pub(crate) head: Option<Vec<TrainableProjection>>,
    head_names: Vec<String>,
    /// The parameters' values before training.
    start: Vec<Tensor>,
    arithmetic: Arithmetic,
    options: TrainableOptions,
}

/// Parameters outside of the layers.
struct EmbeddingAndNorm {
    embedding: ParameterId,
    norm: ParameterId,
}

/// A forward pass that keeps what the backward pass needs.
pub(crate) struct Tape {
    pass: Pass,
    tokens: Vec<u32>,
    inputs: Vec<Tensor>,
    kept: Vec<Option<LayerActivations>>,
    last: Tensor,
    seed: Option<u64>,
    /// Final hidden states, normalized, one row per token.
    pub(crate) hidden: Tensor,
}

impl TrainableModel {
    /// Prepares a loaded model; new parameters start from the seed.
    pub(crate) fn new(mut model: Model, options: TrainableOptions) -> Result<Self> {
        let decoder = model.decoder_mut()?;
        let device = decoder.device().clone();
        let arithmetic = Arithmetic { dtype: decoder.dtype, precision: options.precision };
        if let Some(output) = &mut decoder.output {
            output.weight = output.weight.expanded(arithmetic.dtype)?;
        }
        let mut parameters = Parameters::default();
        let mut layers = Vec::with_capacity(decoder.layers.len());
        if let Tuning::Lora(lora) = &options.tuning {
            lora.check()?;
        }
        for (number, layer) in decoder.layers.iter_mut().enumerate() {
            let mut projections = Vec::with_capacity(MODULES.len());
            for (index, (module, linear)) in MODULES.iter().zip(linears(layer)).enumerate() {
                let name = format!("layers.{number}.{module}");
                let mut projection =
                    TrainableProjection::frozen(linear, !options.quantized, arithmetic.dtype)?;
                match &options.tuning {
                    Tuning::Lora(lora) if lora.wants(module) => {
                        let (outputs, inputs) = linear.weight.shape()?;
                        let (a, b) = lora.initial(&name, outputs, inputs, options.seed)?;
                        let on_device = |x: Tensor| x.to_device(&device);
                        let new = NewLora {
                            a: parameters.add(format!("{name}.lora_A.weight"), &on_device(a)?)?,
                            b: parameters.add(format!("{name}.lora_B.weight"), &on_device(b)?)?,
                            scale: lora.scale(),
                            dropout: lora.dropout as f32,
                            salt: lora::salt(number * MODULES.len() + index),
                        };
                        projection.attach(&new, linear, &parameters, arithmetic)?;
                    }
                    Tuning::Lora(_) => {}
                    Tuning::Full => {
                        let weight = parameters.add(format!("{name}.weight"), &linear.weight.values()?)?;
                        let bias = linear.bias.as_ref();
                        let bias =
                            bias.map(|bias| parameters.add(format!("{name}.bias"), bias)).transpose()?;
                        projection.unfreeze(weight, bias);
                    }
                }
                projections.push(projection);
            }
            let norms = match &options.tuning {
                Tuning::Lora(_) => None,
                Tuning::Full => {
                    let mut norm = |name: &str, weight: &Tensor| {
                        parameters.add(format!("layers.{number}.{name}.weight"), weight)
                    };
                    Some(TrainableNorms {
                        attention: norm("input_layernorm", &layer.attention_norm)?,
                        mlp: norm("post_attention_layernorm", &layer.mlp_norm)?,
                        query: layer.q_norm.as_ref().map(|w| norm("self_attn.q_norm", w)).transpose()?,
                        key: layer.k_norm.as_ref().map(|w| norm("self_attn.k_norm", w)).transpose()?,
                    })
                }
            };
            let projections = projections.try_into().ok().expect("one projection for each module");
            layers.push(TrainableLayer { projections, norms });
        }
        let mut output = None;
        let mut ends = None;
        if options.tuning == Tuning::Full {
            let embedding = parameters.add("embed_tokens.weight", &decoder.embedding.values()?)?;
            ends = Some(EmbeddingAndNorm { embedding, norm: parameters.add("norm.weight", &decoder.norm)? });
            if let (Some(linear), false) = (&decoder.output, decoder.config.tied) {
                let mut projection = TrainableProjection::frozen(linear, false, arithmetic.dtype)?;
                projection.unfreeze(parameters.add("lm_head.weight", &linear.weight.values()?)?, None);
                output = Some(projection);
            }
        }
        let mut trainable = Self {
            model,
            parameters,
            layers,
            ends,
            output,
            output_transposed: None,
            head: None,
            head_names: Vec::new(),
            start: Vec::new(),
            arithmetic,
            options,
        };
        trainable.refresh()?;
        Ok(trainable)
    }

    /// Its options.
    pub(crate) fn options(&self) -> &TrainableOptions {
        &self.options
    }

    /// Its device.
    pub(crate) fn device(&self) -> Result<Device> {
        Ok(self.model.decoder()?.device().clone())
    }

    /// Adds a reward head to what is trained, starting from the head's own weights.
    pub(crate) fn train_head(&mut self, head: Head) -> Result<()> {
        let mut projections = Vec::new();
        self.head_names.clear();
        for (name, linear) in head.projections() {
            let mut projection = TrainableProjection::frozen(linear, true, self.arithmetic.dtype)?;
            let weight = self.parameters.add(format!("{name}.weight"), &linear.weight.values()?)?;
            let bias = linear.bias.as_ref();
            let bias = bias.map(|bias| self.parameters.add(format!("{name}.bias"), bias)).transpose()?;
            projection.unfreeze(weight, bias);
            projections.push(projection);
            self.head_names.push(name);
        }
        *self.model.head_mut()? = Some(head);
        self.head = Some(projections);
        self.refresh()
    }

    /// Names of the trained head's projections.
    pub(crate) fn head_names(&self) -> Vec<&str> {
        self.head_names.iter().map(String::as_str).collect()
    }

    /// Runs a batch and keeps what [`TrainableModel::backward`] needs. Without a seed there is no dropout.
    pub(crate) fn forward(&self, batch: &Batch, seed: Option<u64>) -> Result<Tape> {
        let decoder = self.model.decoder()?;
        let pass = decoder.pass(batch)?;
        let layer_pass = self.layer_pass(&pass, seed)?;
        let affordable = self.options.activation_bytes / (activation_bytes(decoder) * batch.len()).max(1);
        let first_kept = decoder.layers.len().saturating_sub(affordable);
        let mut x = decoder.embed(&batch.tokens)?;
        let (mut inputs, mut kept) = (Vec::new(), Vec::new());
        for (number, (layer, trainable)) in decoder.layers.iter().zip(&self.layers).enumerate() {
            let (y, keep) = layer_pass.forward(layer, trainable, &x)?;
            kept.push((number >= first_kept).then_some(keep));
            inputs.push(std::mem::replace(&mut x, y));
        }
        let hidden = ops::rms_norm(&x, &decoder.norm, decoder.config.norm_eps)?;
        Ok(Tape { pass, tokens: batch.tokens.clone(), inputs, kept, last: x, seed, hidden })
    }

    /// Final hidden states of a batch, for inference.
    pub(crate) fn hidden(&self, batch: &Batch) -> Result<Tensor> {
        Ok(self.model.decoder()?.hidden(batch)?)
    }

    /// Accumulates the gradients of all parameters, given that of the hidden states; returns that of the embeddings.
    pub(crate) fn backward(
        &self,
        tape: Tape,
        d_hidden: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let Tape { pass, tokens, mut inputs, mut kept, last, seed, hidden: _ } = tape;
        let decoder = self.model.decoder()?;
        let eps = decoder.config.norm_eps;
        let layer_pass = self.layer_pass(&pass, seed)?;
        if let Some(ends) = &self.ends {
            gradients.add(ends.norm, &ops::rms_norm_weight_gradient(&last, eps, d_hidden)?)?;
        }
        let mut dx = ops::rms_norm_backward(&last, &decoder.norm, eps, d_hidden)?;
        drop(last);
        for (layer, trainable) in decoder.layers.iter().zip(&self.layers).rev() {
            let x = inputs.pop().expect("one input for each layer");
            let kept = match kept.pop().expect("one entry for each layer") {
                Some(kept) => kept,
                None => layer_pass.forward(layer, trainable, &x)?.1,
            };
            dx = layer_pass.backward(layer, trainable, &x, kept, &dx, gradients)?;
        }
        if let Some(ends) = &self.ends {
            let table = self.parameters.value(ends.embedding);
            let tokens = Tensor::new(tokens, table.device())?;
            let gradient = table.zeros_like()?.index_add(&tokens, &dx.to_dtype(DType::F32)?, 0)?;
            gradients.add(ends.embedding, &gradient)?;
        }
        Ok(dx)
    }

    /// One optimizer step; `step` counts from 1. The model has the new weights afterwards.
    pub(crate) fn update(
        &mut self,
        gradients: &Gradients,
        rate: f64,
        step: usize,
        adam: &AdamW,
    ) -> Result<()> {
        self.parameters.update(gradients, rate, step, adam)?;
        self.refresh()
    }

    /// The parameters' values before any training, also in a run that was resumed.
    pub(crate) fn starting_values(&self) -> &[Tensor] {
        &self.start
    }

    /// Replaces the parameters' values, and returns the old ones.
    pub(crate) fn replace_values(&mut self, values: &[Tensor]) -> Result<Vec<Tensor>> {
        let old = self
            .parameters
            .iter_mut()
            .zip(values)
            .map(|(parameter, value)| std::mem::replace(&mut parameter.value, value.clone()));
        let old = old.collect();
        self.refresh()?;
        Ok(old)
    }

    /// Remembers the current values as those that training starts from.
    pub(crate) fn mark_start(&mut self) -> Result<()> {
        // Copied, because updates on a GPU happen in place.
        let copies = self.parameters.iter().map(|parameter| parameter.value.copy());
        self.start = copies.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Copies the parameters' values into the model.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let Self { model, parameters, layers, ends, output, arithmetic, .. } = self;
        let Arithmetic { dtype, precision } = *arithmetic;
        let decoder = model.decoder_mut()?;
        for (layer, trainable) in decoder.layers.iter_mut().zip(layers) {
            for (linear, projection) in linears(layer).into_iter().zip(&mut trainable.projections) {
                projection.refresh(linear, parameters, *arithmetic)?;
            }
            if let Some(norms) = &trainable.norms {
                layer.attention_norm = parameters.value(norms.attention).to_dtype(dtype)?;
                layer.mlp_norm = parameters.value(norms.mlp).to_dtype(dtype)?;
                let value =
                    |id: Option<ParameterId>| id.map(|id| parameters.value(id).to_dtype(dtype)).transpose();
                (layer.q_norm, layer.k_norm) = (value(norms.query)?, value(norms.key)?);
            }
        }
        if let Some(ends) = ends {
            decoder.norm = parameters.value(ends.norm).to_dtype(dtype)?;
            decoder.embedding = Weight::from_values(parameters.value(ends.embedding), dtype, precision)?;
            match (&mut decoder.output, output) {
                (Some(linear), Some(projection)) => projection.refresh(linear, parameters, *arithmetic)?,
                (Some(linear), None) => linear.weight = decoder.embedding.clone(),
                (None, _) => {}
            }
            self.output_transposed = None;
        }
        if let (Some(head), Some(projections)) = (model.head_mut()?, &mut self.head) {
            for (linear, projection) in head.projections_mut().into_iter().zip(projections) {
                projection.refresh(linear, parameters, *arithmetic)?;
            }
        }
        Ok(())
    }

    /// Backward pass of the output projection: dY · W, and the weight's gradient when it is trained.
    pub(crate) fn output_backward(
        &mut self,
        hidden: &Tensor,
        d_logits: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let decoder = self.model.decoder()?;
        let linear = decoder.output.as_ref().ok_or_else(no_output)?;
        if let Some(id) = self.output_parameter() {
            let gradient = ops::weight_gradient(d_logits, hidden, self.arithmetic.precision)?;
            gradients.add(id, &gradient)?;
        }
        let transposed = match &mut self.output_transposed {
            Some(transposed) => transposed,
            missing => missing.insert(linear.weight.transposed(self.arithmetic.dtype)?),
        };
        Ok(transposed.multiply(d_logits)?)
    }

    /// The parameter behind the output projection, if it is trained.
    pub(crate) fn output_parameter(&self) -> Option<ParameterId> {
        match (&self.output, &self.ends) {
            (Some(projection), _) => projection.weight_parameter(),
            (None, Some(ends)) => Some(ends.embedding),
            (None, None) => None,
        }
    }

    pub(crate) fn precision(&self) -> Precision {
        self.arithmetic.precision
    }

    fn layer_pass<'a>(&self, pass: &'a Pass, seed: Option<u64>) -> Result<LayerPass<'a>> {
        let decoder = self.model.decoder()?;
        Ok(LayerPass {
            heads: decoder.heads(),
            eps: decoder.config.norm_eps,
            pass,
            precision: (decoder.precision, self.arithmetic.precision),
            seed,
        })
    }
}

pub(crate) fn no_output() -> Error {
    Error::Model("this model has no output projection (lm_head): train a head instead".to_owned())
}
