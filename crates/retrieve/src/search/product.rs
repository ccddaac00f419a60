//! Dot products, the same to the last bit on every machine and for every number of rows and queries taken together.
//!
//! Sixteen sums run side by side and are added in a fixed order, multiplications are rounded before additions (no fused
//! multiply-add), so a wider instruction set changes the speed and nothing else. LLVM turns the loops into vector
//! instructions; on x86 they are compiled three times and the widest set that the processor has is taken.

/// Sums that run side by side.
const LANES: usize = 16;
/// Queries that share each load of a row. With two rows at a time, eight sums of sixteen lanes stay in registers.
pub(super) const TILE: usize = 4;

/// The dot product.
///
/// # Panics
/// When the lengths differ.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "only vectors of one length have a dot product");
    tile::<1, 1>([a], [b])[0][0]
}

/// Scales to length 1; a vector of zeros stays as it is.
pub(crate) fn normalise(row: &mut [f32]) {
    let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
    }
}

/// `scores[q][i]` is query `q` times row `i`, for at most [`TILE`] queries.
pub(super) fn block(rows: &[f32], dimension: usize, queries: &[&[f32]], scores: &mut [Vec<f32>; TILE]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has what the function was compiled for.
            #[allow(unsafe_code)]
            return unsafe { wide::avx512(rows, dimension, queries, scores) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            #[allow(unsafe_code)]
            return unsafe { wide::avx2(rows, dimension, queries, scores) };
        }
    }
    plain(rows, dimension, queries, scores);
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{TILE, plain};

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rows: &[f32], dimension: usize, queries: &[&[f32]], scores: &mut [Vec<f32>; TILE]) {
        plain(rows, dimension, queries, scores);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(rows: &[f32], dimension: usize, queries: &[&[f32]], scores: &mut [Vec<f32>; TILE]) {
        plain(rows, dimension, queries, scores);
    }
}

#[inline(always)]
fn plain(rows: &[f32], dimension: usize, queries: &[&[f32]], scores: &mut [Vec<f32>; TILE]) {
    match *queries {
        [] => {}
        [a] => several([a], rows, dimension, scores),
        [a, b] => several([a, b], rows, dimension, scores),
        [a, b, c] => several([a, b, c], rows, dimension, scores),
        [a, b, c, d] => several([a, b, c, d], rows, dimension, scores),
        _ => panic!("a tile holds at most {TILE} queries"),
    }
}

#[inline(always)]
fn several<const Q: usize>(
    queries: [&[f32]; Q],
    rows: &[f32],
    dimension: usize,
    scores: &mut [Vec<f32>; TILE],
) {
    scores.iter_mut().for_each(Vec::clear);
    let mut pairs = rows.chunks_exact(2 * dimension);
    for pair in &mut pairs {
        let (first, second) = pair.split_at(dimension);
        let sums = tile::<Q, 2>(queries, [first, second]);
        for (scores, sums) in scores.iter_mut().zip(sums) {
            scores.extend_from_slice(&sums);
        }
    }
    let last = pairs.remainder();
    if last.len() == dimension {
        let sums = tile::<Q, 1>(queries, [last]);
        for (scores, sums) in scores.iter_mut().zip(sums) {
            scores.push(sums[0]);
        }
    }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "plain loops become vector instructions, iterators here do not"
)]
fn tile<const Q: usize, const R: usize>(queries: [&[f32]; Q], rows: [&[f32]; R]) -> [[f32; R]; Q] {
    let length = rows[0].len();
    let whole = length / LANES * LANES;
    let mut sums = [[[0_f32; LANES]; R]; Q];
    for start in (0..whole).step_by(LANES) {
        for q in 0..Q {
            for r in 0..R {
                sums[q][r] = plus(sums[q][r], lanes(queries[q], start), lanes(rows[r], start));
            }
        }
    }
    let mut totals = [[0.0; R]; Q];
    for q in 0..Q {
        for r in 0..R {
            let mut sum = sums[q][r];
            if whole < length {
                sum = plus(sum, &rest(queries[q], whole), &rest(rows[r], whole));
            }
            totals[q][r] = add(sum);
        }
    }
    totals
}

#[inline(always)]
fn plus(mut sums: [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [f32; LANES] {
    for lane in 0..LANES {
        sums[lane] += a[lane] * b[lane];
    }
    sums
}

/// What is left from `start` on, and zeros. Sums that were indexed by a variable would leave the registers.
#[inline(always)]
fn rest(values: &[f32], start: usize) -> [f32; LANES] {
    let mut rest = [0.0; LANES];
    rest[..values.len() - start].copy_from_slice(&values[start..]);
    rest
}

#[inline(always)]
fn lanes(values: &[f32], start: usize) -> &[f32; LANES] {
    values[start..start + LANES].try_into().expect("a slice of as many values as lanes")
}

/// Halves onto halves, so that the order is the one that vector registers have, too.
#[inline(always)]
fn add(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for dimension in [1, 7, 16, 50, 128] {
            let value = |index: usize| ((index * 7919 % 1013) as f32 / 1013.0 - 0.5) * 1.7;
            let rows: Vec<f32> = (0..5 * dimension).map(value).collect();
            let queries: Vec<f32> = (0..TILE * dimension).map(|index| value(index + 31)).collect();
            let queries: Vec<&[f32]> = queries.chunks(dimension).collect();
            let (mut ours, mut theirs) = Default::default();
            for count in 1..=TILE {
                block(&rows, dimension, &queries[..count], &mut ours);
                plain(&rows, dimension, &queries[..count], &mut theirs);
                assert_eq!(ours, theirs);
                for (query, scores) in queries.iter().zip(&ours).take(count) {
                    for (row, score) in rows.chunks(dimension).zip(scores) {
                        assert_eq!(dot(query, row).to_bits(), score.to_bits());
                    }
                }
            }
        }
    }
}
