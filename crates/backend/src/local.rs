//! Models that run here: how a name becomes a running engine.

use std::path::PathBuf;
use std::sync::Arc;

use gradus_core::select::DecisionRule;
use gradus_engine::models::{ModelPath, SHIPPED, SHIPPED_PROFILE, Store, TrainedModel};
use gradus_engine::profile::Profile;
use gradus_engine::text::Tokenizer;
use gradus_engine::{Device, Engine, Gguf, HeadKind, LoadOptions, Model, ServiceOptions, models};

use crate::{DEFAULT_GENERATOR, Error, LocalSettings, Result, ScorerSettings, ServedKind};

/// What an engine is started for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Text, log-probabilities or vectors.
    #[default]
    Text,
    /// Scores of steps.
    Scores {
        /// The profile; by default the one that it was trained with, or that the checkpoint asks for, else `plain`.
        profile: Option<&'a str>,
        /// Every prompt goes through the model by itself.
        unpacked: bool,
    },
    /// Whatever the model can do.
    Everything {
        /// The profile, as for scores.
        profile: Option<&'a str>,
    },
}

/// A running engine.
#[derive(Clone)]
pub struct Local {
    /// The handle to its thread.
    pub engine: Engine,
    /// What it is.
    pub kind: ServedKind,
    /// The profile that it scores with.
    pub profile: Option<String>,
    /// A hash of its files.
    pub files: String,
    /// All that determines its results: its files, how they are loaded, the profile.
    pub identity: String,
    /// Maximum tokens per pass.
    pub(crate) token_budget: usize,
    /// The base of an adapter with a reward head, for what needs a language model: the adapter knows no texts.
    pub base: Option<String>,
    /// How its scores become a first error: by its own rule, else by its profile's.
    pub decision: DecisionRule,
    /// Whether arithmetic that is proved wrong is an error for its profile, whatever the scores say.
    pub exact_checks: bool,
}

impl Local {
    /// Loads a model and starts its thread. A name that stands for an adapter loads the base that the adapter names, and
    /// the adapter on top.
    pub fn start(name: &str, settings: &LocalSettings, purpose: Purpose<'_>) -> Result<Self> {
        let asked = match purpose {
            Purpose::Scores { profile, .. } | Purpose::Everything { profile } => profile,
            Purpose::Text => None,
        };
        let given = asked.map(Profile::find).transpose()?;
        let Weights { base, path, adapter, trained, profile: own } = Weights::find(name, settings)?;
        let head = trained.as_ref().and_then(|trained| trained.head);
        // Scores by another profile are others, for which the model's own rule was not made.
        let decision = trained
            .and_then(|trained| trained.decision)
            .filter(|_| asked.is_none() || asked == own.as_deref());
        let named = match (purpose, given, own) {
            (Purpose::Text, ..) => {
                refuse_text(name, head)?;
                None
            }
            (_, Some(given), _) => Some(given),
            (_, None, own) => own.as_deref().map(Profile::find).transpose()?,
        };
        if let (Some(profile), Some(head)) = (&named, head) {
            check_head(name, head, profile)?;
        }
        let (device, dequantize) = (settings.device.unwrap_or(Device::Cpu), settings.dequantize());
        let load =
            LoadOptions { device, precision: settings.precision, dequantize, adapter: adapter.clone() };
        let model = Model::load(&path, &load)?;
        let kind = ServedKind::of(&model);
        let (profile, unpacked) = match purpose {
            Purpose::Text => (None, false),
            Purpose::Everything { .. } => (profile_of(&model, kind, named)?, false),
            Purpose::Scores { unpacked, .. } => {
                let profile = match named {
                    Some(profile) => profile,
                    None => Profile::find(Profile::for_model(&model)?)?,
                };
                (Some(profile), unpacked)
            }
        };
        let files = models::fingerprint(path.as_path(), adapter.as_deref())?;
        let scores = profile.as_ref().map(Profile::for_scores);
        let identity = format!("{files} {:?} {device:?} {dequantize:?} {scores:?}", settings.precision);
        let decision = decision.or(profile.as_ref().map(|profile| profile.decision)).unwrap_or_default();
        let exact_checks = profile.as_ref().is_some_and(|profile| profile.exact_checks);
        let name = profile.as_ref().map(|profile| profile.name.clone());
        let usual = ServiceOptions::default();
        let headed = adapter.is_some() && model.any_head().is_some();
        let service = ServiceOptions {
            token_budget: settings.max_batch_tokens.unwrap_or(usual.token_budget),
            tree_packing: !unpacked,
            ..usual
        };
        let token_budget = service.token_budget;
        let engine = Engine::start(model, profile, service)?;
        let base = headed.then_some(base);
        Ok(Self { engine, kind, profile: name, files, identity, token_budget, base, decision, exact_checks })
    }
}

/// The profile by which a model that does whatever it can scores: none for an encoder, and for a language model whose
/// tokenizer lacks the profile's tokens.
fn profile_of(model: &Model, kind: ServedKind, named: Option<Profile>) -> Result<Option<Profile>> {
    if kind == ServedKind::Embedding {
        return match named {
            None => Ok(None),
            Some(_) => Err(Error::settings("an embedding model scores no steps: omit --profile")),
        };
    }
    if named.is_some() {
        return Ok(named);
    }
    let usual = Profile::find(Profile::for_model(model)?)?;
    let fits = kind == ServedKind::Reward || usual.fits(model);
    Ok(fits.then_some(usual))
}

/// The files behind a name: a model, or an adapter and its base.
struct Weights {
    /// The name of the model, or of the adapter's base.
    base: String,
    /// Its files.
    path: ModelPath,
    /// The adapter on top.
    adapter: Option<PathBuf>,
    /// What the adapter, or the model where there is none, says about itself.
    trained: Option<TrainedModel>,
    /// The profile that it was trained with.
    profile: Option<String>,
}

impl Weights {
    fn find(name: &str, settings: &LocalSettings) -> Result<Self> {
        let path = models::resolve(name)?;
        let (base, path, adapter) = match (path.adapter(), &settings.adapter) {
            (None, adapter) => (name.to_owned(), path, adapter.clone()),
            (Some(_), Some(_)) => {
                return Err(Error::settings(format!(
                    "{name} is itself an adapter: set --model to the base of your adapter, or omit --adapter"
                )));
            }
            (Some(folder), None) => {
                let base = models::base_of(&Store::from_env()?, folder)?;
                (base.clone(), models::resolve(&base)?, Some(folder.to_owned()))
            }
        };
        let folder = adapter.as_deref().unwrap_or(path.as_path());
        let trained = TrainedModel::read(folder)?;
        let profile = trained.as_ref().and_then(|trained| trained.profile_in(folder));
        Ok(Self { base, path, adapter, trained, profile })
    }
}

/// The profile that a local reward model was trained with, where its folder says so.
pub fn trained_profile(settings: &ScorerSettings) -> Result<Option<String>> {
    let local = settings.endpoints.endpoint.is_empty();
    if !local || (settings.model.is_none() && settings.local.adapter.is_none()) {
        return Ok(None);
    }
    let model = model_name(settings.model.as_deref(), &settings.local, DEFAULT_GENERATOR)?;
    Ok(Weights::find(&model, &settings.local)?.profile)
}

/// The model that is meant: the named one, the base of an adapter, or else `usual`.
pub(crate) fn model_name(model: Option<&str>, settings: &LocalSettings, usual: &str) -> Result<String> {
    Ok(match (model, &settings.adapter) {
        (Some(model), _) => model.to_owned(),
        (None, Some(adapter)) => models::base_of(&Store::from_env()?, adapter)?,
        (None, None) => usual.to_owned(),
    })
}

/// Refuses a profile that does not read the head that was trained.
fn check_head(name: &str, head: HeadKind, profile: &Profile) -> Result<()> {
    if profile.score.head() == head {
        return Ok(());
    }
    Err(Error::settings(format!(
        "{name} was trained with a {}, which the profile {} does not read: omit --profile and --pool, or use another \
         model",
        head.describe(),
        profile.name
    )))
}

/// Refuses a model that writes no text, before it is loaded.
pub(crate) fn expect_text(name: &str, settings: &LocalSettings) -> Result<()> {
    refuse_text(name, Weights::find(name, settings)?.trained.and_then(|trained| trained.head))
}

/// Refuses text of a model that was trained to give classes or values.
fn refuse_text(name: &str, head: Option<HeadKind>) -> Result<()> {
    match head {
        None | Some(HeadKind::Tokens) => Ok(()),
        Some(head) => Err(Error::settings(format!(
            "{name} is a reward model with a {} and writes no text: use its base",
            head.describe()
        ))),
    }
}

/// The reward model that is meant when neither it nor an adapter is named: the one that ships with the program, or with
/// another profile the small language model that those are for.
pub(crate) fn default_scorer(profile: Option<&str>) -> &'static str {
    let ours = profile.is_none_or(|profile| profile == SHIPPED_PROFILE);
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

/// The built-in profile that the name of scores in data ends in, as [`scorer_name`] gave it.
pub fn profile_of_scores(name: &str) -> Option<Profile> {
    let profile = if name == SHIPPED { SHIPPED_PROFILE } else { name.rsplit_once('/')?.1 };
    Profile::built_in().into_iter().find(|known| known.name == profile)
}

/// The rule by which scores of this name in data become a first error: their profile's where that is known.
pub fn decision_of_scores(name: &str) -> DecisionRule {
    profile_of_scores(name).map(|profile| profile.decision).unwrap_or_default()
}

/// Whether exact checks decide beside scores of this name in data: as their profile says, where that is known.
pub fn has_exact_checks(name: &str) -> bool {
    profile_of_scores(name).is_some_and(|profile| profile.exact_checks)
}

/// A model's tokenizer without its weights.
pub(crate) fn tokenizer(name: &str) -> Result<Arc<Tokenizer>> {
    let tokenizer = match models::resolve(name)? {
        ModelPath::Folder(folder) => Tokenizer::from_folder(&folder)?,
        ModelPath::Gguf(file) => Tokenizer::from_gguf(&Gguf::open(&file)?)?,
    };
    Ok(Arc::new(tokenizer))
}

/// A hash of a model's files without loading them.
pub(crate) fn files(name: &str) -> Result<String> {
    Ok(models::fingerprint(models::resolve(name)?.as_path(), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_profile_means_the_small_language_model() {
        assert_eq!(default_scorer(None), "gradus-prm");
        assert_eq!(default_scorer(Some("plain")), "smollm2-135m");
    }

    #[test]
    fn scores_in_data_are_known_by_their_name() {
        let profile = |name| profile_of_scores(name).map(|profile| profile.name);
        assert_eq!(profile("gradus-prm").as_deref(), Some("gradus"));
        assert_eq!(profile("org/model/math-shepherd").as_deref(), Some("math-shepherd"));
        assert_eq!((profile("plain"), profile("model/mine")), (None, None));
    }
}
