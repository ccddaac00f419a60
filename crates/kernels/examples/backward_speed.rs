//! Speed of what training needs beyond products: transposes in GB/s of weights read and written, gradients of weights
//! and of attention in GFLOP/s. The best of many repetitions, in CPU time of all threads together, which a busy
//! machine disturbs less than the time on the wall.
//!
//! Attention counts the pairs of query and key that the mask lets through: 4 · head_dim operations for each pair and
//! head forth, 10 · head_dim back.
//!
//! Run with `cargo run --release -p gradus-kernels --example backward_speed [FILTER]`; `GRADUS_CPU=avx512` and the
//! like cap the instruction set, `RAYON_NUM_THREADS` the threads.
#![allow(clippy::print_stdout, clippy::single_range_in_vec_init)]

use gradus_kernels::attention::{Attention, Mask, Segment};
use gradus_kernels::{BlockKind, Matrix, Precision, gradient, rows};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16x3, Precision::Bf16];

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let parts: [(&str, fn()); 4] = [
        ("attention", attention),
        ("gradient", gradients),
        ("transposed", transposes),
        ("rows", row_kernels),
    ];
    for (_, part) in parts.iter().filter(|(name, _)| name.contains(&filter)) {
        part();
    }
}

#[cfg(not(unix))]
fn cpu_time() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(unix)]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and the clock exists on every Unix.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 997) as f32 / 498.5 - 1.0).collect()
}

fn best_of(mut run: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    while begin.elapsed() < Duration::from_millis(400) {
        let start = cpu_time();
        run();
        best = best.min(cpu_time() - start);
    }
    best
}

fn transposes() {
    for (rows, columns) in [(576, 576), (1536, 576), (4096, 4096)] {
        for precision in PRECISIONS {
            let dense = Matrix::from_f32(rows, columns, &values(rows * columns), precision);
            report_transpose(&format!("{rows} × {columns} {precision:?}"), &dense);
            let kind = BlockKind::Q4_0;
            let bytes = kind.bytes_of(rows * columns).expect("whole blocks");
            let blocks = Arc::new(vec![0x21u8; bytes]);
            let quantized = Matrix::from_blocks(rows, columns, kind, blocks, 0..bytes, precision);
            report_transpose(&format!("{rows} × {columns} Q4_0 → {precision:?}"), &quantized.expect("fits"));
        }
    }
}

fn report_transpose(name: &str, matrix: &Matrix) {
    let bytes = (matrix.bytes() + matrix.transposed().bytes()) as f64;
    let time = best_of(|| drop(std::hint::black_box(matrix.transposed())));
    println!(
        "transposed {name:<32} {:9.1} µs {:7.1} GB/s",
        time.as_secs_f64() * 1e6,
        bytes / time.as_nanos() as f64
    );
}

fn gradients() {
    for (rows, n, k) in
        [(2048, 16, 576), (2048, 576, 16), (2048, 64, 1536), (2048, 576, 576), (2048, 1536, 576)]
    {
        let (dy, x, mut out) = (values(rows * n), values(rows * k), vec![0.0; n * k]);
        for precision in PRECISIONS {
            let best = best_of(|| gradient(&dy, &x, rows, precision, &mut out));
            println!(
                "gradient {rows} rows, {n} × {k} {:<8} {:9.1} µs {:7.1} GFLOP/s",
                format!("{precision:?}"),
                best.as_secs_f64() * 1e6,
                (2 * rows * n * k) as f64 / best.as_nanos() as f64
            );
        }
    }
}

fn attention() {
    for (sequences, rows, heads, kv_heads, head_dim) in [
        (1, 256, 9, 3, 64),
        (8, 256, 9, 3, 64),
        (1, 512, 9, 3, 64),
        (1, 2000, 9, 3, 64),
        (1, 1024, 32, 8, 128),
    ] {
        let scale = 1.0 / (head_dim as f32).sqrt();
        let total = sequences * rows;
        let (q, dout) =
            (values(total * heads * head_dim), values(total * heads * head_dim + 1)[1..].to_vec());
        let (k, v) = (values(total * kv_heads * head_dim), values(total * kv_heads * head_dim));
        let (mut out, mut dq, mut dk, mut dv) = (q.clone(), q.clone(), k.clone(), v.clone());
        let segments: Vec<Segment> = (0..sequences)
            .map(|i| Segment { rows: i * rows..(i + 1) * rows, keys: vec![i * rows..(i + 1) * rows] })
            .collect();
        let pairs = (sequences * rows * (rows + 1) / 2 * heads * head_dim) as f64;
        print!("attention {sequences} × {rows}, {heads}/{kv_heads} heads of {head_dim}:");
        let mask = Mask::Causal { window: None };
        for precision in [Precision::F32, Precision::Bf16x3] {
            let layer = Attention { heads, kv_heads, head_dim, scale, mask, precision };
            let forth = best_of(|| layer.attend(&q, &k, &v, &segments, &mut out));
            let back = best_of(|| {
                layer.backward(&q, &k, &v, &out, &dout, &segments, &mut dq, &mut dk, &mut dv);
            });
            print!(
                "  {precision:?} forth {:.2} ms ({:.0} GFLOP/s), back {:.2} ms ({:.0} GFLOP/s)",
                forth.as_secs_f64() * 1e3,
                4.0 * pairs / forth.as_nanos() as f64,
                back.as_secs_f64() * 1e3,
                10.0 * pairs / back.as_nanos() as f64
            );
        }
        println!();
    }
}

fn row_kernels() {
    let (count, width) = (2048, 1536);
    let n = count * width;
    let (x, dy, weight) = (values(n), values(n + 1)[1..].to_vec(), values(width));
    let (mut a, mut b, mut dweight) = (x.clone(), x.clone(), weight.clone());
    let report = |name: &str, streams: usize, best: Duration| {
        let bytes = (streams * n * 4) as f64;
        println!(
            "rows {name:<26} {:9.1} µs {:7.1} GB/s",
            best.as_secs_f64() * 1e6,
            bytes / best.as_nanos() as f64
        );
    };
    report("rms_norm_backward", 3, best_of(|| rows::rms_norm_backward(&x, &weight, 1e-5, &dy, &mut a)));
    report(
        "rms_norm_weight_gradient",
        2,
        best_of(|| rows::rms_norm_weight_gradient(&x, 1e-5, &dy, &mut dweight)),
    );
    report("silu_mul_backward", 5, best_of(|| rows::silu_mul_backward(&x, &dy, &x, &mut a, &mut b)));
    report("dropout", 2, best_of(|| rows::dropout(&x, 0.1, 7, &mut a)));
}
