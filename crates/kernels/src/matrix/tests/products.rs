//! Products against sums in f64, at every level of this machine, in both precisions, for all kinds of weights;
//! and the two laws: rows do not see each other, threads do not change a bit.

use super::{blocks, numbers};
use crate::cpu::Level;
use crate::{BlockKind, Matrix, Precision, dequantize};
use half::bf16;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

fn block_matrix(
    level: Level,
    (rows, columns): (usize, usize),
    kind: BlockKind,
    bytes: &[u8],
    precision: Precision,
) -> Matrix {
    // As in a file: the blocks begin at an odd offset within larger bytes.
    let mut file = vec![0xffu8; 7];
    file.extend_from_slice(bytes);
    let range = 7..file.len();
    Matrix::blocks_at_level(level, (rows, columns), kind, (Arc::new(file), range), precision).unwrap()
}

fn multiply(matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let m = x.len() / matrix.columns();
    let mut y = vec![f32::NAN; m * matrix.rows()];
    matrix.multiply(x, &mut y);
    y
}

/// The largest error, relative to ‖x‖·‖w‖ of its row and output.
fn worst_error(x: &[f32], weights: &[f32], columns: usize, y: &[f32]) -> f64 {
    let norm = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let mut worst = 0f64;
    let mut y = y.iter();
    for x in x.chunks_exact(columns) {
        for w in weights.chunks_exact(columns) {
            let exact: f64 = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let error = (f64::from(*y.next().unwrap()) - exact).abs();
            assert!(error.is_finite());
            worst = worst.max(error / (norm(x) * norm(w)).max(1e-30));
        }
    }
    assert!(y.next().is_none());
    worst
}

/// Errors average out over a sum; only a handful of columns can come near the worst case of one product.
fn tolerance(precision: Precision, columns: usize) -> f64 {
    match precision {
        Precision::F32 => 5e-7,
        Precision::Bf16x3 if columns < 32 => 3.1e-5,
        Precision::Bf16x3 => 5e-6,
        Precision::Bf16 if columns < 32 => 8e-3,
        Precision::Bf16 => 3e-3,
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|n| n.to_bits()).collect()
}

#[test]
fn dense_products_are_right() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let shapes = [(1, 1), (3, 5), (16, 32), (33, 31), (48, 33), (70, 100), (192, 576), (5, 2500)];
    for (rows, columns) in shapes {
        let weights = numbers(&mut random, rows * columns);
        let short: Vec<bf16> = weights.iter().map(|w| bf16::from_f32(*w)).collect();
        let short_weights: Vec<f32> = short.iter().map(|w| w.to_f32()).collect();
        for m in [1, 2, 15, 16, 17, 31, 32, 33, 50, 97] {
            let x = numbers(&mut random, m * columns);
            for level in Level::available() {
                for precision in Precision::ALL {
                    let at = format!("{level:?} {precision:?} {rows}×{columns}, m = {m}");
                    let matrix = Matrix::at_level(level, rows, columns, precision, &weights, |w| *w);
                    let error = worst_error(&x, &weights, columns, &multiply(&matrix, &x));
                    assert!(error < tolerance(precision, columns), "{at}: {error:e}");

                    let matrix = Matrix::at_level(level, rows, columns, precision, &short, |w| w.to_f32());
                    let error = worst_error(&x, &short_weights, columns, &multiply(&matrix, &x));
                    assert!(error < tolerance(precision, columns), "{at} from bf16: {error:e}");
                }
            }
        }
    }
}

#[test]
fn quantised_products_are_right() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for kind in BlockKind::ALL {
        for (rows, columns) in [(35, 256), (64, 2304)] {
            let bytes = blocks(&mut random, kind, rows * columns);
            let mut weights = vec![0f32; rows * columns];
            dequantize(kind, &bytes, &mut weights);
            for m in [1, 7, 16, 20, 32, 40] {
                let x = numbers(&mut random, m * columns);
                for level in Level::available() {
                    for precision in Precision::ALL {
                        let matrix = block_matrix(level, (rows, columns), kind, &bytes, precision);
                        let error = worst_error(&x, &weights, columns, &multiply(&matrix, &x));
                        assert!(
                            error < tolerance(precision, columns),
                            "{kind:?} {level:?} {precision:?} m = {m}: {error:e}"
                        );
                    }
                }
            }
        }
    }
}

/// Every level, precision and kind of storage for one shape.
fn all_matrices(random: &mut ChaCha8Rng, rows: usize, columns: usize) -> Vec<Matrix> {
    let weights = numbers(random, rows * columns);
    let mut all = Vec::new();
    for level in Level::available() {
        for precision in Precision::ALL {
            all.push(Matrix::at_level(level, rows, columns, precision, &weights, |w| *w));
            for kind in [BlockKind::Q4_1, BlockKind::Q8_0, BlockKind::Q6K] {
                if let Some(_whole) = kind.bytes_of(columns) {
                    let bytes = blocks(random, kind, rows * columns);
                    all.push(block_matrix(level, (rows, columns), kind, &bytes, precision));
                }
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_row_does_not_see_the_other_rows(
        seed: u64,
        rows in 1usize..100,
        columns in prop_oneof![1usize..200, Just(96), Just(512), Just(2304)],
        m in 1usize..70,
        some in prop::collection::vec(0usize..70, 1..40),
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let x = numbers(&mut random, m * columns);
        let some: Vec<usize> = some.into_iter().map(|i| i % m).collect();
        for matrix in all_matrices(&mut random, rows, columns) {
            let y = multiply(&matrix, &x);
            let part: Vec<f32> =
                some.iter().flat_map(|i| x[i * columns..][..columns].to_vec()).collect();
            let expected: Vec<f32> =
                some.iter().flat_map(|i| y[i * rows..][..rows].to_vec()).collect();
            prop_assert_eq!(bits(&multiply(&matrix, &part)), bits(&expected), "{:?}", matrix);
            for i in 0..m {
                let alone = multiply(&matrix, &x[i * columns..][..columns]);
                prop_assert_eq!(bits(&alone), bits(&y[i * rows..][..rows]), "{:?}", matrix);
            }
        }
    }

    #[test]
    fn wanted_outputs_have_the_bits_of_the_whole(
        seed: u64,
        rows in 1usize..100,
        columns in prop_oneof![1usize..200, Just(512)],
        m in 1usize..40,
        wanted in prop::collection::vec(0usize..100, 0..50),
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let x = numbers(&mut random, m * columns);
        let wanted: Vec<usize> = wanted.into_iter().map(|row| row % rows).collect();
        for matrix in all_matrices(&mut random, rows, columns) {
            let y = multiply(&matrix, &x);
            let mut part = vec![f32::NAN; m * wanted.len()];
            matrix.multiply_rows(&x, &wanted, &mut part);
            for i in 0..m {
                for (j, row) in wanted.iter().enumerate() {
                    let (part, whole) = (part[i * wanted.len() + j], y[i * rows + row]);
                    prop_assert_eq!(part.to_bits(), whole.to_bits(), "{:?}", matrix);
                }
            }
        }
    }
}

/// Few rows of x are multiplied with weights that are decoded in registers, many with weights that are expanded first.
#[test]
fn a_few_rows_have_the_bits_of_many_with_every_kind_of_block() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    for kind in BlockKind::ALL {
        for (rows, columns) in [(1, 256), (35, 512), (6, 2304)] {
            let bytes = blocks(&mut random, kind, rows * columns);
            let x = numbers(&mut random, 9 * columns);
            for level in Level::available() {
                let matrix = block_matrix(level, (rows, columns), kind, &bytes, Precision::F32);
                let many = multiply(&matrix, &x);
                for m in 1..=5 {
                    let few = multiply(&matrix, &x[..m * columns]);
                    assert_eq!(bits(&few), bits(&many[..m * rows]), "{kind:?} {level:?} {m} of {rows}");
                }
            }
        }
    }
}

/// Long rows are multiplied in pieces; 50 outputs do not fill the last tile.
#[test]
fn a_product_is_added_with_the_same_bits_in_any_company() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for (rows, columns) in [(48, 16), (50, 256), (64, 1280)] {
        for matrix in all_matrices(&mut random, rows, columns) {
            for m in [1, 17, 33, 129, 300] {
                let (x, before) = (numbers(&mut random, m * columns), numbers(&mut random, m * rows));
                let mut sum = before.clone();
                matrix.add_multiply(&x, &mut sum);
                for ((sum, before), added) in sum.iter().zip(&before).zip(multiply(&matrix, &x)) {
                    let expected = before + added;
                    let allowed = 1e-5 * (1.0 + expected.abs());
                    assert!(
                        (sum - expected).abs() <= allowed,
                        "{sum}, {expected} expected: {m} rows of {matrix:?}"
                    );
                }
                for row in [0, m / 2, m - 1] {
                    let mut alone = before[row * rows..][..rows].to_vec();
                    matrix.add_multiply(&x[row * columns..][..columns], &mut alone);
                    let (found, alone) = (bits(&sum[row * rows..][..rows]), bits(&alone));
                    assert_eq!(found, alone, "row {row} of {m} of {matrix:?}");
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let (rows, columns) = (600, 768);
    for matrix in all_matrices(&mut random, rows, columns) {
        for m in [1, 20, 300] {
            let x = numbers(&mut random, m * columns);
            let with_threads = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                bits(&pool.install(|| multiply(&matrix, &x)))
            };
            let one = with_threads(1);
            assert!(one == with_threads(2) && one == with_threads(5), "{matrix:?}, m = {m}");
        }
    }
}

#[test]
fn bad_numbers_stay_in_their_row() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let (rows, columns, m) = (40, 256, 35);
    for matrix in all_matrices(&mut random, rows, columns) {
        let mut x = numbers(&mut random, m * columns);
        let clean = multiply(&matrix, &x);
        x[3 * columns + 17] = f32::NAN;
        x[20 * columns + 255] = f32::INFINITY;
        x[33 * columns] = f32::NEG_INFINITY;
        let y = multiply(&matrix, &x);
        for i in 0..m {
            let (y, clean) = (&y[i * rows..][..rows], &clean[i * rows..][..rows]);
            if [3, 20, 33].contains(&i) {
                assert!(y.iter().all(|y| !y.is_finite()), "{matrix:?}, row {i}");
            } else {
                assert_eq!(bits(y), bits(clean), "{matrix:?}, row {i}");
            }
        }
    }
}

#[test]
fn a_row_comes_back_as_the_product_sees_it() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let (rows, columns) = (50, 70);
    let weights = numbers(&mut random, rows * columns);
    for level in Level::available() {
        for precision in Precision::ALL {
            let matrix = Matrix::at_level(level, rows, columns, precision, &weights, |w| *w);
            for row in 0..rows {
                let mut out = vec![0f32; columns];
                matrix.row(row, &mut out);
                for (out, weight) in out.iter().zip(&weights[row * columns..]) {
                    let expected = match precision {
                        Precision::F32 | Precision::Bf16x3 => *weight,
                        Precision::Bf16 => bf16::from_f32(*weight).to_f32(),
                    };
                    let error = (out - expected).abs();
                    assert!(
                        error <= expected.abs() * 7.7e-6,
                        "{level:?} {precision:?}: {out} is not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn empty_products_are_fine() {
    for level in Level::available() {
        for precision in Precision::ALL {
            let make = |rows, columns| {
                let weights = vec![1f32; rows * columns];
                Matrix::at_level(level, rows, columns, precision, &weights, |w| *w)
            };
            make(3, 4).multiply(&[], &mut []);
            make(0, 4).multiply(&[1.0; 8], &mut []);
            make(3, 4).multiply_rows(&[1.0; 8], &[], &mut []);
            let mut y = [f32::NAN; 6];
            make(3, 0).multiply(&[], &mut y);
            assert_eq!(y, [0.0; 6]);
            make(0, 0).multiply(&[], &mut []);
        }
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let bytes = Arc::new(vec![0u8; 100]);
    let make = |rows, columns, range| {
        let precision = Precision::Bf16;
        Matrix::from_blocks(rows, columns, BlockKind::Q4_0, bytes.clone(), range, precision)
            .map(|matrix| matrix.bytes())
    };
    assert_eq!(make(2, 64, 10..82), Ok(72));
    assert!(make(2, 65, 10..82).unwrap_err().contains("whole Q4_0 blocks of 32"));
    assert!(make(2, 64, 10..83).unwrap_err().contains("take 72 bytes, found 73"));
    assert!(make(2, 64, 40..112).unwrap_err().contains("outside of the 100 bytes"));
    assert!(make(usize::MAX, 64, 0..72).unwrap_err().contains("too many"));
}
