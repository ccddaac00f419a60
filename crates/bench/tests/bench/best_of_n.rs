//! Best-of-N against the numpy twin (`benches/peers/best_of_n.py`), on made-up candidates with ties, gaps and silence.

use std::path::Path;

use gradus_bench::best_of_n::{measure, pools};
use gradus_bench::{MetricEstimate, Sample};
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::select::vote::Power;
use gradus_data::files;
use serde_json::Value;

fn reference(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/reference").join(name)
}

fn samples() -> Vec<Sample> {
    let path = reference("best_of_n_pools.jsonl");
    let records = files::open(std::slice::from_ref(&path), None).unwrap();
    records.flat_map(|item| Sample::of(item.unwrap().record, &path)).collect()
}

fn assert_close(name: &str, estimates: &[MetricEstimate], expected: &Value) {
    let expected: Vec<f64> =
        expected.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
    assert_eq!(estimates.len(), expected.len());
    for (estimate, expected) in estimates.iter().zip(expected) {
        let found = estimate.value.unwrap();
        assert!((found - expected).abs() < 1e-9, "{name}: {found} against {expected}");
        let (low, high) = estimate.interval.unwrap();
        assert!(low <= found && found <= high, "{name}: {estimate:?}");
    }
}

#[test]
fn every_number_is_the_twins() {
    hold_against_the_twin("best_of_n_expected.json", 1.0);
    hold_against_the_twin("best_of_n_expected_cubed.json", 3.0);
}

fn hold_against_the_twin(file: &str, power: f64) {
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(reference(file)).unwrap()).unwrap();
    let sizes: Vec<usize> =
        expected["n"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect();
    let pools = pools(&samples(), None);
    let power = Power::try_from(power).unwrap();
    let (numbers, facts) = measure(&pools, &sizes, power, &Settings::default()).unwrap();
    let [set] = numbers.sets.as_slice() else { panic!("one file is one set") };
    assert_eq!((set.problems, set.unknown_outcomes), (60, 0));
    assert_eq!(facts.len(), 60);
    let (first, all) = (&expected["first"], &expected["expected"]);
    assert_close("pass", &set.pass, &first["pass"]);
    assert_close("chance", &set.chance, &first["chance"]);
    assert_close("majority", &set.majority, &first["majority"]);
    assert_close("expected pass", &set.expected_pass, &all["pass"]);
    assert_eq!(set.scorers.len(), 2);
    for scorer in &set.scorers {
        let name = &scorer.name;
        assert_eq!(Some(scorer.unscored as u64), expected["counts"]["without_usable_scores"][name].as_u64());
        for choice in &scorer.choices {
            let aggregation = choice.aggregation.name();
            let twin = &first["prms"][name][aggregation];
            assert_close(&format!("{name} {aggregation} best"), &choice.best, &twin["best"]);
            assert_close(&format!("{name} {aggregation} vote"), &choice.vote, &twin["vote"]);
            let gains = [
                (&choice.best_over_chance, &twin["best"], &first["chance"]),
                (&choice.vote_over_majority, &twin["vote"], &first["majority"]),
            ];
            for (gain, own, other) in gains {
                let gained = |index| own[index].as_f64().unwrap() - other[index].as_f64().unwrap();
                assert_close(
                    &format!("{name} {aggregation} gain"),
                    gain,
                    &(0..sizes.len()).map(gained).collect(),
                );
            }
            let twin = &all["prms"][name][aggregation]["best"];
            assert_close(&format!("{name} {aggregation} expected"), &choice.expected_best, twin);
            let twin = &expected["by_outcome"][name][aggregation];
            let found = &choice.by_outcome;
            for (class, twin) in [(&found.right, &twin["right"]), (&found.wrong, &twin["wrong"])] {
                assert_eq!(Some(class.solutions as u64), twin["solutions"].as_u64());
                assert_eq!(class.by_score.iter().sum::<u64>(), class.solutions as u64);
                for (value, twin) in [(class.mean, &twin["mean"]), (class.median, &twin["median"])] {
                    let (value, twin) = (value.unwrap(), twin.as_f64().unwrap());
                    assert!((value - twin).abs() < 1e-9, "{name} {aggregation}: {value} against {twin}");
                }
            }
            assert_close(&format!("{name} {aggregation} AUC"), &[found.auc], &[twin["auc"].clone()].into());
        }
    }
}
