//! Ids for model outputs that repeat. A row of model outputs names no solution: its id is made from its content, and
//! equal samples would share one. The second gets `#2`, the third `#3`, counted over all files that are read together:
//! samples in several files count as they do in one.
//!
//! A file that says something else about the same texts (scores of other names, outcomes where there were none, labels)
//! is counted on its own. Its solutions have the ids of the samples, and records that are joined unite them.

use std::collections::HashMap;

use gradus_core::{Outcome, Record, Solution};

/// How often each id of a solution came.
#[derive(Debug, Default)]
pub(super) struct Draws {
    in_file: HashMap<String, u64>,
    /// Over all files, beside what is known of the solution.
    in_all: HashMap<(String, String), u64>,
}

impl Draws {
    /// What comes from here on is of another file.
    pub(super) fn begin_file(&mut self) {
        self.in_file.clear();
    }

    /// Gives solutions that occur again ids of their own.
    pub(super) fn tell_apart(&mut self, record: &mut Record) {
        for solution in &mut record.solutions {
            let seen = self.in_file.entry(solution.id.clone()).or_default();
            *seen += 1;
            // Labels of several annotators are about the same solutions.
            if solution.annotations.is_empty() {
                let all = self.in_all.entry((solution.id.clone(), known(solution))).or_default();
                *seen = (*seen).max(*all + 1);
                *all = *seen;
            }
            if *seen > 1 {
                solution.id += &format!("#{seen}");
            }
        }
    }
}

/// What is known of a solution beside its text: the names of its scores, and whether its outcome is.
fn known(solution: &Solution) -> String {
    let mut known = String::from(if solution.outcome == Outcome::Unknown { "" } else { "outcome" });
    for name in solution.scores.keys() {
        known.push('\n');
        known.push_str(name);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::{Annotation, LabelSource, Problem};

    fn plain() -> Solution {
        Solution { id: "s".into(), ..Solution::default() }
    }

    fn scored(name: &str) -> Solution {
        Solution { scores: [(name.to_owned(), vec![0.5])].into(), ..plain() }
    }

    fn labeled() -> Solution {
        Solution { annotations: vec![Annotation::from_first_error(1, None, &LabelSource::Human)], ..plain() }
    }

    fn ids(files: &[&[Solution]]) -> Vec<String> {
        let (mut draws, mut ids) = (Draws::default(), Vec::new());
        for file in files {
            draws.begin_file();
            for solution in *file {
                let mut record = Record::new(Problem::default(), vec![solution.clone()]);
                draws.tell_apart(&mut record);
                ids.push(record.solutions.remove(0).id);
            }
        }
        ids
    }

    #[test]
    fn samples_count_over_files_as_in_one() {
        assert_eq!(ids(&[&[plain(), plain()], &[plain()]]), ["s", "s#2", "s#3"]);
        assert_eq!(ids(&[&[scored("prm")], &[scored("prm"), scored("prm")]]), ["s", "s#2", "s#3"]);
    }

    #[test]
    fn what_another_file_says_about_a_sample_has_its_id() {
        assert_eq!(ids(&[&[plain(), plain()], &[scored("a"), scored("a")]]), ["s", "s#2", "s", "s#2"]);
        assert_eq!(ids(&[&[scored("a")], &[scored("b")], &[plain()]]), ["s", "s", "s"]);
        assert_eq!(ids(&[&[labeled()], &[labeled()], &[plain()]]), ["s", "s", "s"]);
        let graded = Solution { outcome: Outcome::Wrong, ..plain() };
        assert_eq!(
            ids(&[&[plain()], std::slice::from_ref(&graded), std::slice::from_ref(&graded)]),
            ["s", "s", "s#2"]
        );
    }

    #[test]
    fn solutions_of_one_file_never_share_an_id() {
        assert_eq!(ids(&[&[plain(), scored("a"), labeled()]]), ["s", "s#2", "s#3"]);
    }
}
