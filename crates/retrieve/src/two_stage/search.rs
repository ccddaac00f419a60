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
    pub(super) question: usize,
    pub(super) steps: Vec<usize>,
}

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
    let queries: Vec<f32> = asked.iter().flat_map(|asked| row(asked.question)).copied().collect();
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
    let nearest = pool.nearest(&queries, settings.wanted().max(1), keep);
    let words = (settings.strategy == Strategy::TfIdf).then(|| {
        let texts: Vec<&str> = pool.questions().map(|question| question.text).collect();
        TfIdf::fit(&texts)
    });
    let work = asked.par_iter().zip(nearest).zip(barred.par_iter().zip(excluded));
    let one = |((asked, nearest), (barred, excluded)): TargetSearch<'_>| {
        let excluded = excluded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let similarity = |question: u32| {
            let vector = pool.question(question as usize).vector();
            dot(vector, row(asked.question))
        };
        let passes = |question: u32| {
            !barred.has(question) && barred.own(pool, question, similarity(question), settings).is_none()
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
                let mut draw = |amount: usize| -> Vec<u32> {
                    let drawn = sample(&mut **random, total, amount).into_iter().map(|row| row as u32);
                    drawn.filter(|row| passes(*row)).take(settings.wanted()).collect()
                };
                let few = settings.wanted() + barred.questions.len() + 16;
                let mut rows = draw(few.min(total));
                if rows.len() < settings.wanted() && few < total {
                    rows = draw(total);
                }
                rows.into_iter().map(|row| Hit { row, similarity: similarity(row) }).collect()
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
        similarity: hit.similarity,
    };
    (ReferenceProblem { question: question.text.to_owned(), steps }, from)
}

/// The same choice for the same target, whatever else is asked.
fn random(seed: u64, id: &str) -> ChaCha8Rng {
    let of_id = u64::from_le_bytes(key(id)[..8].try_into().expect("eight bytes"));
    ChaCha8Rng::seed_from_u64(seed ^ of_id)
}
