//! Low-rank adapters (LoRA, Hu et al., 2021): `[lora]` of a recipe, the projections that get one, and how they are
//! initialized.
//!
//! ```text
//! y = W x + s · B A x,   s = alpha / rank (rsLoRA: alpha / √rank),   A: [rank, in],   B: [out, rank]
//! ```

use candle_core::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::layer::MODULES;
use crate::{Error, Result};

/// `[lora]`: low-rank adapters on a frozen base. This is the default of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LoraConfig {
    /// Rank of A and B. Default 32.
    pub(crate) rank: usize,
    /// The adapter's output is scaled by alpha / rank. Default 64.
    pub(crate) alpha: f64,
    /// Dropout probability of the adapter's inputs in training. Default 0.1.
    pub(crate) dropout: f64,
    /// Projections that get an adapter, or `all-linear`. Default `q_proj` and `v_proj`.
    pub(crate) targets: Vec<String>,
    /// Scale by alpha / √rank instead (rsLoRA). Default false.
    pub(crate) rslora: bool,
    /// Data type of the saved adapter. Default `f32`; `bf16` halves the file.
    pub(crate) stored: AdapterDtype,
}

/// Data type of a saved adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AdapterDtype {
    /// As trained.
    #[default]
    F32,
    /// Rounded to bfloat16.
    Bf16,
}

impl Default for LoraConfig {
    fn default() -> Self {
        let targets = ["q_proj", "v_proj"].map(str::to_owned).to_vec();
        Self { rank: 32, alpha: 64.0, dropout: 0.1, targets, rslora: false, stored: AdapterDtype::F32 }
    }
}

impl LoraConfig {
    /// The factor s.
    pub(crate) fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        if self.rslora { self.alpha / rank.sqrt() } else { self.alpha / rank }
    }

    /// Whether `module`, such as `self_attn.q_proj`, gets an adapter.
    pub(crate) fn wants(&self, module: &str) -> bool {
        self.targets.iter().any(|target| target == "all-linear" || matches(module, target))
    }

    /// The projections' names as PEFT lists them.
    pub(crate) fn modules(&self) -> Vec<&str> {
        MODULES.iter().filter(|module| self.wants(module)).map(|module| last_part(module)).collect()
    }

    /// Refuses a target that none of the model's `modules` has.
    pub(crate) fn check(&self) -> Result<()> {
        let modules = &MODULES;
        let unknown = |target: &&String| {
            *target != "all-linear" && !modules.iter().any(|module| matches(module, target))
        };
        let short: Vec<&str> = modules.iter().map(|module| last_part(module)).collect();
        match self.targets.iter().find(unknown) {
            Some(target) => Err(Error::Model(format!(
                "lora.targets names `{target}`, and this model's projections are {}",
                short.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// A and B before training, initialized as in PEFT: A uniform in ±1/√inputs, B zero. A module's values depend on
    /// the seed and its name only.
    pub(crate) fn initial(
        &self,
        name: &str,
        outputs: usize,
        inputs: usize,
        seed: u64,
    ) -> Result<(Tensor, Tensor)> {
        let hash = blake3::hash(format!("{seed} {name}").as_bytes());
        let mut rng = ChaCha8Rng::from_seed(*hash.as_bytes());
        let bound = 1.0 / (inputs as f32).sqrt();
        let a: Vec<f32> = (0..self.rank * inputs).map(|_| rng.random_range(-bound..bound)).collect();
        Ok((
            Tensor::from_vec(a, (self.rank, inputs), &Device::Cpu)?,
            Tensor::zeros((outputs, self.rank), candle_core::DType::F32, &Device::Cpu)?,
        ))
    }
}

/// Salt of projection number `index`, so that every projection has a dropout mask of its own.
pub(crate) fn salt(index: usize) -> u64 {
    (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn matches(module: &str, target: &str) -> bool {
    module == target || last_part(module) == target
}

fn last_part(module: &str) -> &str {
    module.rsplit('.').next().unwrap_or(module)
}
