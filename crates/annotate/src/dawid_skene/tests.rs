//! Votes drawn from the model itself, and reference values from numpy (`reference/dawid_skene.py`).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::*;

/// Votes drawn from the model itself.
fn drawn(
    solutions: usize,
    annotators: &[Reliability],
    prior: f64,
) -> (Vec<SolutionVotes>, Vec<Option<usize>>) {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut truths = Vec::new();
    let items = (0..solutions).map(|_| {
        let steps = 6;
        let truth = (0..steps).find(|_| random.random_bool(prior));
        truths.push(truth);
        let votes = annotators.iter().map(|annotator| {
            Some((0..steps).find(|step| {
                // After the true first error everything is wrong.
                let wrong = truth.is_some_and(|truth| *step >= truth);
                random.random_bool(if wrong { annotator.sensitivity } else { annotator.false_alarm })
            }))
        });
        SolutionVotes { steps, votes: votes.collect() }
    });
    (items.collect(), truths)
}

#[test]
fn it_finds_who_is_reliable_and_beats_the_majority() {
    let of = |sensitivity, false_alarm| Reliability { sensitivity, false_alarm };
    let annotators = [of(0.9, 0.02), of(0.55, 0.15), of(0.5, 0.2), of(0.6, 0.15)];
    let (items, truths) = drawn(3000, &annotators, 0.12);
    let model = DawidSkene::fit(&items, annotators.len()).unwrap();
    let best = model.annotators[0];
    // Steps after the true first error are all wrong, which the model does not know: sensitivities are a little off.
    assert!((best.sensitivity - 0.9).abs() < 0.08 && (best.false_alarm - 0.02).abs() < 0.02, "{model:?}");
    assert!(model.annotators[1..].iter().all(|other| other.sensitivity < best.sensitivity), "{model:?}");
    let right = |votes: &dyn Fn(&SolutionVotes) -> Option<usize>| {
        items.iter().zip(&truths).filter(|(item, truth)| votes(item) == **truth).count()
    };
    let ours = right(&|item| model.estimate(item).unwrap().first_error);
    let majority =
        right(&|item| crate::ensemble::combine(crate::ensemble::Rule::Majority, &item.votes).unwrap());
    assert!(ours > majority + 100, "{ours} against {majority}");
}

#[test]
fn probabilities_add_up_and_silence_decides_nothing() {
    let item = |votes: Vec<FirstErrorVote>| SolutionVotes { steps: 3, votes };
    let items = [item(vec![Some(None), Some(Some(1))]), item(vec![None, Some(None)])];
    let model = DawidSkene::fit(&items, 2).unwrap();
    let estimate = model.estimate(&items[0]).unwrap();
    assert!(estimate.probability <= 1.0 && estimate.all_right <= 1.0);
    assert_eq!(model.estimate(&item(vec![None, None])), None);
    assert_eq!(DawidSkene::fit(&[item(vec![None, None])], 2), None);
    assert_eq!(DawidSkene::fit(&[], 2), None);
}

#[test]
fn as_numpy_has_it() {
    let reference: Value = serde_json::from_str(include_str!("reference/dawid_skene.json")).unwrap();
    let vote = |said: &Value| -> FirstErrorVote {
        match said {
            Value::Null => Some(None),
            Value::Number(step) => Some(Some(step.as_u64().unwrap() as usize)),
            _ => None,
        }
    };
    let items: Vec<SolutionVotes> = (reference["solutions"].as_array().unwrap().iter())
        .map(|solution| SolutionVotes {
            steps: solution["steps"].as_u64().unwrap() as usize,
            votes: solution["said"].as_array().unwrap().iter().map(vote).collect(),
        })
        .collect();
    let annotators = items[0].votes.len();
    let iterations = reference["iterations"].as_u64().unwrap() as usize;
    let model = DawidSkene::fit_for(&items, annotators, iterations).unwrap();
    let close = |ours: f64, theirs: &Value| (ours - theirs.as_f64().unwrap()).abs() < 1e-9;
    assert!(close(model.prior, &reference["prior"]), "{model:?}");
    for (index, annotator) in model.annotators.iter().enumerate() {
        assert!(close(annotator.sensitivity, &reference["sensitivity"][index]), "{model:?}");
        assert!(close(annotator.false_alarm, &reference["false_alarm"][index]), "{model:?}");
    }
    for (item, expected) in items.iter().zip(reference["estimates"].as_array().unwrap()) {
        let Some(found) = model.estimate(item) else {
            assert!(expected.is_null());
            continue;
        };
        assert_eq!(found.first_error.map(|step| step as u64), expected["first_error"].as_u64());
        assert!(close(found.probability, &expected["probability"]), "{item:?}");
        assert!(close(found.all_right, &expected["all_right"]), "{item:?}");
    }
}
