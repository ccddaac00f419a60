//! Models that run here: how a name becomes a running engine.

use std::sync::Arc;

use gradus_engine::models::{ModelPath, SHIPPED, SHIPPED_PROFILE};
use gradus_engine::profile::{Profile, Score};
use gradus_engine::text::Tokenizer;
use gradus_engine::{Device, Engine, Gguf, LoadOptions, Model, ServiceOptions, models};

use crate::{DEFAULT_GENERATOR, Error, LocalSettings, Result};

/// What an engine is started for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Text, log-probabilities or vectors.
    #[default]
    Text,
    /// Scores of steps.
    Scores {
        /// The profile; by default the one that the checkpoint asks for, else `plain`.
        profile: Option<&'a str>,
        /// Every prompt goes through the model by itself.
        unpacked: bool,
    },
}

/// A running engine.
#[derive(Clone)]
pub struct Local {
    /// The handle to its thread.
    pub engine: Engine,
    /// The profile that it scores with.
    pub profile: Option<String>,
    /// A hash of its files.
    pub files: String,
    /// All that determines its results: its files, how they are loaded, the profile.
    pub identity: String,
    /// Maximum tokens per pass.
    pub(crate) token_budget: usize,
}

impl Local {
    /// Loads a model and starts its thread.
    pub fn start(name: &str, settings: &LocalSettings, purpose: Purpose<'_>) -> Result<Self> {
        let path = models::resolve(name)?;
        let (device, dequantize) = (settings.device.unwrap_or(Device::Cpu), settings.dequantize());
        let adapter = settings.adapter.clone();
        let load = LoadOptions { device, precision: settings.precision, dequantize, adapter };
        let model = Model::load(&path, &load)?;
        let (profile, unpacked) = match purpose {
            Purpose::Text => (None, false),
            Purpose::Scores { profile, unpacked } => {
                let usual = || Profile::for_architecture(model.architecture()).unwrap_or("plain");
                (Some(Profile::find(profile.unwrap_or_else(usual))?), unpacked)
            }
        };
        let files = models::fingerprint(path.as_path(), settings.adapter.as_deref())?;
        let identity = format!("{files} {:?} {device:?} {dequantize:?} {profile:?}", settings.precision);
        let name = profile.as_ref().map(|profile| profile.name.clone());
        let usual = ServiceOptions::default();
        let service = ServiceOptions {
            token_budget: settings.max_batch_tokens.unwrap_or(usual.token_budget),
            tree_packing: !unpacked,
            ..usual
        };
        let token_budget = service.token_budget;
        let engine = Engine::start(model, profile, service)?;
        Ok(Self { engine, profile: name, files, identity, token_budget })
    }
}

/// A reward model as it was asked for: its base, how that is loaded, and the profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalScorer<'a> {
    /// The model to load.
    pub(crate) model: &'a str,
    /// How it is loaded.
    pub(crate) settings: LocalSettings,
    /// The profile, where it is certain before loading.
    pub(crate) profile: Option<&'a str>,
}

impl<'a> LocalScorer<'a> {
    /// What a reward model's name stands for: the one that ships with the program is an adapter on a base with a profile
    /// of its own.
    pub(crate) fn resolve(
        model: &'a str,
        settings: &LocalSettings,
        profile: Option<&'a str>,
    ) -> Result<Self> {
        let settings = settings.clone();
        if model != SHIPPED {
            return Ok(Self { model, settings, profile });
        }
        if settings.adapter.is_some() {
            return Err(Error::settings(format!(
                "{SHIPPED} is itself an adapter on smollm2-135m: set --model to the base of your adapter"
            )));
        }
        if let Some(profile) = profile
            && !matches!(Profile::find(profile)?.score, Score::Classes { .. })
        {
            return Err(Error::settings(format!(
                "{SHIPPED} has a two-class head, which the profile {profile} does not read: omit --profile and --pool, \
                 or use another model"
            )));
        }
        let shipped = models::shipped()?;
        let settings = LocalSettings { adapter: Some(shipped.adapter), ..settings };
        Ok(Self { model: shipped.base, settings, profile: profile.or(Some(shipped.profile)) })
    }
}

/// The reward model that is meant when none is named: the one that ships with the program, or with another profile or an
/// adapter the small language model that those are for.
pub(crate) fn default_scorer(profile: Option<&str>, settings: &LocalSettings) -> &'static str {
    let ours = profile.is_none_or(|profile| profile == SHIPPED_PROFILE) && settings.adapter.is_none();
    if ours { SHIPPED } else { DEFAULT_GENERATOR }
}

/// What a reward model with a profile is called where nobody named it.
pub fn scorer_name(model: &str, profile: &str) -> String {
    if (model, profile) == (SHIPPED, SHIPPED_PROFILE) {
        model.to_owned()
    } else {
        format!("{model}/{profile}")
    }
}

/// A model's tokenizer without its weights.
pub(crate) fn tokenizer(name: &str) -> Result<Arc<Tokenizer>> {
    let tokenizer = match models::resolve(name)? {
        ModelPath::Folder(folder) => Tokenizer::from_folder(&folder)?,
        ModelPath::Gguf(file) => Tokenizer::from_gguf(&Gguf::open(&file)?)?,
    };
    Ok(Arc::new(tokenizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_profile_means_the_small_language_model() {
        assert_eq!(default_scorer(None, &LocalSettings::default()), "gradus-prm");
        assert_eq!(default_scorer(Some("plain"), &LocalSettings::default()), "smollm2-135m");
    }
}
