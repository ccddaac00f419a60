//! A recipe: what is trained on what, and how, as a TOML file.
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
//! [optimiser]
//! learning_rate = 1e-4
//! [steps]
//! epochs = 1
//! [prm]
//! profile = "plain"
//! ```
//!
//! Required are `objective`, `model.base`, `data.train`, `optimiser.learning_rate` and one of `steps.total` and
//! `steps.epochs`; everything else has a default. A key that would have no effect is refused: an unknown one, a
//! section of another objective, `eval_every` without data to evaluate on. [`Recipe`] holds everything resolved, and
//! is written that way into the run folder.

mod check;
mod objectives;
mod sections;
mod sets;
mod trouble;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::io;
use crate::{Error, Result};

pub use objectives::{Grpo, Head, LengthWeight, Loss, Objective, Orm, Orpo, Pairs, Prm, Readout, Sft};
pub use sections::{
    Batch, Best, Better, Data, Full, Length, Lora, Model, Neutral, Optimiser, Precision, Schedule, Steps,
    Stored, Tuning, Warmup,
};

/// What is trained on what, and how; everything resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Where all random choices come from. Default 0.
    pub seed: u64,
    /// What is trained.
    pub model: Model,
    /// Which weights change.
    pub tuning: Tuning,
    /// What it is trained and evaluated on.
    pub data: Data,
    /// How weights change.
    pub optimiser: Optimiser,
    /// How much goes through the model at once, and between two changes of weights.
    pub batch: Batch,
    /// How long, and what happens how often.
    pub steps: Steps,
    /// What is learnt.
    pub objective: Objective,
}

/// The recipe as it stands in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    objective: Kind,
    #[serde(default)]
    seed: u64,
    model: Model,
    lora: Option<Lora>,
    full: Option<Full>,
    data: sections::WrittenData,
    optimiser: Optimiser,
    #[serde(default)]
    batch: Batch,
    steps: sections::WrittenSteps,
    sft: Option<Sft>,
    prm: Option<objectives::WrittenPrm>,
    orm: Option<objectives::WrittenOrm>,
    orpo: Option<Orpo>,
    grpo: Option<Grpo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Sft,
    Prm,
    Orm,
    Orpo,
    Grpo,
}

impl Recipe {
    /// Reads a recipe and applies settings of the form `optimiser.learning_rate=1e-5` to it, the last one winning.
    /// Their values are TOML; what is no TOML value is taken as text, so quotes are not needed.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(io(path))?;
        Self::parse(&text, &path.display().to_string(), sets)
    }

    /// Like [`Recipe::read`] for a recipe in memory; `name` stands in messages.
    ///
    /// ```
    /// use gradus_train::run::Recipe;
    ///
    /// let text = "objective = 'sft'\nmodel.base = 'smollm2-135m'\ndata.train = ['a.jsonl']\n\
    ///             optimiser.learning_rate = 1e-4\nsteps.total = 100";
    /// let recipe = Recipe::parse(text, "recipe.toml", &["seed=7".to_owned()])?;
    /// assert_eq!(recipe.seed, 7);
    /// # Ok::<(), gradus_train::Error>(())
    /// ```
    pub fn parse(text: &str, name: &str, sets: &[String]) -> Result<Self> {
        let mut table: toml::Table = text.parse().map_err(|error| trouble::syntax(name, text, &error))?;
        for set in sets {
            sets::apply(&mut table, set)?;
        }
        let mut track = serde_path_to_error::Track::new();
        let value = toml::Value::Table(table);
        let written = Written::deserialize(serde_path_to_error::Deserializer::new(value, &mut track))
            .map_err(|error| trouble::keys(name, sets, &track.path(), &error))?;
        let recipe = written.resolve().and_then(|recipe| check::ranges(&recipe).map(|()| recipe));
        let place = if sets.is_empty() { name.to_owned() } else { format!("{name} with --set") };
        recipe.map_err(|message| Error::Recipe { place, message })
    }

    /// The recipe as TOML, every default written out. Reading it again gives the same recipe.
    pub fn to_toml(&self) -> String {
        toml::to_string(&Written::from(self)).expect("a recipe has only what TOML can hold")
    }

    /// Keys whose values differ, as `optimiser.learning_rate`, with both values; absent ones are empty.
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let [mine, theirs] = [self, other].map(|recipe| {
            toml::Table::try_from(Written::from(recipe)).expect("a recipe has only what TOML can hold")
        });
        let mut found = Vec::new();
        sets::differences("", &mine, &theirs, &mut found);
        found
    }
}

impl Written {
    fn resolve(self) -> std::result::Result<Recipe, String> {
        let tuning = match (self.lora, self.full) {
            (Some(_), Some(_)) => {
                return Err("has both [lora] and [full]: keep the one that is meant".to_owned());
            }
            (None, Some(full)) => Tuning::Full(full),
            (lora, None) => Tuning::Lora(lora.unwrap_or_default()),
        };
        let present = [
            ("sft", Kind::Sft, self.sft.is_some()),
            ("prm", Kind::Prm, self.prm.is_some()),
            ("orm", Kind::Orm, self.orm.is_some()),
            ("orpo", Kind::Orpo, self.orpo.is_some()),
            ("grpo", Kind::Grpo, self.grpo.is_some()),
        ];
        let own = present.iter().find(|(_, kind, _)| *kind == self.objective).map_or("", |(name, ..)| name);
        if let Some((other, ..)) = present.iter().find(|(_, kind, there)| *there && *kind != self.objective) {
            return Err(format!(
                "has a section [{other}], which has no effect on the objective `{own}`: take it out, or change the objective"
            ));
        }
        let objective = match self.objective {
            Kind::Sft => Objective::Sft(self.sft.unwrap_or_default()),
            Kind::Prm => Objective::Prm(self.prm.unwrap_or_default().resolve()?),
            Kind::Orm => Objective::Orm(self.orm.unwrap_or_default().resolve()?),
            Kind::Orpo => Objective::Orpo(self.orpo.unwrap_or_default()),
            Kind::Grpo => Objective::Grpo(self.grpo.unwrap_or_default()),
        };
        let data = self.data.resolve(&objective)?;
        let steps = self.steps.resolve(!data.eval.is_empty(), &objective)?;
        let Self { seed, model, optimiser, batch, .. } = self;
        Ok(Recipe { seed, model, tuning, data, optimiser, batch, steps, objective })
    }
}

impl From<&Recipe> for Written {
    fn from(recipe: &Recipe) -> Self {
        let recipe = recipe.clone();
        let (lora, full) = match recipe.tuning {
            Tuning::Lora(lora) => (Some(lora), None),
            Tuning::Full(full) => (None, Some(full)),
        };
        let mut written = Self {
            objective: Kind::Sft,
            seed: recipe.seed,
            model: recipe.model,
            lora,
            full,
            data: recipe.data.into(),
            optimiser: recipe.optimiser,
            batch: recipe.batch,
            steps: recipe.steps.into(),
            sft: None,
            prm: None,
            orm: None,
            orpo: None,
            grpo: None,
        };
        match recipe.objective {
            Objective::Sft(sft) => written.sft = Some(sft),
            Objective::Prm(prm) => (written.objective, written.prm) = (Kind::Prm, Some(prm.into())),
            Objective::Orm(orm) => (written.objective, written.orm) = (Kind::Orm, Some(orm.into())),
            Objective::Orpo(orpo) => (written.objective, written.orpo) = (Kind::Orpo, Some(orpo)),
            Objective::Grpo(grpo) => (written.objective, written.grpo) = (Kind::Grpo, Some(grpo)),
        }
        written
    }
}

#[cfg(test)]
mod tests;
