//! Dot products of vectors, for retrieval: one pair, or a few queries with many rows.
//!
//! The same to the last bit on one machine for every number of threads, rows and queries taken together. Sixteen sums
//! run side by side and are added in a fixed order. Where the processor has fused multiply-add (x86 with FMA, ARM),
//! every product uses it and is rounded once instead of twice: machines without it differ in the last bits. LLVM turns
//! the loops into vector instructions; AVX-512 has its own in `avx512.rs`, with the same order of sums.
//!
//! `GRADUS_CPU` has no effect here: it sets the level of the model kernels.

#[cfg(target_arch = "x86_64")]
mod avx512;

/// Sums that run side by side.
const LANES: usize = 16;
/// Queries that share each load of a row: the most that [`scan`] takes.
pub const TILE: usize = 4;

/// The dot product of two vectors.
///
/// ```
/// assert_eq!(gradus_kernels::vectors::dot(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
///
/// # Panics
/// When the lengths differ.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "only vectors of one length have a dot product");
    #[cfg(target_arch = "x86_64")]
    if fused() {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { avx2::dot(a, b) };
    }
    tile::<1, 1, ALWAYS_FUSED>([a], [b])[0][0]
}

/// Scales a vector to length 1; a vector of zeros stays as it is.
///
/// ```
/// let mut vector = [3.0, 4.0];
/// gradus_kernels::vectors::normalize(&mut vector);
/// assert_eq!(vector, [0.6, 0.8]);
/// ```
pub fn normalize(row: &mut [f32]) {
    let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
    }
}

/// Multiplies at most [`TILE`] queries with rows, and calls `found(query, row, product)` for every product that is not
/// below its query's floor, in ascending order of rows; what it returns is the query's floor from there on.
///
/// ```
/// let (rows, mut found) = ([0.1, 0.9, 0.5], Vec::new());
/// let mut floors = [0.3; gradus_kernels::vectors::TILE];
/// gradus_kernels::vectors::scan(&rows, 1, &[&[1.0]], &mut floors, &mut |query, row, product| {
///     found.push((query, row));
///     product
/// });
/// assert_eq!(found, [(0, 1)]);
/// ```
///
/// # Panics
/// When there are more than [`TILE`] queries, or vectors of another length than `dimension`.
pub fn scan(
    rows: &[f32],
    dimension: usize,
    queries: &[&[f32]],
    floors: &mut [f32; TILE],
    found: &mut dyn FnMut(usize, usize, f32) -> f32,
) {
    assert!(queries.len() <= TILE, "a tile holds at most {TILE} queries");
    assert!(queries.iter().all(|query| query.len() == dimension), "queries and rows have one length");
    let scan = Scan { rows, dimension, queries, floors, found };
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && fused() {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { avx512::run(scan) };
        }
        if fused() {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { avx2::run(scan) };
        }
    }
    plain::<ALWAYS_FUSED>(scan);
}

/// The arguments of [`scan`], checked.
struct Scan<'a> {
    rows: &'a [f32],
    dimension: usize,
    queries: &'a [&'a [f32]],
    floors: &'a mut [f32; TILE],
    found: &'a mut dyn FnMut(usize, usize, f32) -> f32,
}

/// Whether fused multiply-add needs no look at the processor.
const ALWAYS_FUSED: bool = cfg!(target_arch = "aarch64");

#[cfg(target_arch = "x86_64")]
fn fused() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Scan, plain, tile};

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
        tile::<1, 1, true>([a], [b])[0][0]
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn run(scan: Scan) {
        plain::<true>(scan);
    }
}

#[inline(always)]
fn plain<const FUSED: bool>(scan: Scan) {
    let Scan { rows, dimension, queries, floors, found } = scan;
    // Two queries and two rows: four sums of two registers each, out of sixteen.
    for (pair, queries) in queries.chunks(2).enumerate() {
        let mut see = |query: usize, row: usize, product: f32| {
            let query = 2 * pair + query;
            if product >= floors[query] {
                floors[query] = found(query, row, product);
            }
        };
        match *queries {
            [a, b] => several::<2, FUSED>([a, b], rows, dimension, &mut see),
            [a] => several::<1, FUSED>([a], rows, dimension, &mut see),
            _ => {}
        }
    }
}

#[inline(always)]
fn several<const Q: usize, const FUSED: bool>(
    queries: [&[f32]; Q],
    rows: &[f32],
    dimension: usize,
    see: &mut impl FnMut(usize, usize, f32),
) {
    let mut pairs = rows.chunks_exact(2 * dimension);
    let mut row = 0;
    for pair in &mut pairs {
        let (first, second) = pair.split_at(dimension);
        for (query, products) in tile::<Q, 2, FUSED>(queries, [first, second]).into_iter().enumerate() {
            see(query, row, products[0]);
            see(query, row + 1, products[1]);
        }
        row += 2;
    }
    let last = pairs.remainder();
    if last.len() == dimension {
        for (query, products) in tile::<Q, 1, FUSED>(queries, [last]).into_iter().enumerate() {
            see(query, row, products[0]);
        }
    }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "plain loops become vector instructions, iterators here do not"
)]
fn tile<const Q: usize, const R: usize, const FUSED: bool>(
    queries: [&[f32]; Q],
    rows: [&[f32]; R],
) -> [[f32; R]; Q] {
    let length = rows[0].len();
    let whole = length / LANES * LANES;
    let mut sums = [[[0_f32; LANES]; R]; Q];
    for start in (0..whole).step_by(LANES) {
        for q in 0..Q {
            for r in 0..R {
                sums[q][r] = plus::<FUSED>(sums[q][r], lanes(queries[q], start), lanes(rows[r], start));
            }
        }
    }
    let mut totals = [[0.0; R]; Q];
    for q in 0..Q {
        for r in 0..R {
            let mut sum = sums[q][r];
            if whole < length {
                sum = plus::<FUSED>(sum, &rest(queries[q], whole), &rest(rows[r], whole));
            }
            totals[q][r] = add(sum);
        }
    }
    totals
}

#[inline(always)]
fn plus<const FUSED: bool>(mut sums: [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [f32; LANES] {
    for lane in 0..LANES {
        sums[lane] =
            if FUSED { a[lane].mul_add(b[lane], sums[lane]) } else { sums[lane] + a[lane] * b[lane] };
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

    /// Every product, by query and row.
    fn all(
        run: impl FnOnce(&mut [f32; TILE], &mut dyn FnMut(usize, usize, f32) -> f32),
    ) -> Vec<(usize, usize, u32)> {
        let mut found = Vec::new();
        run(&mut [f32::NEG_INFINITY; TILE], &mut |query, row, product| {
            found.push((query, row, product.to_bits()));
            f32::NEG_INFINITY
        });
        found.sort_unstable();
        found
    }

    #[test]
    fn every_tiling_gives_the_same_bits() {
        for dimension in [1, 7, 16, 50, 128] {
            let value = |index: usize| ((index * 7919 % 1013) as f32 / 1013.0 - 0.5) * 1.7;
            let rows: Vec<f32> = (0..21 * dimension).map(value).collect();
            let queries: Vec<f32> = (0..TILE * dimension).map(|index| value(index + 31)).collect();
            let queries: Vec<&[f32]> = queries.chunks(dimension).collect();
            for (asked, count) in (1..=TILE).flat_map(|asked| (0..=21).map(move |count| (asked, count))) {
                let (queries, rows) = (&queries[..asked], &rows[..count * dimension]);
                let one_by_one: Vec<_> = (queries.iter().enumerate())
                    .flat_map(|(query, a)| {
                        let rows = rows.chunks(dimension).enumerate();
                        rows.map(move |(row, b)| (query, row, dot(a, b).to_bits()))
                    })
                    .collect();
                let tiled = all(|floors, found| scan(rows, dimension, queries, floors, found));
                assert_eq!(tiled, one_by_one);
                #[cfg(target_arch = "x86_64")]
                if fused() {
                    // SAFETY: the processor has what the function was compiled for.
                    let narrow = all(|floors, found| unsafe {
                        avx2::run(Scan { rows, dimension, queries, floors, found });
                    });
                    assert_eq!(narrow, one_by_one);
                }
            }
        }
    }

    #[test]
    fn floors_rise_while_rows_go_by() {
        let rows = [0.1, 0.9, 0.5, 0.95, f32::NAN, 0.95];
        let mut seen = Vec::new();
        scan(
            &rows,
            1,
            &[&[1.0], &[-1.0]],
            &mut [0.3, f32::INFINITY, 0.0, 0.0],
            &mut |query, row, product| {
                seen.push((query, row));
                product
            },
        );
        assert_eq!(seen, [(0, 1), (0, 3), (0, 5)]);
    }

    #[test]
    fn without_fused_instructions_products_are_the_same_up_to_rounding() {
        let (a, b): (Vec<f32>, Vec<f32>) =
            (0..50).map(|index| (index as f32 * 0.1, 1.0 - index as f32 * 0.01)).unzip();
        assert!((tile::<1, 1, false>([&a], [&b])[0][0] - dot(&a, &b)).abs() < 1e-4);
    }
}
