//! ProcessBench's numbers against its official formulas (`reference/processbench.py`), to 1e-12.
//!
//! We differ in one place, which the reference marks: F1 of two accuracies of 0 is 0, not undefined.

use gradus_core::metrics::process::{
    Located, ProcessScores, average, best, first_error, scores, sweep, thresholds,
};
use serde_json::Value;

fn reference(section: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("reference/processbench_cases.json")).unwrap();
    let cases = all[section].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{section} has no cases");
    cases
}

/// −1 is 'no error'.
fn step(value: &Value) -> Option<usize> {
    usize::try_from(value.as_i64().unwrap()).ok()
}

/// A prediction that is neither a step nor −1 matches nothing: what cannot be read.
fn prediction(value: &Value) -> Option<Option<usize>> {
    match value.as_i64()? {
        -1 => Some(None),
        step => usize::try_from(step).ok().map(Some),
    }
}

fn step_scores(case: &Value) -> Vec<Vec<f64>> {
    let list =
        |value: &Value| value.as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
    case["scores"].as_array().unwrap().iter().map(list).collect()
}

fn labels(case: &Value) -> Vec<Option<usize>> {
    case["labels"].as_array().unwrap().iter().map(step).collect()
}

#[track_caller]
fn near(found: Option<f64>, expected: &Value, what: &str) {
    match (found, expected.as_f64()) {
        (Some(found), Some(expected)) => {
            assert!((found - expected).abs() < 1e-12, "{what}: {found}, expected {expected}");
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

#[track_caller]
fn same(found: &ProcessScores, case: &Value, name: &str) {
    let expected = case.get("ours").unwrap_or(&case["expected"]);
    near(found.acc_err, &expected["acc_err"], &format!("{name}: acc_err"));
    near(found.acc_cor, &expected["acc_cor"], &format!("{name}: acc_cor"));
    near(found.f1, &expected["f1"], &format!("{name}: F1"));
    near(found.accuracy, &expected["accuracy"], &format!("{name}: accuracy"));
}

#[test]
fn predictions() {
    for case in reference("cases") {
        let samples: Vec<Located> = case["samples"]
            .as_array()
            .unwrap()
            .iter()
            .map(|sample| Located {
                predicted: prediction(&sample["prediction"]),
                truth: step(&sample["label"]),
            })
            .collect();
        let name = case["name"].as_str().unwrap();
        let found = scores(&samples);
        same(&found, &case, name);
        assert_eq!(found.erroneous + found.error_free, samples.len(), "{name}");
        let unread = samples.iter().filter(|sample| sample.predicted.is_none()).count();
        assert_eq!(found.undecided, unread, "{name}");
    }
}

#[test]
fn scores_at_a_threshold() {
    for case in reference("threshold_cases") {
        let name = case["name"].as_str().unwrap();
        let threshold = case["threshold"].as_f64().unwrap();
        let predicted: Vec<Option<usize>> =
            step_scores(&case).iter().map(|scores| first_error(scores, threshold)).collect();
        let expected: Vec<Option<usize>> = case["predictions"].as_array().unwrap().iter().map(step).collect();
        assert_eq!(predicted, expected, "{name}");
        let samples: Vec<Located> = predicted
            .iter()
            .zip(labels(&case))
            .map(|(&predicted, truth)| Located { predicted: Some(predicted), truth })
            .collect();
        same(&scores(&samples), &case, name);
    }
}

#[test]
fn sweeps() {
    for case in reference("sweep_cases") {
        let name = case["name"].as_str().unwrap();
        let steps = step_scores(&case);
        let samples: Vec<(Option<&[f64]>, Option<usize>)> =
            steps.iter().zip(labels(&case)).map(|(scores, truth)| (Some(scores.as_slice()), truth)).collect();
        let points = case["points"].as_array().unwrap();
        let at: Vec<f64> = points.iter().map(|point| point["threshold"].as_f64().unwrap()).collect();
        let swept = sweep(&samples, &at);
        assert_eq!(swept.len(), points.len());
        for (found, point) in swept.iter().zip(points) {
            same(&found.scores, point, &format!("{name} at {}", found.threshold));
        }
        let best = best(&swept).unwrap();
        near(best.scores.f1, &case["best_f1"], name);
        // Of equal thresholds ours is the lowest.
        assert_eq!(Some(best.threshold), case["best_thresholds"][0].as_f64(), "{name}");
    }
}

#[test]
fn the_grid_of_a_sweep() {
    let points = reference("sweep_cases")[0]["points"].as_array().unwrap().clone();
    let expected: Vec<f64> = points.iter().map(|point| point["threshold"].as_f64().unwrap()).collect();
    assert_eq!(thresholds().to_vec(), expected);
}

#[test]
fn averages() {
    for case in reference("average_cases") {
        let f1s: Vec<Option<f64>> = case["f1"].as_array().unwrap().iter().map(Value::as_f64).collect();
        near(average(&f1s), &case["expected"], case["name"].as_str().unwrap());
    }
}
