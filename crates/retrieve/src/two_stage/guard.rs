//! What a target must not see: its own question, and its own solutions.
//!
//! Filed keys find copies wherever they are in the pool. Whatever would be retrieved is compared once more, which also finds
//! a question that holds the target's, such as the same one with choices to pick from.

use std::collections::{HashMap, HashSet};

use gradus_data::dedup::{DedupConfig, Shingles};
use rayon::prelude::*;

use super::Settings;
use super::found::Excluded;
use super::search::Asked;
use crate::error::Result;
use crate::pool::Duplicate;
use crate::source::{NamedSolution, PoolSource, SolutionView};

/// Targets, or ids of their own solutions, that are looked for at once.
const AT_ONCE: usize = 1024;

/// What a target must not see.
pub(super) struct Barred {
    /// Questions, ascending.
    pub(super) questions: Vec<u32>,
    /// Solutions: their question, and their place in it.
    solutions: HashSet<(u32, u32)>,
    pub(super) excluded: Excluded,
    /// The target's words; none where copies are allowed.
    shingles: Option<Shingles>,
}

/// Why a question that is near is the target's own.
pub(super) enum Own {
    Words,
    Vector,
}

impl Barred {
    pub(super) fn has(&self, question: u32) -> bool {
        self.questions.binary_search(&question).is_ok()
    }

    /// Whether the texts of questions that would be retrieved are compared.
    pub(super) fn compares(&self) -> bool {
        self.shingles.is_some()
    }

    /// Whether a question that would be retrieved is the target's own after all.
    pub(super) fn own<'a>(
        &self,
        text: impl FnOnce() -> &'a str,
        similarity: f32,
        settings: &Settings,
        config: &DedupConfig,
    ) -> Option<Own> {
        let shingles = self.shingles.as_ref()?;
        if similarity >= settings.cosine {
            return Some(Own::Vector);
        }
        let found = config.shingles(text());
        let contained = shingles.containment(&found) >= f64::midpoint(settings.near, 1.0);
        (contained || shingles.similarity(&found) >= settings.near).then_some(Own::Words)
    }

    /// Those of a question's solutions that are not the target's own.
    pub(super) fn allowed<'a>(
        &self,
        question: u32,
        solutions: Vec<SolutionView<'a>>,
    ) -> impl Iterator<Item = SolutionView<'a>> {
        solutions.into_iter().filter(move |solution| !self.solutions.contains(&(question, solution.nth)))
    }
}

/// What each target must not see.
pub(super) async fn bar(
    pool: &dyn PoolSource,
    asked: &[Asked<'_>],
    settings: &Settings,
) -> Result<Vec<Barred>> {
    let ids: HashSet<&str> = asked.iter().flat_map(|asked| &asked.target.own).map(String::as_str).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let mut owned: HashMap<String, Vec<NamedSolution>> = HashMap::new();
    for ids in ids.chunks(AT_ONCE) {
        for solution in pool.solutions_of(ids).await? {
            owned.entry(solution.id.clone()).or_default().push(solution);
        }
    }
    let guarded = !settings.allow_duplicates;
    let mut all = Vec::with_capacity(asked.len());
    for asked in asked.chunks(AT_ONCE) {
        let questions: Vec<&str> = asked.iter().map(|asked| asked.target.question.as_str()).collect();
        let duplicates = match guarded {
            true => pool.duplicates(&questions, settings.near).await?,
            false => vec![Vec::new(); questions.len()],
        };
        let one = |(asked, duplicates): (&Asked<'_>, Vec<(u32, Duplicate)>)| {
            let mut excluded = Excluded::default();
            let mut questions = Vec::new();
            let shingles = guarded.then(|| pool.manifest().guard.shingles(&asked.target.question));
            for (question, kind) in duplicates {
                questions.push(question);
                match kind {
                    Duplicate::Exact => excluded.exact += 1,
                    Duplicate::Near => excluded.near += 1,
                }
            }
            let mut solutions: HashSet<(u32, u32)> = HashSet::new();
            let mut left: HashMap<u32, u32> = HashMap::new();
            for own in asked.target.own.iter().filter_map(|id| owned.get(id)).flatten() {
                if solutions.insert((own.question, own.nth)) {
                    *left.entry(own.question).or_insert(own.of) -= 1;
                }
            }
            excluded.own = solutions.len();
            // A question with nothing but the target's own solutions has nothing to show.
            questions.extend(left.iter().filter(|(_, left)| **left == 0).map(|(question, _)| *question));
            questions.sort_unstable();
            questions.dedup();
            Barred { questions, solutions, excluded, shingles }
        };
        all.par_extend(asked.par_iter().zip(duplicates).map(one));
    }
    Ok(all)
}
