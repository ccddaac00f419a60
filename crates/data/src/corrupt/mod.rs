//! Wrong solutions from right ones: a reference solution with one error put into it, whose place is therefore known.
//!
//! | kind | what is done to a step |
//! |---|---|
//! | `number` | a result becomes another number; later steps stay as they were |
//! | `propagated` | a result becomes another number, and later steps go on with it |
//! | `operator` | `+` becomes `-`, `×` becomes `+` …, and the result stays |
//! | `premise` | the step that finds a number is left out; the next one takes it from nowhere |
//! | `unit` | dollars become cents, hours minutes … |
//! | `opposite` | a relation, function, sign, power or word becomes its opposite: `≤` and `≥`, sine and cosine, even and odd … |
//! | `contradiction` | a step is put in that misquotes the result before it |
//!
//! A result is the number after an equals sign or in a box, or else one that the question states, so that changing it makes the step
//! false. What comes after the error has no label. The same seed gives the same errors.
//!
//! References are terse. [`Layout`] writes the same solution as language models do, so that a reward model which learns
//! from it does not meet their way of writing for the first time in use.

mod layout;
mod text;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use layout::Layout;
use text::{another, numbers, operated, opposed, remeasured, renamed, result};

use gradus_core::steps::Strategy;
use gradus_core::{Annotation, FirstError, LabelSource, Metadata, Outcome, Problem, Solution, steps};

/// What kind of error is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another result; later steps stay.
    Number,
    /// Another result; later steps go on with it.
    Propagated,
    /// Another operation; the result stays.
    Operator,
    /// A step is missing.
    Premise,
    /// Another unit.
    Unit,
    /// A relation, function, sign or word is turned round.
    Opposite,
    /// A result is misquoted.
    Contradiction,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Number,
        Self::Propagated,
        Self::Operator,
        Self::Premise,
        Self::Unit,
        Self::Opposite,
        Self::Contradiction,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Propagated => "propagated",
            Self::Operator => "operator",
            Self::Premise => "premise",
            Self::Unit => "unit",
            Self::Opposite => "opposite",
            Self::Contradiction => "contradiction",
        }
    }
}

/// The reference solution as a right solution: calculators' marks removed, and cut into sentences where it is one paragraph.
/// None without a reference.
pub fn right(problem: &Problem) -> Option<Solution> {
    let reference = problem.readable_reference();
    let steps = match &reference[..] {
        [] => return None,
        [paragraph] => {
            let config = steps::SplitConfig { strategy: Strategy::Sentences, min_chars: 24 };
            steps::split(paragraph, &config).steps().map(str::to_owned).collect()
        }
        _ => reference,
    };
    let annotation = Annotation::from_first_error(steps.len(), None, &LabelSource::Injected);
    Some(Solution {
        id: format!("{}/right", problem.id),
        problem_id: problem.id.clone(),
        generator: Some("reference".to_owned()),
        steps,
        answer: problem.answer.clone(),
        outcome: Outcome::Correct,
        annotations: vec![annotation],
        ..Solution::default()
    })
}

/// The steps of a labelled solution that are known to be right, as a right solution: all of them, or those before the
/// first error. None where there are none, or only labels that are partial.
pub fn right_part(solution: &Solution) -> Option<Solution> {
    let annotation = solution.most_trusted()?;
    let count = match annotation.first_error {
        FirstError::None => solution.steps.len(),
        FirstError::At(first) => first,
        FirstError::Unknown => return None,
    };
    let steps = solution.steps.get(..count).filter(|steps| !steps.is_empty())?.to_vec();
    let annotations = vec![Annotation::from_first_error(count, None, &LabelSource::Injected)];
    let (id, problem_id) = (solution.id.clone(), solution.problem_id.clone());
    Some(Solution { id, problem_id, steps, annotations, ..Solution::default() })
}

/// `copies` wrong solutions made from a right one, as many as can be made; each kind of error as often as it fits. Two kinds
/// may come to the same change.
pub fn wrong(problem: &Problem, right: &Solution, copies: usize, kinds: &[Kind], seed: u64) -> Vec<Solution> {
    let hash = blake3::hash(format!("{seed}\0{}\0{}", problem.id, right.id).as_bytes());
    let mut random = ChaCha8Rng::from_seed(*hash.as_bytes());
    let places = kinds.iter().flat_map(|kind| (0..right.steps.len()).map(move |step| (*kind, step)));
    let mut places: Vec<(Kind, usize)> = in_random_order(places, &right.steps, &mut random);
    // Kinds take turns, so that those which fit many steps do not crowd out the others.
    let mut order: Vec<Kind> = kinds.to_vec();
    order.shuffle(&mut random);
    let mut found: Vec<Solution> = Vec::new();
    while found.len() < copies {
        let before = found.len();
        for kind in &order {
            while let Some(at) = places.iter().position(|(other, _)| other == kind) {
                let (kind, step) = places.remove(at);
                let Some((steps, first)) = put(problem, &right.steps, kind, step, &mut random) else {
                    continue;
                };
                found.push(solution(right, steps, first, kind, found.len()));
                break;
            }
            if found.len() == copies {
                break;
            }
        }
        if found.len() == before {
            break;
        }
    }
    found
}

/// Places in an order in which a step comes first as probably as it is long: what says more goes wrong more often.
/// (A race of exponential clocks whose rates are the lengths.)
fn in_random_order(
    places: impl Iterator<Item = (Kind, usize)>,
    steps: &[String],
    random: &mut ChaCha8Rng,
) -> Vec<(Kind, usize)> {
    let mut timed: Vec<(f64, (Kind, usize))> = places
        .map(|place| (-(1.0 - random.random::<f64>()).ln() / steps[place.1].len().max(1) as f64, place))
        .collect();
    timed.sort_by(|one, other| one.0.total_cmp(&other.0));
    timed.into_iter().map(|(_, place)| place).collect()
}

fn solution(right: &Solution, steps: Vec<String>, first: usize, kind: Kind, number: usize) -> Solution {
    let mut metadata = Metadata::new();
    metadata.insert("error".to_owned(), kind.name().into());
    Solution {
        id: format!("{}/wrong-{number}", right.id),
        problem_id: right.problem_id.clone(),
        generator: Some(format!("corrupted {}", right.generator.as_deref().unwrap_or("solution"))),
        annotations: vec![Annotation::from_first_error(steps.len(), Some(first), &LabelSource::Injected)],
        steps,
        metadata,
        ..Solution::default()
    }
}

/// The steps with an error of this kind at `step`, and where the first wrong step then is.
fn put(
    problem: &Problem,
    right: &[String],
    kind: Kind,
    step: usize,
    random: &mut ChaCha8Rng,
) -> Option<(Vec<String>, usize)> {
    let mut steps = right.to_vec();
    match kind {
        Kind::Number | Kind::Propagated => {
            let place = result(&right[step], &problem.text)?;
            let old = right[step][place.clone()].to_owned();
            let new = another(&old, random)?;
            steps[step].replace_range(place, &new);
            if kind == Kind::Propagated {
                let used =
                    steps[step + 1..].iter_mut().filter_map(|later| renamed(later, &old, &new)).count();
                if used == 0 {
                    return None;
                }
            }
            Some((steps, step))
        }
        Kind::Operator => {
            steps[step] = operated(&right[step], random)?;
            Some((steps, step))
        }
        Kind::Premise => {
            let place = result(&right[step], &problem.text)?;
            let found = &right[step][place];
            let known = |text: &str| numbers(text).iter().any(|other| &text[other.clone()] == found);
            let fresh = !known(&problem.text) && !right[..step].iter().any(|text| known(text));
            let used = right.get(step + 1).is_some_and(|next| known(next));
            (right.len() > 2 && fresh && used).then(|| {
                steps.remove(step);
                (steps, step)
            })
        }
        Kind::Unit => {
            steps[step] = remeasured(&right[step], random)?;
            Some((steps, step))
        }
        Kind::Opposite => {
            steps[step] = opposed(&right[step], random)?;
            Some((steps, step))
        }
        Kind::Contradiction => {
            let place = result(&right[step], &problem.text)?;
            let wrong = another(&right[step][place], random)?;
            let said = layout::RECALLS.choose(random)?.replace("{}", &wrong);
            steps.insert(step + 1, said);
            Some((steps, step + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem() -> Problem {
        Problem {
            id: "p".into(),
            text: "Ann earns 12 dollars an hour. She works 5 hours and spends 20 dollars. What is left?"
                .into(),
            reference: vec![
                "She earns 12*5 = $<<12*5=60>>60 dollars.".into(),
                "She keeps 60 - 20 = <<60-20=40>>40 dollars.".into(),
                "So 40 dollars are left.".into(),
            ],
            answer: Some("40".into()),
            ..Problem::default()
        }
    }

    #[test]
    fn a_right_solution_is_the_reference_for_readers() {
        let right = right(&problem()).unwrap();
        assert_eq!(right.steps[0], "She earns 12*5 = $60 dollars.");
        assert_eq!(right.annotations[0].labels.len(), 3);
        let paragraph = Problem {
            reference: vec!["First we add the numbers: 2 + 3 = 5. Then we double what we have: 10.".into()],
            ..problem()
        };
        assert_eq!(super::right(&paragraph).unwrap().steps.len(), 2);
        assert_eq!(super::right(&Problem::default()), None);
    }

    #[test]
    fn every_kind_puts_its_error_where_it_says() {
        let problem = problem();
        let right = right(&problem).unwrap();
        for kind in Kind::ALL {
            let made = wrong(&problem, &right, 9, &[kind], 1);
            assert!(!made.is_empty(), "{kind:?}");
            for solution in made {
                let labels = &solution.annotations[0];
                let FirstError::At(first) = labels.first_error else { panic!("an error") };
                assert_eq!(solution.steps[..first], right.steps[..first], "{kind:?}");
                assert_ne!(solution.steps[first], right.steps[first], "{kind:?}: {:?}", solution.steps);
                assert!(labels.labels[first + 1..].iter().all(Option::is_none));
            }
        }
        let moved = &wrong(&problem, &right, 1, &[Kind::Propagated], 3)[0];
        let FirstError::At(first) = moved.annotations[0].first_error else { panic!("an error") };
        let at = |steps: &[String]| steps[first][result(&steps[first], "").unwrap()].to_owned();
        let (old, new) = (at(&right.steps), at(&moved.steps));
        assert!(moved.steps[first + 1].contains(&new), "{:?}", moved.steps);
        assert!(!moved.steps[first + 1].contains(&old), "{:?}", moved.steps);
        let dropped = &wrong(&problem, &right, 1, &[Kind::Premise], 0)[0];
        assert_eq!(dropped.steps.len(), 2);
    }

    #[test]
    fn long_steps_go_wrong_more_often() {
        let long = format!("{} 1 + 2 = 3.", "We look at this from every side. ".repeat(9));
        let right = Solution { steps: vec!["1 + 2 = 3.".into(), long], ..Solution::default() };
        let at_long = |seed: &u64| {
            let made = wrong(&Problem::default(), &right, 1, &[Kind::Number], *seed);
            made[0].annotations[0].first_error == FirstError::At(1)
        };
        let share = (0..2000).filter(at_long).count() as f64 / 2000.0;
        let expected = right.steps[1].len() as f64 / (right.steps[0].len() + right.steps[1].len()) as f64;
        assert!(
            (share - expected).abs() < 0.02,
            "{share} of errors are in the long step, expected {expected}"
        );
    }

    #[test]
    fn steps_before_an_error_are_right() {
        let labelled = |first| Solution {
            steps: vec!["a".into(), "b".into(), "c".into()],
            annotations: vec![Annotation::from_first_error(3, first, &LabelSource::Injected)],
            ..Solution::default()
        };
        let steps = |first| right_part(&labelled(first)).map(|part| part.steps.concat());
        assert_eq!(
            (steps(None), steps(Some(2)), steps(Some(0))),
            (Some("abc".into()), Some("ab".into()), None)
        );
        assert_eq!(right_part(&Solution::default()), None);
        // That the third step is proved wrong says nothing of the two before it.
        let proved = Annotation::from_first_error(3, Some(2), &LabelSource::Exact);
        assert_eq!(right_part(&Solution { annotations: vec![proved], ..labelled(None) }), None);
    }

    #[test]
    fn numbers_are_told_from_words() {
        let found =
            |text: &'static str| numbers(text).into_iter().map(|place| &text[place]).collect::<Vec<_>>();
        assert_eq!(found("1,200 of x2, 3x, 2nd, 4.5 and \\frac{7}{8}."), ["1,200", "4.5", "7", "8"]);
        assert_eq!(found("3+4=7"), ["3", "4", "7"]);
        let boxed = "the answer is $\\boxed{98}$ of 100";
        assert_eq!(&boxed[result(boxed, "").unwrap()], "98");
    }

    proptest! {
        #[test]
        fn another_number_is_another(value in prop_oneof![0u64..1_000_000, any::<u64>()], seed: u64) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            if let Some(new) = another(&value.to_string(), &mut random) {
                prop_assert_ne!(new, value.to_string());
            }
        }

        #[test]
        fn any_text_is_survived(step in ".{0,80}", question in ".{0,40}", seed: u64) {
            let problem = Problem { text: question, reference: vec![step.clone(), step], ..Problem::default() };
            let right = right(&problem).unwrap();
            let first = wrong(&problem, &right, 6, &Kind::ALL, seed);
            prop_assert_eq!(&first, &wrong(&problem, &right, 6, &Kind::ALL, seed));
            for solution in first {
                prop_assert_eq!(solution.steps.len(), solution.annotations[0].labels.len());
            }
        }
    }
}
