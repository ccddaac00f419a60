//! Two-stage retrieval (RetrievalPRM, Zhu et al., 2025): a target's nearest questions become references; the steps of all
//! solutions of somewhat more questions are a database, in which each of its steps finds the nearest ones.
//!
//! What a strategy needs of all targets' texts is embedded in one pass, each once; the pool's vectors are never made
//! again. The leak guard keeps a target's own question out, both as reference and as source of steps: by its text (equal
//! after normalization, or near), by its vector, and its own solutions by name. Paraphrases below the cosine threshold
//! are not recognized.

mod database;
mod found;
mod guard;
mod search;

use std::collections::HashMap;

use gradus_core::contracts::{Embed, Embeddings, ScoreRequest};
use serde::{Deserialize, Serialize};

pub use found::{Excluded, Found, Neighbor, Retrieved, Seen};

use crate::embed::{Batches, embed};
use crate::error::{Error, Result};
use crate::source::PoolSource;
use search::Asked;

/// What references are wanted for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The target's id; a random choice depends on it.
    pub id: String,
    /// Text of the question.
    pub question: String,
    /// The steps, in order.
    pub steps: Vec<String>,
    /// Ids of solutions that must not be used: its own.
    pub own: Vec<String>,
}

impl From<&ScoreRequest> for Target {
    fn from(request: &ScoreRequest) -> Self {
        Self {
            id: request.id.clone(),
            question: request.problem.clone(),
            steps: request.steps.clone(),
            own: vec![request.id.clone()],
        }
    }
}

/// How references are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The nearest by the pool's encoder.
    #[default]
    Nearest,
    /// The nearest by TF-IDF. What shares no word with the target is not found.
    TfIdf,
    /// Random ones, as a baseline. Nothing is embedded: the leak guard goes by words alone.
    Random {
        /// Random seed.
        seed: u64,
    },
}

/// What is retrieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Reference questions of a target; 0 for none.
    pub questions: usize,
    /// Questions whose solutions' steps are the step database.
    pub database: usize,
    /// Reference steps of a step; 0 for none.
    pub steps: usize,
    /// How references are chosen.
    pub strategy: Strategy,
    /// Share of word shingles in common from which a question is the target's own.
    pub near: f64,
    /// Cosine similarity from which a question is the target's own.
    pub cosine: f32,
    /// Lets the target's own question pass; its own solutions still do not.
    pub allow_duplicates: bool,
    /// Texts per request to the encoder.
    pub batch: usize,
    /// Maximum requests in flight.
    pub ahead: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            questions: 2,
            database: 10,
            steps: 1,
            strategy: Strategy::Nearest,
            near: 0.8,
            cosine: 0.98,
            allow_duplicates: false,
            batch: 256,
            ahead: 2,
        }
    }
}

impl Settings {
    fn check(&self, pool: &dyn PoolSource) -> Result<()> {
        let refuse = |field, message| Err(Error::Setting { field, message });
        let least = pool.manifest().guard.threshold;
        if !(self.near >= least && self.near <= 1.0) {
            let found = self.near;
            let message = format!("is {found}: the pool's guard finds similarities from {least} to 1");
            return refuse("near", message);
        }
        if self.cosine.is_nan() {
            return refuse("cosine", "is no number".to_owned());
        }
        for (field, value) in [("database", self.database), ("batch", self.batch), ("ahead", self.ahead)] {
            if value == 0 {
                return refuse(field, "is 0: expected at least 1".to_owned());
            }
        }
        Ok(())
    }

    /// Questions that are looked for.
    fn wanted(&self) -> usize {
        if self.steps == 0 { self.questions } else { self.questions.max(self.database) }
    }

    /// Whether the vectors of a target's question are needed, to search or for the leak guard, and so an encoder.
    pub fn embeds(&self) -> bool {
        !matches!(self.strategy, Strategy::Random { .. })
    }

    /// Whether the vectors of a target's steps are needed.
    fn embeds_steps(&self) -> bool {
        self.steps > 0 && self.strategy == Strategy::Nearest
    }
}

/// Finds the references of all targets. `watch` hears how many of how many texts are embedded and says whether to go
/// on. Without an encoder, references can only be random ones.
pub async fn retrieve(
    pool: &dyn PoolSource,
    encoder: Option<&dyn Embed>,
    targets: &[Target],
    settings: &Settings,
    mut watch: impl FnMut(usize, usize) -> bool,
) -> Result<Found> {
    settings.check(pool)?;
    let mut texts: Vec<&str> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut number = |text| {
        *known.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() - 1
        })
    };
    let asked: Vec<Asked<'_>> = targets
        .iter()
        .map(|target| {
            let steps = if settings.embeds_steps() { &target.steps } else { &[][..] };
            let question = settings.embeds().then(|| number(target.question.as_str()));
            Asked { target, question, steps: steps.iter().map(|step| number(step.as_str())).collect() }
        })
        .collect();
    let mut found = Found { embedded: texts.len(), ..Found::default() };
    let dimension = pool.manifest().dimension;
    let mut vectors = vec![0.0; texts.len() * dimension];
    let batches = Batches { size: settings.batch, ahead: settings.ahead };
    let mut done = 0;
    let take = |batch: &[usize], answer: Embeddings| {
        if answer.dimension != dimension {
            let found = answer.dimension;
            let message = format!("it gives {found} dimensions, and the pool was built with {dimension}");
            return Err(Error::Encoder { done, total: texts.len(), message });
        }
        for (&index, row) in batch.iter().zip(answer.rows()) {
            vectors[index * dimension..][..dimension].copy_from_slice(row);
        }
        found.truncated += answer.truncated;
        found.tokens += answer.usage.prompt_tokens;
        done += batch.len();
        Ok(watch(done, texts.len()))
    };
    match encoder {
        Some(encoder) => embed(encoder, &texts, batches, take).await?,
        None if settings.embeds() => {
            let message = "is missing: only random references need none".to_owned();
            return Err(Error::Setting { field: "encoder", message });
        }
        None => {}
    }
    let vectors = pool.project(vectors);
    found.targets = search::search(pool, &asked, &vectors, settings).await?;
    Ok(found)
}
