//! Dawid and Skene's ensemble against numpy: `reference/dawid_skene.py` made the values.

use gradus_annotate::consensus::Said;
use gradus_annotate::dawid_skene::{Item, Model};
use serde_json::Value;

#[test]
fn as_numpy_has_it() {
    let reference: Value = serde_json::from_str(include_str!("reference/dawid_skene.json")).unwrap();
    let said = |said: &Value| -> Said {
        match said {
            Value::Null => Some(None),
            Value::Number(step) => Some(Some(step.as_u64().unwrap() as usize)),
            _ => None,
        }
    };
    let items: Vec<Item> = (reference["solutions"].as_array().unwrap().iter())
        .map(|solution| Item {
            steps: solution["steps"].as_u64().unwrap() as usize,
            said: solution["said"].as_array().unwrap().iter().map(said).collect(),
        })
        .collect();
    let annotators = items[0].said.len();
    let iterations = reference["iterations"].as_u64().unwrap() as usize;
    let model = Model::fit_for(&items, annotators, iterations).unwrap();
    let close = |ours: f64, theirs: &Value| (ours - theirs.as_f64().unwrap()).abs() < 1e-9;
    assert!(close(model.prior, &reference["prior"]), "{model:?}");
    for (place, annotator) in model.annotators.iter().enumerate() {
        assert!(close(annotator.sensitivity, &reference["sensitivity"][place]), "{model:?}");
        assert!(close(annotator.false_alarm, &reference["false_alarm"][place]), "{model:?}");
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
