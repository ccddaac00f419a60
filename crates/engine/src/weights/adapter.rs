//! LoRA adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors` with names such as
//! `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
//!
//! y = W x + s · B (A x), with s = α / r, or α / √r for rsLoRA. Modules that were trained whole (`modules_to_save`, such
//! as a reward head) replace the base's. DoRA, trained biases and embeddings' adapters are refused by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Stored, safetensors};
use crate::{Error, Result};

#[derive(Deserialize)]
struct AdapterConfig {
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    rank_pattern: BTreeMap<String, usize>,
    #[serde(default)]
    alpha_pattern: BTreeMap<String, f64>,
}

/// An alpha beyond this would leave nothing of the base.
const MAX_ALPHA: f64 = 1e6;

/// One projection's adapter.
pub(crate) struct LoraWeights {
    pub(crate) a: Stored,
    pub(crate) b: Stored,
    pub(crate) scale: f64,
}

/// An adapter's tensors, handed out by module until none is left.
pub(crate) struct Adapter {
    pub(crate) folder: PathBuf,
    config: AdapterConfig,
    tensors: BTreeMap<String, Stored>,
}

impl Adapter {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        crate::models::check_files(folder)?;
        let path = folder.join("adapter_config.json");
        let text = crate::small_file::read_json(&path)?;
        let config: AdapterConfig = serde_json::from_slice(&text)
            .map_err(|error| Error::model(&path, format!("not a PEFT LoRA config: {error}")))?;
        if config.use_dora {
            return Err(Error::model(
                &path,
                "use_dora is not supported: merge the adapter into its base first",
            ));
        }
        if config.bias.as_deref().is_some_and(|bias| bias != "none") {
            return Err(Error::model(&path, "trained biases are not supported: expected `bias`: `none`"));
        }
        if config.r == 0 || config.rank_pattern.values().any(|rank| *rank == 0) {
            return Err(Error::model(&path, "a rank (`r`, `rank_pattern`) is 0"));
        }
        let alphas = config.alpha_pattern.values().chain([&config.lora_alpha]);
        if let Some(alpha) = alphas.copied().find(|alpha| alpha.is_nan() || alpha.abs() > MAX_ALPHA) {
            let message = format!("field `lora_alpha` is {alpha}: expected a number of at most {MAX_ALPHA}");
            return Err(Error::model(&path, message));
        }
        let tensors = safetensors::read(&folder.join("adapter_model.safetensors"))?;
        let tensors = tensors.into_iter().map(|(name, stored)| (module_name(&name), stored)).collect();
        Ok(Self { folder: folder.to_owned(), config, tensors })
    }

    /// The adapter of the projection `module` with this shape, if it has one.
    pub(crate) fn take(
        &mut self,
        module: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Option<LoraWeights>> {
        let (a_name, b_name) = (format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight"));
        let (a, b) = match (self.tensors.remove(&a_name), self.tensors.remove(&b_name)) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a, b),
            _ => {
                return Err(Error::model(
                    &self.folder,
                    format!("`{module}` has only one of lora_A and lora_B"),
                ));
            }
        };
        let matches = |pattern: &str| module == pattern || module.ends_with(&format!(".{pattern}"));
        let rank = self.config.rank_pattern.iter().find(|(pattern, _)| matches(pattern));
        let rank = rank.map_or(self.config.r, |(_, rank)| *rank);
        let alpha = self.config.alpha_pattern.iter().find(|(pattern, _)| matches(pattern));
        let alpha = alpha.map_or(self.config.lora_alpha, |(_, alpha)| *alpha);
        if a.shape != [rank, inputs] || b.shape != [outputs, rank] {
            return Err(Error::model(
                &self.folder,
                format!(
                    "adapter of `{module}` has shapes {:?} and {:?}: this base and rank {rank} need [{rank}, {inputs}] and \
                     [{outputs}, {rank}]: is it the base the adapter was trained on?",
                    a.shape, b.shape
                ),
            ));
        }
        let scale = if self.config.use_rslora { alpha / (rank as f64).sqrt() } else { alpha / rank as f64 };
        Ok(Some(LoraWeights { a, b, scale }))
    }

    /// The shape of a tensor that was trained whole.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|stored| stored.shape.clone())
    }

    /// A tensor that was trained whole.
    pub(crate) fn whole(&mut self, name: &str) -> Option<Stored> {
        self.tensors.remove(name)
    }

    /// Refuses an adapter with tensors that nothing asked for: the model would not be what was trained.
    pub(crate) fn finish(self) -> Result<()> {
        match self.tensors.keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::model(
                &self.folder,
                format!("adapter tensor `{name}` ({} in all) has no place in this model", self.tensors.len()),
            )),
        }
    }
}

/// `base_model.model.model.layers.0…` → `layers.0…`, `base_model.model.score.modules_to_save.weight` → `score.weight`.
fn module_name(name: &str) -> String {
    let name = name.strip_prefix("base_model.model.").unwrap_or(name);
    let name = name.strip_prefix("model.").unwrap_or(name);
    name.replace(".modules_to_save.", ".")
        .replace(".lora_A.default.", ".lora_A.")
        .replace(".lora_B.default.", ".lora_B.")
}
