//! How fast products are on this machine: `cargo run --release -p gradus-kernels --example product_speed [FILTER]`.
//!
//! Prints, for each shape, kind of weights and number of rows, the best of many runs: milliseconds, GFLOP/s,
//! GB/s of weights as stored, weights a second, and the work done in a second of CPU time, which a busy machine
//! disturbs less. `smollm2` is one decoder layer of SmolLM2-135M (all seven products) and its
//! output layer. FILTER keeps the lines that contain it. `GRADUS_CPU` chooses the level.
#![allow(clippy::print_stdout)]

use gradus_kernels::cpu::Level;
use gradus_kernels::{BlockKind, Matrix, Precision};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
enum Weights {
    Dense(Precision),
    Blocks(BlockKind),
}

type Case<'a> = (&'a str, &'a [(usize, usize)], &'a [usize], usize);

fn matrix(rows: usize, columns: usize, weights: Weights) -> Option<Matrix> {
    match weights {
        Weights::Dense(precision) => {
            let numbers: Vec<f32> = (0..rows * columns)
                .map(|i| (i.wrapping_mul(2_654_435_761) % 1999) as f32 / 1000.0 - 1.0)
                .collect();
            Some(Matrix::from_f32(rows, columns, &numbers, precision))
        }
        Weights::Blocks(kind) => {
            let bytes = kind.bytes_of(rows * columns)?;
            kind.bytes_of(columns)?;
            // A repeated byte gives small finite scales in every kind.
            let blocks = Arc::new(vec![0x21u8; bytes]);
            let precision = Precision::Bf16;
            Matrix::from_blocks(rows, columns, kind, blocks, 0..bytes, precision).ok()
        }
    }
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    println!("level {:?}, {} threads", Level::current(), rayon::current_num_threads());
    println!(
        "shape                    weights              m        ms  GFLOP/s   GB/s    Gw/s  GFLOP/CPU s"
    );

    let all = [
        Weights::Dense(Precision::F32),
        Weights::Dense(Precision::Bf16x3),
        Weights::Dense(Precision::Bf16),
        Weights::Blocks(BlockKind::Q4_1),
        Weights::Blocks(BlockKind::Q8_0),
        Weights::Blocks(BlockKind::Q4K),
        Weights::Blocks(BlockKind::Q5K),
        Weights::Blocks(BlockKind::Q6K),
    ];
    let layer: &[(usize, usize)] =
        &[(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536)];
    // The K kinds need columns in multiples of 256, which SmolLM2 lacks.
    let wide: &[(usize, usize)] = &[(1536, 1536), (1536, 1536)];
    // Name, matrices, numbers of rows of x, copies of the matrices.
    let cases: [Case; 5] = [
        ("smollm2 layer", layer, &[1, 4, 16, 64, 512, 2048], 4),
        ("smollm2 output layer", &[(49152, 576)], &[1, 16, 64], 1),
        ("1536x1536", wide, &[1, 16, 64, 512], 4),
        ("minilm 384x384 1536", &[(384, 384), (1536, 384), (384, 1536)], &[512], 4),
        ("qwen-7b 3584x18944", &[(3584, 18944)], &[1, 256], 1),
    ];
    for (name, shapes, batches, copies) in cases {
        for weights in all {
            let title = format!("{name:24} {weights:?}");
            if !title.contains(&filter) {
                continue;
            }
            // Several copies, so that the weights of one do not wait in the nearest cache for the next run.
            let matrices: Option<Vec<Matrix>> = (0..copies)
                .flat_map(|_| shapes)
                .map(|(rows, columns)| matrix(*rows, *columns, weights))
                .collect();
            let Some(matrices) = matrices else { continue };
            for m in batches {
                rayon::ThreadPoolBuilder::new()
                    .build()
                    .expect("a pool")
                    .install(|| measure(&title, &matrices, *m));
            }
        }
    }
}

#[cfg(not(unix))]
fn cpu_time() -> Duration {
    Duration::ZERO
}

/// CPU time of the whole process: what a run costs when others use the machine too.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and the clock exists on every Unix.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn measure(title: &str, matrices: &[Matrix], m: usize) {
    let widest = matrices.iter().map(Matrix::columns).max().unwrap_or(0);
    let tallest = matrices.iter().map(Matrix::rows).max().unwrap_or(0);
    let x: Vec<f32> = (0..m * widest).map(|i| (i % 71) as f32 / 71.0).collect();
    let mut y = vec![0f32; m * tallest];
    // The best of each matrix by itself: a run over all of them is seldom free of other processes.
    let mut best = vec![(Duration::MAX, Duration::MAX); matrices.len()];
    let (mut runs, begin) = (0, Instant::now());
    while runs < 5 || begin.elapsed() < Duration::from_millis(1000) {
        for (matrix, best) in matrices.iter().zip(&mut best) {
            let (x, y) = (&x[..m * matrix.columns()], &mut y[..m * matrix.rows()]);
            let (start, cpu) = (Instant::now(), cpu_time());
            matrix.multiply(x, y);
            best.0 = best.0.min(start.elapsed());
            best.1 = best.1.min(cpu_time() - cpu);
        }
        runs += 1;
    }
    let seconds: f64 = best.iter().map(|best| best.0.as_secs_f64()).sum();
    let cpu_seconds: f64 = best.iter().map(|best| best.1.as_secs_f64()).sum();
    let bytes: usize = matrices.iter().map(Matrix::bytes).sum();
    let weights: usize = matrices.iter().map(|w| w.rows() * w.columns()).sum();
    println!(
        "{title:41} {m:5} {:9.3} {:8.1} {:6.1} {:6.1} {:13.1}",
        seconds * 1e3,
        2.0 * (weights * m) as f64 / seconds / 1e9,
        bytes as f64 / seconds / 1e9,
        weights as f64 / seconds / 1e9,
        2.0 * (weights * m) as f64 / cpu_seconds / 1e9,
    );
}
