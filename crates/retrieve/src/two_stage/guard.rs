//! What a target must not see: its own question, and its own solutions.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::Settings;
use super::found::Excluded;
use super::search::Asked;
use crate::pool::{Duplicate, Pool, Solution};

/// What a target must not see, but for what only its vector tells.
pub(super) struct Barred {
    /// Questions, ascending.
    pub(super) questions: Vec<u32>,
    solutions: HashSet<usize>,
    pub(super) excluded: Excluded,
}

impl Barred {
    pub(super) fn has(&self, question: u32) -> bool {
        self.questions.binary_search(&question).is_ok()
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
