//! One solution under test, with all that is known about it.

use std::path::Path;
use std::sync::Arc;

use gradus_core::contracts::ScoreRequest;
use gradus_core::{FirstError, Mark, Problem, Record, Solution};

/// ProcessBench's own subsets.
pub(crate) const PROCESSBENCH_SUBSETS: [&str; 4] = ["gsm8k", "math", "olympiadbench", "omnimath"];

/// A solution, its problem, and the part of the benchmark it belongs to.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Such as `gsm8k`.
    pub subset: String,
    /// The problem.
    pub problem: Arc<Problem>,
    /// The solution.
    pub solution: Solution,
}

impl Sample {
    /// The solutions of a record that was read from `path`.
    pub fn of(record: Record, path: &Path) -> Vec<Self> {
        let problem = Arc::new(record.problem);
        let of_file = subset_of(path);
        let sample = |solution: Solution| Self {
            subset: subset_of_id(&solution.id).map_or_else(|| of_file.clone(), str::to_owned),
            problem: problem.clone(),
            solution,
        };
        record.solutions.into_iter().map(sample).collect()
    }

    /// What a judge is asked.
    pub fn request(&self) -> ScoreRequest {
        ScoreRequest::of(&self.problem, &self.solution)
    }

    /// The model that wrote it.
    pub(crate) fn generator(&self) -> &str {
        self.solution.generator.as_deref().unwrap_or("unnamed")
    }

    /// Where it first goes wrong, by the most trusted annotation of a person, a program or an unnamed source that says so; a
    /// model's opinion is no truth.
    pub fn first_error(&self) -> FirstError {
        let known = |annotation: &&gradus_core::Annotation| {
            annotation.first_error != FirstError::Unknown && annotation.is_truth()
        };
        let by_trust = self.solution.by_trust();
        by_trust.into_iter().find(known).map_or(FirstError::Unknown, |found| found.first_error)
    }

    /// What the same annotation says about each step; empty without one.
    pub fn marks(&self) -> Vec<Option<Mark>> {
        let found = self.solution.truth();
        found.map_or_else(Vec::new, |annotation| {
            annotation.labels.iter().map(|label| label.as_ref().map(|label| label.mark)).collect()
        })
    }

    /// The perplexity that `gradus perplexity` left among the metadata.
    pub(crate) fn perplexity(&self) -> Option<f64> {
        self.solution.metadata.get("perplexity").and_then(serde_json::Value::as_f64)
    }
}

/// ProcessBench writes its subset into each id: `olympiadbench-17`.
pub(crate) fn subset_of_id(id: &str) -> Option<&str> {
    let (subset, number) = id.rsplit_once('-')?;
    let known = PROCESSBENCH_SUBSETS.contains(&subset);
    (known && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(subset)
}

/// A file's name up to its first dot.
fn subset_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() { "all".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::{Annotation, LabelSource, StepLabel};

    #[test]
    fn the_subset_is_in_the_id_or_in_the_files_name() {
        let record = |id: &str| {
            let solution = Solution { id: id.to_owned(), ..Solution::default() };
            Record::new(Problem::default(), vec![solution])
        };
        let of = |id, path: &str| Sample::of(record(id), Path::new(path)).remove(0).subset;
        assert_eq!(of("olympiadbench-17", "part.json"), "olympiadbench");
        assert_eq!(of("p1/0", "data/gsm8k_n32.jsonl.gz"), "gsm8k_n32");
        assert_eq!(of("p1/0", "-"), "-");
    }

    #[test]
    fn a_models_opinion_is_no_truth() {
        let judge = LabelSource::Judge { model: "m".to_owned(), agreeing: 1, votes: 1 };
        let solution = Solution {
            annotations: vec![
                Annotation::from_first_error(2, Some(0), &judge),
                Annotation::from_first_error(2, Some(1), &LabelSource::Human),
            ],
            ..Solution::default()
        };
        let sample = Sample { subset: String::new(), problem: Arc::default(), solution };
        assert_eq!(sample.first_error(), FirstError::At(1));
        assert_eq!(sample.marks(), [Some(Mark::Correct), Some(Mark::Incorrect)]);
        let soft = StepLabel::soft(0.2, judge);
        let solution =
            Solution { annotations: vec![Annotation::from_labels(vec![Some(soft)])], ..Solution::default() };
        let sample = Sample { subset: String::new(), problem: Arc::default(), solution };
        assert_eq!((sample.first_error(), sample.marks()), (FirstError::Unknown, vec![]));
    }
}
