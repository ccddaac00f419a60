use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::run::leftovers;

fn example(step: u64) -> Checkpoint {
    let tensors = BTreeMap::from([
        ("b.weight".to_owned(), (vec![2, 3], vec![0.1, -0.0, f32::MIN_POSITIVE, 1e38, -1.5, step as f32])),
        ("a.empty".to_owned(), (vec![0, 4], Vec::new())),
        ("c.scalar".to_owned(), (Vec::new(), vec![7.0])),
    ]);
    Checkpoint { step, tensors, state: json!({"seen": 12, "share": 0.1 + 0.2, "names": ["z", "a"]}) }
}

/// Changes one byte in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn comes_back() {
    let root = tempfile::tempdir().unwrap();
    let path = save(root.path(), &example(123)).unwrap();
    assert_eq!(path, root.path().join("step-000123"));
    assert_eq!(load(&path).unwrap(), example(123));
    let state = fs::read_to_string(path.join(STATE)).unwrap();
    insta::with_settings!({filters => vec![(r#""blake3": "[0-9a-f]{64}""#, r#""blake3": "…""#)]}, {
        insta::assert_snapshot!(state);
    });
}

#[test]
fn the_same_checkpoint_is_the_same_bytes() {
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] = roots.each_ref().map(|root| save(root.path(), &example(1)).unwrap());
    for file in [TENSORS, STATE] {
        assert_eq!(fs::read(one.join(file)).unwrap(), fs::read(two.join(file)).unwrap());
    }
}

#[test]
fn a_damaged_one_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    for step in [10, 20, 30] {
        save(root.path(), &example(step)).unwrap();
    }
    damage(&root.path().join("step-000030").join(TENSORS));
    damage(&root.path().join("step-000020").join(STATE));
    let (latest, warnings) = load_latest(root.path()).unwrap();
    assert_eq!(latest, Some(example(10)));
    let warnings = warnings.join("\n").replace(&root.path().display().to_string(), "RUN");
    assert!(
        warnings.contains("RUN/step-000030: the checkpoint is damaged: tensors.safetensors does not match"),
        "{warnings}"
    );
    assert!(warnings.contains("RUN/step-000020: the checkpoint is damaged: state.json"), "{warnings}");

    fs::remove_file(root.path().join("step-000010").join(TENSORS)).unwrap();
    let (latest, warnings) = load_latest(root.path()).unwrap();
    assert_eq!((latest, warnings.len()), (None, 3));
}

#[test]
fn what_a_kill_leaves_is_no_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), &example(10)).unwrap();
    // As after a kill while step 20 was being written.
    let half = root.path().join(".gradus-unfinished-x1");
    fs::create_dir(&half).unwrap();
    fs::write(half.join(TENSORS), b"half").unwrap();
    let (latest, warnings) = load_latest(root.path()).unwrap();
    assert_eq!((latest, warnings), (Some(example(10)), Vec::new()));
    assert_eq!(leftovers::remove(root.path()).unwrap(), 1);
    assert_eq!(steps(root.path()).unwrap(), [10]);
}

#[test]
fn one_step_can_be_saved_again() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), &example(10)).unwrap();
    let other = Checkpoint { state: json!(null), ..example(10) };
    let path = save(root.path(), &other).unwrap();
    assert_eq!(load(&path).unwrap(), other);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn pruning_keeps_the_last_and_the_best() {
    let root = tempfile::tempdir().unwrap();
    for step in [5, 10, 15, 1_000_000] {
        save(root.path(), &example(step)).unwrap();
    }
    assert_eq!(prune(root.path(), 2, Some(5)).unwrap(), [10]);
    assert_eq!(steps(root.path()).unwrap(), [5, 15, 1_000_000]);
    assert_eq!(prune(root.path(), 2, None).unwrap(), [5]);
}

#[test]
fn a_shape_that_does_not_fit_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut wrong = example(1);
    wrong.tensors.insert("d".to_owned(), (vec![2], vec![1.0]));
    assert!(save(root.path(), &wrong).is_err());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every bit pattern, signalling NaNs included.
    #[test]
    fn every_bit_comes_back(bits in proptest::collection::btree_map(".{0,12}", proptest::collection::vec(any::<u32>(), 0..20), 0..5)) {
        let root = tempfile::tempdir().unwrap();
        let tensors: Tensors = bits
            .iter()
            .map(|(name, bits)| (name.clone(), (vec![bits.len()], bits.iter().map(|bits| f32::from_bits(*bits)).collect())))
            .filter(|(name, _): &(String, _)| name != "__metadata__")
            .collect();
        let path = save(root.path(), &Checkpoint { step: 1, tensors, state: Value::Null }).unwrap();
        let back: BTreeMap<String, Vec<u32>> = load(&path)
            .unwrap()
            .tensors
            .into_iter()
            .map(|(name, (_, values))| (name, values.into_iter().map(f32::to_bits).collect()))
            .collect();
        prop_assert_eq!(back, bits);
    }
}
