//! Principal components against scikit-learn (`tests/reference/pca.py`).
//!
//! The bound is 1e-5 of the largest expected value. Found: components 5e-8, projections 6e-8, and 2e-6 where the mean,
//! kept in f32, is far from 0.

use serde_json::Value;

use crate::pca::{Fitted, Keep, fit};

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../../tests/reference/pca.json")).unwrap()
}

fn numbers(case: &Value, field: &str) -> Vec<f64> {
    case[field].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn rows(case: &Value) -> (Vec<f32>, usize) {
    let rows = numbers(case, "rows").into_iter().map(|value| value as f32).collect();
    (rows, usize::try_from(case["dimension"].as_u64().unwrap()).unwrap())
}

#[track_caller]
fn near(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    for (at, (&found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(found) - expected).abs() <= 1e-5 * largest,
            "{what} {at}: {found}, expected {expected}"
        );
    }
}

#[test]
fn a_fixed_number_of_components_is_scikit_learns() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let (rows, dimension) = rows(&case);
        let kept = usize::try_from(case["kept"].as_u64().unwrap()).unwrap();
        let Fitted { pca, explained } = fit(&rows, dimension, Keep::Fixed(kept)).unwrap();
        assert_eq!((pca.kept, pca.mean.len()), (kept, dimension), "{name}");
        near(&pca.mean, &numbers(&case, "mean"), &format!("{name}: mean"));
        // With their signs: none of these components has two entries of nearly the largest magnitude.
        let expected = numbers(&case, "components");
        for (at, expected) in expected.chunks_exact(dimension).enumerate() {
            near(
                &pca.components[at * dimension..][..dimension],
                expected,
                &format!("{name}: component {at}"),
            );
        }
        for (found, expected) in explained.iter().zip(numbers(&case, "explained")) {
            assert!(
                (found - expected).abs() <= 1e-12 + 1e-9 * expected,
                "{name}: {found}, expected {expected}"
            );
        }
        near(
            &pca.apply(&rows[..rows.len().min(3 * dimension)]),
            &numbers(&case, "projected"),
            &format!("{name}: projected"),
        );
    }
}

#[test]
fn a_share_of_the_variance_keeps_as_many_as_scikit_learn() {
    for case in cases() {
        let (rows, dimension) = rows(&case);
        for pair in case["shares"].as_array().unwrap() {
            let pca = fit(&rows, dimension, Keep::Explained(pair[0].as_f64().unwrap())).unwrap().pca;
            assert_eq!(Some(pca.kept as u64), pair[1].as_u64(), "{}: {}", case["name"], pair[0]);
        }
    }
}
