//! Wrong solutions from right ones: a reference solution with one error put into it, whose place is therefore known.
//!
//! | kind | what is done to a step |
//! |---|---|
//! | `number` | a result becomes another number; later steps stay as they were |
//! | `propagated` | a result becomes another number, and later steps go on with it |
//! | `operator` | `+` becomes `-`, `×` becomes `+` …, and the result stays |
//! | `premise` | the step that finds a number is left out; the next one takes it from nowhere |
//! | `unit` | dollars become cents, hours minutes … |
//! | `contradiction` | a step is put in that misquotes the result before it |
//!
//! A result is the number after an equals sign or in a box, or else one that the question states, so that changing it makes the step
//! false. What comes after the error has no label. The same seed gives the same errors.

use std::ops::Range;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Annotation, LabelSource, Metadata, Outcome, Problem, Solution};
use crate::steps::{self, Strategy};

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
    /// A result is misquoted.
    Contradiction,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Number, Self::Propagated, Self::Operator, Self::Premise, Self::Unit, Self::Contradiction];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Propagated => "propagated",
            Self::Operator => "operator",
            Self::Premise => "premise",
            Self::Unit => "unit",
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
            let config = steps::Config { strategy: Strategy::Sentences, min_chars: 24 };
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

/// `copies` different wrong solutions made from a right one, as many as can be made; each kind of error as often as it fits.
pub fn wrong(problem: &Problem, right: &Solution, copies: usize, kinds: &[Kind], seed: u64) -> Vec<Solution> {
    let hash = blake3::hash(format!("{seed}\0{}\0{}", problem.id, right.id).as_bytes());
    let mut random = ChaCha8Rng::from_seed(*hash.as_bytes());
    let mut places: Vec<(Kind, usize)> =
        kinds.iter().flat_map(|kind| (0..right.steps.len()).map(move |step| (*kind, step))).collect();
    places.shuffle(&mut random);
    // Kinds take turns, so that those which fit many steps do not crowd out the others.
    let mut order: Vec<Kind> = kinds.to_vec();
    order.shuffle(&mut random);
    let mut found: Vec<Solution> = Vec::new();
    while found.len() < copies {
        let before = found.len();
        for kind in &order {
            while let Some(at) = places.iter().position(|(other, _)| other == kind) {
                let (kind, step) = places.swap_remove(at);
                let Some((steps, first)) = put(problem, &right.steps, kind, step, &mut random) else {
                    continue;
                };
                found.push(solution(problem, steps, first, kind, found.len()));
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

fn solution(problem: &Problem, steps: Vec<String>, first: usize, kind: Kind, number: usize) -> Solution {
    let mut metadata = Metadata::new();
    metadata.insert("error".to_owned(), kind.name().into());
    Solution {
        id: format!("{}/wrong-{number}", problem.id),
        problem_id: problem.id.clone(),
        generator: Some("corrupted reference".to_owned()),
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
        Kind::Contradiction => {
            let place = result(&right[step], &problem.text)?;
            let wrong = another(&right[step][place], random)?;
            let said = MISQUOTES.choose(random)?.replace("{}", &wrong);
            steps.insert(step + 1, said);
            Some((steps, step + 1))
        }
    }
}

const MISQUOTES: [&str; 6] = [
    "As found above, this is {}.",
    "Recall that the previous step gave {}.",
    "So what we have so far is {}.",
    "Hence we continue with the value {}.",
    "From the last step we know that it equals {}.",
    "This means the result up to here is {}.",
];

/// Where numbers are: digits, with commas between thousands and a decimal point, that are no part of a word or a command.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        while digit(at) || (matches!(bytes.get(at), Some(b',' | b'.')) && digit(at + 1) && at > start) {
            at += 1;
        }
        let before = text[..start].chars().next_back();
        let after = text[at..].chars().next();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() || c == '_' || c == '\\');
        // 3x and 2nd are words here: 'x' and 'nd' belong to them.
        if !word(before) && !after.is_some_and(char::is_alphabetic) {
            found.push(start..at);
        }
    }
    found
}

/// The number that a step arrives at: the last one after an equals sign or in a box, or else one that the question states.
fn result(step: &str, question: &str) -> Option<Range<usize>> {
    let all = numbers(step);
    let follows_equals = |place: &&Range<usize>| {
        let before = step[..place.start].trim_end_matches([' ', '$', '-', '\\', '{', '(']);
        let before =
            before.strip_suffix("boxed").map_or(before, |rest| rest.trim_end_matches(['\\', ' ', '$']));
        before.ends_with('=')
            || before.len() < step[..place.start].len() && step[..place.start].ends_with("boxed{")
    };
    if let Some(place) = all.iter().rev().find(follows_equals) {
        return Some(place.clone());
    }
    let stated = numbers(question);
    let in_question =
        |place: &&Range<usize>| stated.iter().any(|other| question[other.clone()] == step[(*place).clone()]);
    all.iter().find(in_question).cloned()
}

/// Another number of the same kind.
fn another(number: &str, random: &mut ChaCha8Rng) -> Option<String> {
    let plain = number.replace(',', "");
    if let Some((whole, decimals)) = plain.split_once('.') {
        let mut digits: Vec<u8> = decimals.bytes().collect();
        let last = digits.last_mut()?;
        *last = b'0' + (*last - b'0' + random.random_range(1..10)) % 10;
        return Some(format!("{whole}.{}", String::from_utf8(digits).ok()?));
    }
    let value: u64 = plain.parse().ok()?;
    let near = (value / 5).max(2);
    let new = match random.random_range(0..6) {
        0 => value + 1,
        1 => value.checked_sub(1)?,
        2 => value + random.random_range(1..=near),
        3 => value.saturating_sub(random.random_range(1..=near)),
        4 => value.checked_mul(if value < 1000 { 10 } else { 2 })?,
        _ => value + 10,
    };
    (new != value).then(|| new.to_string())
}

/// Replaces a number wherever it stands; none where it does not.
fn renamed(text: &mut String, old: &str, new: &str) -> Option<()> {
    let places: Vec<Range<usize>> =
        numbers(text).into_iter().filter(|place| &text[place.clone()] == old).collect();
    for place in places.iter().rev() {
        text.replace_range(place.clone(), new);
    }
    (!places.is_empty()).then_some(())
}

/// The step with one operation between two numbers replaced, if that makes a difference.
fn operated(step: &str, random: &mut ChaCha8Rng) -> Option<String> {
    const SWAPS: [(&str, &str); 8] = [
        ("+", "-"),
        ("-", "+"),
        ("*", "+"),
        ("×", "+"),
        ("/", "*"),
        ("\\times", "+"),
        ("\\cdot", "+"),
        ("x", "+"),
    ];
    let all = numbers(step);
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    for pair in all.windows(2) {
        let between = &step[pair[0].end..pair[1].start];
        let inner = between.trim_matches([' ', '$']);
        let Some((old, new)) = SWAPS.iter().find(|(old, _)| *old == inner) else { continue };
        let value = |place: &Range<usize>| step[place.clone()].replace(',', "").parse::<f64>().unwrap_or(0.0);
        let (a, b) = (value(&pair[0]), value(&pair[1]));
        let apply = |operation: &str| match operation {
            "+" => a + b,
            "-" => a - b,
            "/" => a / b,
            _ => a * b,
        };
        if (apply(old) - apply(new)).abs() > 1e-9 {
            let start = pair[0].end + between.find(old).unwrap_or(0);
            found.push((start..start + old.len(), new));
        }
    }
    let (place, new) = found.choose(random)?.clone();
    let mut changed = step.to_owned();
    changed.replace_range(place, new);
    Some(changed)
}

/// The step with one unit replaced.
fn remeasured(step: &str, random: &mut ChaCha8Rng) -> Option<String> {
    const UNITS: [(&str, &str); 20] = [
        ("dollars", "cents"),
        ("cents", "dollars"),
        ("hours", "minutes"),
        ("minutes", "hours"),
        ("seconds", "minutes"),
        ("days", "weeks"),
        ("weeks", "days"),
        ("months", "years"),
        ("years", "months"),
        ("feet", "inches"),
        ("inches", "feet"),
        ("meters", "kilometers"),
        ("kilometers", "meters"),
        ("miles", "feet"),
        ("pounds", "ounces"),
        ("ounces", "pounds"),
        ("grams", "kilograms"),
        ("kilograms", "grams"),
        ("gallons", "quarts"),
        ("degrees", "radians"),
    ];
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let whole = |at: usize, word: &str| {
        !letter(step[..at].chars().next_back()) && !letter(step[at + word.len()..].chars().next())
    };
    let found: Vec<(usize, &str, &str)> = UNITS
        .iter()
        .flat_map(|(old, new)| step.match_indices(old).map(|(at, _)| (at, *old, *new)))
        .filter(|(at, old, _)| whole(*at, old))
        .collect();
    let (at, old, new) = *found.choose(random)?;
    let mut changed = step.to_owned();
    changed.replace_range(at..at + old.len(), new);
    Some(changed)
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
                let crate::data::FirstError::At(first) = labels.first_error else { panic!("an error") };
                assert_eq!(solution.steps[..first], right.steps[..first], "{kind:?}");
                assert_ne!(solution.steps[first], right.steps[first], "{kind:?}: {:?}", solution.steps);
                assert!(labels.labels[first + 1..].iter().all(Option::is_none));
            }
        }
        let moved = &wrong(&problem, &right, 1, &[Kind::Propagated], 3)[0];
        let number = &moved.steps[0][result(&moved.steps[0], "").unwrap()];
        assert!(moved.steps[1].contains(number) && !moved.steps[1].contains("60"), "{:?}", moved.steps);
        let dropped = &wrong(&problem, &right, 1, &[Kind::Premise], 0)[0];
        assert_eq!(dropped.steps.len(), 2);
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
        fn another_number_is_another(value in 0u64..1_000_000, seed: u64) {
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
