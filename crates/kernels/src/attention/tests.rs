//! Every path against a plain reference in f64, and the promise that a row's bits are its segment's own.

#![expect(clippy::single_range_in_vec_init, reason = "the keys of a segment are often one range")]

use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(super) fn noise(rng: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-2.0..2.0)).collect()
}

/// The definition, in f64.
fn reference(layer: &Attention, q: &[f32], k: &[f32], v: &[f32], segments: &[Segment], out: &mut [f32]) {
    let dim = layer.head_dim;
    for segment in segments {
        let slots: Vec<usize> = segment.keys.iter().cloned().flatten().collect();
        for (i, row) in segment.rows.clone().enumerate() {
            let seen = match layer.mask {
                Mask::Full => 0..slots.len(),
                Mask::Causal { window } => {
                    let position = slots.len() - segment.rows.len() + i;
                    let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
                    first..position + 1
                }
            };
            for head in 0..layer.heads {
                let query = &q[(row * layer.heads + head) * dim..][..dim];
                let at = |slot: usize| (slot * layer.kv_heads + head / layer.group()) * dim;
                let dot = |slot: usize| -> f64 {
                    let key = &k[at(slot)..][..dim];
                    query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let scores: Vec<f64> =
                    slots[seen.clone()].iter().map(|&slot| dot(slot) * f64::from(layer.scale)).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
                for d in 0..dim {
                    let mixed: f64 = scores
                        .iter()
                        .zip(&slots[seen.clone()])
                        .map(|(score, &slot)| (score - top).exp() * f64::from(v[at(slot) + d]))
                        .sum();
                    out[(row * layer.heads + head) * dim + d] =
                        if total > 0.0 { (mixed / total) as f32 } else { 0.0 };
                }
            }
        }
    }
}

/// Values are within ±2; on bf16 a score of a few units is off by about 2⁻⁸ of its terms' size.
fn tolerance(level: Level, precision: Precision) -> f32 {
    if level == Level::Amx && precision == Precision::Bf16 { 3e-2 } else { 5e-6 }
}

pub(super) fn layer(heads: usize, kv_heads: usize, head_dim: usize, mask: Mask) -> Attention {
    let scale = 1.0 / (head_dim as f32).sqrt();
    Attention { heads, kv_heads, head_dim, scale, mask, precision: Precision::F32 }
}

pub(super) const CAUSAL: Mask = Mask::Causal { window: None };

/// Compares every level and precision with the reference; rows outside the segments must stay as they were.
fn compare(layer: &Attention, rows: usize, slots: usize, segments: &[Segment]) {
    let mut rng = ChaCha8Rng::seed_from_u64(rows as u64 * 31 + slots as u64);
    let q = noise(&mut rng, rows * layer.heads * layer.head_dim);
    let k = noise(&mut rng, slots * layer.kv_heads * layer.head_dim);
    let v = noise(&mut rng, slots * layer.kv_heads * layer.head_dim);
    let mut expected = vec![7.0; q.len()];
    reference(layer, &q, &k, &v, segments, &mut expected);
    for level in Level::available() {
        for precision in [Precision::F32, Precision::Bf16] {
            let layer = Attention { precision, ..layer.clone() };
            let mut found = vec![7.0; q.len()];
            layer.attend_at(level, &q, &k, &v, segments, &mut found);
            let worst = found
                .iter()
                .zip(&expected)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, |a: f32, b| if b.is_nan() { f32::INFINITY } else { a.max(b) });
            let tolerance = tolerance(level, precision);
            assert!(worst < tolerance, "{level:?} {precision:?} is off by {worst:e}: {layer:?} {segments:?}");
            if precision == Precision::Bf16 && level == Level::Amx && rows > 1 {
                let mean =
                    found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).sum::<f32>() / q.len() as f32;
                assert!(mean < 3e-3, "{level:?} {precision:?} is off by {mean:e} on average: {layer:?}");
            }
        }
    }
}

#[test]
fn grouped_heads_and_usual_dimensions() {
    for (heads, kv_heads, dim) in [
        (9, 3, 64),
        (32, 8, 64),
        (14, 2, 64),
        (8, 1, 64),
        (4, 4, 32),
        (4, 2, 80),
        (3, 1, 96),
        (4, 2, 128),
        (2, 1, 256),
    ] {
        let segments = [Segment { rows: 0..70, keys: vec![0..70] }];
        compare(&layer(heads, kv_heads, dim, CAUSAL), 70, 70, &segments);
    }
}

/// Compares a pass with its definition: the layer, rows, key slots and segments.
type Compare = fn(&Attention, usize, usize, &[Segment]);

/// A sequence, and a row of its own with more keys, for each head dimension.
pub(super) fn with_dimensions(dims: &[usize], compare: Compare) {
    for dim in dims {
        let segments =
            [Segment { rows: 0..33, keys: vec![0..33] }, Segment { rows: 33..34, keys: vec![0..50] }];
        compare(&layer(3, 1, *dim, CAUSAL), 34, 50, &segments);
    }
}

/// Sequences of many blocks of keys, without and with each sliding window.
pub(super) fn with_long_sequences(windows: &[usize], compare: Compare) {
    let windows = windows.iter().map(|window| Mask::Causal { window: Some(*window) });
    let masks: Vec<Mask> = [CAUSAL, Mask::Full].into_iter().chain(windows).collect();
    for rows in [300, 700] {
        let segments = [Segment { rows: 0..rows, keys: vec![0..rows] }];
        for mask in &masks {
            compare(&layer(3, 1, 32, *mask), rows, rows, &segments);
        }
    }
}

/// Segments of 70 rows whose keys are scattered over 900 slots; some rows are of no segment.
pub(super) fn scattered() -> [Segment; 5] {
    [
        Segment { rows: 2..12, keys: vec![40..90, 5..5, 0..30, 100..110] },
        Segment { rows: 12..13, keys: vec![40..90, 3..4] },
        Segment { rows: 15..15, keys: vec![] },
        Segment { rows: 20..60, keys: vec![10..50] },
        Segment { rows: 60..62, keys: vec![0..400, 500..900] },
    ]
}

#[test]
fn odd_dimensions() {
    with_dimensions(&[1, 2, 6, 10, 17, 18, 30, 34, 50, 66, 72, 100, 130], compare);
}

#[test]
fn many_blocks_of_keys() {
    with_long_sequences(&[1, 7, 100, 256, 400, 10_000], compare);
}

#[test]
fn several_ranges_prefixes_and_untouched_rows() {
    for mask in [CAUSAL, Mask::Full, Mask::Causal { window: Some(9) }] {
        compare(&layer(6, 2, 64, mask), 70, 900, &scattered());
    }
}

#[test]
fn decoding_with_short_and_long_caches() {
    for keys in [1, 2, 3, 4, 5, 15, 17, 511, 512, 513, 1024, 1700] {
        for (heads, kv_heads, dim) in [(9, 3, 64), (7, 1, 40), (2, 2, 128), (5, 1, 80)] {
            let segments = [Segment { rows: 0..1, keys: vec![0..keys] }];
            compare(&layer(heads, kv_heads, dim, CAUSAL), 1, keys, &segments);
            compare(&layer(heads, kv_heads, dim, Mask::Causal { window: Some(600) }), 1, keys, &segments);
            compare(&layer(heads, kv_heads, dim, Mask::Full), 1, keys, &segments);
        }
    }
}

#[test]
fn rows_that_see_nothing_are_zero() {
    for rows in [1, 5] {
        compare(&layer(2, 1, 16, Mask::Full), rows, 4, &[Segment { rows: 0..rows, keys: vec![] }]);
        let blind = layer(2, 1, 16, Mask::Causal { window: Some(0) });
        compare(&blind, rows, rows, &[Segment { rows: 0..rows, keys: vec![0..rows] }]);
    }
}

#[test]
fn scores_far_apart_do_not_overflow() {
    let layer = Attention { scale: 100.0, ..layer(2, 1, 32, CAUSAL) };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (q, k, v) = (noise(&mut rng, 40 * 64), noise(&mut rng, 40 * 32), noise(&mut rng, 40 * 32));
    for level in Level::available() {
        for precision in [Precision::F32, Precision::Bf16] {
            for rows in [1, 40] {
                let layer = Attention { precision, ..layer.clone() };
                let mut out = vec![0.0; rows * 64];
                let segments = [Segment { rows: 0..rows, keys: vec![0..40] }];
                layer.attend_at(level, &q[..rows * 64], &k, &v, &segments, &mut out);
                assert!(out.iter().all(|x| x.abs() <= 2.01), "{level:?} {precision:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "segments share rows")]
fn shared_rows_are_refused() {
    let segments = [Segment { rows: 0..2, keys: vec![0..2] }, Segment { rows: 1..3, keys: vec![0..2] }];
    layer(1, 1, 2, CAUSAL).attend(&[0.0; 6], &[0.0; 6], &[0.0; 6], &segments, &mut [0.0; 6]);
}

#[test]
#[should_panic(expected = "a causal segment has 3 rows but 2 keys")]
fn causal_segments_need_their_own_keys() {
    let segments = [Segment { rows: 0..3, keys: vec![0..2] }];
    layer(1, 1, 2, CAUSAL).attend(&[0.0; 6], &[0.0; 6], &[0.0; 6], &segments, &mut [0.0; 6]);
}

/// The logical keys of a segment laid out at random slots, cut at random.
fn scatter(rng: &mut ChaCha8Rng, keys: usize, slots: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut left = keys;
    let mut free: Vec<bool> = vec![true; slots];
    while left > 0 {
        let length = rng.random_range(1..=left.min(40));
        let start = rng.random_range(0..=slots - length);
        if free[start..start + length].iter().all(|free| *free) {
            free[start..start + length].fill(false);
            ranges.push(start..start + length);
            left -= length;
        }
    }
    ranges
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Alone with its keys in one range on one thread, or among other segments with its keys scattered on many
    /// threads: the same bits.
    #[test]
    fn bits_depend_on_the_segment_alone(
        seed: u64,
        rows in 1usize..90,
        prefix in prop_oneof![Just(0usize), 0usize..700],
        shape in prop_oneof![Just((9usize, 3usize, 64usize)), Just((4, 4, 32)), Just((7, 1, 20)), Just((2, 1, 80))],
        mask in prop_oneof![Just(CAUSAL), Just(Mask::Full), Just(Mask::Causal { window: Some(50) })],
        others in 0usize..4,
    ) {
        let (heads, kv_heads, dim) = shape;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let keys = prefix + rows;
        let q = noise(&mut rng, rows * heads * dim);
        let k = noise(&mut rng, keys * kv_heads * dim);
        let v = noise(&mut rng, keys * kv_heads * dim);

        let slots = keys * 3 + 100;
        let scattered = scatter(&mut rng, keys, slots);
        let (mut k2, mut v2) = (noise(&mut rng, slots * kv_heads * dim), noise(&mut rng, slots * kv_heads * dim));
        for (key, slot) in scattered.iter().cloned().flatten().enumerate() {
            let (from, to, length) = (key * kv_heads * dim, slot * kv_heads * dim, kv_heads * dim);
            k2[to..to + length].copy_from_slice(&k[from..from + length]);
            v2[to..to + length].copy_from_slice(&v[from..from + length]);
        }
        let mut segments = Vec::new();
        let mut next = 0;
        let mine = rng.random_range(0..=others);
        let mut begin = 0;
        for i in 0..=others {
            let length = if i == mine { rows } else { rng.random_range(1..60) };
            let keys = if i == mine { scattered.clone() } else { scatter(&mut rng, length.max(40), slots) };
            if i == mine {
                begin = next;
            }
            segments.push(Segment { rows: next..next + length, keys });
            next += length;
        }
        let mut q2 = noise(&mut rng, next * heads * dim);
        let here = begin * heads * dim..(begin + rows) * heads * dim;
        q2[here.clone()].copy_from_slice(&q);

        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let many = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for level in Level::available() {
            for precision in [Precision::F32, Precision::Bf16] {
                let layer = Attention { precision, ..layer(heads, kv_heads, dim, mask) };
                let mut alone = vec![0.0; q.len()];
                let own = [Segment { rows: 0..rows, keys: vec![0..keys] }];
                one.install(|| layer.attend_at(level, &q, &k, &v, &own, &mut alone));
                let mut among = vec![0.0; q2.len()];
                many.install(|| layer.attend_at(level, &q2, &k2, &v2, &segments, &mut among));
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                prop_assert!(bits(&alone) == bits(&among[here.clone()]), "{level:?} {precision:?}");
            }
        }
    }
}
