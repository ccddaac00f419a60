//! From the targets' vectors to their references.
//!
//! A source proposes questions in order, somewhat more than are wanted; the guard looks at them one after another until
//! enough have passed. Where too few do, more are proposed. So what is found, and what is counted as kept out, depends
//! neither on threads nor on where the pool is.

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
use crate::error::Result;
use crate::search::Hit;
use crate::source::{Lookup, Parts, PoolSource, Questions};
use crate::tfidf::{TfIdf, TfIdfBuilder};

/// A target and the rows of its texts.
pub(super) struct Asked<'a> {
    pub(super) target: &'a Target,
    /// None where nothing is embedded.
    pub(super) question: Option<usize>,
    pub(super) steps: Vec<usize>,
}

/// The similarity of what was not compared: below every threshold.
const NOT_COMPARED: f32 = f32::NEG_INFINITY;
/// Questions that are proposed beyond those that are wanted, and how many times more where that was too few.
const SPARE: usize = 16;
const MORE: usize = 8;
/// Targets whose questions are at hand together.
const AT_ONCE: usize = 128;
/// Random questions that are at hand together.
const DRAWN_AT_ONCE: usize = 4096;

/// How one target's references are chosen.
pub(super) enum Choice {
    Nearest,
    Words,
    Random(Box<ChaCha8Rng>),
}

/// Questions that the guard has let pass, and what it kept out on the way.
#[derive(Debug, Clone, Default)]
struct Passed {
    hits: Vec<Hit>,
    own: Excluded,
}

/// What all targets share.
struct Work<'a> {
    pool: &'a dyn PoolSource,
    asked: &'a [Asked<'a>],
    barred: Vec<Barred>,
    vectors: &'a [f32],
    settings: &'a Settings,
}

pub(super) async fn search(
    pool: &dyn PoolSource,
    asked: &[Asked<'_>],
    vectors: &[f32],
    settings: &Settings,
) -> Result<Vec<Retrieved>> {
    let barred = bar(pool, asked, settings).await?;
    let work = Work { pool, asked, barred, vectors, settings };
    let nearest = match settings.strategy {
        Strategy::Random { .. } => vec![Passed::default(); asked.len()],
        Strategy::Nearest | Strategy::TfIdf => work.nearest().await?,
    };
    let by_words = match settings.strategy {
        Strategy::TfIdf => Some(work.by_words().await?),
        _ => None,
    };
    let mut found = Vec::with_capacity(asked.len());
    for start in (0..asked.len()).step_by(AT_ONCE) {
        let targets: Vec<usize> = (start..asked.len().min(start + AT_ONCE)).collect();
        let mut choices = Vec::with_capacity(targets.len());
        for &target in &targets {
            let mut own = Excluded::default();
            let (choice, hits) = match (settings.strategy, &by_words) {
                (Strategy::Random { seed }, _) => {
                    let mut random = random(seed, &asked[target].target.id);
                    let (hits, near) = work.drawn(target, &mut random).await?;
                    own.near = near;
                    (Choice::Random(Box::new(random)), hits)
                }
                (Strategy::TfIdf, Some(found)) => (Choice::Words, found[target].hits.clone()),
                _ => (Choice::Nearest, nearest[target].hits.clone()),
            };
            choices.push((target, choice, hits, own));
        }
        let used = settings.questions.max(if settings.steps == 0 { 0 } else { settings.database });
        let numbers = distinct(choices.iter().flat_map(|(_, _, hits, _)| hits.iter().take(used)));
        let at_hand = pool.questions(&numbers, Parts::Solutions).await?;
        let one = |(target, choice, hits, own): (usize, Choice, Vec<Hit>, Excluded)| {
            let mut excluded = work.barred[target].excluded;
            for own in [own, nearest[target].own] {
                excluded.near += own.near;
                excluded.cosine += own.cosine;
            }
            let (references, seen) = work.references(target, choice, &hits, &*at_hand);
            let closest = nearest[target].hits.first().map(|hit| hit.similarity);
            let seen = Seen { nearest: closest, excluded, ..seen };
            Retrieved { id: asked[target].target.id.clone(), references, seen }
        };
        found.par_extend(choices.into_par_iter().map(one));
    }
    Ok(found)
}

impl Work<'_> {
    fn row(&self, index: usize) -> &[f32] {
        let dimension = self.pool.manifest().kept;
        &self.vectors[index * dimension..][..dimension]
    }

    /// The vector of a target's question.
    fn query(&self, target: usize) -> &[f32] {
        self.row(self.asked[target].question.expect("what is searched for has been embedded"))
    }

    /// Each target's nearest questions.
    async fn nearest(&self) -> Result<Vec<Passed>> {
        let propose = |targets: Vec<usize>, few: usize| -> Lookup<'_, Vec<Vec<Hit>>> {
            Box::pin(async move {
                let queries: Vec<f32> =
                    targets.iter().flat_map(|&target| self.query(target)).copied().collect();
                let barred: Vec<&[u32]> =
                    targets.iter().map(|&target| self.barred[target].questions.as_slice()).collect();
                self.pool.nearest(&queries, few, &barred).await
            })
        };
        let similarity = |_: usize, hit: &Hit, _: &dyn Questions| hit.similarity;
        self.guarded(self.settings.wanted().max(1), Parts::Texts, &propose, &similarity).await
    }

    /// Each target's nearest questions by words.
    async fn by_words(&self) -> Result<Vec<Passed>> {
        let mut words = TfIdfBuilder::default();
        self.pool.each_text(&mut |text| words.add(text)).await?;
        let words: &TfIdf = &words.finish();
        let propose = |targets: Vec<usize>, few: usize| -> Lookup<'_, Vec<Vec<Hit>>> {
            let one = |&target: &usize| {
                let barred = &self.barred[target];
                let keep = |row: usize| !barred.has(row as u32);
                let found = words.search(&self.asked[target].target.question, few, keep).into_iter();
                found.map(|(row, similarity)| Hit { row: row as u32, similarity }).collect()
            };
            Box::pin(std::future::ready(Ok(targets.par_iter().map(one).collect())))
        };
        let similarity = |target: usize, hit: &Hit, at_hand: &dyn Questions| {
            dot(at_hand.vector(hit.row), self.query(target))
        };
        self.guarded(self.settings.wanted(), Parts::Vectors, &propose, &similarity).await
    }

    /// For each target the first `wanted` of what is proposed that are not its own.
    async fn guarded<'a>(
        &self,
        wanted: usize,
        parts: Parts,
        propose: &(dyn Fn(Vec<usize>, usize) -> Lookup<'a, Vec<Vec<Hit>>> + Sync),
        similarity: &(dyn Fn(usize, &Hit, &dyn Questions) -> f32 + Sync),
    ) -> Result<Vec<Passed>> {
        let mut passed = vec![Passed::default(); self.asked.len()];
        let mut open: Vec<usize> = (0..self.asked.len()).collect();
        let mut few = wanted + SPARE;
        while !open.is_empty() {
            let proposed = propose(open.clone(), few).await?;
            let mut short = Vec::new();
            for (targets, proposed) in open.chunks(AT_ONCE).zip(proposed.chunks(AT_ONCE)) {
                let compares = targets.iter().any(|&target| self.barred[target].compares());
                let numbers = if compares { distinct(proposed.iter().flatten()) } else { Vec::new() };
                let at_hand = self.pool.questions(&numbers, parts).await?;
                let one = |(&target, proposed): (&usize, &Vec<Hit>)| {
                    self.walk(target, proposed, wanted, |hit| similarity(target, hit, &*at_hand), &*at_hand)
                };
                let walked: Vec<Passed> = targets.par_iter().zip(proposed).map(one).collect();
                for ((&target, walked), proposed) in targets.iter().zip(walked).zip(proposed) {
                    if walked.hits.len() < wanted && proposed.len() >= few {
                        short.push(target);
                    } else {
                        passed[target] = walked;
                    }
                }
            }
            (open, few) = (short, few.saturating_mul(MORE));
        }
        Ok(passed)
    }

    fn walk(
        &self,
        target: usize,
        proposed: &[Hit],
        wanted: usize,
        similarity: impl Fn(&Hit) -> f32,
        at_hand: &dyn Questions,
    ) -> Passed {
        let (barred, guard) = (&self.barred[target], &self.pool.manifest().guard);
        let mut passed = Passed::default();
        for hit in proposed {
            if passed.hits.len() == wanted {
                break;
            }
            let own = match barred.compares() {
                true => barred.own(|| at_hand.text(hit.row), similarity(hit), self.settings, guard),
                false => None,
            };
            match own {
                Some(Own::Words) => passed.own.near += 1,
                Some(Own::Vector) => passed.own.cosine += 1,
                None => passed.hits.push(*hit),
            }
        }
        passed
    }

    /// Random questions that are not a target's own, and how many of those that were drawn are.
    async fn drawn(&self, target: usize, random: &mut ChaCha8Rng) -> Result<(Vec<Hit>, usize)> {
        let (total, wanted) = (self.pool.manifest().counts.questions, self.settings.wanted());
        let few = wanted + self.barred[target].questions.len() + SPARE;
        let mut found = self.draw(target, random, few.min(total)).await?;
        if found.0.len() < wanted && few < total {
            found = self.draw(target, random, total).await?;
        }
        Ok(found)
    }

    async fn draw(&self, target: usize, random: &mut ChaCha8Rng, amount: usize) -> Result<(Vec<Hit>, usize)> {
        let (barred, wanted) = (&self.barred[target], self.settings.wanted());
        let drawn = sample(random, self.pool.manifest().counts.questions, amount).into_iter();
        let drawn: Vec<u32> = drawn.map(|row| row as u32).filter(|row| !barred.has(*row)).collect();
        let (mut hits, mut own) = (Vec::new(), 0);
        for numbers in drawn.chunks(DRAWN_AT_ONCE) {
            let proposed: Vec<Hit> =
                numbers.iter().map(|&row| Hit { row, similarity: NOT_COMPARED }).collect();
            let numbers = if barred.compares() { numbers } else { &[] };
            let at_hand = self.pool.questions(numbers, Parts::Texts).await?;
            let passed = self.walk(target, &proposed, usize::MAX, |_| NOT_COMPARED, &*at_hand);
            hits.extend(passed.hits);
            hits.truncate(wanted);
            own += passed.own.near;
        }
        Ok((hits, own))
    }

    /// The references of a target whose questions have been found, and where they are from.
    fn references(
        &self,
        target: usize,
        choice: Choice,
        hits: &[Hit],
        at_hand: &dyn Questions,
    ) -> (References, Seen) {
        let (settings, barred, asked) = (self.settings, &self.barred[target], &self.asked[target]);
        let (references, questions) =
            hits.iter().take(settings.questions).map(|hit| reference(at_hand, *hit, barred)).unzip();
        let (step_references, steps) = if settings.steps == 0 {
            Default::default()
        } else {
            let dimension = self.pool.manifest().kept;
            let of = &hits[..hits.len().min(settings.database)];
            let database = Database::new(at_hand, dimension, of, barred);
            let queries: Vec<f32> = asked.steps.iter().flat_map(|&step| self.row(step)).copied().collect();
            database.nearest(&queries, &asked.target.steps, settings.steps, choice)
        };
        (
            References { questions: references, steps: step_references },
            Seen { questions, steps, ..Seen::default() },
        )
    }
}

/// A question with its first solution that is not the target's own.
fn reference(at_hand: &dyn Questions, hit: Hit, barred: &Barred) -> (ReferenceProblem, Neighbor) {
    let solution = barred.allowed(hit.row, at_hand.solutions(hit.row)).next();
    let solution = solution.expect("a question without a solution is barred");
    let steps = solution.steps.iter().map(|step| (step.text.to_owned(), step.mark)).collect();
    let from = Neighbor {
        question: at_hand.id(hit.row).to_owned(),
        solution: solution.id.to_owned(),
        step: None,
        similarity: measured(hit),
    };
    (ReferenceProblem { question: at_hand.text(hit.row).to_owned(), steps }, from)
}

/// The questions of these hits, each once, ascending.
fn distinct<'a>(hits: impl Iterator<Item = &'a Hit>) -> Vec<u32> {
    let mut numbers: Vec<u32> = hits.map(|hit| hit.row).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
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
