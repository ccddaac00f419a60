//! Starts the local engine from command-line options, and waits for its answers.

use anyhow::{Context, Result, bail};
use gradus_engine::models::{self, SHIPPED, SHIPPED_PROFILE};
use gradus_engine::profile::{Profile, Score};
use gradus_engine::{Engine, LoadOptions, Model, ServiceOptions};

use crate::arguments::model::ModelOptions;
use crate::exit::Usage;

/// The model that runs when none is named.
pub(crate) const DEFAULT_MODEL: &str = "smollm2-135m";

/// How an engine is started beyond the common options.
#[derive(Debug, Default)]
pub(crate) struct Purpose<'a> {
    /// The engine scores steps: with this profile, or with the one that the checkpoint asks for.
    pub(crate) score: Option<Option<&'a str>>,
    /// Every prompt goes through the model by itself.
    pub(crate) unpacked: bool,
}

/// A running engine and the profile it scores with.
pub(crate) struct Local {
    pub(crate) engine: Engine,
    pub(crate) profile: Option<String>,
    /// A hash of its files.
    pub(crate) files: String,
    /// All that determines what it says: its files, how they are loaded, how it is asked for scores.
    pub(crate) identity: String,
}

/// A reward model as it was asked for: its base, the options to load it with, and its profile.
pub(crate) struct Chosen<'a> {
    pub(crate) model: &'a str,
    pub(crate) options: ModelOptions,
    pub(crate) profile: Option<&'a str>,
}

/// The reward model that is meant when none is named: the one that the program carries, or with another profile or an
/// adapter the small language model that those are for.
pub(crate) fn default_scorer(profile: Option<&str>, options: &ModelOptions) -> &'static str {
    let ours = profile.is_none_or(|profile| profile == SHIPPED_PROFILE) && options.adapter.is_none();
    if ours { SHIPPED } else { DEFAULT_MODEL }
}

/// What a reward model's name stands for: the one that the program carries is an adapter on a base with a profile of its
/// own.
pub(crate) fn choose<'a>(
    model: &'a str,
    options: &ModelOptions,
    profile: Option<&'a str>,
) -> Result<Chosen<'a>> {
    let options = options.clone();
    if model != SHIPPED {
        return Ok(Chosen { model, options, profile });
    }
    if options.adapter.is_some() {
        bail!(Usage(format!(
            "{SHIPPED} is itself an adapter on smollm2-135m: set --model to the base of your adapter"
        )));
    }
    if let Some(profile) = profile
        && !matches!(Profile::find(profile)?.score, Score::Classes { .. })
    {
        bail!(Usage(format!(
            "{SHIPPED} has a two-class head, which the profile {profile} does not read: omit --profile and --pool, or \
             use another model"
        )));
    }
    let shipped = models::shipped()?;
    let options = ModelOptions { adapter: Some(shipped.adapter), ..options };
    Ok(Chosen { model: shipped.base, options, profile: profile.or(Some(shipped.profile)) })
}

/// What a reward model with a profile is called where nobody named it.
pub(crate) fn title(model: &str, profile: &str) -> String {
    if (model, profile) == (SHIPPED, SHIPPED_PROFILE) {
        model.to_owned()
    } else {
        format!("{model}/{profile}")
    }
}

/// Loads a model and starts its thread.
pub(crate) fn start(name: &str, options: &ModelOptions, purpose: &Purpose<'_>) -> Result<Local> {
    let path = models::resolve(name)?;
    let dequantise = match (options.dequantize, options.keep_quantized) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let load = LoadOptions {
        device: options.device,
        precision: options.precision,
        dequantize: dequantise,
        adapter: options.adapter.clone(),
    };
    let model = Model::load(&path, &load)?;
    let profile = match purpose.score {
        None => None,
        Some(Some(name)) => Some(Profile::find(name)?),
        Some(None) => {
            Some(Profile::find(Profile::for_architecture(model.architecture()).unwrap_or("plain"))?)
        }
    };
    let files = models::fingerprint(path.as_path(), options.adapter.as_deref())?;
    let identity = format!("{files} {:?} {:?} {dequantise:?} {profile:?}", options.precision, options.device);
    let name = profile.as_ref().map(|profile| profile.name.clone());
    let service = ServiceOptions {
        token_budget: options.max_batch_tokens,
        tree_packing: !purpose.unpacked,
        ..ServiceOptions::default()
    };
    Ok(Local { engine: Engine::start(model, profile, service)?, profile: name, files, identity })
}

/// Runs a future to its end on this thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("cannot start the async runtime")?.block_on(future))
}
