//! What an adapter costs on this machine: `cargo run --release -p gradus-kernels --example adapter_speed`.
//!
//! Prints, for some numbers of rows, the time of the products, norms and gates of one decoder layer of SmolLM2-135M in
//! bf16 on one thread, without and with an adapter of rank 16 on all seven projections, the best of many runs in turn.
//! `GRADUS_CPU` chooses the level.
#![allow(clippy::print_stdout)]

use gradus_kernels::cpu::Level;
use gradus_kernels::{Activations, Matrix, Precision, Projection, alone};
use std::time::{Duration, Instant};

const HIDDEN: usize = 576;
const NARROW: usize = 192;
const INNER: usize = 1536;
const RANK: usize = 16;

fn matrix(rows: usize, columns: usize) -> Matrix {
    let number = |i: usize| (i.wrapping_mul(2_654_435_761) % 1999) as f32 / 20_000.0 - 0.05;
    let numbers: Vec<f32> = (0..rows * columns).map(number).collect();
    Matrix::from_f32(rows, columns, &numbers, Precision::Bf16)
}

/// A projection's weights and its adapter's.
struct Weights {
    main: Matrix,
    adapter: (Matrix, Matrix),
}

impl Weights {
    fn new(outputs: usize, inputs: usize) -> Self {
        let adapter = (matrix(RANK, inputs), matrix(outputs, RANK));
        Self { main: matrix(outputs, inputs), adapter }
    }

    fn projection(&self, with_adapter: bool) -> Projection<'_> {
        let adapter = with_adapter.then_some((&self.adapter.0, &self.adapter.1));
        Projection { weights: &self.main, bias: None, adapter }
    }
}

/// What a layer does to `y` apart from attention: q stands for what that would return.
fn layer(weights: &[Weights; 7], with_adapter: bool, y: &mut [f32]) {
    let rows = y.len() / HIDDEN;
    let norm = [1.0; HIDDEN];
    let [q, k, v, o, gate, up, down] = weights.each_ref().map(|weights| weights.projection(with_adapter));
    let mut seen = [HIDDEN, NARROW, NARROW].map(|width| vec![0.0; rows * width]);
    let x = Activations::rms_norm(y, &norm, 1e-5, &[&q, &k, &v]);
    for (projection, out) in [q, k, v].iter().zip(&mut seen) {
        projection.apply(&x, out);
    }
    o.add_to(&Activations::new(&seen[0]), y);
    let x = Activations::rms_norm(y, &norm, 1e-5, &[&gate, &up]);
    down.add_to(&Projection::gated(&gate, &up, &x, &down), y);
}

fn main() {
    println!("level {:?}", Level::current());
    println!("rows  plain, ms  adapter, ms  ratio");
    let weights = [
        (HIDDEN, HIDDEN),
        (NARROW, HIDDEN),
        (NARROW, HIDDEN),
        (HIDDEN, HIDDEN),
        (INNER, HIDDEN),
        (INNER, HIDDEN),
        (HIDDEN, INNER),
    ]
    .map(|(outputs, inputs)| Weights::new(outputs, inputs));
    for rows in [1, 16, 64, 192, 512] {
        let x: Vec<f32> = (0..rows * HIDDEN).map(|i| (i % 71) as f32 / 71.0 - 0.5).collect();
        let mut best = [Duration::MAX; 2];
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            for (with_adapter, best) in [false, true].into_iter().zip(&mut best) {
                let mut y = x.clone();
                let start = Instant::now();
                alone(|| layer(&weights, with_adapter, &mut y));
                *best = start.elapsed().min(*best);
            }
        }
        let [plain, adapter] = best.map(|time| time.as_secs_f64() * 1e3);
        println!("{rows:4}  {plain:9.2}  {adapter:11.2}  {:.2}", adapter / plain);
    }
}
