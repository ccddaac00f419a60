//! Exact search beside the speed of the memory: `cargo run --release -p gradus-retrieve --example search_speed`
//!
//! Arguments: rows (100000), dimension (128). Prints gigabytes of rows per second for 1 and 64 queries, and for a plain
//! sum over the same memory by the same threads; the best of several runs.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use gradus_retrieve::search::top_k;
use rayon::prelude::*;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let (count, dimension) = (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(128));
    let value = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 65_536.0 - 0.5;
    let rows: Vec<f32> = (0..count * dimension).into_par_iter().map(value).collect();
    let queries: Vec<f32> = (0..64 * dimension).map(|index| value(index + 12_345)).collect();
    let gigabytes = rows.len() as f64 * 4.0 / 1e9;
    let best = |name: &str, run: &dyn Fn()| {
        let seconds = (0..20).map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        });
        let seconds = seconds.fold(f64::INFINITY, f64::min);
        println!("{name:>12}: {:8.3} ms  {:6.1} GB/s", seconds * 1e3, gigabytes / seconds);
    };
    println!(
        "{count} rows of {dimension}, {:.1} MB, {} threads",
        gigabytes * 1e3,
        rayon::current_num_threads()
    );
    best("plain sum", &|| {
        black_box(rows.par_chunks(65_536).map(sum).sum::<f32>());
    });
    for asked in [1, 4, 64] {
        let queries = &queries[..asked * dimension];
        best(&format!("{asked} queries"), &|| {
            black_box(top_k(&rows, dimension, queries, 10, |_, _, _| true));
        });
    }
}

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0_f32; 64];
    for values in values.chunks_exact(64) {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().sum()
}
