//! What a trained model's folder says about itself: `gradus.json` beside its weights.
//!
//! ```json
//! {"gradus": 1, "objective": "prm", "base": "smollm2-135m", "hub": "HuggingFaceTB/SmolLM2-135M-Instruct",
//!  "profile": "gradus", "head": "classes"}
//! ```
//!
//! A reward model may have a decision rule of its own, as `"decision": {"rule": "posterior", "prior": 0.8}`. A profile
//! that is not built in lies beside it as `profile.toml`, and that is its name here. Adapters of earlier versions
//! and from elsewhere have no such file: their base is the one that `adapter_config.json` names.

use std::path::Path;

use gradus_core::select::DecisionRule;
use serde::{Deserialize, Serialize};

use super::alias::{self, AliasSource};
use super::name::Name;
use super::{ModelPath, Store, folder, resolve_in};
use crate::{Error, HeadKind, Result};

/// The file's name.
pub(super) const FILE: &str = "gradus.json";
/// The file's version.
const VERSION: u32 = 1;
/// The name of a profile that lies beside the weights.
const PROFILE: &str = "profile.toml";

/// What a folder's weights were trained for, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainedModel {
    gradus: u32,
    /// The objective, such as `prm`.
    pub objective: String,
    /// The base's name or folder, as `gradus models` finds it.
    pub base: String,
    /// The base's id on the Hugging Face hub, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// A reward model's profile: a built-in name, or `profile.toml` in the same folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What gives a reward model's verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadKind>,
    /// How its scores become a first error, where that is not what the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRule>,
}

impl TrainedModel {
    /// What is known of a model that was trained on `base`: a short name, an id on the hub, a folder or a file. Local
    /// paths become absolute, so that the folder can be used from anywhere.
    pub fn new(objective: &str, base: &str) -> Self {
        let local = Path::new(base).exists().then(|| std::fs::canonicalize(base).ok()).flatten();
        Self {
            gradus: VERSION,
            objective: objective.to_owned(),
            hub: if local.is_some() { None } else { hub_id(base) },
            base: local.map_or_else(|| base.to_owned(), |path| path.display().to_string()),
            profile: None,
            head: None,
            decision: None,
        }
    }

    /// The base as transformers and PEFT know it: its id on the hub, else its folder or name.
    pub fn base_for_peft(&self) -> &str {
        self.hub.as_deref().unwrap_or(&self.base)
    }

    /// What `folder` says about itself, if it does.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let value = folder::read_json(&path)?;
        if value["gradus"].as_u64().is_some_and(|version| version > u64::from(VERSION)) {
            return Err(Error::model(
                path,
                "it was written by a later version of Gradus: update the program",
            ));
        }
        let trained: Self = serde_json::from_value(value)
            .map_err(|error| Error::model(&path, format!("not a note about a model: {error}")))?;
        if let Some(Err(message)) = trained.decision.map(|decision| decision.check()) {
            return Err(Error::model(path, message));
        }
        if let Some(profile) = trained.profile.as_deref().filter(|name| is_file(name) && *name != PROFILE) {
            let message = format!("names the profile {profile:?}: expected a built-in one or `{PROFILE}`");
            return Err(Error::model(path, message));
        }
        Ok(Some(trained))
    }

    /// Writes the file, and the profile beside it where that is a file of one's own.
    pub fn write(mut self, folder: &Path) -> Result<()> {
        if let Some(own) = self.profile.as_deref().filter(|profile| is_file(profile)) {
            let copy = folder.join(PROFILE);
            std::fs::copy(own, &copy).map_err(|source| Error::io(own, source))?;
            self.profile = Some(PROFILE.to_owned());
        }
        self.write_note(folder)
    }

    /// Gives the model in `folder` another decision rule.
    pub fn decide(folder: &Path, decision: DecisionRule) -> Result<()> {
        let path = folder.join(FILE);
        let Some(mut trained) = Self::read(folder)? else {
            return Err(Error::model(path, "there is no such file, which says what a trained model is"));
        };
        trained.decision = Some(decision);
        trained.write_note(folder)
    }

    fn write_note(&self, folder: &Path) -> Result<()> {
        Ok(gradus_durable::replace_file(&folder.join(FILE), self.text().as_bytes())?)
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a note is JSON") + "\n"
    }

    /// What a note says about scores, where it has a decision rule, which says nothing about them.
    pub(super) fn about_scores(text: &str) -> Option<String> {
        let trained: Self = serde_json::from_str(text).ok()?;
        trained.decision?;
        Some(Self { decision: None, ..trained }.text())
    }

    /// The profile as `--profile` takes it, for the model in `folder`.
    pub fn profile_in(&self, folder: &Path) -> Option<String> {
        let profile = self.profile.as_deref()?;
        Some(match is_file(profile) {
            true => folder.join(profile).display().to_string(),
            false => profile.to_owned(),
        })
    }
}

/// Whether a profile is a file and not the name of a built-in one.
fn is_file(profile: &str) -> bool {
    profile.ends_with(".toml") || profile.contains(['/', '\\'])
}

/// The id on the hub of the model with that name.
fn hub_id(name: &str) -> Option<String> {
    match Name::parse(name, None).ok()? {
        Name::Hub(hub) => Some(hub.id),
        Name::Alias(alias) => hub_source(alias).map(str::to_owned),
        Name::Wheel(_) => None,
    }
}

fn hub_source(alias: &alias::Alias) -> Option<&str> {
    alias.sources.iter().find_map(|source| match source {
        AliasSource::Hub { hub } => Some(hub.as_str()),
        AliasSource::Wheel { .. } => None,
    })
}

/// The name of the base of the adapter in `folder`: the first that is found here of what its notes say. A relative path
/// counts from the working folder, then from the adapter's.
pub fn base_of(store: &Store, folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    if let Some(trained) = TrainedModel::read(folder)? {
        names.extend([Some(trained.base), trained.hub].into_iter().flatten());
    }
    let config = folder::read_json(&folder.join(folder::ADAPTER_CONFIG))?;
    names.extend(config["base_model_name_or_path"].as_str().map(str::to_owned));
    let short = |hub: &String| {
        let alias = alias::aliases().iter().find(|alias| hub_source(alias) == Some(hub));
        alias.map(|alias| alias.name.clone())
    };
    let aliases: Vec<String> = names.iter().filter_map(short).collect();
    let beside = names.iter().map(|name| folder.join(name).display().to_string()).collect::<Vec<_>>();
    let is_base = |name: &&String| match resolve_in(store, name) {
        Ok(ModelPath::Folder(found)) => !folder::is_adapter(&found),
        Ok(ModelPath::Gguf(_)) => true,
        Err(_) => false,
    };
    if let Some(found) = names.iter().chain(&aliases).chain(&beside).find(is_base) {
        return Ok(found.clone());
    }
    let wanted = match names.first().map(|name| resolve_in(store, name)) {
        None => "it does not name its base".to_owned(),
        Some(Ok(other)) => format!("its base {} is an adapter, too", other.as_path().display()),
        Some(Err(error)) => format!("its base is missing: {error}"),
    };
    Err(Error::model(
        folder,
        format!("{wanted}; or name the base with --model, and this folder with --adapter"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back_with_its_profile() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("mine.toml");
        std::fs::write(&own, "name = 'mine'").unwrap();
        let mut trained = TrainedModel::new("prm", "SmolLM2-135M");
        assert_eq!(trained.base_for_peft(), "HuggingFaceTB/SmolLM2-135M-Instruct");
        (trained.profile, trained.head) = (Some(own.display().to_string()), Some(HeadKind::Classes));
        trained.write(root.path()).unwrap();
        let back = TrainedModel::read(root.path()).unwrap().unwrap();
        assert_eq!((back.base.as_str(), back.head), ("SmolLM2-135M", Some(HeadKind::Classes)));
        let profile = back.profile_in(root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(profile).unwrap(), "name = 'mine'");
        let rule = DecisionRule::Posterior { prior: 0.8 };
        TrainedModel::decide(root.path(), rule).unwrap();
        let decided = TrainedModel::read(root.path()).unwrap().unwrap();
        assert_eq!(decided, TrainedModel { decision: Some(rule), ..back });
        assert!(TrainedModel::decide(Path::new("nowhere"), rule).is_err());
        let note = std::fs::read_to_string(root.path().join(FILE)).unwrap();
        for elsewhere in ["/etc/passwd.toml", "../mine.toml", "mine.toml", "/etc/passwd"] {
            let note = note.replace(PROFILE, elsewhere);
            std::fs::write(root.path().join(FILE), note).unwrap();
            let refused = TrainedModel::read(root.path()).unwrap_err().to_string();
            assert!(refused.contains("expected a built-in one or `profile.toml`"), "{refused}");
        }
        assert_eq!(TrainedModel::new("sft", "org/name@v2").hub.as_deref(), Some("org/name"));
        let here = TrainedModel::new("sft", &root.path().display().to_string());
        assert!(Path::new(&here.base).is_absolute() && here.hub.is_none());
    }

    #[test]
    fn a_base_is_found_by_any_of_its_names() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::in_folder(root.path());
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let adapter = root.path().join("adapter");
        file("adapter/adapter_model.safetensors", "");
        file("adapter/adapter_config.json", r#"{"base_model_name_or_path": "../base"}"#);
        let missing = base_of(&store, &adapter).unwrap_err().to_string();
        assert!(missing.contains("its base is missing: there is no model ../base"), "{missing}");
        file("base/config.json", "{}");
        file("base/model.safetensors", "");
        assert!(base_of(&store, &adapter).unwrap().ends_with("../base"));
        // An alias that was pulled serves an adapter that names the hub's id.
        file(
            "adapter/adapter_config.json",
            r#"{"base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct"}"#,
        );
        let snapshot = "hf/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct";
        file(&format!("{snapshot}/refs/main"), "abc");
        file(&format!("{snapshot}/snapshots/abc/config.json"), "{}");
        file(&format!("{snapshot}/snapshots/abc/model.safetensors"), "");
        assert_eq!(base_of(&store, &adapter).unwrap(), "HuggingFaceTB/SmolLM2-135M-Instruct");
        file("adapter/adapter_config.json", "{}");
        assert!(base_of(&store, &adapter).unwrap_err().to_string().contains("does not name its base"));
    }
}
