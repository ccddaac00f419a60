//! The decoder of the Llama / Mistral / Qwen2 / Qwen3 family, over rows of any number of sequences at once.
//!
//! ```text
//! x ← embedding
//! each layer:  x ← x + o(attention(rope(q(norm x)), rope(k(norm x)), v(norm x)))
//!              x ← x + down(silu(gate(norm x)) · up(norm x))
//! x ← norm x
//! ```
//!
//! On a CPU a pass without a cache goes by `cpu.rs`, with the same bits. Logits are made only for the rows and tokens that somebody asks for: see [`Decoder::logits`].

mod cpu;

use candle_core::{DType, Device, Tensor};
use gradus_kernels::attention::Mask;
use gradus_kernels::{Precision, awake};

use crate::attention::{Heads, Plan};
use crate::batch::Batch;
use crate::cache::{Cache, WriteTargets};
use crate::config::{DecoderConfig, RopeScaling};
use crate::linear::{self, Linear};
use crate::weights::{Loader, Weight};
use crate::{Error, Result, ops, rope};

/// Passes over so few rows have so short products that threads stay awake between them.
const AWAKE_ROWS: usize = 256;

/// A decoder-only transformer, with its output projection where the checkpoint has one.
pub struct Decoder {
    /// Its hyperparameters.
    pub config: DecoderConfig,
    /// The token embedding, one row per token.
    pub embedding: Weight,
    /// From the first to the last.
    pub layers: Vec<Layer>,
    /// The norm after the last layer.
    pub norm: Tensor,
    /// The output projection; the embedding table when they are tied, absent when a reward head replaced it.
    pub output: Option<Linear>,
    pub(crate) frequencies: (Vec<f32>, f64),
    /// Data type of activations.
    pub dtype: DType,
    device: Device,
    /// Arithmetic of attention.
    pub precision: Precision,
    /// Whether quantized weights may be expanded for prompts.
    expands: bool,
}

/// One layer's weights.
pub struct Layer {
    /// RMSNorm before attention (`input_layernorm`).
    pub attention_norm: Tensor,
    /// `q_proj`: queries.
    pub q: Linear,
    /// `k_proj`: keys.
    pub k: Linear,
    /// `v_proj`: values.
    pub v: Linear,
    /// `o_proj`: from the heads to the residual stream.
    pub o: Linear,
    /// RMSNorm of each query head, where the architecture has it.
    pub q_norm: Option<Tensor>,
    /// RMSNorm of each key head, where the architecture has it.
    pub k_norm: Option<Tensor>,
    /// RMSNorm before the MLP (`post_attention_layernorm`).
    pub mlp_norm: Tensor,
    /// `gate_proj` of the SwiGLU MLP.
    pub gate: Linear,
    /// `up_proj` of the SwiGLU MLP.
    pub up: Linear,
    /// `down_proj` of the SwiGLU MLP.
    pub down: Linear,
    /// Which keys a row sees.
    pub mask: Mask,
}

/// What all layers of a pass share.
pub struct Pass {
    /// Which keys each row sees.
    pub plan: Plan,
    /// Cosines of the rows' rotary angles.
    pub cos: Tensor,
    /// Sines of the rows' rotary angles.
    pub sin: Tensor,
}

impl Decoder {
    /// Takes the decoder's weights from `loader`.
    pub(crate) fn load(mut config: DecoderConfig, loader: &mut Loader) -> Result<Self> {
        let (hidden, vocabulary) = (config.hidden, config.vocabulary);
        if loader.has("rope_freqs.weight")? {
            let divisors = loader.vector("rope_freqs.weight", config.head_dim / 2)?;
            let divisors = divisors.to_dtype(DType::F32)?.to_vec1()?;
            config.rope.scaling = RopeScaling::Divisors(divisors);
        }
        let embedding = loader.matrix("embed_tokens.weight", vocabulary, hidden)?;
        let layers =
            (0..config.layers).map(|number| Layer::load(&config, number, loader)).collect::<Result<_>>()?;
        let norm = loader.vector("norm.weight", hidden)?;
        let output = if config.tied {
            Some(Linear { weight: embedding.clone(), bias: None, lora: None })
        } else if loader.has("lm_head.weight")? {
            Some(loader.linear("lm_head", vocabulary, hidden, false)?)
        } else {
            None
        };
        let frequencies = rope::frequencies(&config.rope, config.head_dim);
        // Attention is as exact as the products around it.
        let exact = loader.is_exact("layers.0.self_attn.q_proj.weight")?;
        let precision = if exact { Precision::F32 } else { Precision::Bf16 };
        let (dtype, device) = (loader.dtype(), loader.device.clone());
        let expands = loader.dequantize != Some(false);
        Ok(Self { config, embedding, layers, norm, output, frequencies, dtype, device, precision, expands })
    }

    /// Runs a batch; returns the normalized hidden states, one row per token.
    pub(crate) fn forward(&self, batch: &Batch, cache: Option<&Cache>) -> Result<Tensor> {
        if cache.is_none()
            && let Some(hidden) = cpu::forward(self, batch)?
        {
            return Ok(hidden);
        }
        let forward = || self.forward_observed(batch, cache, &mut |_| Ok(()));
        if self.device.is_cpu() && batch.len() <= AWAKE_ROWS { awake(forward) } else { forward() }
    }

    /// Like [`Decoder::forward`], and shows the residual stream after the embedding and after every layer.
    pub(crate) fn forward_observed(
        &self,
        batch: &Batch,
        cache: Option<&Cache>,
        observe: &mut dyn FnMut(&Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let pass = self.pass_over(batch, cache.is_some())?;
        let targets = cache.map(|cache| cache.targets(&batch.slots)).transpose()?;
        self.through_layers(self.embed(&batch.tokens)?, &pass, cache.zip(targets.as_ref()), observe)
    }

    /// From the embedding of each row to its normalized hidden state.
    pub(crate) fn through_layers(
        &self,
        mut x: Tensor,
        Pass { plan, cos, sin }: &Pass,
        store: Option<(&Cache, &WriteTargets<'_>)>,
        observe: &mut dyn FnMut(&Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let heads = self.heads();
        observe(&x)?;
        let eps = self.config.norm_eps;
        let first = self.layers.first().map_or(&self.norm, |layer| &layer.attention_norm);
        let mut h = ops::rms_norm(&x, first, eps)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let (q, k, v) = layer.project(&h, heads, eps)?;
            let (q, keys, values) = match store {
                Some((cache, targets)) => cache.write(number, [&q, &k, &v], (cos, sin), targets)?,
                None => (ops::rope(&q, cos, sin)?, ops::rope(&k, cos, sin)?, v),
            };
            let seen = plan.attend(&q, &keys, &values, heads, layer.mask, self.precision)?.out;
            (x, h) = ops::add_rms_norm(&x, &layer.o.forward(&seen)?, &layer.mlp_norm, eps)?;
            let inner = linear::gated(&layer.gate, &layer.up, &h)?;
            // The norm that comes next belongs to the layer above.
            let next = self.layers.get(number + 1).map_or(&self.norm, |layer| &layer.attention_norm);
            (x, h) = ops::add_rms_norm(&x, &layer.down.forward(&inner)?, next, eps)?;
            observe(&x)?;
        }
        Ok(h)
    }

    /// Normalized hidden states of a batch that needs no cache, one row per token.
    pub fn hidden(&self, batch: &Batch) -> Result<Tensor> {
        self.forward(batch, None)
    }

    /// Prepares what all layers of a pass over `batch` share.
    pub fn pass(&self, batch: &Batch) -> Result<Pass> {
        self.pass_over(batch, false)
    }

    fn pass_over(&self, batch: &Batch, cached: bool) -> Result<Pass> {
        let rows = batch.len();
        let (cos, sin) = rope::angles(&self.frequencies, &batch.positions);
        let half = self.config.head_dim / 2;
        let angles = |values| Tensor::from_vec(values, (rows, half), &self.device)?.to_dtype(self.dtype);
        let (segments, masks) = (&batch.segments, self.masks());
        let plan = match cached {
            true => Plan::cached(segments, rows, &masks, self.heads(), self.dtype, &self.device)?,
            false => Plan::new(segments, rows, &masks, self.heads(), self.dtype, &self.device)?,
        };
        Ok(Pass { plan, cos: angles(cos)?, sin: angles(sin)? })
    }

    /// The embedding of each token.
    pub fn embed(&self, tokens: &[u32]) -> Result<Tensor> {
        self.check_tokens(tokens)?;
        Ok(self.embedding.rows(tokens, &self.device)?.to_dtype(self.dtype)?)
    }

    /// Shape of its attention.
    pub fn heads(&self) -> Heads {
        Heads { query: self.config.heads, key: self.config.kv_heads, dim: self.config.head_dim }
    }

    /// Logits `[hidden rows, tokens]` in f32, of all tokens or of a few.
    pub fn logits(&self, hidden: &Tensor, tokens: Option<&[u32]>) -> Result<Tensor> {
        Ok(self.raw_logits(hidden, tokens)?.to_dtype(DType::F32)?)
    }

    /// Like [`Decoder::logits`], those of all tokens in the activations' type.
    pub fn raw_logits(&self, hidden: &Tensor, tokens: Option<&[u32]>) -> Result<Tensor> {
        let output = self.output.as_ref().ok_or_else(|| {
            Error::request(
                "this model has no output projection (lm_head): it scores steps but cannot rate tokens",
            )
        })?;
        let logits = match tokens {
            Some(tokens) if output.lora.is_none() => output.weight.multiply_rows(hidden, tokens)?,
            Some(tokens) => output.forward(hidden)?.index_select(&Tensor::new(tokens, &self.device)?, 1)?,
            None => output.forward(hidden)?,
        };
        Ok(logits)
    }

    /// An empty cache for this decoder.
    pub(crate) fn cache(&self) -> Result<Cache> {
        Cache::new(self.config.layers, self.config.kv_heads, self.config.head_dim, self.dtype, &self.device)
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        let output = self.output.as_ref().filter(|_| !self.config.tied).map_or(0, Linear::bytes);
        self.embedding.bytes() + layers + output
    }

    /// The masks that layers use, each once.
    pub(crate) fn masks(&self) -> Vec<Mask> {
        let mut masks: Vec<Mask> = Vec::new();
        for layer in &self.layers {
            if !masks.contains(&layer.mask) {
                masks.push(layer.mask);
            }
        }
        masks
    }

    fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        match tokens.iter().find(|token| **token as usize >= self.config.vocabulary) {
            None => Ok(()),
            Some(token) => Err(Error::request(format!(
                "token {token} is outside the model's {} tokens: do tokenizer and model belong together?",
                self.config.vocabulary
            ))),
        }
    }
}

impl Layer {
    fn load(config: &DecoderConfig, number: usize, loader: &mut Loader) -> Result<Self> {
        let (hidden, inner) = (config.hidden, config.intermediate);
        let (wide, narrow) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let name = |module: &str| format!("layers.{number}.{module}");
        let norm = |loader: &mut Loader, module: &str| {
            let wanted = config.qk_norm.then(|| loader.vector(&name(module), config.head_dim));
            wanted.transpose()
        };
        Ok(Self {
            attention_norm: loader.vector(&name("input_layernorm.weight"), hidden)?,
            q: loader.linear(&name("self_attn.q_proj"), wide, hidden, config.qkv_bias)?,
            k: loader.linear(&name("self_attn.k_proj"), narrow, hidden, config.qkv_bias)?,
            v: loader.linear(&name("self_attn.v_proj"), narrow, hidden, config.qkv_bias)?,
            o: loader.linear(&name("self_attn.o_proj"), hidden, wide, config.output_bias)?,
            q_norm: norm(loader, "self_attn.q_norm.weight")?,
            k_norm: norm(loader, "self_attn.k_norm.weight")?,
            mlp_norm: loader.vector(&name("post_attention_layernorm.weight"), hidden)?,
            gate: loader.linear(&name("mlp.gate_proj"), inner, hidden, config.mlp_bias)?,
            up: loader.linear(&name("mlp.up_proj"), inner, hidden, config.mlp_bias)?,
            down: loader.linear(&name("mlp.down_proj"), hidden, inner, config.mlp_bias)?,
            mask: Mask::Causal { window: config.windows[number] },
        })
    }

    /// Queries, keys and values as `[rows, heads, dim]`, before rotation.
    fn project(&self, h: &Tensor, heads: Heads, eps: f32) -> Result<(Tensor, Tensor, Tensor)> {
        let rows = h.dim(0)?;
        let split = |x: Tensor, count: usize| x.reshape((rows, count, heads.dim));
        let [q, k, v] = linear::together([&self.q, &self.k, &self.v], h)?;
        let (q, k, v) = (split(q, heads.query)?, split(k, heads.key)?, split(v, heads.key)?);
        let normed = |x: Tensor, norm: &Option<Tensor>| match norm {
            Some(weight) => ops::rms_norm(&x, weight, eps),
            None => Ok(x),
        };
        Ok((normed(q, &self.q_norm)?, normed(k, &self.k_norm)?, v))
    }

    fn bytes(&self) -> usize {
        [&self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down]
            .iter()
            .map(|part| part.bytes())
            .sum()
    }
}
