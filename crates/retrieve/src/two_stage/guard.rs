//! What a target must not see: its own question, and its own solutions.
//!
//! Filed keys find copies wherever they are in the pool. Whatever would be retrieved is compared once more, which also finds
//! a question that holds the target's, such as the same one with choices to pick from.

use std::collections::{HashMap, HashSet};

use gradus_data::dedup::Shingles;
use rayon::prelude::*;

use super::Settings;
use super::found::Excluded;
use super::search::Asked;
use crate::pool::{Duplicate, Pool, Solution};

/// What a target must not see.
pub(super) struct Barred {
    /// Questions, ascending.
    pub(super) questions: Vec<u32>,
    solutions: HashSet<usize>,
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

    /// Whether a question that would be retrieved is the target's own after all.
    pub(super) fn own(
        &self,
        pool: &Pool,
        question: u32,
        similarity: f32,
        settings: &Settings,
    ) -> Option<Own> {
        let shingles = self.shingles.as_ref()?;
        if similarity >= settings.cosine {
            return Some(Own::Vector);
        }
        let found = pool.manifest().guard.shingles(pool.question(question as usize).text);
        let contained = shingles.containment(&found) >= f64::midpoint(settings.near, 1.0);
        (contained || shingles.similarity(&found) >= settings.near).then_some(Own::Words)
    }

    /// Those of the solutions that are not the target's own.
    pub(super) fn allowed<'a>(
        &self,
        solutions: impl Iterator<Item = Solution<'a>>,
    ) -> impl Iterator<Item = Solution<'a>> {
        solutions.filter(|solution| !self.solutions.contains(&solution.index))
    }
}

/// What each target must not see.
pub(super) fn bar(pool: &Pool, asked: &[Asked<'_>], settings: &Settings) -> Vec<Barred> {
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
        let guarded = !settings.allow_duplicates;
        let shingles = guarded.then(|| pool.manifest().guard.shingles(&asked.target.question));
        if guarded {
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
        Barred { questions, solutions, excluded, shingles }
    };
    asked.par_iter().map(one).collect()
}
