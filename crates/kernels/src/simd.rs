//! Vectors of f32 behind one small trait, so that a loop is written once and compiled for AVX-512, AVX2, NEON
//! and any other processor.
//!
//! A value of a `Simd` type is the proof that its instructions exist: only [`versions!`] makes one, after
//! looking at the [`Level`](crate::cpu::Level). Functions over the trait must be `#[inline(always)]` down to
//! the intrinsics, since the instruction set is switched on in the wrapper that [`versions!`] writes.
//! For the same reason hot loops hold no closures.

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, transpose16};

/// Arithmetic on a vector of f32.
pub(crate) trait Simd: Copy {
    /// The vector.
    type V: Copy;
    /// How many f32 a vector holds.
    const LANES: usize;
    /// How many vectors wide a register tile of six rows may be.
    const TILE: usize;

    /// All lanes equal.
    fn splat(self, x: f32) -> Self::V;
    /// `LANES` values from `from`.
    ///
    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load(self, from: *const f32) -> Self::V;
    /// `LANES` values to `to`.
    ///
    /// # Safety
    /// `to` is writable for `LANES` values.
    unsafe fn store(self, to: *mut f32, v: Self::V);
    /// The first `n < LANES` values from `from`, then zeros.
    ///
    /// # Safety
    /// `from` is readable for `n` values.
    unsafe fn load_part(self, from: *const f32, n: usize) -> Self::V;
    /// The first `n < LANES` lanes to `to`.
    ///
    /// # Safety
    /// `to` is writable for `n` values.
    unsafe fn store_part(self, to: *mut f32, v: Self::V, n: usize);

    /// a + b
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a − b
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a / b
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b + c
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each lane.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of each lane.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// A whole number near t and the rest, in ±½; t = −∞ gives a number below −127 and some rest in ±½.
    #[inline(always)]
    fn split(self, t: Self::V) -> (Self::V, Self::V) {
        // −∞ itself would leave NaN as the rest.
        let t = self.max(t, self.splat(-150.0));
        let whole = self.round(t);
        (whole, self.sub(t, whole))
    }
    /// To the nearest whole number, ties to even.
    fn round(self, a: Self::V) -> Self::V;
    /// a · 2ⁿ for whole n ≤ 127 and a in [½, 2]; zero where n < −126.
    fn times_power(self, a: Self::V, n: Self::V) -> Self::V;
    /// The sum of all lanes.
    fn sum(self, a: Self::V) -> f32;
    /// The sums of four vectors, each added in the same order.
    fn sums(self, a: [Self::V; 4]) -> [f32; 4];
    /// The largest lane.
    fn largest(self, a: Self::V) -> f32;
    /// Writes the transpose of the `LANES × LANES` block whose rows start at `rows`.
    ///
    /// # Safety
    /// Each of the `LANES` pointers is readable, and each row `to + i · stride` writable, for `LANES` values.
    unsafe fn transpose(self, rows: &[*const f32], to: *mut f32, stride: usize);
}

/// Plain Rust, eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn each(a: [f32; 8], b: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    type V = [f32; 8];
    const LANES: usize = 8;
    const TILE: usize = 2;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller vouches for eight values; the read is unaligned.
        unsafe { from.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for eight values; the write is unaligned.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, from: *const f32, n: usize) -> Self::V {
        let mut v = [0.0; 8];
        // SAFETY: the caller vouches for n values.
        v[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(from, n) });
        v
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, v: Self::V, n: usize) {
        // SAFETY: the caller vouches for n values.
        unsafe { std::slice::from_raw_parts_mut(to, n) }.copy_from_slice(&v[..n]);
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a / b)
    }
    // Not `mul_add`: without the instruction that is a call into the C library for every lane.
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    // Adding and taking away 1.5 · 2²³ leaves no bits for a fraction. Right for |a| < 2²², and faster than a call.
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        a.map(|a| (a + 12_582_912.0) - 12_582_912.0)
    }
    #[inline(always)]
    fn times_power(self, a: Self::V, n: Self::V) -> Self::V {
        each(a, n, |a, n| {
            let power = f32::from_bits(((n.max(-127.0) as i32 + 127) as u32) << 23);
            a * power
        })
    }
    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        let four: [f32; 4] = std::array::from_fn(|i| a[i] + a[i + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    }
    #[inline(always)]
    fn sums(self, a: [Self::V; 4]) -> [f32; 4] {
        a.map(|v| self.sum(v))
    }
    #[inline(always)]
    fn largest(self, a: Self::V) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    unsafe fn transpose(self, rows: &[*const f32], to: *mut f32, stride: usize) {
        for (j, row) in rows.iter().enumerate() {
            for i in 0..8 {
                // SAFETY: the caller vouches for eight values at each row and eight rows at `to`.
                unsafe { *to.add(i * stride + j) = *row.add(i) }
            }
        }
    }
}

/// Writes `unsafe fn name(level, arguments)`, which compiles `body::<S>(s, arguments)` for each instruction set and
/// calls the one for `level`. Unsafe as `body` is; the processor must have `level`.
macro_rules! versions {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path;) => {
        $(#[$meta])*
        $vis unsafe fn $name(level: $crate::cpu::Level, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: as for the function around; the instructions are on.
                unsafe { $body($crate::simd::Avx512, $($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: as for the function around; the instructions are on.
                unsafe { $body($crate::simd::Avx2, $($arg),*) }
            }
            match level {
                // SAFETY: the caller vouches for the processor and for the arguments.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Level::Amx | $crate::cpu::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Level::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above; NEON needs no switching on.
                #[cfg(target_arch = "aarch64")]
                $crate::cpu::Level::Neon => unsafe { $body($crate::simd::Neon, $($arg),*) },
                // SAFETY: as above.
                _ => unsafe { $body($crate::simd::Portable, $($arg),*) },
            }
        }
    };
}
pub(crate) use versions;
