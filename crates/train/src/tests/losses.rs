//! Every loss against PyTorch's autograd (`tests/reference/make_losses.py`) and against finite differences.

use proptest::prelude::*;
use serde::Deserialize;

use crate::critic::Verdict;
use crate::losses::*;

#[derive(Deserialize)]
struct Reference {
    labels: Vec<LabelCase>,
    orpo: Vec<OrpoCase>,
    grpo: Vec<GrpoCase>,
    advantages: Vec<AdvantageCase>,
    pairs: Vec<PairCase>,
}

#[derive(Deserialize)]
struct LabelCase {
    loss: String,
    inputs: Vec<f32>,
    #[serde(default)]
    classes: usize,
    #[serde(default)]
    classes_of: Vec<usize>,
    #[serde(default)]
    positive: usize,
    #[serde(default)]
    targets: Vec<f32>,
    value: f64,
    gradients: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct PairCase {
    inputs: Vec<f32>,
    classes: usize,
    positive: usize,
    pairs: Vec<(usize, usize)>,
    value: f64,
    gradients: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct OrpoCase {
    lambda: f64,
    pairs: Vec<[Vec<f32>; 2]>,
    nll: f64,
    odds_ratio: f64,
    value: f64,
    gradients: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct GrpoCase {
    #[serde(rename = "settings")]
    config: GrpoLossConfig,
    now: Vec<Vec<f32>>,
    old: Vec<Vec<f32>>,
    reference: Option<Vec<Vec<f32>>>,
    advantages: Vec<f64>,
    truths: Vec<Verdict>,
    value: f64,
    gradients: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct AdvantageCase {
    rewards: Vec<f64>,
    plain: Vec<f64>,
    normalized: Vec<f64>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../../tests/reference/losses.json")).unwrap()
}

/// Near in relative terms, or in absolute ones below 1.
fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let gap = (found - expected).abs() / expected.abs().max(1.0);
    assert!(gap <= tolerance, "{what}: {found} is not {expected}");
}

fn all_near(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        near(f64::from(*found), *expected, 1e-6, what);
    }
}

#[test]
fn labels_agree_with_pytorch() {
    let cases = reference().labels;
    assert!(!cases.is_empty());
    for case in cases {
        let loss = match case.loss.as_str() {
            "cross_entropy" => cross_entropy(&case.inputs, case.classes, &case.classes_of),
            "binary_cross_entropy" => binary_cross_entropy(&case.inputs, &case.targets),
            "squared_error_of_sigmoid" => squared_error_of_sigmoid(&case.inputs, &case.targets),
            "negative_log_likelihood" => negative_log_likelihood(&case.inputs, &case.targets),
            "squared_error_of_probability" => {
                squared_error_of_probability(&case.inputs, case.classes, case.positive, &case.targets)
            }
            "cross_entropy_of_probability" => {
                cross_entropy_of_probability(&case.inputs, case.positive, &case.targets)
            }
            other => panic!("{other} is not a loss"),
        };
        near(loss.value, case.value, 1e-10, &case.loss);
        all_near(&loss.gradient, &case.gradients[0], &case.loss);
    }
}

#[test]
fn pairs_agree_with_pytorch() {
    let cases = reference().pairs;
    assert_eq!(cases.len(), 8);
    for case in cases {
        let loss = pair_ranking(&case.inputs, case.classes, case.positive, &case.pairs);
        let what = format!("{} classes", case.classes);
        near(loss.value, case.value, 1e-10, &what);
        all_near(&loss.gradient, &case.gradients[0], &what);
    }
}

#[test]
fn orpo_agrees_with_trl() {
    for case in reference().orpo {
        let pairs: Vec<OrpoPair<'_>> =
            case.pairs.iter().map(|[chosen, rejected]| OrpoPair { chosen, rejected }).collect();
        let loss = orpo(&pairs, case.lambda, OrpoBatch::of(&pairs));
        near(loss.value, case.value, 1e-9, "value");
        near(loss.nll, case.nll, 1e-10, "nll");
        near(loss.odds_ratio, case.odds_ratio, 1e-9, "odds ratio");
        for (pair, expected) in loss.gradients.iter().zip(case.gradients.chunks_exact(2)) {
            all_near(&pair.chosen, &expected[0], "chosen");
            all_near(&pair.rejected, &expected[1], "rejected");
        }
    }
}

#[test]
fn grpo_agrees_with_pytorch() {
    let cases = reference().grpo;
    // Samples that a class-level average leaves out, though their KL term is not 0.
    let left_out =
        |case: &&GrpoCase| case.config.class_level && case.config.kl > 0.0 && case.advantages.contains(&0.0);
    assert!(cases.len() >= 19 && cases.iter().filter(left_out).count() >= 4);
    for case in cases {
        let samples: Vec<GrpoSample<'_>> = (0..case.now.len())
            .map(|index| GrpoSample {
                now: &case.now[index],
                old: &case.old[index],
                reference: case.reference.as_ref().map(|reference| reference[index].as_slice()),
                advantage: case.advantages[index],
                truth: case.truths[index],
            })
            .collect();
        let loss = grpo(&samples, &case.config);
        let what = format!("{:?}", case.config);
        near(loss.value, case.value, 1e-10, &what);
        for (found, expected) in loss.gradients.iter().zip(&case.gradients) {
            all_near(found, expected, &what);
        }
    }
}

#[test]
fn advantages_agree_with_pytorch() {
    for case in reference().advantages {
        for (normalize, expected) in [(false, &case.plain), (true, &case.normalized)] {
            for (found, expected) in advantages(&case.rewards, normalize).values.iter().zip(expected) {
                near(*found, *expected, 1e-12, "advantage");
            }
        }
    }
}

/// Compares `gradient` with central differences of `value` along each input.
fn check_gradient(
    inputs: &[f32],
    gradient: &[f32],
    value: impl Fn(&[f32]) -> f64,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(inputs.len(), gradient.len());
    for index in 0..inputs.len() {
        let mut moved = inputs.to_vec();
        moved[index] = inputs[index] + 1e-3;
        let (above, value_above) = (moved[index], value(&moved));
        moved[index] = inputs[index] - 1e-3;
        // The step as `f32` holds it, not as it was meant.
        let difference = (value_above - value(&moved)) / (f64::from(above) - f64::from(moved[index]));
        let found = f64::from(gradient[index]);
        prop_assert!(
            (difference - found).abs() < 1e-4 * difference.abs().max(1.0),
            "{difference} against {found}"
        );
    }
    Ok(())
}

fn numbers(low: f32, high: f32, count: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(low..high, count)
}

proptest! {
    #[test]
    fn gradients_of_label_losses(x in numbers(-6.0, 6.0, 6), t in numbers(0.0, 1.0, 6), c in 0..3usize) {
        let loss = cross_entropy(&x, 3, &[c, 2 - c]);
        check_gradient(&x, &loss.gradient, |x| cross_entropy(x, 3, &[c, 2 - c]).value)?;
        let loss = squared_error_of_probability(&x, 3, c, &t[..2]);
        check_gradient(&x, &loss.gradient, |x| squared_error_of_probability(x, 3, c, &t[..2]).value)?;
        let loss = cross_entropy_of_probability(&x, c % 2, &t[..3]);
        check_gradient(&x, &loss.gradient, |x| cross_entropy_of_probability(x, c % 2, &t[..3]).value)?;
        check_gradient(&x, &binary_cross_entropy(&x, &t).gradient, |x| binary_cross_entropy(x, &t).value)?;
        let loss = squared_error_of_sigmoid(&x, &t);
        check_gradient(&x, &loss.gradient, |x| squared_error_of_sigmoid(x, &t).value)?;
        let loss = negative_log_likelihood(&x, &t);
        check_gradient(&x, &loss.gradient, |x| negative_log_likelihood(x, &t).value)?;
    }

    #[test]
    fn gradients_of_pairs(x in numbers(-6.0, 6.0, 12), classes in 1..4usize, positive in 0..3usize) {
        let positive = positive % classes;
        let pairs = [(0, 1), (2, 1), (3, 0)];
        let value = |x: &[f32]| pair_ranking(x, classes, positive, &pairs);
        check_gradient(&x, &value(&x).gradient, |x| value(x).value)?;
    }

    #[test]
    fn gradients_of_orpo(x in numbers(-6.0, -0.1, 7), lambda in 0.0..1.0f64) {
        fn pairs(x: &[f32]) -> [OrpoPair<'_>; 2] {
            [OrpoPair { chosen: &x[..2], rejected: &x[2..3] }, OrpoPair { chosen: &x[3..4], rejected: &x[4..] }]
        }
        let value = |x: &[f32]| orpo(&pairs(x), lambda, OrpoBatch::of(&pairs(x)));
        let loss = value(&x);
        let gradient: Vec<f32> = loss.gradients.iter().flat_map(|g| [&g.chosen[..], &g.rejected[..]].concat()).collect();
        check_gradient(&x, &gradient, |x| value(x).value)?;
    }

    #[test]
    fn gradients_of_grpo(
        now in numbers(-3.0, 0.0, 5),
        drift in numbers(-0.5, 0.5, 5),
        advantage in numbers(-2.0, 2.0, 2),
        way in 0..3usize,
        class_level: bool,
    ) {
        let length = [
            LengthNormalization::PerSample, LengthNormalization::Constant(9), LengthNormalization::PerBatchToken,
        ][way];
        let config = GrpoLossConfig { length, class_level, ..GrpoConfig::default().loss() };
        let old: Vec<f32> = now.iter().zip(&drift).map(|(now, drift)| now + drift).collect();
        // The loss has a kink where a token is at a clipping bound.
        for (now, old) in now.iter().zip(&old) {
            let ratio = (now - old).exp();
            prop_assume!((ratio - 0.8).abs() > 0.01 && (ratio - 1.2).abs() > 0.01);
        }
        let reference: Vec<f32> = drift.iter().map(|drift| drift - 1.0).collect();
        let loss = |now: &[f32]| {
            let sample = |range: std::ops::Range<usize>, advantage: f32, truth| GrpoSample {
                now: &now[range.clone()],
                old: &old[range.clone()],
                reference: Some(&reference[range]),
                advantage: f64::from(advantage),
                truth,
            };
            grpo(
                &[sample(0..2, advantage[0], Verdict::Correct), sample(2..5, advantage[1], Verdict::Wrong)],
                &config,
            )
        };
        check_gradient(&now, &loss(&now).gradients.concat(), |now| loss(now).value)?;
    }

    #[test]
    fn advantages_add_up_to_nothing(rewards in proptest::collection::vec(0.0..2.0f64, 1..8), std: bool) {
        let sum: f64 = advantages(&rewards, std).values.iter().sum();
        prop_assert!(sum.abs() < 1e-6);
    }
}
