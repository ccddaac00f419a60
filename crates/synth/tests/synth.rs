//! The synthetic world: reproducible, balanced, and labelled without a mistake. The labels are checked by `checker`,
//! which reads only the finished text and knows nothing of how it was made.

#[path = "synth/checker.rs"]
mod checker;

use std::collections::{BTreeMap, BTreeSet};

use gradus_core::{FirstError, Outcome, Record, Solution};
use gradus_synth::{ErrorKind, Family, Style, SynthConfig, generate};
use proptest::prelude::*;

fn first_error(solution: &Solution) -> Option<usize> {
    match solution.annotations[0].first_error {
        FirstError::At(index) => Some(index),
        _ => None,
    }
}

fn meta<'a>(solution: &'a Solution, key: &str) -> &'a str {
    solution.metadata.get(key).and_then(|value| value.as_str()).unwrap_or("none")
}

/// Whether solutions of this family can have this error.
fn admits(family: Family, error: ErrorKind) -> bool {
    SynthConfig { families: vec![family], errors: vec![error], ..SynthConfig::default() }.check().is_ok()
}

fn lines(records: impl Iterator<Item = Record>) -> Vec<String> {
    records.map(|record| serde_json::to_string(&record).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_a_prefix_stays_a_prefix() {
    let long = SynthConfig { seed: 7, problems: 60, ..SynthConfig::default() };
    let short = SynthConfig { problems: 20, ..long.clone() };
    let all = lines(generate(&long));
    assert_eq!(all, lines(generate(&long)));
    assert_eq!(all[..20], lines(generate(&short)));
    assert_ne!(all[..20], lines(generate(&SynthConfig { seed: 8, ..short })));
}

/// Pins the bytes themselves, so that a change of platform or dependency cannot change them unseen.
#[test]
fn the_bytes_do_not_drift() {
    let text = lines(generate(&SynthConfig { seed: 1, problems: 200, ..SynthConfig::default() })).join("\n");
    insta::assert_snapshot!(gradus_core::id::hashed("bytes", [text.as_str()]));
}

#[test]
fn every_label_is_true() {
    let config = SynthConfig {
        seed: 11,
        problems: 4000,
        solutions_per_problem: 5,
        wrong_share: 0.7,
        ..SynthConfig::default()
    };
    let mut false_labels = vec![];
    for record in generate(&config) {
        for solution in &record.solutions {
            if let Err(why) = checker::check(&record.problem, solution) {
                false_labels.push(format!(
                    "{why}\n{}\nreference:\n  {}\n{:?}, first error {:?}:\n  {}",
                    record.problem.text,
                    record.problem.reference.join("\n  "),
                    solution.metadata,
                    first_error(solution),
                    solution.steps.join("\n  "),
                ));
            }
        }
    }
    let shown: Vec<_> = false_labels.iter().take(8).cloned().collect();
    assert!(shown.is_empty(), "{} false labels, among them\n{}", false_labels.len(), shown.join("\n\n"));
}

/// The checker is only worth something if it sees through false labels.
#[test]
fn false_labels_are_noticed() {
    let config = SynthConfig { seed: 13, problems: 1500, wrong_share: 1.0, ..SynthConfig::default() };
    for record in generate(&config) {
        for solution in &record.solutions {
            let mut innocent = solution.clone();
            innocent.annotations[0].first_error = FirstError::None;
            innocent.metadata.remove("error");
            assert!(checker::check(&record.problem, &innocent).is_err(), "unseen error: {solution:#?}");
            // Where a step was left out, two neighbours may look alike to a reader of numbers.
            let complete = solution.steps.len() == record.problem.reference.len();
            if let Some(earlier) =
                first_error(solution).and_then(|place| place.checked_sub(1)).filter(|_| complete)
            {
                let mut shifted = solution.clone();
                shifted.annotations[0].first_error = FirstError::At(earlier);
                assert!(
                    checker::check(&record.problem, &shifted).is_err(),
                    "blamed too early: {solution:#?}"
                );
            }
        }
    }
}

#[test]
fn every_combination_occurs() {
    let config = SynthConfig { seed: 3, problems: 12_000, wrong_share: 0.8, ..SynthConfig::default() };
    let mut seen = BTreeSet::new();
    for record in generate(&config) {
        for solution in &record.solutions {
            let difficulty = solution.metadata["difficulty"].as_u64().unwrap();
            let [family, style, error] =
                ["family", "style", "error"].map(|key| meta(solution, key).to_owned());
            seen.insert((family, style, error, difficulty));
        }
    }
    let mut missing = vec![];
    for family in Family::ALL {
        for style in Style::ALL {
            let errors =
                ErrorKind::ALL.iter().filter(|&&error| admits(*family, error)).map(|error| error.name());
            for error in errors.chain(["none"]) {
                for difficulty in 1..=5 {
                    let key = (family.name().into(), style.name().into(), error.into(), difficulty);
                    if !seen.contains(&key) {
                        missing.push(key);
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "never generated: {missing:?}");
}

#[test]
fn every_kind_alone_is_enough_for_the_families_that_admit_it() {
    for &family in Family::ALL {
        for &error in ErrorKind::ALL.iter().filter(|&&error| admits(family, error)) {
            let (families, errors) = (vec![family], vec![error]);
            let config = SynthConfig {
                problems: 20,
                solutions_per_problem: 1,
                wrong_share: 1.0,
                families,
                errors,
                ..SynthConfig::default()
            };
            assert!(generate(&config).all(|record| meta(&record.solutions[0], "error") == error.name()));
        }
    }
}

#[test]
fn shares_outcomes_and_places_are_as_asked() {
    let config =
        SynthConfig { seed: 5, problems: 3000, wrong_share: 0.4, propagate: 0.6, ..SynthConfig::default() };
    let (mut all, mut wrong, mut propagated, mut last, mut first) = (0u32, 0u32, 0u32, 0u32, 0u32);
    let mut places = BTreeMap::<usize, u32>::new();
    let (mut recovered, mut failed) = (0u32, 0u32);
    for record in generate(&config) {
        for solution in &record.solutions {
            all += 1;
            let right = solution.answer == record.problem.answer;
            assert_eq!(solution.outcome, Outcome::from_correct(right), "{solution:?}");
            let Some(place) = first_error(solution) else {
                assert_eq!(solution.outcome, Outcome::Correct);
                continue;
            };
            wrong += 1;
            propagated += u32::from(solution.metadata["propagated"].as_bool().unwrap());
            last += u32::from(place + 1 == solution.steps.len());
            first += u32::from(place == 0);
            *places.entry(place).or_default() += 1;
            *(if right { &mut recovered } else { &mut failed }) += 1;
        }
    }
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
    assert!((share(wrong, all) - 0.4).abs() < 0.02, "{wrong} of {all}");
    assert!((0.45..0.65).contains(&share(propagated, wrong)), "{propagated} of {wrong}");
    assert!(share(last, wrong) < 0.25 && share(first, wrong) < 0.45, "{places:?}");
    assert!(places.len() >= 6, "{places:?}");
    assert!(recovered > 0 && failed > recovered, "{recovered} {failed}");
}

#[test]
fn problems_are_complete_and_varied() {
    let config = SynthConfig { seed: 9, problems: 2000, solutions_per_problem: 1, ..SynthConfig::default() };
    let mut texts = BTreeSet::new();
    for record in generate(&config) {
        let problem = &record.problem;
        assert!(problem.reference.len() >= 2 && !problem.context.is_empty() && problem.source == "synth");
        assert!(problem.context.iter().all(|sentence| problem.text.contains(sentence.as_str())));
        let written = [&problem.text].into_iter().chain(&problem.reference).chain(&record.solutions[0].steps);
        for text in written {
            let clean = !text.contains("  ") && !text.contains("{}") && !text.contains("..");
            assert!(clean, "{text}");
        }
        texts.insert(problem.text.clone());
    }
    assert!(texts.len() > 1980, "only {} different problems of 2000", texts.len());
}

#[test]
fn one_problem_per_family() {
    let mut shown = String::new();
    for (index, &family) in Family::ALL.iter().enumerate() {
        let difficulty = 2 + (index % 3) as u8;
        let families = vec![family];
        let config = SynthConfig {
            seed: 21,
            problems: 1,
            solutions_per_problem: 3,
            wrong_share: 0.7,
            families,
            difficulty: (difficulty, difficulty),
            ..SynthConfig::default()
        };
        let record = generate(&config).next().unwrap();
        shown += &format!("## {} {difficulty}\n{}\n", family.name(), record.problem.text);
        shown += &format!("reference\n  {}\n", record.problem.reference.join("\n  "));
        for solution in &record.solutions {
            let (style, error) = (meta(solution, "style"), meta(solution, "error"));
            shown += &format!("{style}, error {error} at {:?}\n", first_error(solution));
            shown += &format!("  {}\n", solution.steps.join("\n  "));
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let base = SynthConfig::default;
    let broken = [
        SynthConfig { families: vec![], ..base() },
        SynthConfig { styles: vec![], ..base() },
        SynthConfig { errors: vec![], ..base() },
        SynthConfig { wrong_share: -0.1, ..base() },
        SynthConfig { propagate: f64::NAN, ..base() },
        SynthConfig { difficulty: (0, 3), ..base() },
        SynthConfig { difficulty: (4, 3), ..base() },
        SynthConfig { difficulty: (1, 6), ..base() },
        SynthConfig { errors: vec![ErrorKind::ArithmeticSlip], families: vec![Family::Lookup], ..base() },
    ];
    let sentences: Vec<_> = broken.iter().map(|config| config.check().unwrap_err().to_string()).collect();
    insta::assert_snapshot!(sentences.join("\n"));
    assert!(base().check().is_ok());
    assert!(SynthConfig { errors: vec![], wrong_share: 0.0, ..base() }.check().is_ok());
}

#[test]
fn names_are_the_same_everywhere() {
    for family in Family::ALL {
        assert_eq!(serde_json::to_value(family).unwrap(), family.name());
        assert_eq!(serde_json::from_value::<Family>(family.name().into()).unwrap(), *family);
    }
    assert_eq!(serde_json::to_value(ErrorKind::SignUnit).unwrap(), ErrorKind::SignUnit.name());
    assert!(serde_json::from_value::<Style>("verse".into()).is_err());
    assert!(serde_json::from_str::<SynthConfig>(r#"{"seeds": 1}"#).is_err());
    let config: SynthConfig = serde_json::from_str(r#"{"seed": 1, "difficulty": [2, 3]}"#).unwrap();
    assert_eq!(config.difficulty, (2, 3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_are_valid_for_any_seed(seed in any::<u64>(), wrong_share in 0.0..=1.0f64, hardest in 1u8..=5) {
        let config = SynthConfig { seed, problems: 12, wrong_share, difficulty: (1, hardest), ..SynthConfig::default() };
        for (index, record) in generate(&config).enumerate() {
            prop_assert!(record.validate().is_ok());
            prop_assert_eq!(&record.problem.id, &format!("synth-{seed}-{index}"));
            for solution in &record.solutions {
                let checked = checker::check(&record.problem, solution);
                prop_assert!(checked.is_ok(), "{:?} in {:#?} of {:#?}", checked, solution.steps, record.problem);
            }
        }
    }
}
