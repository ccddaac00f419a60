//! Low-rank adapters (LoRA): which projections get one, how large, and how they start.

use candle_core::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::layer::MODULES;
use crate::run::recipe::Lora;
use crate::{Error, Result};

impl Lora {
    /// The factor s.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        if self.rslora { self.alpha / rank.sqrt() } else { self.alpha / rank }
    }

    /// Whether `module`, such as `self_attn.q_proj`, gets one.
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

    /// A and B before training, as PEFT starts them: A uniform in ±1/√inputs, B zero. A module's numbers depend on the
    /// seed and its name only.
    pub(crate) fn start(
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

/// A number that distinguishes projection `place` from the others when dropout draws.
pub(crate) fn salt(place: usize) -> u64 {
    (place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn matches(module: &str, target: &str) -> bool {
    module == target || last_part(module) == target
}

fn last_part(module: &str) -> &str {
    module.rsplit('.').next().unwrap_or(module)
}
