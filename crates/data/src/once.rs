//! Each label once: solutions that begin with the same steps carry the labels of these steps again and again, and a
//! training step would see them as often as there are continuations.

use std::collections::{HashMap, HashSet};

use gradus_core::{Annotation, Solution};

/// Labels that were seen so far, by problem, annotator and the steps up to the labeled one. Several annotations of one name
/// in a solution are several annotators: its first is compared with first ones, its second with second ones.
#[derive(Debug, Default)]
pub struct LabelsOnce {
    seen: HashSet<[u8; 16]>,
}

impl LabelsOnce {
    /// Makes labels unknown that an earlier solution of the problem has for the same steps. Where the solution first goes
    /// wrong stays known. Returns how many labels were removed.
    ///
    /// ```
    /// use gradus_core::{Annotation, LabelSource, Solution};
    /// let rated = |last: &str, wrong| Solution {
    ///     steps: vec!["3 * 4 = 12".into(), last.into()],
    ///     annotations: vec![Annotation::from_first_error(2, wrong, &LabelSource::Human)],
    ///     ..Solution::default()
    /// };
    /// let (mut right, mut wrong) = (rated("2 + 12 = 14", None), rated("2 + 12 = 15", Some(1)));
    /// let mut once = gradus_data::once::LabelsOnce::default();
    /// assert_eq!((once.keep(&mut right), once.keep(&mut wrong)), (0, 1));
    /// assert!(wrong.annotations[0].labels[0].is_none() && wrong.annotations[0].labels[1].is_some());
    /// ```
    pub fn keep(&mut self, solution: &mut Solution) -> usize {
        let Solution { problem_id, steps, annotations, .. } = solution;
        let mut removed = 0;
        let mut named: HashMap<String, u64> = HashMap::new();
        for annotation in annotations {
            let name = annotation.source_name();
            let number = named.entry(name.clone()).or_default();
            removed += self.keep_of(problem_id, steps, (&name, *number), annotation);
            *number += 1;
        }
        removed
    }

    fn keep_of(
        &mut self,
        problem: &str,
        steps: &[String],
        (name, number): (&str, u64),
        annotation: &mut Annotation,
    ) -> usize {
        let mut removed = 0;
        let mut hasher = blake3::Hasher::new();
        for part in [problem, name] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(&number.to_le_bytes());
        for (step, label) in steps.iter().zip(&mut annotation.labels) {
            hasher.update(&(step.len() as u64).to_le_bytes()).update(step.as_bytes());
            let mut key = [0; 16];
            hasher.finalize_xof().fill(&mut key);
            if label.is_some() && !self.seen.insert(key) {
                *label = None;
                removed += 1;
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use gradus_core::LabelSource;
    use proptest::prelude::*;

    use super::*;

    fn labeled(problem: &str, steps: &[&str], source: &LabelSource) -> Solution {
        let annotation = Annotation::from_first_error(steps.len(), None, source);
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Solution {
            problem_id: problem.to_owned(),
            steps,
            annotations: vec![annotation],
            ..Solution::default()
        }
    }

    #[test]
    fn another_problem_another_annotator_and_another_cut_are_others() {
        let judge = LabelSource::Judge { model: "j".into(), agreeing: 1, votes: 1 };
        let mut once = LabelsOnce::default();
        for (problem, steps, source, removed) in [
            ("p", &["a", "b"][..], &LabelSource::Human, 0),
            ("p", &["a", "c"], &LabelSource::Human, 1),
            ("q", &["a", "b"], &LabelSource::Human, 0),
            ("p", &["a", "b"], &judge, 0),
            ("p", &["ab"], &LabelSource::Human, 0),
            ("p", &["a", "b"], &LabelSource::Human, 2),
        ] {
            assert_eq!(once.keep(&mut labeled(problem, steps, source)), removed, "{problem} {steps:?}");
        }
    }

    #[test]
    fn two_annotations_of_one_name_keep_their_labels() {
        let human = |wrong| Annotation::from_first_error(2, wrong, &LabelSource::Human);
        let rated = || Solution {
            annotations: vec![human(None), human(Some(1))],
            ..labeled("p", &["a", "b"], &LabelSource::Human)
        };
        let mut once = LabelsOnce::default();
        let (mut first, mut again) = (rated(), rated());
        assert_eq!((once.keep(&mut first), once.keep(&mut again)), (0, 4));
        assert_eq!(first, rated());
        assert!(again.annotations.iter().all(|found| found.labels.iter().all(Option::is_none)));
    }

    proptest! {
        #[test]
        fn every_beginning_has_one_label(
            solutions in prop::collection::vec(prop::collection::vec("[ab]", 1..5), 1..12)
        ) {
            let mut once = LabelsOnce::default();
            let (mut kept, mut removed) = (HashSet::new(), 0);
            for steps in &solutions {
                let texts: Vec<&str> = steps.iter().map(String::as_str).collect();
                let mut solution = labeled("p", &texts, &LabelSource::Human);
                removed += once.keep(&mut solution);
                for (step, label) in solution.annotations[0].labels.iter().enumerate() {
                    if label.is_some() {
                        prop_assert!(kept.insert(steps[..=step].to_vec()));
                    } else {
                        prop_assert!(kept.contains(&steps[..=step]));
                    }
                }
            }
            prop_assert_eq!(kept.len() + removed, solutions.iter().map(Vec::len).sum::<usize>());
        }
    }
}
