//! Joins records of several files: one problem, all solutions to it, all that is said about each.
//!
//! Problems are the same if id, text and gold answer are; a second one fills in what the first lacks. Solutions of
//! *different* files are the same if their id is: annotations and scores are united, and a contradiction is a
//! [`Fault`]. Within one file nothing is united: rows that look the same there are samples that were drawn twice. Model
//! outputs that repeat have ids of their own over all files that are read together, so that none is united either.

use std::collections::HashMap;

use crate::{Fault, Outcome, Problem, Record, Solution};

/// Records so far.
///
/// ```
/// use gradus_core::{Problem, Record, RecordJoin, Solution};
/// let by = |id: &str| {
///     let problem = Problem { id: "p".into(), text: "What is 2 + 3?".into(), ..Problem::default() };
///     Record::new(problem, vec![Solution { id: id.into(), problem_id: "p".into(), ..Solution::default() }])
/// };
/// let mut join = RecordJoin::default();
/// for record in [by("p/qwen/0"), by("p/llama/0")] {
///     join.begin_file();
///     join.add(record).unwrap();
/// }
/// assert_eq!(join.records.len(), 1);
/// assert_eq!(join.records[0].solutions.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct RecordJoin {
    /// The joined records, in the order in which their problems first came.
    pub records: Vec<Record>,
    /// Solutions that were in an earlier file already.
    pub united: usize,
    /// By id, text and gold answer.
    problems: HashMap<(String, String, Option<String>), usize>,
    /// By record, id, and how many of the same id came before it in its file.
    solutions: HashMap<(usize, String, usize), usize>,
    /// How often each solution id of a record came in this file.
    in_file: HashMap<(usize, String), usize>,
}

/// Where a solution of an added record is: the index of its record, and its own there.
pub type JoinedPlace = (usize, usize);

impl RecordJoin {
    /// What is added from here on is of another file.
    pub fn begin_file(&mut self) {
        self.in_file.clear();
    }

    /// Adds a record, and says where each of its solutions is.
    ///
    /// # Errors
    ///
    /// The record contradicts one of an earlier file.
    pub fn add(&mut self, record: Record) -> Result<Vec<JoinedPlace>, Fault> {
        let Record { problem, solutions, .. } = record;
        let new = self.records.len();
        let key = (problem.id.clone(), problem.text.clone(), problem.answer.clone());
        let place = *self.problems.entry(key).or_insert(new);
        if place == new {
            self.records.push(Record::new(problem, Vec::new()));
        } else {
            complete(&mut self.records[place].problem, problem);
        }
        solutions.into_iter().map(|solution| Ok((place, self.add_solution(place, solution)?))).collect()
    }

    fn add_solution(&mut self, place: usize, solution: Solution) -> Result<usize, Fault> {
        let earlier = self.in_file.entry((place, solution.id.clone())).or_default();
        let known = &mut self.records[place].solutions;
        let index = *self.solutions.entry((place, solution.id.clone(), *earlier)).or_insert(known.len());
        *earlier += 1;
        if index == known.len() {
            known.push(solution);
        } else {
            self.united += 1;
            unite(&mut known[index], solution)?;
        }
        Ok(index)
    }
}

/// Takes over what the first lacks.
fn fill<T>(known: &mut Option<T>, other: Option<T>) {
    if known.is_none() {
        *known = other;
    }
}

fn complete(known: &mut Problem, other: Problem) {
    for (list, others) in [
        (&mut known.context, other.context),
        (&mut known.reference, other.reference),
        (&mut known.aliases, other.aliases),
    ] {
        if list.is_empty() {
            *list = others;
        }
    }
    if known.source.is_empty() {
        known.source = other.source;
    }
    for (key, value) in other.metadata {
        known.metadata.entry(key).or_insert(value);
    }
}

/// Adds what another file says about the same solution.
fn unite(known: &mut Solution, other: Solution) -> Result<(), Fault> {
    let clash = |what: &str| {
        let message = format!("the {what} of solution {} differ from those in an earlier file", other.id);
        Err(Fault::new("", message))
    };
    if !known.steps.is_empty() && !other.steps.is_empty() && known.steps != other.steps {
        return clash("steps");
    }
    if let (Some(first), Some(second)) = (&known.text, &other.text)
        && first != second
    {
        return clash("words");
    }
    if other.scores.iter().any(|(name, scores)| known.scores.get(name).is_some_and(|own| own != scores)) {
        return clash("scores");
    }
    if known.outcome != Outcome::Unknown
        && other.outcome != Outcome::Unknown
        && known.outcome != other.outcome
    {
        return clash("outcomes");
    }
    if known.steps.is_empty() {
        known.steps = other.steps;
    }
    if known.outcome == Outcome::Unknown {
        known.outcome = other.outcome;
    }
    fill(&mut known.text, other.text);
    fill(&mut known.answer, other.answer);
    fill(&mut known.generator, other.generator);
    fill(&mut known.references, other.references);
    known.scores.extend(other.scores);
    for annotation in other.annotations {
        match known.annotations.iter_mut().find(|own| own.says_the_same(&annotation)) {
            Some(own) => fill(&mut own.cost, annotation.cost),
            None => known.annotations.push(annotation),
        }
    }
    for (key, value) in other.metadata {
        known.metadata.entry(key).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, LabelSource};

    fn record(answer: Option<&str>, solutions: Vec<Solution>) -> Record {
        let answer = answer.map(str::to_owned);
        Record::new(Problem { id: "p".into(), text: "Why?".into(), answer, ..Problem::default() }, solutions)
    }

    fn solution(id: &str, step: &str) -> Solution {
        Solution {
            id: id.into(),
            problem_id: "p".into(),
            steps: vec![step.to_owned()],
            ..Solution::default()
        }
    }

    #[test]
    fn what_files_say_about_one_solution_is_united() {
        let labeled = |source: LabelSource| Solution {
            annotations: vec![Annotation::from_first_error(1, None, &source)],
            ..solution("a", "one")
        };
        let judge = LabelSource::Judge { model: "m".into(), agreeing: 1, votes: 1 };
        let mut scored = solution("a", "one");
        scored.scores.insert("prm".into(), vec![0.5]);
        let mut join = RecordJoin::default();
        for own in [labeled(LabelSource::Human), labeled(judge), labeled(LabelSource::Human), scored] {
            join.begin_file();
            join.add(record(Some("5"), vec![own, solution("b", "two")])).unwrap();
        }
        let [joined] = &join.records[..] else { panic!("one problem") };
        assert_eq!((joined.solutions.len(), join.united), (2, 6));
        assert_eq!(joined.solutions[0].annotations.len(), 2);
        assert_eq!(joined.solutions[0].scores["prm"], [0.5]);
        assert!(joined.validate().is_ok());
    }

    #[test]
    fn samples_that_were_drawn_twice_stay_two() {
        let mut join = RecordJoin::default();
        for _ in 0..2 {
            join.begin_file();
            for _ in 0..2 {
                join.add(record(None, vec![solution("a", "one")])).unwrap();
            }
        }
        assert_eq!((join.records[0].solutions.len(), join.united), (2, 2));
    }

    #[test]
    fn contradictions_are_one_sentence() {
        let clash = |other: Record| {
            let mut join = RecordJoin::default();
            let known = Solution { outcome: Outcome::Wrong, ..solution("a", "one") };
            join.add(record(Some("5"), vec![known])).unwrap();
            join.begin_file();
            join.add(other).unwrap_err().to_string()
        };
        let other = clash(record(Some("5"), vec![solution("a", "two")]));
        assert_eq!(other, "the steps of solution a differ from those in an earlier file");
        let right = Solution { outcome: Outcome::Correct, ..solution("a", "one") };
        assert!(clash(record(Some("5"), vec![right])).contains("outcomes of solution a"));
    }
}
