//! From the targets' vectors to their references.

use std::sync::{Mutex, PoisonError};

use gradus_core::{ReferenceProblem, References};
use gradus_kernels::vectors::dot;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::database::Database;
use super::found::{Excluded, Neighbor, Retrieved, Seen};
use super::guard::{Barred, Own, bar};
use super::{Settings, Strategy, Target};
use crate::embed::key;
use crate::pool::Pool;
use crate::search::Hit;
use crate::tfidf::TfIdf;

/// A target and the rows of its texts.
pub(super) struct Asked<'a> {
    pub(super) target: &'a Target,
    /// None where nothing is embedded.
    pub(super) question: Option<usize>,
    pub(super) steps: Vec<usize>,
}

/// The similarity of what was not compared: below every threshold.
const NOT_COMPARED: f32 = f32::NEG_INFINITY;

/// A target with its nearest questions, and with what it must not see.
type TargetSearch<'a> = ((&'a Asked<'a>, Vec<Hit>), (&'a Barred, Mutex<Excluded>));

/// How one target's references are chosen.
pub(super) enum Choice<'a> {
    Nearest,
    Words(&'a TfIdf),
    Random(Box<ChaCha8Rng>),
}

pub(super) fn search(
    pool: &Pool,
    asked: &[Asked<'_>],
    vectors: &[f32],
    settings: &Settings,
) -> Vec<Retrieved> {
    let dimension = pool.dimension();
    let row = |index: usize| &vectors[index * dimension..][..dimension];
    let barred = bar(pool, asked, settings);
    let rows = asked.iter().filter_map(|asked| asked.question);
    let queries: Vec<f32> = rows.flat_map(row).copied().collect();
    let excluded: Vec<Mutex<Excluded>> = barred.iter().map(|barred| Mutex::new(barred.excluded)).collect();
    let keep = |target: usize, question: u32, similarity: f32| {
        if barred[target].has(question) {
            return false;
        }
        let own = barred[target].own(pool, question, similarity, settings);
        let mut excluded = excluded[target].lock().unwrap_or_else(PoisonError::into_inner);
        match own {
            Some(Own::Words) => excluded.near += 1,
            Some(Own::Vector) => excluded.cosine += 1,
            None => return true,
        }
        false
    };
    let nearest = match settings.strategy {
        Strategy::Random { .. } => vec![Vec::new(); asked.len()],
        Strategy::Nearest | Strategy::TfIdf => pool.nearest(&queries, settings.wanted().max(1), keep),
    };
    let words = (settings.strategy == Strategy::TfIdf).then(|| {
        let texts: Vec<&str> = pool.questions().map(|question| question.text).collect();
        TfIdf::fit(&texts)
    });
    let work = asked.par_iter().zip(nearest).zip(barred.par_iter().zip(excluded));
    let one = |((asked, nearest), (barred, excluded)): TargetSearch<'_>| {
        let mut excluded = excluded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let passes = |question: u32| {
            let vector = pool.question(question as usize).vector();
            let similarity = asked.question.map_or(NOT_COMPARED, |own| dot(vector, row(own)));
            !barred.has(question) && barred.own(pool, question, similarity, settings).is_none()
        };
        let mut choice = match (settings.strategy, &words) {
            (Strategy::Random { seed }, _) => Choice::Random(Box::new(random(seed, &asked.target.id))),
            (Strategy::TfIdf, Some(words)) => Choice::Words(words),
            _ => Choice::Nearest,
        };
        let hits: Vec<Hit> = match &mut choice {
            Choice::Nearest => nearest.clone(),
            Choice::Words(words) => {
                let found = words.search(&asked.target.question, settings.wanted(), |row| passes(row as u32));
                found.into_iter().map(|(row, similarity)| Hit { row: row as u32, similarity }).collect()
            }
            Choice::Random(random) => {
                let total = pool.manifest().counts.questions;
                let mut draw = |amount: usize| -> (Vec<u32>, usize) {
                    let drawn = sample(&mut **random, total, amount).into_iter().map(|row| row as u32);
                    let drawn: Vec<u32> = drawn.filter(|row| !barred.has(*row)).collect();
                    let (rows, own): (Vec<u32>, Vec<u32>) = drawn.into_iter().partition(|row| passes(*row));
                    (rows.into_iter().take(settings.wanted()).collect(), own.len())
                };
                let few = settings.wanted() + barred.questions.len() + 16;
                let (mut rows, mut own) = draw(few.min(total));
                if rows.len() < settings.wanted() && few < total {
                    (rows, own) = draw(total);
                }
                excluded.near += own;
                rows.into_iter().map(|row| Hit { row, similarity: NOT_COMPARED }).collect()
            }
        };
        let (references, questions) =
            hits.iter().take(settings.questions).map(|hit| reference(pool, *hit, barred)).unzip();
        let (step_references, steps) = if settings.steps == 0 {
            Default::default()
        } else {
            let database = Database::new(pool, &hits[..hits.len().min(settings.database)], barred);
            let queries: Vec<f32> = asked.steps.iter().flat_map(|&step| row(step)).copied().collect();
            database.nearest(&queries, &asked.target.steps, settings.steps, choice)
        };
        Retrieved {
            id: asked.target.id.clone(),
            references: References { questions: references, steps: step_references },
            seen: Seen { questions, steps, nearest: nearest.first().map(|hit| hit.similarity), excluded },
        }
    };
    work.map(one).collect()
}

/// A question with its first solution that is not the target's own.
fn reference(pool: &Pool, hit: Hit, barred: &Barred) -> (ReferenceProblem, Neighbor) {
    let question = pool.question(hit.row as usize);
    let solution = barred.allowed(question.solutions()).next();
    let solution = solution.expect("a question without a solution is barred");
    let steps = solution.steps().map(|step| (step.text.to_owned(), step.mark)).collect();
    let from = Neighbor {
        question: question.id.to_owned(),
        solution: solution.id.to_owned(),
        step: None,
        similarity: measured(hit),
    };
    (ReferenceProblem { question: question.text.to_owned(), steps }, from)
}

/// The similarity of what was compared.
pub(super) fn measured(hit: Hit) -> Option<f32> {
    (hit.similarity != NOT_COMPARED).then_some(hit.similarity)
}

/// A random choice among `count`, of which nothing is known but the place.
pub(super) fn drawn(random: &mut ChaCha8Rng, count: usize, amount: usize) -> Vec<Hit> {
    let rows = sample(random, count, amount.min(count)).into_iter();
    rows.map(|row| Hit { row: row as u32, similarity: NOT_COMPARED }).collect()
}

/// The same choice for the same target, whatever else is asked.
fn random(seed: u64, id: &str) -> ChaCha8Rng {
    let of_id = u64::from_le_bytes(key(id)[..8].try_into().expect("eight bytes"));
    ChaCha8Rng::seed_from_u64(seed ^ of_id)
}
