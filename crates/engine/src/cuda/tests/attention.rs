//! Attention and its gradient against loops in f64.

use candle_core::{DType, Device, Tensor};
use gradus_kernels::attention::{Mask, Segment};

use super::super::{Flash, Groups, Rows, rope, rope_into};
use super::{Pair, close_within, each, random};
use crate::attention::{Heads, visible};
use crate::batch::{Batch, Forest};

struct Case {
    segments: Vec<Segment>,
    rows: usize,
    slots: usize,
    heads: Heads,
    mask: Mask,
    /// Bytes of scores at once.
    scores: usize,
}

const CAUSAL: Mask = Mask::Causal { window: None };
const GROUPED: Heads = Heads { query: 6, key: 2, dim: 16 };

impl Case {
    /// Sequences one after another, each with its own keys.
    fn sequences(lengths: &[usize], heads: Heads, mask: Mask) -> Self {
        let mut batch = Batch::default();
        lengths.iter().for_each(|length| {
            batch.add(&Forest::sequence(vec![0; *length]));
        });
        Self::batch(&batch, heads, mask)
    }

    fn batch(batch: &Batch, heads: Heads, mask: Mask) -> Self {
        let rows = batch.len();
        Self { segments: batch.segments.clone(), rows, slots: rows, heads, mask, scores: 1 << 30 }
    }

    #[track_caller]
    fn check(&self, device: &Device, dtype: DType) {
        let Heads { query, key, dim } = self.heads;
        let q = random(&[self.rows, query, dim], dtype, device);
        let [k, v] = [(); 2].map(|()| random(&[self.slots, key, dim], dtype, device));
        let dout = random(&[self.rows, query * dim], dtype, device);
        let mut groups = Groups::new(&self.segments, &[Mask::Full, self.mask], device).unwrap();
        groups.scores = self.scores;
        let out = groups.attend([&q.gpu, &k.gpu, &v.gpu], self.heads, self.mask).unwrap();
        let (dq, dk, dv) =
            groups.backward([&q.gpu, &k.gpu, &v.gpu], &dout.gpu, self.heads, self.mask).unwrap();
        let wanted = self.in_f64(&q, &k, &v, &dout);
        let bound = if dtype == DType::BF16 { 1.5e-2 } else { 1e-5 };
        let shaped =
            |values: &[f64], like: &Tensor| Tensor::new(values, &Device::Cpu).unwrap().reshape(like.shape());
        let compare = |kind: &str, found: [&Tensor; 4]| {
            for ((what, found), wanted) in ["out", "dq", "dk", "dv"].into_iter().zip(found).zip(&wanted) {
                close_within(&format!("{kind} {what}"), found, &shaped(wanted, found).unwrap(), bound);
            }
        };
        compare("groups", [&out, &dq, &dk, &dv]);
        if let Some(flash) = Flash::new(&self.segments, self.heads, dtype, device).unwrap() {
            let pass = || {
                let (out, sums) = flash.attend([&q.gpu, &k.gpu, &v.gpu], self.heads, self.mask).unwrap();
                let kept = (&out, &sums);
                let (dq, dk, dv) =
                    flash.backward([&q.gpu, &k.gpu, &v.gpu], kept, &dout.gpu, self.heads, self.mask).unwrap();
                [out, dq, dk, dv]
            };
            let found = pass();
            compare("flash", found.each_ref());
            for (first, second) in found.iter().zip(pass()) {
                let bits = |x: &Tensor| x.flatten_all().unwrap().to_vec1::<half::bf16>().unwrap();
                assert!(bits(first) == bits(&second), "the same numbers come out every time");
            }
        }
    }

    /// Result, dq, dk, dv.
    fn in_f64(&self, q: &Pair, k: &Pair, v: &Pair, dout: &Pair) -> [Vec<f64>; 4] {
        let numbers = |x: &Pair| x.cpu.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let (q, k, v, dout) = (numbers(q), numbers(k), numbers(v), numbers(dout));
        let Heads { query, key, dim } = self.heads;
        let scale = 1.0 / (dim as f64).sqrt();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut out = vec![0.0; q.len()];
        let (mut dq, mut dk, mut dv) = (out.clone(), vec![0.0; k.len()], vec![0.0; k.len()]);
        for segment in &self.segments {
            let keys: Vec<usize> = segment.keys.iter().cloned().flatten().collect();
            for (within, row) in segment.rows.clone().enumerate() {
                let seen = &keys[visible(self.mask, keys.len(), segment.rows.len(), within)];
                for head in 0..query {
                    let own = (row * query + head) * dim..(row * query + head + 1) * dim;
                    let of = |slot: &usize| {
                        let start = (slot * key + head / (query / key)) * dim;
                        start..start + dim
                    };
                    let scores: Vec<f64> =
                        seen.iter().map(|slot| scale * dot(&q[own.clone()], &k[of(slot)])).collect();
                    let most = scores.iter().copied().fold(f64::MIN, f64::max);
                    let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp() / sum).collect();
                    let slopes: Vec<f64> =
                        seen.iter().map(|slot| dot(&dout[own.clone()], &v[of(slot)])).collect();
                    let along = dot(&weights, &slopes);
                    for ((slot, weight), slope) in seen.iter().zip(&weights).zip(&slopes) {
                        let slope = scale * weight * (slope - along);
                        for (own, other) in own.clone().zip(of(slot)) {
                            out[own] += weight * v[other];
                            dv[other] += weight * dout[own];
                            dq[own] += slope * k[other];
                            dk[other] += slope * q[own];
                        }
                    }
                }
            }
        }
        [out, dq, dk, dv]
    }
}

fn check(case: &Case) {
    each(|device, dtype| {
        case.check(device, dtype);
        Ok(())
    });
}

#[test]
fn sequences_of_equal_length() {
    check(&Case::sequences(&[64, 64, 64], GROUPED, CAUSAL));
}

#[test]
fn sequences_of_many_lengths() {
    check(&Case::sequences(&[1, 70, 3, 200, 9, 1, 65], GROUPED, CAUSAL));
    check(&Case::sequences(&[30, 7], Heads { query: 4, key: 4, dim: 8 }, CAUSAL));
    check(&Case::sequences(&[30, 7], Heads { query: 3, key: 1, dim: 6 }, CAUSAL));
}

/// Widths that `Flash` knows, with one, three and seven query heads for each key head.
const WIDE: [Heads; 4] = [
    Heads { query: 3, key: 3, dim: 64 },
    Heads { query: 9, key: 3, dim: 64 },
    Heads { query: 7, key: 1, dim: 128 },
    Heads { query: 4, key: 4, dim: 128 },
];

#[test]
fn heads_of_common_width() {
    for heads in WIDE {
        check(&Case::sequences(&[64, 128, 256], heads, CAUSAL));
        check(&Case::sequences(&[1, 70, 3, 200, 9, 1, 65], heads, CAUSAL));
        check(&Case::sequences(&[300, 33], heads, Mask::Causal { window: Some(17) }));
        check(&Case::sequences(&[300, 33], heads, Mask::Causal { window: Some(100) }));
        check(&Case::sequences(&[100, 33], heads, Mask::Full));
        check(&Case::batch(&forest(), heads, CAUSAL));
        check(&Case::batch(&forest(), heads, Mask::Causal { window: Some(11) }));
        check(&Case { heads, ..pages() });
    }
    check(&Case::sequences(&[1500, 1100], WIDE[1], CAUSAL));
    check(&Case::sequences(&[900], WIDE[2], CAUSAL));
}

#[test]
fn rows_that_need_a_block() {
    check(&Case::sequences(&[1500, 1100], Heads { query: 2, key: 1, dim: 8 }, CAUSAL));
}

#[test]
fn windows_and_encoders() {
    check(&Case::sequences(&[100, 33], GROUPED, Mask::Causal { window: Some(17) }));
    check(&Case::sequences(&[100, 33], GROUPED, Mask::Full));
}

fn forest() -> Batch {
    let mut forest = Forest::default();
    let trunk = forest.root(vec![0; 50]);
    let branch = forest.branch(trunk, 20, vec![0; 9]);
    forest.branch(branch, 4, vec![0; 5]);
    forest.branch(trunk, 50, vec![0; 3]);
    let mut batch = Batch::default();
    batch.add(&Forest::sequence(vec![0; 30]));
    batch.add(&forest);
    batch.add(&Forest::sequence(vec![0; 66]));
    batch
}

#[test]
fn trees() {
    check(&Case::batch(&forest(), GROUPED, CAUSAL));
    check(&Case::batch(&forest(), GROUPED, Mask::Causal { window: Some(11) }));
}

fn pages() -> Case {
    let segments = vec![
        Segment { rows: 0..3, keys: vec![40..50, 2..9] },
        Segment { rows: 3..4, keys: vec![10..30, 60..61] },
    ];
    Case { segments, rows: 4, slots: 70, heads: GROUPED, mask: CAUSAL, scores: 1 << 30 }
}

#[test]
fn keys_in_pages_that_are_out_of_order() {
    check(&pages());
}

#[test]
fn more_keys_than_registers_hold() {
    let segments = vec![Segment { rows: 0..4, keys: vec![0..40_000] }];
    let heads = Heads { query: 2, key: 1, dim: 8 };
    check(&Case { segments, rows: 4, slots: 40_000, heads, mask: CAUSAL, scores: 1 << 30 });
}

#[test]
fn scores_in_chunks() {
    check(&Case { scores: 1, ..Case::sequences(&[64, 60, 64, 20], GROUPED, CAUSAL) });
    check(&Case { scores: 3 * 3 * 64 * 64 * 4, ..Case::sequences(&[64, 60, 64, 20], GROUPED, CAUSAL) });
}

/// Sequences that grow by a token: prompts of some are shared, pages lie anywhere.
fn growing(heads: Heads, mask: Mask, lengths: &[usize]) -> Case {
    let slots = lengths.iter().sum::<usize>() + 64;
    let mut start = slots;
    let segment = |(row, length): (usize, &usize)| {
        start -= length;
        // From the end of the store to its beginning, each after a prompt that all share.
        Segment { rows: row..row + 1, keys: vec![3..40, start..start + length] }
    };
    let segments = lengths.iter().enumerate().map(segment).collect();
    Case { segments, rows: lengths.len(), slots, heads, mask, scores: 1 << 30 }
}

#[test]
fn rows_over_a_cache() {
    let lengths = [1, 7, 64, 65, 300, 2, 1900];
    for heads in [
        Heads { query: 9, key: 3, dim: 64 },
        Heads { query: 4, key: 1, dim: 128 },
        Heads { query: 2, key: 2, dim: 32 },
        Heads { query: 6, key: 2, dim: 8 },
    ] {
        for mask in [CAUSAL, Mask::Causal { window: Some(50) }, Mask::Full] {
            let case = growing(heads, mask, &lengths);
            each(|device, dtype| {
                let q = random(&[case.rows, heads.query, heads.dim], dtype, device);
                let [k, v] = [(); 2].map(|()| random(&[case.slots, heads.key, heads.dim], dtype, device));
                let rows = Rows::new(&case.segments, &[mask], heads, dtype, device).unwrap();
                let found = rows.unwrap().attend([&q.gpu, &k.gpu, &v.gpu], heads, mask).unwrap();
                let dout = random(&[case.rows, heads.query * heads.dim], dtype, device);
                let wanted = case.in_f64(&q, &k, &v, &dout)[0].clone();
                let wanted = Tensor::new(wanted, &Device::Cpu)?.reshape(found.shape())?;
                close_within("out", &found, &wanted, if dtype == DType::BF16 { 1.5e-2 } else { 1e-5 });
                Ok(())
            });
        }
    }
}

#[test]
fn heads_of_odd_width_are_left_to_groups() {
    each(|device, dtype| {
        let case = growing(GROUPED, CAUSAL, &[3, 4]);
        let odd = Heads { query: 3, key: 1, dim: 80 };
        assert!(Rows::new(&case.segments, &[CAUSAL], odd, dtype, device).unwrap().is_none());
        let two = vec![Segment { rows: 0..2, keys: vec![0..2] }];
        assert!(Rows::new(&two, &[CAUSAL], GROUPED, dtype, device).unwrap().is_none());
        Ok(())
    });
}

#[test]
fn new_rows_turn_and_go_to_their_slots() {
    each(|device, dtype| {
        for (heads, dim) in [(3, 16), (9, 64), (2, 6)] {
            let [q, k, v] = [heads, 3, 3].map(|count| random(&[5, count, dim], dtype, device));
            let [cos, sin] = [(); 2].map(|()| random(&[5, dim / 2], dtype, device));
            let [keys, values] = [(); 2].map(|()| Tensor::zeros((9, 3, dim), dtype, device).unwrap());
            let slots = [4u32, 8, 0, 3, 7];
            let index = Tensor::new(&slots, device)?;
            let angles = (&cos.gpu, &sin.gpu);
            let found = rope_into([&q.gpu, &k.gpu, &v.gpu], angles, &index, (&keys, &values)).unwrap();
            let alone = rope(&q.gpu, &cos.gpu, &sin.gpu).unwrap().to_device(&Device::Cpu)?;
            close_within("q", &found, &alone, 0.0);
            for (what, store, rows) in
                [("keys", &keys, &rope(&k.gpu, &cos.gpu, &sin.gpu).unwrap()), ("values", &values, &v.gpu)]
            {
                let mut wanted = vec![vec![vec![0f64; dim]; 3]; 9];
                let rows: Vec<Vec<Vec<f64>>> =
                    rows.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.to_vec3()?;
                for (row, slot) in rows.into_iter().zip(slots) {
                    wanted[slot as usize] = row;
                }
                close_within(what, store, &Tensor::new(wanted, &Device::Cpu)?, 0.0);
            }
        }
        Ok(())
    });
}
