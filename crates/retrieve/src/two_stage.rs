//! Two-stage retrieval (RetrievalPRM, Zhu et al., 2025): a target's nearest questions become references; the steps of all
//! solutions of somewhat more questions are a database, in which each of its steps finds the nearest ones.
//!
//! All texts of all targets are embedded in one pass, each once; the pool's vectors are never made again. The leak guard
//! keeps a target's own question out, both as reference and as source of steps: by its text (equal after normalisation,
//! or near), by its vector, and its own solutions by name. Paraphrases below the cosine threshold are not recognised.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use gradus_core::contracts::{Embed, ReferenceProblem, ReferenceStep, ScoreRequest};
use gradus_core::data::Mark;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::embed::{Batches, embed, key};
use crate::error::{Error, Result};
use crate::pool::{Duplicate, Pool, Solution};
use crate::search::{Hit, dot, top_k};

/// What references are wanted for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Names it; a random choice depends on it.
    pub id: String,
    /// What is asked.
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
    /// Any, for comparison; the guard holds all the same.
    Random {
        /// The same seed makes the same choice.
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
    /// How they are chosen.
    pub strategy: Strategy,
    /// Share of word shingles in common from which a question is the target's own.
    pub near: f64,
    /// Cosine similarity from which a question is the target's own.
    pub cosine: f32,
    /// Lets the target's own question pass; its own solutions still do not.
    pub allow_duplicates: bool,
    /// Texts in a request to the encoder.
    pub batch: usize,
    /// Requests in flight.
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
    fn check(&self, pool: &Pool) -> Result<()> {
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
}

/// References of several targets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// One per target, in order.
    pub targets: Vec<Retrieved>,
    /// Texts that were embedded: those of all targets, each once.
    pub embedded: usize,
    /// Texts that were longer than the encoder's limit, and cut there.
    pub truncated: usize,
    /// Tokens that went through the encoder.
    pub tokens: u64,
}

/// References of a target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Retrieved {
    /// The target's id.
    pub id: String,
    /// Solved problems; fewer than asked for where the pool has no more.
    pub references: Vec<ReferenceProblem>,
    /// For each step the steps that resemble it; empty where none are wanted.
    pub step_references: Vec<Vec<ReferenceStep>>,
    /// Where each reference is from.
    pub questions: Vec<Neighbour>,
    /// Where each reference step is from.
    pub steps: Vec<Vec<Neighbour>>,
    /// Similarity of the nearest question that the guard lets pass: a low one says that the pool knows nothing like it.
    pub nearest: Option<f32>,
    /// What the guard kept out.
    pub excluded: Excluded,
}

impl Retrieved {
    /// Puts the references into a request.
    pub fn into_request(self, request: &mut ScoreRequest) {
        request.references = self.references;
        request.step_references = self.step_references;
    }
}

/// Where something is in the pool, and how near.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The problem's id.
    pub question: String,
    /// The solution's id.
    pub solution: String,
    /// The step's number in it, where it is a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Cosine similarity.
    pub similarity: f32,
}

/// What the leak guard kept out: questions, each by the first reason that holds, and solutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Questions equal after normalisation.
    pub exact: usize,
    /// Questions with enough word shingles in common.
    pub near: usize,
    /// Questions whose vector is too near.
    pub cosine: usize,
    /// Solutions that are the target's own.
    pub own: usize,
}

/// Finds the references of all targets.
pub async fn retrieve(
    pool: &Pool,
    encoder: &dyn Embed,
    targets: &[Target],
    settings: &Settings,
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
            let steps = if settings.steps == 0 { &[][..] } else { &target.steps };
            let question = number(target.question.as_str());
            Asked { target, question, steps: steps.iter().map(|step| number(step.as_str())).collect() }
        })
        .collect();
    let mut found = Found { embedded: texts.len(), ..Found::default() };
    let dimension = pool.manifest().dimension;
    let mut vectors = vec![0.0; texts.len() * dimension];
    let batches = Batches { size: settings.batch, ahead: settings.ahead };
    embed(encoder, &texts, batches, |batch, answer| {
        if answer.dimension != dimension {
            let found = answer.dimension;
            let message = format!("it gives {found} dimensions, and the pool was built with {dimension}");
            return Err(Error::Encoder { done: 0, total: texts.len(), message });
        }
        for (&index, row) in batch.iter().zip(answer.rows()) {
            vectors[index * dimension..][..dimension].copy_from_slice(row);
        }
        found.truncated += answer.truncated;
        found.tokens += answer.usage.prompt_tokens;
        Ok(true)
    })
    .await?;
    let vectors = pool.project(vectors);
    found.targets = search(pool, &asked, &vectors, settings);
    Ok(found)
}

/// A target and the rows of its texts.
struct Asked<'a> {
    target: &'a Target,
    question: usize,
    steps: Vec<usize>,
}

/// What a target must not see.
struct Barred {
    /// Questions, ascending.
    questions: Vec<u32>,
    solutions: HashSet<usize>,
    excluded: Excluded,
}

fn search(pool: &Pool, asked: &[Asked<'_>], vectors: &[f32], settings: &Settings) -> Vec<Retrieved> {
    let dimension = pool.dimension();
    let row = |index: usize| &vectors[index * dimension..][..dimension];
    let barred = bar(pool, asked, settings);
    let queries: Vec<f32> = asked.iter().flat_map(|asked| row(asked.question)).copied().collect();
    let too_near: Vec<AtomicUsize> = asked.iter().map(|_| AtomicUsize::new(0)).collect();
    let guarded = |similarity: f32| !settings.allow_duplicates && similarity >= settings.cosine;
    // Whatever is too near beats all that is kept, so that the search asks about each such row exactly once.
    let keep = |target: usize, question: u32, similarity: f32| {
        if barred[target].questions.binary_search(&question).is_ok() {
            return false;
        }
        if guarded(similarity) {
            too_near[target].fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    };
    let nearest = top_k(pool.question_rows(), dimension, &queries, settings.wanted().max(1), keep);
    let work = asked.par_iter().zip(nearest).zip(barred.par_iter().zip(too_near));
    let one = |((asked, nearest), (barred, too_near)): ((&Asked<'_>, Vec<Hit>), (&Barred, AtomicUsize))| {
        let mut excluded = barred.excluded;
        excluded.cosine = too_near.into_inner();
        let mut choice = match settings.strategy {
            Strategy::Nearest => None,
            Strategy::Random { seed } => Some(random(seed, &asked.target.id)),
        };
        let hits = match &mut choice {
            None => nearest.clone(),
            Some(random) => {
                let total = pool.manifest().counts.questions;
                let enough = settings.wanted() + barred.questions.len() + excluded.cosine;
                let drawn = sample(random, total, enough.min(total)).into_iter().map(|question| {
                    let similarity = dot(pool.question(question).vector(), row(asked.question));
                    Hit { row: question as u32, similarity }
                });
                let passes =
                    |hit: &Hit| barred.questions.binary_search(&hit.row).is_err() && !guarded(hit.similarity);
                drawn.filter(passes).take(settings.wanted()).collect()
            }
        };
        let (references, questions) =
            hits.iter().take(settings.questions).map(|hit| reference(pool, *hit, barred)).unzip();
        let (step_references, steps) = if settings.steps == 0 {
            Default::default()
        } else {
            let database = Database::new(pool, &hits[..hits.len().min(settings.database)], barred);
            let queries: Vec<f32> = asked.steps.iter().flat_map(|&step| row(step)).copied().collect();
            database.nearest(pool, &queries, settings.steps, choice)
        };
        Retrieved {
            id: asked.target.id.clone(),
            references,
            step_references,
            questions,
            steps,
            nearest: nearest.first().map(|hit| hit.similarity),
            excluded,
        }
    };
    work.map(one).collect()
}

/// What each target must not see, but for what only its vector tells.
fn bar(pool: &Pool, asked: &[Asked<'_>], settings: &Settings) -> Vec<Barred> {
    let ids: HashSet<&str> = asked.iter().flat_map(|asked| &asked.target.own).map(String::as_str).collect();
    let mut owned: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    if !ids.is_empty() {
        for question in pool.questions() {
            for solution in question.solutions().filter(|solution| ids.contains(solution.id)) {
                owned.entry(solution.id).or_default().push((question.index, solution.index));
            }
        }
    }
    let one = |asked: &Asked<'_>| {
        let mut excluded = Excluded::default();
        let mut questions = Vec::new();
        if !settings.allow_duplicates {
            for (question, kind) in pool.duplicates(&asked.target.question, settings.near) {
                questions.push(question);
                match kind {
                    Duplicate::Exact => excluded.exact += 1,
                    Duplicate::Near => excluded.near += 1,
                }
            }
        }
        let own = asked.target.own.iter().filter_map(|id| owned.get(id.as_str())).flatten();
        let (of, solutions): (Vec<usize>, HashSet<usize>) = own.copied().unzip();
        excluded.own = solutions.len();
        // A question with nothing but the target's own solutions has nothing to show.
        let empty = of.into_iter().filter(|&question| {
            pool.question(question).solutions().all(|solution| solutions.contains(&solution.index))
        });
        questions.extend(empty.map(|question| question as u32));
        questions.sort_unstable();
        questions.dedup();
        Barred { questions, solutions, excluded }
    };
    asked.par_iter().map(one).collect()
}

/// A question with its first solution that is not the target's own.
fn reference(pool: &Pool, hit: Hit, barred: &Barred) -> (ReferenceProblem, Neighbour) {
    let question = pool.question(hit.row as usize);
    let solution =
        allowed(question.solutions(), barred).next().expect("a question without a solution is barred");
    let steps = solution.steps().map(|step| (step.text.to_owned(), step.mark)).collect();
    let from = Neighbour {
        question: question.id.to_owned(),
        solution: solution.id.to_owned(),
        step: None,
        similarity: hit.similarity,
    };
    (ReferenceProblem { question: question.text.to_owned(), steps }, from)
}

fn allowed<'a>(
    solutions: impl Iterator<Item = Solution<'a>>,
    barred: &Barred,
) -> impl Iterator<Item = Solution<'a>> {
    solutions.filter(|solution| !barred.solutions.contains(&solution.index))
}

/// The steps of a few questions, each text once, as it stands in the nearest question that has it.
struct Database<'a> {
    steps: Vec<Place<'a>>,
    vectors: Vec<f32>,
}

struct Place<'a> {
    question: &'a str,
    solution: &'a str,
    step: usize,
    text: &'a str,
    mark: Mark,
}

impl<'a> Database<'a> {
    fn new(pool: &'a Pool, questions: &[Hit], barred: &Barred) -> Self {
        let dimension = pool.dimension();
        let (mut seen, mut steps, mut vectors) = (HashSet::new(), Vec::new(), Vec::new());
        for hit in questions {
            let question = pool.question(hit.row as usize);
            for solution in allowed(question.solutions(), barred) {
                for (number, step) in solution.steps().enumerate() {
                    if seen.insert(step.row) {
                        vectors.extend_from_slice(
                            &pool.step_rows()[step.row as usize * dimension..][..dimension],
                        );
                        let (question, solution) = (question.id, solution.id);
                        steps.push(Place {
                            question,
                            solution,
                            step: number,
                            text: step.text,
                            mark: step.mark,
                        });
                    }
                }
            }
        }
        Self { steps, vectors }
    }

    fn nearest(
        &self,
        pool: &Pool,
        queries: &[f32],
        count: usize,
        random: Option<ChaCha8Rng>,
    ) -> (Vec<Vec<ReferenceStep>>, Vec<Vec<Neighbour>>) {
        let dimension = pool.dimension();
        let found = match random {
            None => top_k(&self.vectors, dimension, queries, count, |_, _, _| true),
            Some(mut random) => {
                let total = self.steps.len();
                let mut draw = |query: &[f32]| {
                    let drawn = sample(&mut random, total, count.min(total)).into_iter();
                    let hit = |row: usize| {
                        let similarity = dot(&self.vectors[row * dimension..][..dimension], query);
                        Hit { row: row as u32, similarity }
                    };
                    drawn.map(hit).collect()
                };
                queries.chunks_exact(dimension).map(&mut draw).collect()
            }
        };
        let describe = |hit: &Hit| {
            let place = &self.steps[hit.row as usize];
            let from = Neighbour {
                question: place.question.to_owned(),
                solution: place.solution.to_owned(),
                step: Some(place.step),
                similarity: hit.similarity,
            };
            (ReferenceStep { text: place.text.to_owned(), mark: place.mark }, from)
        };
        found.iter().map(|hits| hits.iter().map(describe).unzip()).unzip()
    }
}

/// The same choice for the same target, whatever else is asked.
fn random(seed: u64, id: &str) -> ChaCha8Rng {
    let of_id = u64::from_le_bytes(key(id)[..8].try_into().expect("eight bytes"));
    ChaCha8Rng::seed_from_u64(seed ^ of_id)
}
