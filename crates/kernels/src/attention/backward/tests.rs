//! Gradients against the definition in f64, the definition against finite differences, and the promise that threads
//! do not change a bit.

#![expect(clippy::single_range_in_vec_init, reason = "the keys of a segment are often one range")]

use super::super::Mask;
use super::super::tests::{CAUSAL, layer, noise, scattered, with_dimensions, with_long_sequences};
use super::*;
use crate::Precision;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn widened(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// A row of a segment and a head: where its query begins, where the keys that it sees do, their probabilities.
struct Row {
    query: usize,
    keys: Vec<usize>,
    shares: Vec<f64>,
}

fn rows(layer: &Attention, q: &[f64], k: &[f64], segments: &[Segment]) -> Vec<Row> {
    let dim = layer.head_dim;
    let mut rows = Vec::new();
    for segment in segments {
        let slots: Vec<usize> = segment.keys.iter().cloned().flatten().collect();
        for (i, row) in segment.rows.clone().enumerate() {
            for head in 0..layer.heads {
                let query = (row * layer.heads + head) * dim;
                let seen = &slots[layer.visible(i, segment.rows.len(), slots.len())];
                let keys: Vec<usize> =
                    seen.iter().map(|slot| (slot * layer.kv_heads + head / layer.group()) * dim).collect();
                let scores: Vec<f64> = keys
                    .iter()
                    .map(|key| {
                        (0..dim).map(|d| q[query + d] * k[key + d]).sum::<f64>() * f64::from(layer.scale)
                    })
                    .collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
                let shares = scores.iter().map(|score| (score - top).exp() / total).collect();
                rows.push(Row { query, keys, shares });
            }
        }
    }
    rows
}

fn forward(layer: &Attention, q: &[f64], k: &[f64], v: &[f64], segments: &[Segment]) -> Vec<f64> {
    let mut out = vec![0.0; q.len()];
    for row in rows(layer, q, k, segments) {
        for (key, share) in row.keys.iter().zip(&row.shares) {
            for d in 0..layer.head_dim {
                out[row.query + d] += share * v[key + d];
            }
        }
    }
    out
}

/// dq, dk and dv by their formulas.
fn gradients(layer: &Attention, [q, k, v, dout]: [&[f64]; 4], segments: &[Segment]) -> [Vec<f64>; 3] {
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    let (dim, scale) = (layer.head_dim, f64::from(layer.scale));
    for row in rows(layer, q, k, segments) {
        let dout = &dout[row.query..][..dim];
        let dp: Vec<f64> = row.keys.iter().map(|key| (0..dim).map(|d| dout[d] * v[key + d]).sum()).collect();
        let mean: f64 = row.shares.iter().zip(&dp).map(|(p, dp)| p * dp).sum();
        for ((key, p), dp) in row.keys.iter().zip(&row.shares).zip(&dp) {
            let ds = p * (dp - mean) * scale;
            for d in 0..dim {
                dq[row.query + d] += ds * k[key + d];
                dk[key + d] += ds * q[row.query + d];
                dv[key + d] += p * dout[d];
            }
        }
    }
    [dq, dk, dv]
}

/// Inputs of a call, and what `attend` makes of them.
struct Case {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    out: Vec<f32>,
    dout: Vec<f32>,
    segments: Vec<Segment>,
}

impl Case {
    fn new(layer: &Attention, seed: u64, rows: usize, slots: usize, segments: &[Segment]) -> Case {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (width, kv_width) = (layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim);
        let (q, k, v) = (
            noise(&mut rng, rows * width),
            noise(&mut rng, slots * kv_width),
            noise(&mut rng, slots * kv_width),
        );
        let dout = noise(&mut rng, rows * width);
        let mut out = vec![0.0; q.len()];
        layer.attend(&q, &k, &v, segments, &mut out);
        Case { q, k, v, out, dout, segments: segments.to_vec() }
    }

    fn backward(&self, level: Level, layer: &Attention) -> [Vec<f32>; 3] {
        let Case { q, k, v, out, dout, segments } = self;
        let mut found = [vec![7.0; q.len()], vec![7.0; k.len()], vec![7.0; v.len()]];
        let [dq, dk, dv] = &mut found;
        layer.backward_at(level, &Inputs { q, k, v, out, dout, segments }, dq, dk, dv);
        found
    }
}

fn compare(layer: &Attention, rows: usize, slots: usize, segments: &[Segment]) {
    let case = Case::new(layer, (rows * 1000 + slots) as u64, rows, slots, segments);
    let wide = [&case.q, &case.k, &case.v, &case.dout].map(|x| widened(x));
    let expected = gradients(layer, [&wide[0], &wide[1], &wide[2], &wide[3]], segments);
    for level in Level::available() {
        for precision in [Precision::F32, Precision::Bf16x3, Precision::Bf16] {
            let found = case.backward(level, &Attention { precision, ..layer.clone() });
            let tolerance = if level == Level::Amx && precision != Precision::F32 { 1e-4 } else { 1e-5 };
            for ((name, found), expected) in ["dq", "dk", "dv"].iter().zip(&found).zip(&expected) {
                let largest = expected.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
                let worst = found
                    .iter()
                    .zip(expected)
                    .map(|(a, b)| (f64::from(*a) - b).abs())
                    .fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
                assert!(
                    worst <= tolerance * largest,
                    "{level:?} {precision:?}: {name} is off by {worst:e} of {largest}: {layer:?} {segments:?}"
                );
            }
        }
    }
}

/// A trunk, two branches on it, a leaf on the second branch, and a sequence of its own.
fn tree() -> [Segment; 5] {
    [
        Segment { rows: 0..90, keys: vec![0..90] },
        Segment { rows: 90..130, keys: vec![0..90, 90..130] },
        Segment { rows: 130..150, keys: vec![0..90, 130..150] },
        Segment { rows: 150..151, keys: vec![0..90, 130..150, 150..151] },
        Segment { rows: 153..200, keys: vec![160..207] },
    ]
}

#[test]
fn the_definition_matches_finite_differences() {
    let segments = [
        Segment { rows: 0..4, keys: vec![0..4] },
        Segment { rows: 4..6, keys: vec![0..4, 4..6] },
        Segment { rows: 6..7, keys: vec![0..4, 6..7] },
    ];
    for mask in [CAUSAL, Mask::Full, Mask::Causal { window: Some(3) }] {
        let layer = layer(4, 2, 6, mask);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let [q, k, v, dout] = [24, 12, 12, 24].map(|width| widened(&noise(&mut rng, 7 * width)));
        let exact = gradients(&layer, [&q, &k, &v, &dout], &segments);
        let loss = |inputs: &[Vec<f64>; 3]| -> f64 {
            let out = forward(&layer, &inputs[0], &inputs[1], &inputs[2], &segments);
            out.iter().zip(&dout).map(|(a, b)| a * b).sum()
        };
        let mut inputs = [q.clone(), k.clone(), v.clone()];
        for which in 0..3 {
            for i in 0..inputs[which].len() {
                let (old, step) = (inputs[which][i], 1e-5);
                inputs[which][i] = old + step;
                let above = loss(&inputs);
                inputs[which][i] = old - step;
                let below = loss(&inputs);
                inputs[which][i] = old;
                let difference = (above - below) / (2.0 * step);
                assert!((difference - exact[which][i]).abs() < 1e-8, "{mask:?}: input {which}, value {i}");
            }
        }
    }
}

#[test]
fn grouped_heads_and_usual_dimensions() {
    for (heads, kv_heads, dim) in
        [(9, 3, 64), (14, 2, 64), (4, 4, 32), (2, 1, 16), (4, 2, 80), (3, 1, 96), (4, 2, 128), (2, 1, 256)]
    {
        let segments = [Segment { rows: 0..70, keys: vec![0..70] }];
        compare(&layer(heads, kv_heads, dim, CAUSAL), 70, 70, &segments);
    }
}

#[test]
fn odd_dimensions() {
    with_dimensions(&[1, 2, 6, 17, 30, 34, 50, 72], compare);
}

#[test]
fn many_blocks_of_keys_and_tasks() {
    with_long_sequences(&[1, 7, 100, 400], compare);
}

#[test]
fn branches_add_to_their_trunk() {
    for mask in [CAUSAL, Mask::Full, Mask::Causal { window: Some(25) }] {
        compare(&layer(6, 2, 64, mask), 202, 210, &tree());
    }
}

#[test]
fn scattered_keys_and_rows_that_see_nothing() {
    for mask in [CAUSAL, Mask::Full, Mask::Causal { window: Some(9) }, Mask::Causal { window: Some(0) }] {
        compare(&layer(6, 2, 64, mask), 70, 900, &scattered());
    }
    compare(&layer(2, 1, 16, Mask::Full), 5, 4, &[Segment { rows: 0..5, keys: vec![] }]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut segments = tree().to_vec();
    segments.push(Segment { rows: 202..602, keys: vec![0..90, 210..610] });
    for precision in [Precision::F32, Precision::Bf16x3] {
        let layer = Attention { precision, ..layer(9, 3, 64, CAUSAL) };
        let case = Case::new(&layer, 5, 602, 610, &segments);
        for level in Level::available() {
            let with_threads = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| case.backward(level, &layer))
            };
            let one = with_threads(1);
            assert!(one == with_threads(2) && one == with_threads(5), "{level:?} {precision:?}");
        }
    }
}

#[test]
#[should_panic(expected = "k and dk differ in length")]
fn gradients_that_do_not_fit_are_refused() {
    let segments = [Segment { rows: 0..1, keys: vec![0..1] }];
    let x = [0.0; 2];
    layer(1, 1, 2, CAUSAL)
        .backward(&x, &x, &x, &x, &x, &segments, &mut [0.0; 2], &mut [0.0; 4], &mut [0.0; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_trunk_and_branches_are_right(
        trunk in 1usize..120,
        branches in prop::collection::vec(1usize..40, 0..4),
        shape in prop_oneof![Just((9usize, 3usize, 64usize)), Just((4, 4, 32)), Just((7, 1, 20)), Just((2, 1, 80))],
        mask in prop_oneof![Just(CAUSAL), Just(Mask::Full), Just(Mask::Causal { window: Some(50) })],
    ) {
        let mut segments = vec![Segment { rows: 0..trunk, keys: vec![0..trunk] }];
        let mut next = trunk;
        for branch in branches {
            segments.push(Segment { rows: next..next + branch, keys: vec![0..trunk, next..next + branch] });
            next += branch;
        }
        let (heads, kv_heads, dim) = shape;
        compare(&layer(heads, kv_heads, dim, mask), next, next, &segments);
    }
}
