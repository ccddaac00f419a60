//! Regression, ranking, calibration and intervals against scipy and scikit-learn (`tests/reference/statistics.py`).
//!
//! Everything agrees to 4e-13 relative, p-values down to 1e-51 and quantiles of Student's t too; 1e-11 passes. Where
//! the reference is 0, 1e-12 absolute.

use serde_json::Value;

use super::{calibration, exact, ranking, regression};

fn reference(section: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../../tests/reference/statistics.json")).unwrap();
    let cases = all[section].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{section} has no cases");
    cases
}

fn number(case: &Value, field: &str) -> f64 {
    case[field].as_f64().unwrap_or_else(|| panic!("{field} of {case}"))
}

fn whole(case: &Value, field: &str) -> usize {
    usize::try_from(case[field].as_u64().unwrap()).unwrap()
}

fn numbers(case: &Value, field: &str) -> Vec<f64> {
    case[field].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    let bound = 1e-12_f64.max(1e-11 * expected.abs());
    assert!((found - expected).abs() <= bound, "{what}: {found:e}, expected {expected:e}");
}

/// Small p-values are compared by their digits, not by how near they are to 0.
#[track_caller]
fn near_p(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-11 * expected, "{what}: {found:e}, expected {expected:e}");
}

#[track_caller]
fn near_or_none(found: Option<f64>, expected: &Value, what: &str) {
    match (found, expected.as_f64()) {
        (Some(found), Some(expected)) => near(found, expected, what),
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

fn scored(case: &Value) -> Vec<(f64, bool)> {
    numbers(case, "scores")
        .into_iter()
        .zip(numbers(case, "labels").iter().map(|label| *label == 1.0))
        .collect()
}

#[test]
fn lines_and_bands_are_scipys() {
    for case in reference("regression") {
        let name = case["name"].as_str().unwrap();
        let fit = regression::fit(&numbers(&case, "x"), &numbers(&case, "y")).unwrap();
        near(fit.slope, number(&case, "slope"), &format!("{name}: slope"));
        near(fit.intercept, number(&case, "intercept"), &format!("{name}: intercept"));
        near(fit.r, number(&case, "r"), &format!("{name}: r"));
        near(fit.stderr, number(&case, "stderr"), &format!("{name}: stderr"));
        if name == "perfect line" {
            // scipy keeps t finite there and arrives at 1.5e-40.
            assert_eq!((fit.p, fit.r, fit.stderr), (0.0, 1.0, 0.0));
        } else {
            near_p(fit.p, number(&case, "p"), &format!("{name}: p"));
        }
        assert_eq!(fit.n, numbers(&case, "x").len());
        for point in case["band"].as_array().unwrap() {
            let band = fit.band(number(point, "x"), 0.95);
            near(band.y, number(point, "y"), &format!("{name}: band y"));
            near(band.low, number(point, "low"), &format!("{name}: band low"));
            near(band.high, number(point, "high"), &format!("{name}: band high"));
        }
    }
}

#[test]
fn students_t_is_scipys() {
    for case in reference("student_t") {
        let found = regression::two_sided(number(&case, "t"), whole(&case, "df"));
        near_p(found, number(&case, "p"), &case.to_string());
    }
    for case in reference("student_t_quantile") {
        let found = regression::quantile(number(&case, "q"), whole(&case, "df"));
        near(found, number(&case, "t"), &case.to_string());
        let mirrored = regression::quantile(1.0 - number(&case, "q"), whole(&case, "df"));
        near(mirrored, -number(&case, "t"), &case.to_string());
    }
}

#[test]
fn rankings_are_scikit_learns() {
    for case in reference("ranking") {
        let name = case["name"].as_str().unwrap();
        near_or_none(ranking::roc_auc(&scored(&case)), &case["roc_auc"], &format!("{name}: AUC"));
        let precision = ranking::average_precision(&scored(&case));
        near_or_none(precision, &case["average_precision"], &format!("{name}: average precision"));
    }
}

#[test]
fn calibration_is_scikit_learns() {
    for case in reference("calibration") {
        let name = case["name"].as_str().unwrap();
        near_or_none(calibration::brier(&scored(&case)), &case["brier"], &format!("{name}: Brier"));
        near_or_none(calibration::ece(&scored(&case)), &case["ece"], &format!("{name}: ECE"));
        let counts = calibration::bins(&scored(&case)).unwrap().map(|bin| bin.count as f64);
        assert_eq!(counts.to_vec(), numbers(&case, "bin_counts"), "{name}");
    }
}

#[test]
fn intervals_of_shares_are_scipys() {
    for case in reference("wilson") {
        let (k, n) = (whole(&case, "k"), whole(&case, "n"));
        let found = exact::wilson(k, n, 0.95).unwrap();
        near(found.low, number(&case, "low"), &case.to_string());
        near(found.high, number(&case, "high"), &case.to_string());
        assert_eq!(found.share, k as f64 / n as f64);
    }
}
