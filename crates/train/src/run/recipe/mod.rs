//! Recipes: model, data, objective and hyperparameters of a run, as a TOML file.
//!
//! ```toml
//! objective = "prm"
//! seed = 7
//! [model]
//! base = "smollm2-135m"
//! [lora]
//! rank = 32
//! [data]
//! train = ["train.jsonl"]
//! [optimizer]
//! learning_rate = 1e-4
//! [steps]
//! epochs = 1
//! [prm]
//! profile = "plain"
//! ```
//!
//! Required are `objective`, `model.base`, `data.train`, `optimizer.learning_rate` and one of `steps.total` and
//! `steps.epochs`; everything else has a default. A key that would have no effect is refused: an unknown one, a
//! section of another objective, `eval_every` without data to evaluate on. [`Recipe`] has every default filled in, and
//! is written that way into the run folder. Each section's type lies beside the code that reads it.

mod check;
mod messages;
mod objective;
mod overrides;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::steps::{StepsConfig, StepsSection};
use crate::data::DataConfig;
use crate::error::io;
use crate::example::BatchConfig;
use crate::load::ModelConfig;
use crate::lora::LoraConfig;
use crate::losses::{GrpoConfig, OrpoConfig, SftConfig};
use crate::objectives::{OrmConfig, PrmConfig};
use crate::optimizer::OptimizerConfig;
use crate::trainable::Tuning;
use crate::{Error, Result};

pub(crate) use objective::Objective;

/// A resolved recipe: every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Random seed. Default 0.
    pub(crate) seed: u64,
    /// The base model.
    pub(crate) model: ModelConfig,
    /// Which weights are trained.
    pub(crate) tuning: Tuning,
    /// Training and evaluation data.
    pub(crate) data: DataConfig,
    /// AdamW and its learning rate.
    pub(crate) optimizer: OptimizerConfig,
    /// Batch sizes: tokens per pass, examples per optimizer step.
    pub(crate) batch: BatchConfig,
    /// Length of the run, and intervals of evaluations and checkpoints.
    pub(crate) steps: StepsConfig,
    /// What is trained.
    pub(crate) objective: Objective,
}

/// The recipe as it stands in a file. Old spellings of keys are replaced before ([`overrides::modernize`]).
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    objective: ObjectiveName,
    #[serde(default)]
    seed: u64,
    model: ModelConfig,
    lora: Option<LoraConfig>,
    full: Option<FullSection>,
    data: DataConfig,
    optimizer: OptimizerConfig,
    #[serde(default)]
    batch: BatchConfig,
    steps: StepsSection,
    sft: Option<SftConfig>,
    prm: Option<PrmConfig>,
    orm: Option<OrmConfig>,
    orpo: Option<OrpoConfig>,
    grpo: Option<GrpoConfig>,
}

/// `[full]`: full fine-tuning. It has no keys; its presence says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullSection {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ObjectiveName {
    Sft,
    Prm,
    Orm,
    Orpo,
    Grpo,
}

impl Recipe {
    /// Reads a recipe and applies settings of the form `optimizer.learning_rate=1e-5` to it, the last one winning.
    /// Their values are TOML; what is no TOML value is taken as text, so quotes are not needed.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(io(path))?;
        Self::parse(&text, &path.display().to_string(), sets)
    }

    /// Like [`Recipe::read`] for a recipe in memory; `name` stands in messages.
    pub(crate) fn parse(text: &str, name: &str, sets: &[String]) -> Result<Self> {
        let mut table: toml::Table = text.parse().map_err(|error| messages::syntax(name, text, &error))?;
        overrides::modernize(&mut table)
            .map_err(|message| Error::Recipe { location: name.to_owned(), message })?;
        for set in sets {
            overrides::apply(&mut table, set)?;
        }
        let mut track = serde_path_to_error::Track::new();
        let value = toml::Value::Table(table);
        let file = RecipeFile::deserialize(serde_path_to_error::Deserializer::new(value, &mut track))
            .map_err(|error| messages::keys(name, sets, &track.path(), &error))?;
        let recipe = file.resolve().and_then(|recipe| check::ranges(&recipe).map(|()| recipe));
        let location = if sets.is_empty() { name.to_owned() } else { format!("{name} with --set") };
        recipe.map_err(|message| Error::Recipe { location, message })
    }

    /// The name of its objective, as in `gradus train NAME`.
    pub fn objective(&self) -> &'static str {
        self.objective.name()
    }

    /// The recipe as TOML, every default written out. Reading it again gives the same recipe.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(&RecipeFile::from(self)).expect("a recipe has only what TOML can hold")
    }

    /// Keys whose values differ, as `optimizer.learning_rate`, with both values; absent ones are empty.
    pub(crate) fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let [mine, theirs] = [self, other].map(|recipe| {
            toml::Table::try_from(RecipeFile::from(recipe)).expect("a recipe has only what TOML can hold")
        });
        let mut found = Vec::new();
        overrides::differences("", &mine, &theirs, &mut found);
        found
    }
}

impl RecipeFile {
    fn resolve(self) -> std::result::Result<Recipe, String> {
        let tuning = match (self.lora, self.full) {
            (Some(_), Some(_)) => {
                return Err("has both [lora] and [full]: keep the one that is meant".to_owned());
            }
            (None, Some(FullSection {})) => Tuning::Full,
            (lora, None) => Tuning::Lora(lora.unwrap_or_default()),
        };
        let present = [
            ("sft", ObjectiveName::Sft, self.sft.is_some()),
            ("prm", ObjectiveName::Prm, self.prm.is_some()),
            ("orm", ObjectiveName::Orm, self.orm.is_some()),
            ("orpo", ObjectiveName::Orpo, self.orpo.is_some()),
            ("grpo", ObjectiveName::Grpo, self.grpo.is_some()),
        ];
        let own = present.iter().find(|(_, kind, _)| *kind == self.objective).map_or("", |(name, ..)| name);
        if let Some((other, ..)) = present.iter().find(|(_, kind, there)| *there && *kind != self.objective) {
            return Err(format!(
                "has a section [{other}], which has no effect on the objective `{own}`: take it out, or change the objective"
            ));
        }
        let objective = match self.objective {
            ObjectiveName::Sft => Objective::Sft(self.sft.unwrap_or_default()),
            ObjectiveName::Prm => Objective::Prm(self.prm.unwrap_or_default().resolve()?),
            ObjectiveName::Orm => Objective::Orm(self.orm.unwrap_or_default().resolve()?),
            ObjectiveName::Orpo => Objective::Orpo(self.orpo.unwrap_or_default()),
            ObjectiveName::Grpo => Objective::Grpo(self.grpo.unwrap_or_default()),
        };
        let data = self.data.resolve(objective.uses_step_labels())?;
        let steps = self.steps.resolve(!data.eval.is_empty(), objective.default_best())?;
        let Self { seed, model, optimizer, batch, .. } = self;
        Ok(Recipe { seed, model, tuning, data, optimizer, batch, steps, objective })
    }
}

impl From<&Recipe> for RecipeFile {
    fn from(recipe: &Recipe) -> Self {
        let recipe = recipe.clone();
        let (lora, full) = match recipe.tuning {
            Tuning::Lora(lora) => (Some(lora), None),
            Tuning::Full => (None, Some(FullSection {})),
        };
        let mut file = Self {
            objective: ObjectiveName::Sft,
            seed: recipe.seed,
            model: recipe.model,
            lora,
            full,
            data: recipe.data,
            optimizer: recipe.optimizer,
            batch: recipe.batch,
            steps: recipe.steps.into(),
            sft: None,
            prm: None,
            orm: None,
            orpo: None,
            grpo: None,
        };
        match recipe.objective {
            Objective::Sft(sft) => file.sft = Some(sft),
            Objective::Prm(prm) => (file.objective, file.prm) = (ObjectiveName::Prm, Some(prm)),
            Objective::Orm(orm) => (file.objective, file.orm) = (ObjectiveName::Orm, Some(orm)),
            Objective::Orpo(orpo) => (file.objective, file.orpo) = (ObjectiveName::Orpo, Some(orpo)),
            Objective::Grpo(grpo) => (file.objective, file.grpo) = (ObjectiveName::Grpo, Some(grpo)),
        }
        file
    }
}

#[cfg(test)]
mod tests;
