//! The encoder of BERT sentence models (MiniLM and its kind): texts to vectors.
//!
//! Weights and pooling come from a sentence-transformers folder: `modules.json` names the pooling (mean or first token)
//! and whether vectors are normalized; without it, as sentence-transformers does, the mean, not normalized. Texts of a
//! batch are packed without padding. A text longer than the model's limit is cut, and counted.

mod cpu;

use std::path::Path;

use candle_core::{Device, Tensor};
use gradus_durable::is_plain_name;
use gradus_kernels::Precision;
use gradus_kernels::attention::{Mask, Segment};
use serde_json::Value;

use crate::attention::{Heads, Plan};
use crate::config::{layers, number, within};
use crate::linear::Linear;
use crate::weights::{Loader, Weight};
use crate::{Error, Result, ops};

/// Pooling of token vectors into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    First,
}

/// A sentence encoder.
pub(crate) struct Encoder {
    words: Weight,
    positions: Weight,
    kind: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    heads: Heads,
    pub(crate) pooling: Pooling,
    pub(crate) normalized: bool,
    pub(crate) dimension: usize,
    /// Maximum tokens per text.
    pub(crate) limit: usize,
    vocabulary: usize,
    precision: Precision,
    device: Device,
    /// The same layers for CPUs.
    on_cpu: Option<cpu::Layers>,
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

struct Layer {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

impl Encoder {
    pub(crate) fn load(folder: &Path, loader: &mut Loader) -> Result<Self> {
        let path = folder.join("config.json");
        let json = read_json(&path)?;
        let field = |name: &str| number(&json, name).map_err(|message| Error::model(&path, message));
        let (hidden, heads, inner) =
            (field("hidden_size")?, field("num_attention_heads")?, field("intermediate_size")?);
        let (vocabulary, longest) = (field("vocab_size")?, field("max_position_embeddings")?);
        let sizes = [
            ("hidden size", hidden),
            ("number of heads", heads),
            ("intermediate size", inner),
            ("vocabulary size", vocabulary),
            ("context length", longest),
        ];
        for (name, size) in sizes {
            within(name, size).map_err(|message| Error::model(&path, message))?;
        }
        let number_of_layers = field("num_hidden_layers")?;
        let number_of_layers = layers(number_of_layers).map_err(|message| Error::model(&path, message))?;
        if hidden % heads != 0 {
            return Err(Error::model(
                &path,
                format!("hidden_size {hidden} cannot be split into {heads} heads"),
            ));
        }
        if let Some(act) = json["hidden_act"].as_str()
            && act != "gelu"
        {
            return Err(Error::model(&path, format!("hidden_act `{act}` is not supported: expected `gelu`")));
        }
        let eps = json["layer_norm_eps"].as_f64().unwrap_or(1e-12) as f32;
        let kinds = field("type_vocab_size")?;
        let kind = loader.matrix("embeddings.token_type_embeddings.weight", kinds, hidden)?;
        let modules = Modules::read(folder)?;
        let precision = if loader.is_exact("embeddings.word_embeddings.weight")? {
            Precision::F32
        } else {
            Precision::Bf16
        };
        let mut encoder = Self {
            words: loader.matrix("embeddings.word_embeddings.weight", vocabulary, hidden)?,
            positions: loader.matrix("embeddings.position_embeddings.weight", longest, hidden)?,
            kind: kind.rows(&[0], &loader.device)?,
            norm: Norm::load("embeddings.LayerNorm", hidden, eps, loader)?,
            layers: (0..number_of_layers)
                .map(|number| Layer::load(number, hidden, inner, eps, loader))
                .collect::<Result<_>>()?,
            heads: Heads { query: heads, key: heads, dim: hidden / heads },
            pooling: modules.pooling,
            normalized: modules.normalized,
            dimension: hidden,
            limit: modules.limit.unwrap_or(longest).min(longest),
            vocabulary,
            precision,
            device: loader.device.clone(),
            on_cpu: None,
        };
        encoder.on_cpu = cpu::Layers::of(&encoder)?;
        Ok(encoder)
    }

    /// One vector per text, given its tokens, which must not be more than the limit.
    pub(crate) fn forward(&self, texts: &[Vec<u32>]) -> Result<Vec<f32>> {
        let tokens: Vec<u32> = texts.iter().flatten().copied().collect();
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.vocabulary) {
            let message = format!("token {token} is outside the model's {} tokens", self.vocabulary);
            return Err(Error::request(message));
        }
        if let Some(layers) = &self.on_cpu {
            return layers.forward(self, texts);
        }
        let positions: Vec<u32> = texts.iter().flat_map(|text| 0..text.len() as u32).collect();
        let mut start = 0;
        let segments = texts.iter().map(|text| {
            let rows = start..start + text.len();
            start = rows.end;
            Segment { rows: rows.clone(), keys: vec![rows] }
        });
        let segments: Vec<Segment> = segments.filter(|segment| !segment.rows.is_empty()).collect();
        let words = self.words.rows(&tokens, &self.device)?;
        let positions = self.positions.rows(&positions, &self.device)?;
        let mut x = self.norm.forward(&(words + positions)?.broadcast_add(&self.kind)?)?;
        let plan = Plan::new(&segments, tokens.len(), &[Mask::Full], self.heads, x.dtype(), &self.device)?;
        for layer in &self.layers {
            let split = |x: Tensor| x.reshape(((), self.heads.key, self.heads.dim));
            let (q, k, v) =
                (split(layer.q.forward(&x)?)?, split(layer.k.forward(&x)?)?, split(layer.v.forward(&x)?)?);
            let seen = plan.attend(&q, &k, &v, self.heads, Mask::Full, self.precision)?.out;
            x = layer.attention_norm.forward(&(x + layer.o.forward(&seen)?)?)?;
            let inner = ops::gelu(&layer.up.forward(&x)?)?;
            x = layer.norm.forward(&(x + layer.down.forward(&inner)?)?)?;
        }
        let rows: Vec<f32> = x.to_dtype(candle_core::DType::F32)?.flatten_all()?.to_vec1()?;
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        Ok(pool(&rows, &lengths, self.dimension, self.pooling, self.normalized))
    }
}

/// Token vectors of several texts, one after another, to one vector per text.
pub(crate) fn pool(
    rows: &[f32],
    lengths: &[usize],
    width: usize,
    pooling: Pooling,
    normalized: bool,
) -> Vec<f32> {
    let mut vectors = vec![0.0f32; lengths.len() * width];
    let mut row = 0;
    for (length, vector) in lengths.iter().zip(vectors.chunks_exact_mut(width)) {
        let used = match pooling {
            Pooling::Mean => *length,
            Pooling::First => 1.min(*length),
        };
        for token in rows[row * width..(row + used) * width].chunks_exact(width) {
            vector.iter_mut().zip(token).for_each(|(sum, value)| *sum += value);
        }
        row += length;
        let mut factor = 1.0 / used.max(1) as f32;
        if normalized {
            let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            factor = 1.0 / norm.max(1e-12);
        }
        vector.iter_mut().for_each(|value| *value *= factor);
    }
    vectors
}

impl Norm {
    fn load(name: &str, width: usize, eps: f32, loader: &mut Loader) -> Result<Self> {
        let weight = loader.vector(&format!("{name}.weight"), width)?;
        Ok(Self { weight, bias: loader.vector(&format!("{name}.bias"), width)?, eps })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, self.eps)
    }
}

impl Layer {
    fn load(number: usize, hidden: usize, inner: usize, eps: f32, loader: &mut Loader) -> Result<Self> {
        let name = |module: &str| format!("encoder.layer.{number}.{module}");
        Ok(Self {
            q: loader.linear(&name("attention.self.query"), hidden, hidden, true)?,
            k: loader.linear(&name("attention.self.key"), hidden, hidden, true)?,
            v: loader.linear(&name("attention.self.value"), hidden, hidden, true)?,
            o: loader.linear(&name("attention.output.dense"), hidden, hidden, true)?,
            attention_norm: Norm::load(&name("attention.output.LayerNorm"), hidden, eps, loader)?,
            up: loader.linear(&name("intermediate.dense"), inner, hidden, true)?,
            down: loader.linear(&name("output.dense"), hidden, inner, true)?,
            norm: Norm::load(&name("output.LayerNorm"), hidden, eps, loader)?,
        })
    }
}

/// What sentence-transformers' files say about pooling.
struct Modules {
    pooling: Pooling,
    normalized: bool,
    limit: Option<usize>,
}

impl Modules {
    fn read(folder: &Path) -> Result<Self> {
        let limit = folder.join("sentence_bert_config.json");
        let limit = if limit.exists() { read_json(&limit)?["max_seq_length"].as_u64() } else { None };
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let mut modules = Self { pooling: Pooling::Mean, normalized: false, limit };
        let path = folder.join("modules.json");
        if !path.exists() {
            return Ok(modules);
        }
        let list = read_json(&path)?;
        let list = list.as_array().ok_or_else(|| Error::model(&path, "expected a list of modules"))?;
        for module in list {
            let kind = module["type"].as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default();
            match kind {
                "Transformer" => {}
                "Normalize" => modules.normalized = true,
                "Pooling" => {
                    let part = module["path"].as_str().unwrap_or_default();
                    if !part.is_empty() && !is_plain_name(part) {
                        return Err(Error::model(
                            &path,
                            format!("{part:?} is not the name of a folder here"),
                        ));
                    }
                    modules.pooling = pooling(&folder.join(part).join("config.json"))?;
                }
                other => return Err(Error::model(&path, format!("module `{other}` is not supported"))),
            }
        }
        Ok(modules)
    }
}

fn pooling(path: &Path) -> Result<Pooling> {
    let config = read_json(path)?;
    let on = |name: &str| config[format!("pooling_mode_{name}")].as_bool() == Some(true);
    let named = config["pooling_mode"].as_str().unwrap_or_default();
    match (on("mean_tokens") || named == "mean", on("cls_token") || named == "cls") {
        (true, false) => Ok(Pooling::Mean),
        (false, true) => Ok(Pooling::First),
        _ => {
            Err(Error::model(path, "pooling is not supported: expected the mean of all tokens, or the first"))
        }
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let text = crate::small_file::read_json(path)?;
    serde_json::from_slice(&text).map_err(|error| Error::model(path, format!("not valid JSON: {error}")))
}
