//! What this machine can do at most, as JSON lines: multiplications of its widest unit, and reading of memory, on all
//! cores together. `make bench` says how close we come.
//!
//! Run with `cargo run --release -p gradus-kernels --example machine_limits`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use gradus_kernels::cpu::Level;

/// How long each figure is measured; the best of three counts.
const TIME: Duration = Duration::from_millis(700);
/// Numbers that each thread reads again and again: more than a core's share of any cache.
const NUMBERS: usize = 64 << 20;

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (unit, operations): (&str, fn() -> f64) = match Level::current() {
        #[cfg(target_arch = "x86_64")]
        Level::Amx => ("bf16", x86::tiles),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the instructions are there.
        Level::Avx512 => ("f32", || unsafe { x86::avx512() }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => ("f32", || unsafe { x86::avx2() }),
        _ => ("f32", portable),
    };
    print(&format!("products, {unit}"), together(threads, || operations), "GFLOP/s");
    print("reading memory", together(threads, reader), "GB/s");
}

/// The rates of all threads at once, added up, in units of 10⁹; `prepare` makes what a thread does.
fn together<W: FnMut() -> f64>(threads: usize, prepare: impl Fn() -> W + Sync) -> f64 {
    let barrier = std::sync::Barrier::new(threads);
    let rate = || {
        let mut work = prepare();
        work();
        let round = |_| {
            barrier.wait();
            let (started, mut done) = (Instant::now(), 0.0);
            while started.elapsed() < TIME {
                done += work();
            }
            done / started.elapsed().as_secs_f64() / 1e9
        };
        [0, 1, 2].map(round)
    };
    let rates: Vec<[f64; 3]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(rate)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread that measures does not fail"))
            .collect()
    });
    (0..3).map(|round| rates.iter().map(|rates| rates[round]).sum()).fold(0.0, f64::max)
}

/// Reads an array from end to end and returns its bytes.
fn reader() -> impl FnMut() -> f64 {
    let numbers = vec![1u32; NUMBERS];
    move || {
        black_box(numbers.iter().fold(0u32, |sum, number| sum.wrapping_add(*number)));
        (NUMBERS * 4) as f64
    }
}

/// Sums of products that do not wait for each other.
fn portable() -> f64 {
    const ROUNDS: usize = 100_000;
    let mut sums = black_box([0f32; 64]);
    let (a, b) = (black_box(1.5f32), black_box(0.25f32));
    for _ in 0..ROUNDS {
        sums.iter_mut().for_each(|sum| *sum = *sum * a + b);
    }
    black_box(sums);
    (ROUNDS * sums.len() * 2) as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    const ROUNDS: usize = 50_000;
    /// Enough for the latency of an operation times the operations begun in a cycle.
    const SUMS: usize = 12;

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512() -> f64 {
        let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(1.0)));
        let mut sums = [a; SUMS];
        for _ in 0..ROUNDS {
            sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(*sum, a, b));
        }
        black_box(sums);
        (ROUNDS * SUMS * 16 * 2) as f64
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2() -> f64 {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(1.0)));
        let mut sums = [a; SUMS];
        for _ in 0..ROUNDS {
            sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(*sum, a, b));
        }
        black_box(sums);
        (ROUNDS * SUMS * 8 * 2) as f64
    }

    /// Tiles that are in registers already.
    pub(super) fn tiles() -> f64 {
        #[repr(align(64))]
        struct Config([u8; 64]);
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for tile in 0..8 {
            config.0[16 + tile * 2] = 64;
            config.0[48 + tile] = 16;
        }
        // SAFETY: the level says that tiles may be used, and all eight have a shape.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) config.0.as_ptr(), options(nostack, readonly));
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "tilezero tmm4",
                "tilezero tmm5",
                "tilezero tmm6",
                "tilezero tmm7",
                options(nostack, nomem)
            );
            for _ in 0..ROUNDS {
                asm!(
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    options(nostack, nomem)
                );
            }
            asm!("tilerelease", options(nostack, nomem));
        }
        (ROUNDS * 4 * 16 * 16 * 32 * 2) as f64
    }
}

#[expect(clippy::print_stdout, reason = "an example's purpose")]
fn print(task: &str, value: f64, unit: &str) {
    println!(r#"{{"peer":"limit","task":"{task}","value":{value:.1},"unit":"{unit}"}}"#);
}
