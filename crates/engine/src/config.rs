//! The hyperparameters of a decoder, from a Hugging Face `config.json` or from GGUF metadata.
//!
//! One family: Llama, Mistral, Qwen2(.5), Qwen3. Both spellings of rotary settings are read (`rope_theta` with
//! `rope_scaling`, and the newer `rope_parameters`). What we do not implement is refused by name.

use std::path::Path;

use serde_json::Value;

use crate::gguf::Gguf;
use crate::{Error, Result};

/// The hyperparameters of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// The architecture as the checkpoint names it, such as `Qwen2ForProcessRewardModel` or `llama`.
    pub architecture: String,
    /// Vocabulary size.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Hidden size of the MLP (`intermediate_size`).
    pub intermediate: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Head dimension.
    pub head_dim: usize,
    /// Added to the variance in RMSNorm.
    pub norm_eps: f32,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Context length in tokens.
    pub context: usize,
    /// Whether embedding and output projection share weights (`tie_word_embeddings`).
    pub tied: bool,
    /// Whether q, k and v have a bias.
    pub qkv_bias: bool,
    /// Whether the attention's output projection has a bias.
    pub output_bias: bool,
    /// Whether the MLP projections have a bias.
    pub mlp_bias: bool,
    /// Whether queries and keys are normalized per head (Qwen3).
    pub qk_norm: bool,
    /// Sliding window of each layer; `None` is full attention.
    pub windows: Vec<Option<usize>>,
}

/// Rotary position embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies (`rope_theta`).
    pub theta: f64,
    /// Scaling of the frequencies for long contexts.
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched for long contexts.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All by one factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Low frequencies by `factor`, high ones not, smoothly between (Llama 3.1).
    Llama3 {
        /// The factor.
        factor: f64,
        /// Below this many turns per original context, stretched.
        low: f64,
        /// Above this many turns per original context, not stretched.
        high: f64,
        /// The original context.
        original: f64,
    },
    /// Interpolation by parts with a correction of the attention's temperature (YaRN).
    Yarn {
        /// The factor.
        factor: f64,
        /// Turns above which a dimension is not stretched.
        beta_fast: f64,
        /// Turns below which a dimension is stretched.
        beta_slow: f64,
        /// The original context.
        original: f64,
        /// What cosines and sines are multiplied with; by default 0.1·ln(factor) + 1.
        attention: Option<f64>,
        /// Whether the range of dimensions is rounded outwards.
        truncate: bool,
    },
    /// Divisors of the frequencies, one per pair of dimensions (a GGUF's `rope_freqs.weight`).
    Divisors(Vec<f32>),
}

impl Rope {
    /// The context that the scaling makes of `context`: files with YaRN often state the original one only.
    fn stretched(&self, context: usize) -> usize {
        match self.scaling {
            RopeScaling::Yarn { factor, original, .. } => context.max((factor * original) as usize),
            _ => context,
        }
    }
}

impl DecoderConfig {
    /// Reads `config.json` of a model folder.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let text = crate::small_file::read_json(&path)?;
        let json: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::model(&path, format!("not valid JSON: {error}")))?;
        Self::from_json(&json).map_err(|message| Error::model(&path, message))
    }

    /// The `config.json` that transformers would read for this shape. Rotary scaling is not written: a model that has
    /// it comes with a file of its own.
    pub fn to_json(&self) -> Value {
        let (kind, class) = match (self.qk_norm, self.qkv_bias, self.windows.iter().any(Option::is_some)) {
            (true, ..) => ("qwen3", "Qwen3ForCausalLM"),
            (_, true, _) => ("qwen2", "Qwen2ForCausalLM"),
            (.., true) => ("mistral", "MistralForCausalLM"),
            _ => ("llama", "LlamaForCausalLM"),
        };
        serde_json::json!({
            "architectures": [class],
            "model_type": kind,
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope.theta,
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "hidden_act": "silu",
            "torch_dtype": "float32",
        })
    }

    fn from_json(json: &Value) -> Result<Self, String> {
        let architecture = architecture(json);
        let kind = json["model_type"].as_str().unwrap_or_default();
        let qwen2 = match kind {
            "llama" | "mistral" | "qwen3" => false,
            "qwen2" => true,
            _ => {
                return Err(format!(
                    "architecture `{architecture}` (model_type `{kind}`) is not one of llama, mistral, qwen2, qwen3 \
                     (decoders) or bert (encoder)"
                ));
            }
        };
        if let Some(method) = json["quantization_config"]["quant_method"].as_str() {
            return Err(format!(
                "its weights are quantized with {method}, which is not supported: use the original weights, or a GGUF file"
            ));
        }
        let hidden = number(json, "hidden_size")?;
        let heads = number(json, "num_attention_heads")?;
        let layers = number(json, "num_hidden_layers").and_then(layers)?;
        let context = number(json, "max_position_embeddings")?;
        let flag = |name: &str, default| json[name].as_bool().unwrap_or(default);
        if let Some(act) = json["hidden_act"].as_str()
            && act != "silu"
        {
            return Err(format!("hidden_act `{act}` is not supported: expected `silu`"));
        }
        let rope = rope(json, context)?;
        Ok(Self {
            architecture,
            vocabulary: number(json, "vocab_size")?,
            hidden,
            intermediate: number(json, "intermediate_size")?,
            layers,
            heads,
            kv_heads: optional(json, "num_key_value_heads")?.unwrap_or(heads),
            head_dim: optional(json, "head_dim")?.unwrap_or(hidden / heads.max(1)),
            norm_eps: json["rms_norm_eps"].as_f64().unwrap_or(1e-6) as f32,
            context: rope.stretched(context),
            rope,
            tied: flag("tie_word_embeddings", false),
            qkv_bias: flag("attention_bias", qwen2),
            output_bias: !qwen2 && flag("attention_bias", false),
            mlp_bias: flag("mlp_bias", false),
            qk_norm: kind == "qwen3",
            windows: windows(json, kind, layers)?,
        })
        .and_then(Self::checked)
    }

    /// Reads a GGUF's metadata.
    pub fn from_gguf(file: &Gguf) -> Result<Self> {
        let architecture: &str = file.get("general.architecture")?;
        let refused = |message: String| Error::model(file.path(), message);
        if !["llama", "mistral", "qwen2", "qwen3"].contains(&architecture) {
            let message = format!("architecture `{architecture}` is not one of llama, mistral, qwen2, qwen3");
            return Err(refused(message));
        }
        let key = |name: &str| format!("{architecture}.{name}");
        let wanted = |name: &str| file.get::<usize>(&key(name));
        let maybe = |name: &str| file.find::<usize>(&key(name));
        let float = |name: &str| Ok::<_, Error>(file.find::<f32>(&key(name))?.map(f64::from));
        let (hidden, heads) = (wanted("embedding_length")?, wanted("attention.head_count")?);
        let layers = layers(wanted("block_count")?).map_err(refused)?;
        let context = wanted("context_length")?;
        let factor = float("rope.scaling.factor")?.unwrap_or(1.0);
        let scaling = match file.find::<&str>(&key("rope.scaling.type"))?.unwrap_or("none") {
            "none" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor },
            "yarn" => RopeScaling::Yarn {
                factor,
                beta_fast: float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                original: float("rope.scaling.original_context_length")?.unwrap_or(context as f64),
                attention: float("rope.scaling.attn_factor")?,
                truncate: true,
            },
            other => return Err(refused(format!("rope scaling `{other}` is not supported"))),
        };
        let has = |name: &str| file.tensors.contains_key(name);
        let vocabulary = match file.tensor("token_embd.weight")?.shape[..] {
            [rows, _] => rows,
            _ => return Err(refused("tensor `token_embd.weight` is not a matrix".to_owned())),
        };
        let window = maybe("attention.sliding_window")?.filter(|window| *window > 0);
        let config = Self {
            architecture: architecture.to_owned(),
            vocabulary,
            hidden,
            intermediate: wanted("feed_forward_length")?,
            layers,
            heads,
            kv_heads: maybe("attention.head_count_kv")?.unwrap_or(heads),
            head_dim: maybe("attention.key_length")?.unwrap_or(hidden / heads.max(1)),
            norm_eps: float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32,
            rope: Rope { theta: float("rope.freq_base")?.unwrap_or(10_000.0), scaling },
            context,
            tied: !has("output.weight"),
            qkv_bias: has("blk.0.attn_q.bias"),
            output_bias: has("blk.0.attn_output.bias"),
            mlp_bias: has("blk.0.ffn_gate.bias"),
            qk_norm: has("blk.0.attn_q_norm.weight"),
            windows: vec![window; layers],
        };
        config.checked().map_err(refused)
    }

    /// Refuses shapes that cannot be run, before anything is allocated for them.
    fn checked(self) -> Result<Self, String> {
        let sizes = [
            ("vocabulary size", self.vocabulary),
            ("hidden size", self.hidden),
            ("intermediate size", self.intermediate),
            ("number of query heads", self.heads),
            ("number of key heads", self.kv_heads),
            ("head dimension", self.head_dim),
            ("context length", self.context),
        ];
        for (name, size) in sizes {
            within(name, size)?;
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!(
                "{} query heads cannot share {} key heads: expected a multiple",
                self.heads, self.kv_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("head_dim {} is odd: rotary embedding needs pairs", self.head_dim));
        }
        Ok(self)
    }
}

/// Sizes beyond this are mistakes, or made to exhaust the memory; products of two fit any machine's words.
const MAX_SIZE: usize = 1 << 28;
/// The deepest models have some two hundred layers.
const MAX_LAYERS: usize = 10_000;

/// Refuses a size of a model that cannot be meant.
pub(crate) fn within(name: &str, size: usize) -> Result<(), String> {
    match size {
        0 => Err(format!("the {name} in the configuration is 0")),
        1..=MAX_SIZE => Ok(()),
        _ => Err(format!("the {name} in the configuration is {size}: expected at most {MAX_SIZE}")),
    }
}

/// A number of layers, before something is made for each of them.
pub(crate) fn layers(number: usize) -> Result<usize, String> {
    if number <= MAX_LAYERS {
        return Ok(number);
    }
    Err(format!("the number of layers in the configuration is {number}: expected at most {MAX_LAYERS}"))
}

fn architecture(json: &Value) -> String {
    let name = json["architectures"][0].as_str().or(json["model_type"].as_str());
    name.unwrap_or("unnamed").to_owned()
}

fn optional(json: &Value, name: &str) -> Result<Option<usize>, String> {
    match &json[name] {
        Value::Null => Ok(None),
        value => match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("field `{name}`: expected a whole number, found {value}")),
        },
    }
}

pub(crate) fn number(json: &Value, name: &str) -> Result<usize, String> {
    optional(json, name)?.ok_or_else(|| format!("field `{name}` is missing"))
}

fn rope(json: &Value, context: usize) -> Result<Rope, String> {
    // Newer files say `rope_parameters`; older ones `rope_theta` beside `rope_scaling`.
    let settings = match (&json["rope_parameters"], &json["rope_scaling"]) {
        (Value::Null, old) => old,
        (new, _) => new,
    };
    let theta = settings["rope_theta"].as_f64().or(json["rope_theta"].as_f64()).unwrap_or(10_000.0);
    let kind = settings["rope_type"].as_str().or(settings["type"].as_str()).unwrap_or("default");
    let float = |name: &str| settings[name].as_f64();
    let wanted = |name: &str| float(name).ok_or_else(|| format!("rope scaling `{kind}` lacks `{name}`"));
    let original = float("original_max_position_embeddings").unwrap_or(context as f64);
    let scaling = match kind {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: wanted("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: wanted("factor")?,
            low: wanted("low_freq_factor")?,
            high: wanted("high_freq_factor")?,
            original,
        },
        "yarn" => RopeScaling::Yarn {
            factor: wanted("factor")?,
            beta_fast: float("beta_fast").unwrap_or(32.0),
            beta_slow: float("beta_slow").unwrap_or(1.0),
            original,
            attention: float("attention_factor"),
            truncate: settings["truncate"].as_bool().unwrap_or(true),
        },
        other => return Err(format!("rope scaling `{other}` is not one of default, linear, llama3, yarn")),
    };
    Ok(Rope { theta, scaling })
}

/// How far back each layer sees. Qwen's window is off unless `use_sliding_window` says otherwise, and then holds from
/// layer `max_window_layers` on; newer files list every layer's kind.
fn windows(json: &Value, kind: &str, layers: usize) -> Result<Vec<Option<usize>>, String> {
    let used = json["use_sliding_window"].as_bool().unwrap_or(!kind.starts_with("qwen"));
    let window = optional(json, "sliding_window")?.filter(|_| used);
    if let Some(kinds) = json["layer_types"].as_array() {
        if kinds.len() != layers {
            return Err(format!("`layer_types` names {} layers of {layers}", kinds.len()));
        }
        return Ok(kinds.iter().map(|kind| window.filter(|_| kind == "sliding_attention")).collect());
    }
    let first = if kind.starts_with("qwen") { optional(json, "max_window_layers")?.unwrap_or(0) } else { 0 };
    Ok((0..layers).map(|layer| window.filter(|_| layer >= first)).collect())
}
