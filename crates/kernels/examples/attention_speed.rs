//! Speed of attention in GFLOP/s, counting only the pairs of query and key that the mask lets through:
//! 4 · head_dim for each pair and head. The best of many repetitions.
//!
//! Run with `cargo run --release -p gradus-kernels --example attention_speed`; `GRADUS_CPU=avx512` and the
//! like cap the instruction set, `RAYON_NUM_THREADS` the threads.
#![allow(clippy::print_stdout, clippy::single_range_in_vec_init)]

use gradus_kernels::Precision;
use gradus_kernels::attention::{Attention, Mask, Segment};
use std::time::{Duration, Instant};

struct Case {
    name: &'static str,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    mask: Mask,
    sequences: usize,
    rows: usize,
    keys: usize,
}

fn main() {
    let causal = Mask::Causal { window: None };
    let smol = |name, sequences, rows, keys| Case {
        name,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        mask: causal,
        sequences,
        rows,
        keys,
    };
    let cases = [
        smol("SmolLM2-135M, 1 sequence of 512", 1, 512, 512),
        smol("SmolLM2-135M, 1 sequence of 2048", 1, 2048, 2048),
        smol("SmolLM2-135M, 1 sequence of 4096", 1, 4096, 4096),
        smol("SmolLM2-135M, 16 sequences of 256", 16, 256, 256),
        smol("SmolLM2-135M, 16 branches of 32 on 512", 16, 32, 544),
        smol("SmolLM2-135M, decode 1 × 1 row, 512 keys", 1, 1, 512),
        smol("SmolLM2-135M, decode 16 × 1 row, 512 keys", 16, 1, 512),
        smol("SmolLM2-135M, decode 16 × 1 row, 4096 keys", 16, 1, 4096),
        Case {
            name: "Llama-8B shape, 1 sequence of 1024",
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            mask: causal,
            sequences: 1,
            rows: 1024,
            keys: 1024,
        },
        Case {
            name: "MiniLM, 64 sequences of 64",
            heads: 12,
            kv_heads: 12,
            head_dim: 32,
            mask: Mask::Full,
            sequences: 64,
            rows: 64,
            keys: 64,
        },
    ];
    println!("{:<44} {:>18} {:>18}", "", "F32", "Bf16");
    for case in &cases {
        let [single, half] = [Precision::F32, Precision::Bf16].map(|precision| measure(case, precision));
        println!("{:<44} {single} {half}", case.name);
    }
}

fn measure(case: &Case, precision: Precision) -> String {
    let Case { heads, kv_heads, head_dim, mask, sequences, rows, keys, .. } = *case;
    let scale = 1.0 / (head_dim as f32).sqrt();
    let layer = Attention { heads, kv_heads, head_dim, scale, mask, precision };
    let values =
        |count: usize| -> Vec<f32> { (0..count).map(|i| ((i * 7919) % 997) as f32 / 498.5 - 1.0).collect() };
    let q = values(sequences * rows * heads * head_dim);
    let k = values(sequences * keys * kv_heads * head_dim);
    let v = values(sequences * keys * kv_heads * head_dim);
    let mut out = vec![0.0; q.len()];
    let segments: Vec<Segment> = (0..sequences)
        .map(|i| Segment { rows: i * rows..(i + 1) * rows, keys: vec![i * keys..(i + 1) * keys] })
        .collect();
    let pairs = match mask {
        Mask::Full => rows * keys,
        Mask::Causal { .. } => rows * (keys - rows) + rows * (rows + 1) / 2,
    };
    let operations = (sequences * pairs * heads * 4 * head_dim) as f64;
    let begin = Instant::now();
    let mut best = Duration::MAX;
    while begin.elapsed() < Duration::from_millis(1500) {
        let start = Instant::now();
        layer.attend(&q, &k, &v, &segments, &mut out);
        best = best.min(start.elapsed());
    }
    let read = if rows == 1 {
        format!(" {:3.0} GB/s", (k.len() + v.len()) as f64 * 4.0 / best.as_nanos() as f64)
    } else {
        String::new()
    };
    format!("{:>6.0} {:>8.1} µs{read}", operations / best.as_nanos() as f64, best.as_secs_f64() * 1e6)
}
