//! PRM800K grouped by prefix: the rated continuations of the same steps.
//!
//! ```json
//! {"problem": "What is 2 + 3 * 4?", "prefix": ["3 * 4 = 12"], "prefix_ratings": [1],
//!  "candidates": [{"step": "2 + 12 = 14", "rating": 1, "final": true}, {"step": "2 + 12 = 15", "rating": -1}]}
//! ```
//!
//! A candidate is a solution of its own: the prefix and its step, with all ratings.

use serde_json::Value;

use super::prm800k_ratings::{rating_of, ratings_of, read_rating};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, Metadata, Problem, Record, Solution, id};

const NAME: &str = "prm800k-prefixes";
const PREFIX: &str = "prefix";
const RATINGS: &str = "prefix_ratings";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "PRM800K by prefix: steps, and their rated continuations",
    recognizes: |record| has(record, &["problem", PREFIX, RATINGS, "candidates"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let prefix = fields.strings(PREFIX)?;
    let ratings = fields.list(RATINGS)?;
    let labels = ratings_of(&ratings, RATINGS)?;
    Annotation::from_labels(labels.clone()).check_length(prefix.len(), RATINGS)?;
    let candidates = fields.list("candidates")?;
    if candidates.is_empty() {
        fields.keep(PREFIX, prefix.as_slice());
        fields.keep(RATINGS, ratings);
    }
    let problem_id = id::problem(&text);
    let mut solutions = Vec::with_capacity(candidates.len());
    for (index, candidate) in candidates.into_iter().enumerate() {
        let path = format!("candidates[{index}]");
        let mut candidate = Fields::nested(candidate, &path)?;
        let step = candidate.string("step").map_err(|fault| fault.within(&path))?;
        let missing = || Fault::new("rating", "is missing: expected 1, 0, -1 or null");
        let rating = candidate.raw("rating").ok_or_else(missing);
        let rating = rating.and_then(|rating| read_rating(&rating, "rating"));
        let rating = rating.map_err(|fault| fault.within(&path))?;
        let steps: Vec<String> = prefix.iter().cloned().chain([step]).collect();
        solutions.push(Solution {
            id: format!("{}/{index}", id::solution(&problem_id, None, &prefix)),
            problem_id: problem_id.clone(),
            steps,
            annotations: vec![Annotation::from_labels(labels.iter().cloned().chain([rating]).collect())],
            metadata: candidate.rest(),
            ..Solution::default()
        });
    }
    let problem =
        Problem { id: problem_id, text, source: NAME.into(), metadata: fields.rest(), ..Problem::default() };
    Ok(Record::new(problem, solutions).into())
}

/// Solutions that share all but their last step, one after another, make a row.
fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let mut groups: Vec<(&[String], Vec<Value>, Vec<Value>)> = Vec::new();
    for solution in &record.solutions {
        let (Some(annotation), Some((step, prefix))) = (solution.most_trusted(), solution.steps.split_last())
        else {
            written.dropped.push("no step labels");
            continue;
        };
        let mut ratings: Vec<Value> = annotation.labels.iter().map(rating_of).collect();
        let rating = ratings.pop().unwrap_or_default();
        let candidate = Row::default().with("step", step.as_str()).with("rating", rating).with_metadata(
            &solution.metadata,
            problem,
            NAME,
        );
        match groups.last_mut() {
            Some((last, of_last, candidates)) if *last == prefix && *of_last == ratings => {
                candidates.push(candidate.done());
            }
            _ => groups.push((prefix, ratings, vec![candidate.done()])),
        }
    }
    if groups.is_empty() && problem.source == NAME && record.solutions.is_empty() {
        groups.push((&[], Vec::new(), Vec::new()));
    }
    let none = Metadata::new();
    for (prefix, ratings, candidates) in groups {
        let metadata = if problem.source == NAME { &problem.metadata } else { &none };
        let row = Row::default()
            .with("problem", problem.text.as_str())
            .with(PREFIX, prefix)
            .with(RATINGS, ratings)
            .with("candidates", candidates)
            .with_metadata(metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}

#[cfg(test)]
mod tests {
    use crate::readers::Format;

    /// Found by fuzzing: a candidate without a rating was written with the rating null.
    #[test]
    fn a_rating_is_needed() {
        let row = serde_json::json!({"problem": "1 + 1?", "prefix": [], "prefix_ratings": [], "candidates": [{"step": "2"}]});
        let fault = Format::Prm800kPrefixes.read(row.as_object().unwrap().clone()).err().unwrap().to_string();
        assert!(fault.contains("candidates[0].rating") && fault.contains("is missing"), "{fault}");
    }
}
