//! A model in training: what is trained in it, one pass forward and back, and the update.
//!
//! The backward pass is written out layer by layer, over tensors, without a graph. Each layer's input is kept; what
//! the layer computed on the way is kept as well as long as a budget of memory lasts, from the last layer down, and
//! computed again otherwise.

use candle_core::{DType, Device, Tensor};
use gradus_engine::batch::Batch;
use gradus_engine::ops;
use gradus_engine::parts::{Head, Pass, Weight};
use gradus_engine::{Model, Precision};

use crate::layer::{Kept, LayerSites, MODULES, NormSites, Runner, kept_bytes, linears};
use crate::lora;
use crate::parameters::{AdamW, Gradients, Id, Parameters};
use crate::projection::{Arithmetic, NewLora, Site};
use crate::run::recipe::Lora;
use crate::{Error, Result};

/// What of a model is trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// A low-rank addition to chosen projections; the base is frozen.
    Lora(Lora),
    /// Every weight.
    Whole,
}

/// How a model is trained, whatever the objective.
#[derive(Debug, Clone, PartialEq)]
pub struct TraineeOptions {
    /// What is trained.
    pub method: Method,
    /// Arithmetic of matrix products on a CPU.
    pub precision: Precision,
    /// Whether frozen weights stay as the file has them (QLoRA) and are expanded layer by layer.
    pub quantised: bool,
    /// Bytes for what layers compute on the way; beyond it, layers are computed again in the backward pass.
    pub activation_bytes: usize,
    /// Decides how new parameters start and what dropout drops.
    pub seed: u64,
}

/// A model in training.
pub struct Trainee {
    /// The model; it always has the newest parameters, so it can be used between updates.
    pub model: Model,
    /// What is trained.
    pub parameters: Parameters,
    layers: Vec<LayerSites>,
    /// The embedding table and the last norm, when all is trained.
    ends: Option<Ends>,
    /// The output projection, when it is trained apart from the embedding.
    output: Option<Site>,
    /// The transposed output projection, for gradients of token probabilities; made when first needed.
    output_transposed: Option<Weight>,
    pub(crate) head: Option<Vec<Site>>,
    head_names: Vec<String>,
    /// The parameters' numbers before training.
    start: Vec<Tensor>,
    arithmetic: Arithmetic,
    options: TraineeOptions,
}

struct Ends {
    embedding: Id,
    norm: Id,
}

/// A pass forward that can go back.
pub struct Tape {
    pass: Pass,
    tokens: Vec<u32>,
    inputs: Vec<Tensor>,
    kept: Vec<Option<Kept>>,
    last: Tensor,
    seed: Option<u64>,
    /// Final hidden states, normalised, one row per token.
    pub hidden: Tensor,
}

impl Trainee {
    /// Prepares a loaded model; new parameters start from the seed.
    pub fn new(mut model: Model, options: TraineeOptions) -> Result<Self> {
        let decoder = model.decoder_mut()?;
        let device = decoder.device().clone();
        let arithmetic = Arithmetic { dtype: decoder.dtype, precision: options.precision };
        if let Some(output) = &mut decoder.output {
            output.weight = output.weight.expanded(arithmetic.dtype)?;
        }
        let mut parameters = Parameters::default();
        let mut layers = Vec::with_capacity(decoder.layers.len());
        if let Method::Lora(lora) = &options.method {
            lora.check()?;
        }
        for (number, layer) in decoder.layers.iter_mut().enumerate() {
            let mut sites = Vec::with_capacity(MODULES.len());
            for (place, (module, linear)) in MODULES.iter().zip(linears(layer)).enumerate() {
                let name = format!("layers.{number}.{module}");
                let mut site = Site::frozen(linear, !options.quantised, arithmetic.dtype)?;
                match &options.method {
                    Method::Lora(lora) if lora.wants(module) => {
                        let (outputs, inputs) = linear.weight.shape()?;
                        let (a, b) = lora.start(&name, outputs, inputs, options.seed)?;
                        let on_device = |x: Tensor| x.to_device(&device);
                        let new = NewLora {
                            a: parameters.add(format!("{name}.lora_A.weight"), &on_device(a)?)?,
                            b: parameters.add(format!("{name}.lora_B.weight"), &on_device(b)?)?,
                            scale: lora.scale(),
                            dropout: lora.dropout as f32,
                            salt: lora::salt(number * MODULES.len() + place),
                        };
                        site.attach(&new, linear, &parameters, arithmetic)?;
                    }
                    Method::Lora(_) => {}
                    Method::Whole => {
                        let weight = parameters.add(format!("{name}.weight"), &linear.weight.values()?)?;
                        let bias = linear.bias.as_ref();
                        let bias =
                            bias.map(|bias| parameters.add(format!("{name}.bias"), bias)).transpose()?;
                        site.open(weight, bias);
                    }
                }
                sites.push(site);
            }
            let norms = match &options.method {
                Method::Lora(_) => None,
                Method::Whole => {
                    let mut norm = |name: &str, weight: &Tensor| {
                        parameters.add(format!("layers.{number}.{name}.weight"), weight)
                    };
                    Some(NormSites {
                        attention: norm("input_layernorm", &layer.attention_norm)?,
                        mlp: norm("post_attention_layernorm", &layer.mlp_norm)?,
                        query: layer.q_norm.as_ref().map(|w| norm("self_attn.q_norm", w)).transpose()?,
                        key: layer.k_norm.as_ref().map(|w| norm("self_attn.k_norm", w)).transpose()?,
                    })
                }
            };
            let projections = sites.try_into().ok().expect("one site for each module");
            layers.push(LayerSites { projections, norms });
        }
        let mut output = None;
        let mut ends = None;
        if options.method == Method::Whole {
            let embedding = parameters.add("embed_tokens.weight", &decoder.embedding.values()?)?;
            ends = Some(Ends { embedding, norm: parameters.add("norm.weight", &decoder.norm)? });
            if let (Some(linear), false) = (&decoder.output, decoder.config.tied) {
                let mut site = Site::frozen(linear, false, arithmetic.dtype)?;
                site.open(parameters.add("lm_head.weight", &linear.weight.values()?)?, None);
                output = Some(site);
            }
        }
        let mut trainee = Self {
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
        trainee.refresh()?;
        Ok(trainee)
    }

    /// How it is trained.
    pub fn options(&self) -> &TraineeOptions {
        &self.options
    }

    /// Where it runs.
    pub fn device(&self) -> Result<Device> {
        Ok(self.model.decoder()?.device().clone())
    }

    /// Trains a reward head as a whole, from its own weights.
    pub fn train_head(&mut self, head: Head) -> Result<()> {
        let mut sites = Vec::new();
        self.head_names.clear();
        for (name, linear) in head.projections() {
            let mut site = Site::frozen(linear, true, self.arithmetic.dtype)?;
            let weight = self.parameters.add(format!("{name}.weight"), &linear.weight.values()?)?;
            let bias = linear.bias.as_ref();
            let bias = bias.map(|bias| self.parameters.add(format!("{name}.bias"), bias)).transpose()?;
            site.open(weight, bias);
            sites.push(site);
            self.head_names.push(name);
        }
        *self.model.head_mut()? = Some(head);
        self.head = Some(sites);
        self.refresh()
    }

    /// The projections of the head that is trained.
    pub(crate) fn head_names(&self) -> Vec<&str> {
        self.head_names.iter().map(String::as_str).collect()
    }

    /// Runs a batch and keeps what [`Trainee::backward`] needs. Without a seed nothing is dropped.
    pub fn forward(&self, batch: &Batch, seed: Option<u64>) -> Result<Tape> {
        let decoder = self.model.decoder()?;
        let pass = decoder.pass(batch)?;
        let runner = self.runner(&pass, seed)?;
        let affordable = self.options.activation_bytes / (kept_bytes(decoder) * batch.len()).max(1);
        let first_kept = decoder.layers.len().saturating_sub(affordable);
        let mut x = decoder.embed(&batch.tokens)?;
        let (mut inputs, mut kept) = (Vec::new(), Vec::new());
        for (number, (layer, sites)) in decoder.layers.iter().zip(&self.layers).enumerate() {
            let (y, keep) = runner.forward(layer, sites, &x)?;
            kept.push((number >= first_kept).then_some(keep));
            inputs.push(std::mem::replace(&mut x, y));
        }
        let hidden = ops::rms_norm(&x, &decoder.norm, decoder.config.norm_eps)?;
        Ok(Tape { pass, tokens: batch.tokens.clone(), inputs, kept, last: x, seed, hidden })
    }

    /// Final hidden states of a batch, without the way back.
    pub fn hidden(&self, batch: &Batch) -> Result<Tensor> {
        Ok(self.model.decoder()?.hidden(batch)?)
    }

    /// Adds the gradients of everything trained, given that of the hidden states; returns that of the embeddings.
    pub fn backward(&self, tape: Tape, d_hidden: &Tensor, gradients: &mut Gradients) -> Result<Tensor> {
        let Tape { pass, tokens, mut inputs, mut kept, last, seed, hidden: _ } = tape;
        let decoder = self.model.decoder()?;
        let eps = decoder.config.norm_eps;
        let runner = self.runner(&pass, seed)?;
        if let Some(ends) = &self.ends {
            gradients.add(ends.norm, &ops::rms_norm_weight_gradient(&last, eps, d_hidden)?)?;
        }
        let mut dx = ops::rms_norm_backward(&last, &decoder.norm, eps, d_hidden)?;
        drop(last);
        for (layer, sites) in decoder.layers.iter().zip(&self.layers).rev() {
            let x = inputs.pop().expect("one input for each layer");
            let kept = match kept.pop().expect("one entry for each layer") {
                Some(kept) => kept,
                None => runner.forward(layer, sites, &x)?.1,
            };
            dx = runner.backward(layer, sites, &x, kept, &dx, gradients)?;
        }
        if let Some(ends) = &self.ends {
            let table = self.parameters.value(ends.embedding);
            let tokens = Tensor::new(tokens, table.device())?;
            let gradient = table.zeros_like()?.index_add(&tokens, &dx.to_dtype(DType::F32)?, 0)?;
            gradients.add(ends.embedding, &gradient)?;
        }
        Ok(dx)
    }

    /// One step of the optimiser; `step` counts from 1. The model has the new numbers afterwards.
    pub fn update(&mut self, gradients: &Gradients, rate: f64, step: usize, adam: &AdamW) -> Result<()> {
        self.parameters.update(gradients, rate, step, adam)?;
        self.refresh()
    }

    /// The parameters' numbers before any training, also in a run that was resumed.
    pub fn starting_values(&self) -> &[Tensor] {
        &self.start
    }

    /// Puts other numbers in the parameters' place, and returns those that were there.
    pub fn replace_values(&mut self, values: &[Tensor]) -> Result<Vec<Tensor>> {
        let old = self
            .parameters
            .iter_mut()
            .zip(values)
            .map(|(parameter, value)| std::mem::replace(&mut parameter.value, value.clone()));
        let old = old.collect();
        self.refresh()?;
        Ok(old)
    }

    /// Takes the numbers as they are for those that training starts from.
    pub(crate) fn mark_start(&mut self) -> Result<()> {
        // Copied, because updates on a GPU happen in place.
        let copies = self.parameters.iter().map(|parameter| parameter.value.copy());
        self.start = copies.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Takes the parameters' numbers over into the model.
    pub fn refresh(&mut self) -> Result<()> {
        let Self { model, parameters, layers, ends, output, arithmetic, .. } = self;
        let Arithmetic { dtype, precision } = *arithmetic;
        let decoder = model.decoder_mut()?;
        for (layer, sites) in decoder.layers.iter_mut().zip(layers) {
            for (linear, site) in linears(layer).into_iter().zip(&mut sites.projections) {
                site.refresh(linear, parameters, *arithmetic)?;
            }
            if let Some(norms) = &sites.norms {
                layer.attention_norm = parameters.value(norms.attention).to_dtype(dtype)?;
                layer.mlp_norm = parameters.value(norms.mlp).to_dtype(dtype)?;
                let value = |id: Option<Id>| id.map(|id| parameters.value(id).to_dtype(dtype)).transpose();
                (layer.q_norm, layer.k_norm) = (value(norms.query)?, value(norms.key)?);
            }
        }
        if let Some(ends) = ends {
            decoder.norm = parameters.value(ends.norm).to_dtype(dtype)?;
            decoder.embedding = Weight::from_values(parameters.value(ends.embedding), dtype, precision)?;
            match (&mut decoder.output, output) {
                (Some(linear), Some(site)) => site.refresh(linear, parameters, *arithmetic)?,
                (Some(linear), None) => linear.weight = decoder.embedding.clone(),
                (None, _) => {}
            }
            self.output_transposed = None;
        }
        if let (Some(head), Some(sites)) = (model.head_mut()?, &mut self.head) {
            for (linear, site) in head.projections_mut().into_iter().zip(sites) {
                site.refresh(linear, parameters, *arithmetic)?;
            }
        }
        Ok(())
    }

    /// dY · W of the output projection, and the weight's gradient when it is trained.
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
        if self.output_transposed.is_none() {
            self.output_transposed = Some(linear.weight.transposed(self.arithmetic.dtype)?);
        }
        let transposed = self.output_transposed.as_ref().expect("just made");
        Ok(transposed.multiply(d_logits)?)
    }

    /// The parameter behind the output projection, if it is trained.
    pub(crate) fn output_parameter(&self) -> Option<Id> {
        match (&self.output, &self.ends) {
            (Some(site), _) => site.weight_parameter(),
            (None, Some(ends)) => Some(ends.embedding),
            (None, None) => None,
        }
    }

    pub(crate) fn precision(&self) -> Precision {
        self.arithmetic.precision
    }

    fn runner<'a>(&self, pass: &'a Pass, seed: Option<u64>) -> Result<Runner<'a>> {
        let decoder = self.model.decoder()?;
        Ok(Runner {
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
