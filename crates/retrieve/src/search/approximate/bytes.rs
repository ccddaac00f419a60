//! Vectors with a byte per dimension, and their products: what a graph is walked by.

/// What a number is multiplied with before it becomes a byte, the same for all vectors of a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale(pub(super) f32);

impl Scale {
    /// The scale at which the largest number just fits; none where a number is none.
    pub(super) fn of(rows: &[f32]) -> Option<Self> {
        use rayon::prelude::*;
        // Bits of numbers without a sign are in the order of the numbers, with infinity and NaN above them all.
        let largest = |values: &[f32]| values.iter().map(|value| value.abs().to_bits()).max();
        let largest = f32::from_bits(rows.par_chunks(1 << 16).filter_map(largest).max().unwrap_or(0));
        largest.is_finite().then(|| Self(127.0 / largest.max(1e-6)))
    }

    /// The vector in bytes; what does not fit becomes the largest or smallest.
    pub(super) fn fill(self, values: &[f32], bytes: &mut Vec<i8>) {
        bytes.clear();
        bytes
            .extend(values.iter().map(|value| (value * self.0).round_ties_even().clamp(-127.0, 127.0) as i8));
    }
}

/// A function of two vectors of so many bytes, the smaller the more similar.
type Metric = Box<dyn Fn(*const i8, *const i8) -> f32 + Send + Sync>;

/// The negative product, with the widest instructions that the processor has.
pub(super) fn metric(dimension: usize) -> Metric {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has what the function was compiled for; the index passes vectors of its dimension.
            #[allow(unsafe_code)]
            return Box::new(move |a, b| unsafe { wide::avx512(slice(a, dimension), slice(b, dimension)) });
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for; the index passes vectors of its dimension.
            #[allow(unsafe_code)]
            return Box::new(move |a, b| unsafe { wide::avx2(slice(a, dimension), slice(b, dimension)) });
        }
    }
    // SAFETY: the index passes vectors of its dimension.
    #[allow(unsafe_code)]
    Box::new(move |a, b| unsafe { negative(slice(a, dimension), slice(b, dimension)) })
}

/// # Safety
/// There are so many bytes, and nobody changes them.
#[allow(unsafe_code)]
unsafe fn slice<'a>(bytes: *const i8, length: usize) -> &'a [i8] {
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn avx512(a: &[i8], b: &[i8]) -> f32 {
        super::negative(a, b)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(a: &[i8], b: &[i8]) -> f32 {
        super::negative(a, b)
    }
}

#[inline(always)]
fn negative(a: &[i8], b: &[i8]) -> f32 {
    let product: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
    -(product as f32)
}
