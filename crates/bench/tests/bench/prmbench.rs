//! PRMBench's numbers against its official code and against our rules (`reference/prmbench.py`), to 1e-12.

use gradus_core::metrics::prmbench::{
    Class, ClassMetrics, Group, Outcome, PrmBenchMetrics, Sample, official, ours,
};
use serde_json::Value;

/// A sample that owns what [`Sample`] borrows.
struct Owned {
    class: Class,
    id: String,
    steps: usize,
    error_steps: Vec<usize>,
    result: String,
    scores: Vec<f64>,
}

impl Owned {
    fn read(value: &Value) -> Self {
        let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
        // The reference counts from 1.
        let index = |number: &Value| usize::try_from(number.as_u64().unwrap() - 1).unwrap();
        Self {
            class: Class::from_dataset(value["classification"].as_str().unwrap()).unwrap(),
            id: value["idx"].as_str().unwrap().to_owned(),
            steps: usize::try_from(value["steps"].as_u64().unwrap()).unwrap(),
            error_steps: list("error_steps").iter().map(index).collect(),
            result: value["result"].as_str().unwrap().to_owned(),
            scores: list("scores").iter().map(|score| score.as_f64().unwrap()).collect(),
        }
    }

    fn sample(&self) -> Sample<'_> {
        Sample {
            class: self.class,
            id: &self.id,
            steps: self.steps,
            error_steps: &self.error_steps,
            outcome: match self.result.as_str() {
                "scores" => Outcome::Scores(&self.scores),
                "invalid" => Outcome::Invalid,
                "absent" => Outcome::Absent,
                other => panic!("a result is not {other}"),
            },
        }
    }
}

/// Calls `check` with each case and its samples; counts the cases, so that none is skipped unseen.
fn each_case(check: impl Fn(&Value, &[Sample], f64)) -> usize {
    let all: Value = serde_json::from_str(include_str!("reference/prmbench_cases.json")).unwrap();
    let cases = all["cases"].as_array().unwrap();
    for case in cases {
        let owned: Vec<Owned> = case["samples"].as_array().unwrap().iter().map(Owned::read).collect();
        let samples: Vec<Sample> = owned.iter().map(Owned::sample).collect();
        check(case, &samples, case["threshold"].as_f64().unwrap());
    }
    cases.len()
}

#[track_caller]
fn near(found: Option<f64>, expected: &Value, what: &str) {
    // The official −1 is 'undefined'.
    match (found, expected.as_f64().filter(|value| *value != -1.0)) {
        (Some(found), Some(expected)) => {
            assert!((found - expected).abs() < 1e-12, "{what}: {found}, expected {expected}");
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

#[track_caller]
fn same_numbers(found: &ClassMetrics, expected: &Value, what: &str) {
    let counts = found.counts;
    for (field, found) in [("TP", counts.tp), ("FP", counts.fp), ("TN", counts.tn), ("FN", counts.fn_)] {
        assert_eq!(Some(found as u64), expected["counts"][field].as_u64(), "{what}: {field}");
    }
    let fields = [
        ("precision", found.precision),
        ("recall", found.recall),
        ("f1", found.f1),
        ("negative_precision", found.negative_precision),
        ("negative_recall", found.negative_recall),
        ("negative_f1", found.negative_f1),
        ("accuracy", found.accuracy),
        ("first_error_acc", found.first_error_acc),
        ("similarity", found.similarity),
        ("prm_score", found.prm_score),
    ];
    for (field, found) in fields {
        near(found, &expected[field], &format!("{what}: {field}"));
    }
}

#[track_caller]
fn same_report(found: &PrmBenchMetrics, expected: &Value, what: &str) {
    let classes = expected["classes"].as_object().unwrap();
    assert_eq!(found.classes.len(), classes.len(), "{what}");
    for (class, numbers) in &found.classes {
        same_numbers(numbers, &classes[class.name()], &format!("{what}: {}", class.name()));
    }
    for (group, name) in [(Group::Simplicity, "S1"), (Group::Soundness, "S2"), (Group::Sensitivity, "S3")] {
        near(found.groups[&group], &expected["groups"][name], &format!("{what}: {name}"));
    }
    match &found.overall {
        Some(numbers) => same_numbers(numbers, &expected["overall"], &format!("{what}: overall")),
        None => assert!(expected["overall"].is_null(), "{what}"),
    }
}

#[test]
fn by_our_rules() {
    let cases = each_case(|case, samples, threshold| {
        let (name, expected) = (case["name"].as_str().unwrap(), &case["ours"]);
        let found = ours(samples, threshold);
        same_report(&found, expected, name);
        assert_eq!(Some(found.missing as u64), expected["missing"].as_u64(), "{name}: missing");
        assert_eq!(Some(found.unlabeled as u64), expected["unlabelled"].as_u64(), "{name}: unlabelled");
    });
    assert_eq!(cases, 17);
}

#[test]
fn as_the_official_code_has_it() {
    let cases = each_case(|case, samples, threshold| {
        let (name, expected) = (case["name"].as_str().unwrap(), &case["official"]);
        let Some(found) = official(samples, threshold) else {
            return assert!(expected.is_null(), "{name}");
        };
        same_report(&found, expected, name);
        near(found.validity, &expected["validity_rate"], &format!("{name}: validity"));
    });
    assert_eq!(cases, 17);
}

#[test]
fn names_are_the_datasets() {
    let all: Value = serde_json::from_str(include_str!("reference/prmbench_cases.json")).unwrap();
    for (dataset_name, name) in all["classes"].as_object().unwrap() {
        assert_eq!(Class::from_dataset(dataset_name).map(Class::name), name.as_str());
    }
    for (group, names) in all["groups"].as_object().unwrap() {
        for class in Class::TESTED {
            let listed = names.as_array().unwrap().iter().any(|name| name == class.name());
            let own = serde_json::to_value(class.group()).unwrap();
            assert_eq!(own == *group.as_str(), listed, "{} in {group}", class.name());
        }
    }
}
