//! Chooses the solutions a critic learns from, with their first error.
//!
//! The truth comes from labels, the most trusted or those of a named annotator, or from a reward model: the first step
//! below a threshold, 0.8 in Tian et al. (2026). Scores are believed only where they agree with the final answer. An
//! annotator may find an error in a solution whose answer is right; a solution that is right in every step and wrong
//! in its answer contradicts itself whoever says so. A text that was sampled several times counts once.
//! Each generator then gets as many correct as wrong solutions, or else its style alone would give the verdict away; and
//! as many as every other generator, or else the critic learns whom to trust from whom it saw most.
//!
//! One example, a line of JSON:
//! ```json
//! {"critic":1,"problem_id":"p1","problem":"What is 2 + 3?","solution_id":"p1/0","generator":"m",
//!  "steps":["2 + 3 = 6"],"truth":0,"source":{"annotator":"human"}}
//! ```

use std::collections::BTreeMap;

use gradus_core::metrics::process::first_error;
use gradus_core::{FirstError, LabelChoice, Outcome, Record, Solution};
use serde::{Deserialize, Serialize};

/// Version of the format, written into every example.
pub(crate) const CRITIC_SCHEMA: u32 = 1;

/// Who says where the first error is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TruthSource {
    /// The most trusted labels.
    #[default]
    Labels,
    /// Labels of one annotator.
    Annotator(String),
    /// A reward model's scores.
    Scores {
        /// Its name in the solutions' `scores`.
        model: String,
        /// The first step below it is the first error; 0.8 in the paper.
        threshold: f64,
    },
}

/// How to choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Curation {
    /// Who says where the first error is.
    pub truth: TruthSource,
    /// What is balanced.
    pub balance: Balance,
    /// Chooses which solutions of the larger class stay.
    pub seed: u64,
}

impl Default for Curation {
    fn default() -> Self {
        Self { truth: TruthSource::Labels, balance: Balance::Generators, seed: 0 }
    }
}

/// What a training set of critics has as many of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Correct and wrong solutions of every generator, and as many of each generator. A generator with none of one
    /// class is left out.
    #[default]
    Generators,
    /// Correct and wrong solutions of each generator.
    Classes,
    /// Nothing: all solutions are kept.
    None,
}

/// A solution to critique.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticExample {
    /// The schema version.
    pub critic: u32,
    /// The problem's id.
    pub problem_id: String,
    /// The problem's text.
    pub problem: String,
    /// The solution's id.
    pub solution_id: String,
    /// Who wrote the solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The steps.
    pub steps: Vec<String>,
    /// The 0-based first wrong step; null when every step is right.
    pub truth: Option<usize>,
    /// Perplexity of the solution given the problem under the starting policy, once somebody has computed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// Who says so: the annotator, or the scores.
    pub source: TruthSource,
}

/// Why a solution was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It has no steps.
    NoSteps,
    /// Nobody that counts has said where its first error is.
    NoLabels,
    /// Labels, scores or an index do not fit its steps, or a score is not a number.
    BadLabels,
    /// Annotators place the first error differently.
    Conflicting,
    /// Scores cannot be checked: whether the final answer is right is unknown.
    UnknownOutcome,
    /// The final answer is right, but a score is below the threshold.
    RightAnswerWithError,
    /// The final answer is wrong, but no step is.
    WrongAnswerWithoutError,
    /// Another solution of the problem has the same text.
    Repeated,
    /// There are more of its class or of its generator than of others.
    Balance,
}

/// What became of one generator's solutions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurationCounts {
    /// Correct solutions kept.
    pub correct: usize,
    /// Wrong solutions kept.
    pub wrong: usize,
    /// Left out, by reason.
    pub dropped: BTreeMap<DropReason, usize>,
}

/// The chosen solutions in the order of the records, and counts by generator (`""` where none is named).
pub fn curate(
    records: &[Record],
    settings: &Curation,
) -> (Vec<CriticExample>, BTreeMap<String, CurationCounts>) {
    let mut counts: BTreeMap<String, CurationCounts> = BTreeMap::new();
    let mut examples = Vec::new();
    for record in records {
        let mut count = |solution: &Solution, reason| {
            let of_generator = counts.entry(solution.generator.clone().unwrap_or_default()).or_default();
            *of_generator.dropped.entry(reason).or_default() += 1;
        };
        for (index, first) in record.earliest_equal().into_iter().enumerate() {
            if first != index {
                count(&record.solutions[index], DropReason::Repeated);
            }
        }
        let mut united = record.clone();
        united.unite_equal();
        for solution in &united.solutions {
            match truth(solution, &settings.truth) {
                Ok((truth, source)) => examples.push(CriticExample {
                    critic: CRITIC_SCHEMA,
                    problem_id: record.problem.id.clone(),
                    problem: record.problem.question(),
                    solution_id: solution.id.clone(),
                    generator: solution.generator.clone(),
                    steps: solution.steps.clone(),
                    truth,
                    perplexity: None,
                    source,
                }),
                Err(reason) => count(solution, reason),
            }
        }
    }
    examples = balanced(examples, settings, &mut counts);
    for example in &examples {
        let of_generator = counts.entry(example.generator.clone().unwrap_or_default()).or_default();
        *(if example.truth.is_none() { &mut of_generator.correct } else { &mut of_generator.wrong }) += 1;
    }
    (examples, counts)
}

/// Where the first error is, and who says so.
fn truth(solution: &Solution, source: &TruthSource) -> Result<(Option<usize>, TruthSource), DropReason> {
    if solution.steps.is_empty() {
        return Err(DropReason::NoSteps);
    }
    let (first, source) = match source {
        TruthSource::Labels => labeled(solution, &LabelChoice::MostTrusted)?,
        TruthSource::Annotator(name) => labeled(solution, &LabelChoice::Annotator(name.clone()))?,
        TruthSource::Scores { model, threshold } => (scored(solution, model, *threshold)?, source.clone()),
    };
    if first.is_none() && solution.outcome == Outcome::Wrong {
        return Err(DropReason::WrongAnswerWithoutError);
    }
    Ok((first, source))
}

/// By the labels that count; annotators of the same kind must not place the first error differently.
fn labeled(solution: &Solution, choice: &LabelChoice) -> Result<(Option<usize>, TruthSource), DropReason> {
    let chosen = solution.labels(choice).ok_or(DropReason::NoLabels)?;
    let kind = LabelChoice::Annotator(chosen.source_kind().to_owned());
    let alike = match choice {
        LabelChoice::Annotator(_) => choice,
        LabelChoice::MostTrusted | LabelChoice::Truth => &kind,
    };
    let mut places =
        solution.all_labels(alike).into_iter().filter_map(|annotation| match annotation.first_error {
            FirstError::At(step) => Some(Some(step)),
            FirstError::None => Some(None),
            FirstError::Unknown => None,
        });
    let first = places.next().ok_or(DropReason::NoLabels)?;
    if places.any(|other| other != first) {
        return Err(DropReason::Conflicting);
    }
    if first.is_some_and(|step| step >= solution.steps.len()) {
        return Err(DropReason::BadLabels);
    }
    Ok((first, TruthSource::Annotator(chosen.source_name())))
}

fn scored(solution: &Solution, model: &str, threshold: f64) -> Result<Option<usize>, DropReason> {
    let scores = solution.scores.get(model).ok_or(DropReason::NoLabels)?;
    if scores.len() != solution.steps.len() || scores.iter().any(|score| score.is_nan()) {
        return Err(DropReason::BadLabels);
    }
    let first = first_error(scores, threshold);
    match solution.outcome {
        Outcome::Unknown => Err(DropReason::UnknownOutcome),
        Outcome::Correct if first.is_some() => Err(DropReason::RightAnswerWithError),
        Outcome::Correct | Outcome::Wrong => Ok(first),
    }
}

/// Drops from larger classes. The choice hangs on the seed and the ids alone, not on the order.
fn balanced(
    examples: Vec<CriticExample>,
    settings: &Curation,
    counts: &mut BTreeMap<String, CurationCounts>,
) -> Vec<CriticExample> {
    if settings.balance == Balance::None {
        return examples;
    }
    let mut classes: BTreeMap<String, [Vec<(blake3::Hash, usize)>; 2]> = BTreeMap::new();
    for (index, example) in examples.iter().enumerate() {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&settings.seed.to_le_bytes()).update(example.problem_id.as_bytes()).update(&[0]);
        hasher.update(example.solution_id.as_bytes());
        let of_generator = classes.entry(example.generator.clone().unwrap_or_default()).or_default();
        of_generator[usize::from(example.truth.is_some())].push((hasher.finalize(), index));
    }
    let smaller = |classes: &[Vec<(blake3::Hash, usize)>; 2]| classes[0].len().min(classes[1].len());
    let smallest = classes.values().map(smaller).filter(|size| *size > 0).min().unwrap_or_default();
    let mut keep = vec![false; examples.len()];
    for (generator, mut classes) in classes {
        let size = match settings.balance {
            Balance::Generators => smaller(&classes).min(smallest),
            Balance::Classes | Balance::None => smaller(&classes),
        };
        let surplus = classes[0].len() + classes[1].len() - 2 * size;
        if surplus > 0 {
            counts.entry(generator).or_default().dropped.insert(DropReason::Balance, surplus);
        }
        for class in &mut classes {
            class.sort_by_key(|(hash, _)| *hash.as_bytes());
            class.iter().take(size).for_each(|(_, index)| keep[*index] = true);
        }
    }
    examples.into_iter().zip(keep).filter_map(|(example, keep)| keep.then_some(example)).collect()
}

#[cfg(test)]
mod tests {
    use gradus_core::{Annotation, LabelSource, Problem};

    use super::*;

    fn scored(id: usize, scores: &[f64], outcome: Outcome) -> Solution {
        Solution {
            id: format!("s{id}"),
            problem_id: "p".into(),
            generator: Some("m".into()),
            steps: vec![format!("one {id}"), "two".into()],
            outcome,
            scores: BTreeMap::from([("prm".to_owned(), scores.to_vec())]),
            ..Solution::default()
        }
    }

    fn record(solutions: Vec<Solution>) -> Record {
        Record::new(Problem { id: "p".into(), text: "Why?".into(), ..Problem::default() }, solutions)
    }

    #[test]
    fn scores_must_agree_with_the_answer() {
        let records = [record(vec![
            scored(0, &[0.9, 0.9], Outcome::Correct),
            scored(1, &[0.9, 0.79], Outcome::Wrong),
            scored(2, &[0.9, 0.7], Outcome::Correct),
            scored(3, &[0.9, 0.8], Outcome::Wrong),
            scored(4, &[0.9, 0.9], Outcome::Unknown),
            scored(5, &[0.9], Outcome::Correct),
            scored(6, &[f64::NAN, 0.9], Outcome::Correct),
            Solution { scores: BTreeMap::new(), ..scored(7, &[], Outcome::Correct) },
            Solution { steps: Vec::new(), ..scored(8, &[], Outcome::Correct) },
            scored(9, &[0.1, 0.1], Outcome::Wrong),
        ])];
        let truth = TruthSource::Scores { model: "prm".into(), threshold: 0.8 };
        let settings = Curation { truth, balance: Balance::None, seed: 0 };
        let (examples, counts) = curate(&records, &settings);
        let found: Vec<_> = examples.iter().map(|e| (e.solution_id.as_str(), e.truth)).collect();
        assert_eq!(found, [("s0", None), ("s1", Some(1)), ("s9", Some(0))]);
        let expected = BTreeMap::from([
            (DropReason::NoSteps, 1),
            (DropReason::NoLabels, 1),
            (DropReason::BadLabels, 2),
            (DropReason::UnknownOutcome, 1),
            (DropReason::RightAnswerWithError, 1),
            (DropReason::WrongAnswerWithoutError, 1),
        ]);
        assert_eq!(counts["m"], CurationCounts { correct: 1, wrong: 2, dropped: expected });

        let (balanced, counts) = curate(&records, &Curation { balance: Balance::Generators, ..settings });
        assert_eq!((balanced.len(), counts["m"].wrong, counts["m"].dropped[&DropReason::Balance]), (2, 1, 1));
        let line = serde_json::to_string(&balanced[0]).unwrap();
        assert_eq!(serde_json::from_str::<CriticExample>(&line).unwrap(), balanced[0]);
    }

    #[test]
    fn labels_of_a_person_count_and_must_not_conflict() {
        let labeled = |id, outcome, places: &[Option<usize>], source: &LabelSource| Solution {
            annotations: places.iter().map(|at| Annotation::from_first_error(2, *at, source)).collect(),
            ..scored(id, &[], outcome)
        };
        let human = LabelSource::Human;
        let judge = LabelSource::Judge { model: "j".into(), agreeing: 1, votes: 1 };
        let records = [record(vec![
            labeled(0, Outcome::Correct, &[Some(1)], &human),
            labeled(1, Outcome::Unknown, &[None, None], &human),
            labeled(2, Outcome::Wrong, &[Some(0), Some(1)], &human),
            labeled(3, Outcome::Wrong, &[None], &human),
            labeled(4, Outcome::Wrong, &[Some(0)], &judge),
        ])];
        let settings = Curation { balance: Balance::None, ..Curation::default() };
        let (examples, counts) = curate(&records, &settings);
        let found: Vec<_> = examples.iter().map(|e| (e.solution_id.as_str(), e.truth)).collect();
        assert_eq!(found, [("s0", Some(1)), ("s1", None), ("s4", Some(0))]);
        assert_eq!(examples[2].source, TruthSource::Annotator("judge j".to_owned()));
        let expected =
            BTreeMap::from([(DropReason::Conflicting, 1), (DropReason::WrongAnswerWithoutError, 1)]);
        assert_eq!(counts["m"].dropped, expected);
        let human = Curation { truth: TruthSource::Annotator("human".to_owned()), ..settings };
        assert_eq!(curate(&records, &human).0.len(), 2);
    }

    #[test]
    fn generators_are_balanced_within_and_across() {
        let by = |generator: &str, correct: usize, wrong: usize| {
            let one = move |index: usize, generator: String| {
                let outcome = Outcome::from_correct(index < correct);
                let scores: &[f64] = if index < correct { &[0.9, 0.9] } else { &[0.9, 0.1] };
                Solution {
                    id: format!("{generator}{index}"),
                    steps: vec![format!("{generator} {index}"), "two".into()],
                    generator: Some(generator),
                    ..scored(index, scores, outcome)
                }
            };
            let generator = generator.to_owned();
            (0..correct + wrong).map(move |index| one(index, generator.clone())).collect::<Vec<_>>()
        };
        let records = [record([by("a", 6, 5), by("b", 2, 3), by("c", 4, 0)].concat())];
        let truth = TruthSource::Scores { model: "prm".into(), threshold: 0.8 };
        let kept = |balance| {
            let (_, counts) = curate(&records, &Curation { truth: truth.clone(), balance, seed: 0 });
            ["a", "b", "c"].map(|name| (counts[name].correct, counts[name].wrong))
        };
        assert_eq!(kept(Balance::Generators), [(2, 2), (2, 2), (0, 0)]);
        assert_eq!(kept(Balance::Classes), [(5, 5), (2, 2), (0, 0)]);
        assert_eq!(kept(Balance::None), [(6, 5), (2, 3), (4, 0)]);
    }

    #[test]
    fn a_text_that_was_drawn_twice_is_one_example() {
        let twice = || scored(0, &[0.9, 0.1], Outcome::Wrong);
        let truth = TruthSource::Scores { model: "prm".into(), threshold: 0.8 };
        let settings = Curation { truth, balance: Balance::None, seed: 0 };
        let (examples, counts) = curate(&[record(vec![twice(), twice()])], &settings);
        assert_eq!((examples.len(), counts["m"].dropped[&DropReason::Repeated]), (1, 1));
        // The one that was drawn first need not be the one that was scored.
        let without = Solution { scores: BTreeMap::new(), ..twice() };
        assert_eq!(curate(&[record(vec![without, twice()])], &settings).0, examples);
    }

    #[test]
    fn the_order_of_records_does_not_choose() {
        let config = gradus_synth::SynthConfig { problems: 40, wrong_share: 0.7, ..Default::default() };
        let mut records: Vec<Record> = gradus_synth::generate(&config).collect();
        let chosen = |records: &[Record], seed| {
            let (examples, counts) = curate(records, &Curation { seed, ..Curation::default() });
            assert!(counts.values().all(|counts| counts.correct == counts.wrong));
            let mut ids: Vec<String> = examples.into_iter().map(|example| example.solution_id).collect();
            ids.sort();
            ids
        };
        let before = chosen(&records, 1);
        records.reverse();
        assert!(!before.is_empty());
        assert_eq!(chosen(&records, 1), before);
        assert_ne!(chosen(&records, 2), before);
    }
}
