//! Times of the operations at the shape of a 7B model over 4 × 1,024 tokens in bf16, and of one layer forward and backward.
//!
//! `make bench-cuda`, with a CUDA compiler at hand.

use std::time::Instant;

use candle_core::{DType, Device, Result as Candle, Tensor};
use gradus_kernels::attention::Mask;

use super::super::Flash;
use super::super::attention::Groups;
use super::*;
use crate::attention::Heads;
use crate::batch::{Batch, Forest};

const ROWS: usize = 4096;
const HIDDEN: usize = 3584;
const INNER: usize = 18_944;
const HEADS: Heads = Heads { query: 28, key: 4, dim: 128 };
const CAUSAL: Mask = Mask::Causal { window: None };
const RANK: usize = 32;

struct Bench {
    device: Device,
}

impl Bench {
    fn random(&self, shape: &[usize]) -> Tensor {
        let x = Tensor::randn(0f32, 0.02, shape, &self.device).unwrap();
        x.to_dtype(DType::BF16).unwrap()
    }

    /// Milliseconds of one call: the median of seven rounds of many.
    fn time<T>(&self, mut work: impl FnMut() -> Candle<T>) -> f64 {
        let mut round = |count: usize| {
            self.device.synchronize().unwrap();
            let started = Instant::now();
            (0..count).for_each(|_| drop(work().unwrap()));
            self.device.synchronize().unwrap();
            started.elapsed().as_secs_f64() * 1e3 / count as f64
        };
        round(2);
        let count = (20.0 / round(2)).clamp(2.0, 200.0) as usize;
        let mut times: Vec<f64> = (0..7).map(|_| round(count)).collect();
        times.sort_by(f64::total_cmp);
        times[3]
    }

    #[allow(clippy::print_stdout)]
    fn bytes<T>(&self, what: &str, bytes: usize, work: impl FnMut() -> Candle<T>) {
        let time = self.time(work);
        println!("{what:<34} {time:8.4} ms {:8.0} GB/s", bytes as f64 / time / 1e6);
    }

    #[allow(clippy::print_stdout)]
    fn flops<T>(&self, what: &str, flops: f64, work: impl FnMut() -> Candle<T>) {
        let time = self.time(work);
        println!("{what:<34} {time:8.4} ms {:8.0} TFLOP/s", flops / time / 1e9);
    }
}

fn bench() -> Option<Bench> {
    gpu().map(|device| Bench { device })
}

fn plan(device: &Device) -> Groups {
    let mut batch = Batch::default();
    (0..4).for_each(|_| {
        batch.add(&Forest::sequence(vec![0; 1024]));
    });
    Groups::new(&batch.segments, &[CAUSAL], device).unwrap()
}

/// Our results are our crate's; the clock wants candle's.
fn ours<T>(result: crate::Result<T>) -> Candle<T> {
    result.map_err(|error| candle_core::Error::Msg(error.to_string()))
}

#[test]
#[ignore = "a measurement"]
fn operations() {
    let Some(b) = bench() else { return };
    let (x, y, dy) = (b.random(&[ROWS, HIDDEN]), b.random(&[ROWS, HIDDEN]), b.random(&[ROWS, HIDDEN]));
    let weight = b.random(&[HIDDEN]);
    let one = ROWS * HIDDEN * 2;
    b.bytes("copy", 2 * one, || x.copy());
    b.bytes("rms_norm", 2 * one, || ours(rms_norm(&x, &weight, 1e-6)));
    b.bytes("  candle's", 2 * one, || candle_nn::ops::rms_norm(&x, &weight, 1e-6));
    b.bytes("add_rms_norm", 4 * one, || ours(add_rms_norm(&x, &y, &weight, 1e-6)));
    b.bytes("rms_norm_backward + add", 4 * one, || ours(rms_norm_backward(&x, &weight, 1e-6, &dy, Some(&y))));
    b.bytes("rms_norm_weight_gradient", 2 * one, || ours(rms_norm_weight_gradient(&x, 1e-6, &dy)));
    b.bytes("add_bias", 2 * one, || ours(add_bias(&y, &weight)));
    b.bytes("  candle's", 2 * one, || y.broadcast_add(&weight));
    let q = b.random(&[ROWS, HEADS.query, HEADS.dim]);
    let (cos, sin) = (b.random(&[ROWS, 64]), b.random(&[ROWS, 64]));
    b.bytes("rope", 2 * one, || ours(rope(&q, &cos, &sin)));
    b.bytes("  candle's", 2 * one, || candle_nn::rotary_emb::rope_thd(&q.unsqueeze(0)?, &cos, &sin));
    let [gate, up, slope] = [(); 3].map(|()| b.random(&[ROWS, INNER]));
    let one = ROWS * INNER * 2;
    b.bytes("silu_mul", 3 * one, || ours(silu_mul(&gate, &up)));
    b.bytes("  candle's", 3 * one, || candle_nn::ops::silu(&gate)? * &up);
    b.bytes("silu_mul_backward", 5 * one, || ours(silu_mul_backward(&gate, &up, &slope)));
    let logits = b.random(&[1024, 152_064]);
    let targets = Tensor::zeros(1024, DType::U32, &b.device).unwrap();
    let coefficients = Tensor::ones(1024, DType::F32, &b.device).unwrap();
    let one = 1024 * 152_064 * 2;
    b.bytes("token_logprobs", one, || ours(token_logprobs(&logits, &targets)));
    b.bytes("token_logprobs_backward", 3 * one, || {
        ours(token_logprobs_backward(logits.clone(), &targets, &coefficients))
    });
    let big = || Tensor::randn(0f32, 1.0, 64 << 20, &b.device).unwrap();
    let [value, moment1, gradient] = [(); 3].map(|()| big());
    let moment2 = big().abs().unwrap();
    let step = AdamW {
        rate: 0.0,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        decay: 0.0,
        correction1: 1.0,
        correction2: 1.0,
    };
    b.bytes("adamw", 7 * (256 << 20), || ours(adamw(&value, &moment1, &moment2, &gradient, step)));
    b.bytes("sum_of_squares", 256 << 20, || ours(sum_of_squares(&value)));
    drop((value, moment1, moment2, gradient));
    let wide = b.random(&[INNER, HIDDEN]);
    let flops = 2.0 * (ROWS * INNER * HIDDEN) as f64;
    b.flops("product x · Wᵀ", flops, || x.matmul(&wide.t()?));
    b.flops("product dy · W", flops, || slope.matmul(&wide));
    let down = b.random(&[HIDDEN, INNER]);
    b.flops("product inner · Wᵀ", flops, || slope.matmul(&down.t()?));
    let groups = plan(&b.device);
    let [k, v] = [(); 2].map(|()| b.random(&[ROWS, HEADS.key, HEADS.dim]));
    let flops = 4.0 * (4 * HEADS.query * 1024 * 1024 * HEADS.dim) as f64;
    b.flops("attention", flops, || ours(groups.attend([&q, &k, &v], HEADS, CAUSAL)));
    let dout = dy.clone();
    b.flops("attention backward", 2.5 * flops, || ours(groups.backward([&q, &k, &v], &dout, HEADS, CAUSAL)));
    groups.parts(&b, &q, &k, &v);
}

/// Attention and its gradient over long texts; the operations are those of a causal mask.
#[test]
#[ignore = "a measurement"]
fn long_attention() {
    let Some(b) = bench() else { return };
    for (heads, shape) in [(HEADS, "7B"), (Heads { query: 9, key: 3, dim: 64 }, "135M")] {
        for (texts, length) in [(32, 512), (4, 1024), (1, 4096), (1, 16_384), (1, 32_768)] {
            let mut batch = Batch::default();
            (0..texts).for_each(|_| {
                batch.add(&Forest::sequence(vec![0; length]));
            });
            let rows = batch.len();
            let flash = Flash::new(&batch.segments, heads, DType::BF16, &b.device).unwrap().unwrap();
            let q = b.random(&[rows, heads.query, heads.dim]);
            let [k, v] = [(); 2].map(|()| b.random(&[rows, heads.key, heads.dim]));
            let dout = b.random(&[rows, heads.query * heads.dim]);
            let flops = 2.0 * (texts * length * length * heads.query * heads.dim) as f64;
            let what = format!("{shape}, {texts} × {length}");
            b.flops(&what, flops, || ours(flash.attend([&q, &k, &v], heads, CAUSAL)));
            let (out, sums) = flash.attend([&q, &k, &v], heads, CAUSAL).unwrap();
            let backward = || ours(flash.backward([&q, &k, &v], (&out, &sums), &dout, heads, CAUSAL));
            b.flops(&format!("{what}, gradient"), 2.5 * flops, backward);
        }
    }
}

impl Groups {
    /// Times of the parts of attention.
    fn parts(&self, b: &Bench, q: &Tensor, k: &Tensor, v: &Tensor) {
        let one = ROWS * HIDDEN * 2;
        let scores = 4 * HEADS.query * 1024 * 1024 * 2;
        let batch = &self.batches[0];
        b.bytes("  gather of q", 2 * one, || batch.gather_rows(q, HEADS));
        let gathered = batch.gather(q, k, v, HEADS).unwrap();
        b.bytes("  scatter of q", 2 * one, || batch.scatter(&gathered.q, &batch.row_index, 1024, q));
        b.bytes("  q · kᵀ", scores, || gathered.q.matmul(&gathered.k.t()?));
        b.bytes("  q · kᵀ and softmax", 3 * scores, || batch.weights(&gathered, HEADS, CAUSAL, 0));
        let weights = batch.weights(&gathered, HEADS, CAUSAL, 0).unwrap();
        b.bytes("  weights · v", scores, || weights.matmul(&gathered.v));
        b.bytes("  weightsᵀ · dout", scores, || weights.t()?.matmul(&gathered.q));
        let slopes = gathered.q.matmul(&gathered.k.t().unwrap()).unwrap();
        b.bytes("  softmax backward", 3 * scores, || {
            batch.softmax_backward(&weights, &slopes, HEADS, CAUSAL, 0)
        });
    }
}

/// One layer's weights, used for all layers: they are far larger than the cache.
struct Layer {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    norm: Tensor,
    wide_bias: Tensor,
    narrow_bias: Tensor,
    lora: [Tensor; 4],
    cos: Tensor,
    sin: Tensor,
    groups: Groups,
}

struct Saved {
    h: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    x2: Tensor,
    gate: Tensor,
    up: Tensor,
    narrow: [Tensor; 2],
}

impl Layer {
    fn new(b: &Bench) -> Self {
        let (wide, narrow) = (HEADS.query * HEADS.dim, HEADS.key * HEADS.dim);
        Self {
            q: b.random(&[wide, HIDDEN]),
            k: b.random(&[narrow, HIDDEN]),
            v: b.random(&[narrow, HIDDEN]),
            o: b.random(&[HIDDEN, wide]),
            gate: b.random(&[INNER, HIDDEN]),
            up: b.random(&[INNER, HIDDEN]),
            down: b.random(&[HIDDEN, INNER]),
            norm: b.random(&[HIDDEN]),
            wide_bias: b.random(&[wide]),
            narrow_bias: b.random(&[narrow]),
            lora: [[RANK, HIDDEN], [wide, RANK], [RANK, HIDDEN], [narrow, RANK]]
                .map(|shape| b.random(&shape)),
            cos: b.random(&[ROWS, 64]),
            sin: b.random(&[ROWS, 64]),
            groups: plan(&b.device),
        }
    }

    fn heads(x: &Tensor, count: usize) -> Candle<Tensor> {
        x.reshape((ROWS, count, HEADS.dim))
    }

    /// (x, norm x) → (x, norm x) one layer on; with LoRA on q and v when `lora` is asked for.
    fn forward(&self, x: &Tensor, h: &Tensor, lora: bool) -> crate::Result<(Tensor, Tensor, Saved)> {
        let [qa, qb, va, vb] = &self.lora;
        let (q, k, v) = (h.matmul(&self.q.t()?)?, h.matmul(&self.k.t()?)?, h.matmul(&self.v.t()?)?);
        add_bias(&q, &self.wide_bias)?;
        add_bias(&k, &self.narrow_bias)?;
        add_bias(&v, &self.narrow_bias)?;
        let narrow = if lora { [h.matmul(&qa.t()?)?, h.matmul(&va.t()?)?] } else { [h.clone(), h.clone()] };
        if lora {
            add_product(&q, &narrow[0], &qb.t()?)?;
            add_product(&v, &narrow[1], &vb.t()?)?;
        }
        let q = rope(&Self::heads(&q, HEADS.query)?, &self.cos, &self.sin)?;
        let k = rope(&Self::heads(&k, HEADS.key)?, &self.cos, &self.sin)?;
        let v = Self::heads(&v, HEADS.key)?;
        let seen = self.groups.attend([&q, &k, &v], HEADS, CAUSAL)?;
        let (x2, n) = add_rms_norm(x, &seen.matmul(&self.o.t()?)?, &self.norm, 1e-6)?;
        let (gate, up) = (n.matmul(&self.gate.t()?)?, n.matmul(&self.up.t()?)?);
        let inner = silu_mul(&gate, &up)?;
        let (y, next) = add_rms_norm(&x2, &inner.matmul(&self.down.t()?)?, &self.norm, 1e-6)?;
        Ok((y, next, Saved { h: h.clone(), q, k, v, x2, gate, up, narrow }))
    }

    fn backward(&self, x: &Tensor, saved: &Saved, dy: &Tensor) -> crate::Result<(Tensor, [Tensor; 4])> {
        let [qa, qb, va, vb] = &self.lora;
        let (dgate, dup) = silu_mul_backward(&saved.gate, &saved.up, &dy.matmul(&self.down)?)?;
        let dn = dgate.matmul(&self.gate)?;
        add_product(&dn, &dup, &self.up)?;
        let dx2 = rms_norm_backward(&saved.x2, &self.norm, 1e-6, &dn, Some(dy))?;
        let (dq, dk, dv) =
            self.groups.backward([&saved.q, &saved.k, &saved.v], &dx2.matmul(&self.o)?, HEADS, CAUSAL)?;
        let dq = rope_backward(&dq, &self.cos, &self.sin)?.flatten_from(1)?;
        let dk = rope_backward(&dk, &self.cos, &self.sin)?.flatten_from(1)?;
        let dv = dv.flatten_from(1)?;
        let (dqn, dvn) = (dq.matmul(qb)?, dv.matmul(vb)?);
        let gradients = [
            weight_gradient(&dqn, &saved.h)?,
            weight_gradient(&dq, &saved.narrow[0])?,
            weight_gradient(&dvn, &saved.h)?,
            weight_gradient(&dv, &saved.narrow[1])?,
        ];
        let dh = dq.matmul(&self.q)?;
        for (slope, weight) in [(&dk, &self.k), (&dv, &self.v), (&dqn, qa), (&dvn, va)] {
            add_product(&dh, slope, weight)?;
        }
        Ok((rms_norm_backward(x, &self.norm, 1e-6, &dh, Some(&dx2))?, gradients))
    }
}

#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
fn layers() {
    let Some(b) = bench() else { return };
    let layer = Layer::new(&b);
    let x = b.random(&[ROWS, HIDDEN]);
    let h = rms_norm(&x, &layer.norm, 1e-6).unwrap();
    let forward = b.time(|| ours(layer.forward(&x, &h, false)));
    println!("a layer forward: {forward:.3} ms, {:.0} tokens/s for 28", ROWS as f64 / forward / 28.0 * 1e3);
    let step = || {
        let (y, next, saved) = layer.forward(&x, &h, true)?;
        drop((y, next));
        layer.backward(&x, &saved, &x)
    };
    let training = forward + b.time(|| ours(step()));
    println!(
        "a layer forward, again, and backward with LoRA: {training:.3} ms, {:.0} tokens/s for 28",
        ROWS as f64 / training / 28.0 * 1e3
    );
}
