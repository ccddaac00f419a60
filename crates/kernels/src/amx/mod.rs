//! AMX primitives: permission, tile configuration and the five instructions the kernels use.
//!
//! The intrinsics are not stable in Rust, so they are written with `asm!`. A tile register holds up to
//! 16 rows of 64 bytes. `tdpbf16ps` adds A·B to C, where A is 16×32 bf16, C is 16×16 f32 and B is 16 rows
//! of 16 *pairs* of bf16: row r, pair n holds `B[2r][n]`, `B[2r+1][n]` (the "VNNI" layout, which is the dword
//! transpose of a row-major 16×32 tile). For every element of C the even k and the odd k are summed in
//! order, then the two sums are added to C; so swapping the roles of A and B gives the same bits.
//! Subnormal numbers count as zero.
//!
//! Tests have the instructions in plain Rust where the processor lacks them.

#[cfg(test)]
mod emulated;

use core::arch::asm;
use core::arch::x86_64::{__m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh};

/// Whether the level AMX can run on this machine, which has AVX-512.
pub(crate) fn usable() -> bool {
    cfg!(test) || native()
}

/// Whether the CPU has AMX and AVX-512 with bf16, and the kernel lets this process use tiles.
///
/// Asks Linux for permission, which holds for every thread of the process from then on.
fn native() -> bool {
    is_x86_feature_detected!("avx512bf16") && cpu_has_tiles() && permitted()
}

/// Whether the instructions are emulated in this process.
#[cfg(test)]
fn is_emulated() -> bool {
    static EMULATED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *EMULATED.get_or_init(|| !native())
}

/// Does `emulated` in place of what follows where the processor cannot.
macro_rules! emulate {
    ($emulated:expr) => {
        #[cfg(test)]
        if is_emulated() {
            return $emulated;
        }
    };
}

fn cpu_has_tiles() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const OSXSAVE: u32 = 1 << 27;
    const TILE_STATE: u64 = 0b11 << 17;

    #[target_feature(enable = "xsave")]
    fn enabled_states() -> u64 {
        // SAFETY: the caller has checked OSXSAVE, which makes XGETBV with index 0 legal.
        unsafe { _xgetbv(0) }
    }

    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let wanted = AMX_BF16 | AMX_TILE;
    if __cpuid_count(7, 0).edx & wanted != wanted {
        return false;
    }
    // SAFETY: OSXSAVE is set, so XGETBV exists and is enabled.
    unsafe { enabled_states() & TILE_STATE == TILE_STATE }
}

#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: this request takes two integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The shape of each of the eight tile registers, in the form that `ldtilecfg` reads.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// No tile has a shape yet.
    pub(crate) const EMPTY: TileConfig =
        TileConfig { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };

    /// All eight tiles at 16 rows of 64 bytes.
    pub(crate) const FULL: TileConfig = {
        let mut config = TileConfig::EMPTY;
        let mut tile = 0;
        while tile < 8 {
            config = config.tile(tile, 16, 64);
            tile += 1;
        }
        config
    };

    /// This configuration with tile `tile` at `rows` (1 to 16) rows of `row_bytes` (4 to 64, a multiple of 4).
    pub(crate) const fn tile(mut self, tile: usize, rows: usize, row_bytes: usize) -> TileConfig {
        assert!(tile < 8 && rows >= 1 && rows <= 16);
        assert!(row_bytes >= 4 && row_bytes <= 64 && row_bytes.is_multiple_of(4));
        self.rows[tile] = rows as u8;
        self.row_bytes[tile] = row_bytes as u16;
        self
    }
}

/// Tiles of this thread are configured while this lives; dropping it gives the tile state back.
///
/// Hold it only across straight code: work that another task may interleave on this thread (a rayon
/// join, for one) could configure the tiles differently.
pub(crate) struct Tiles {
    /// Tile state belongs to the thread, so the guard may not move to another one.
    not_send: core::marker::PhantomData<*const ()>,
}

impl Tiles {
    /// # Safety
    /// [`usable`] has returned true in this process.
    #[inline]
    pub(crate) unsafe fn configure(config: &TileConfig) -> Tiles {
        emulate!({
            emulated::configure(config);
            Tiles { not_send: core::marker::PhantomData }
        });
        // SAFETY: AMX is usable, and `config` is 64 valid bytes of a legal palette-1 configuration.
        unsafe {
            asm!("ldtilecfg [{0}]", in(reg) core::ptr::from_ref(config), options(nostack, readonly));
        }
        Tiles { not_send: core::marker::PhantomData }
    }
}

impl Drop for Tiles {
    #[inline]
    fn drop(&mut self) {
        emulate!(emulated::configure(&TileConfig::EMPTY));
        // SAFETY: AMX is usable, or `configure` could not have been called.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    }
}

/// Sets tile `T` to zero.
///
/// # Safety
/// `T` < 8 and has a shape in this thread's configuration.
#[inline(always)]
pub(crate) unsafe fn tile_zero<const T: usize>() {
    emulate!(emulated::zero(T));
    // SAFETY: the caller's promise.
    unsafe { asm!("tilezero tmm{t}", t = const T, options(nostack, nomem, preserves_flags)) }
}

/// Loads tile `T` from rows that are `stride` bytes apart.
///
/// # Safety
/// `T` has a shape, and each of its rows is readable at `base + row * stride`.
#[inline(always)]
pub(crate) unsafe fn tile_load<const T: usize>(base: *const u8, stride: usize) {
    // SAFETY: the caller's promise.
    emulate!(unsafe { emulated::load(T, base, stride) });
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tileloadd tmm{t}, [{base} + {stride}*1]", t = const T,
            base = in(reg) base, stride = in(reg) stride,
            options(nostack, readonly, preserves_flags));
    }
}

/// Stores tile `T` to rows that are `stride` bytes apart.
///
/// # Safety
/// `T` has a shape, and each of its rows is writable at `base + row * stride`.
#[inline(always)]
pub(crate) unsafe fn tile_store<const T: usize>(base: *mut u8, stride: usize) {
    // SAFETY: the caller's promise.
    emulate!(unsafe { emulated::store(T, base, stride) });
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tilestored [{base} + {stride}*1], tmm{t}", t = const T,
            base = in(reg) base, stride = in(reg) stride,
            options(nostack, preserves_flags));
    }
}

/// C += A·B on bf16 pairs with f32 sums; see the header for the layouts.
///
/// # Safety
/// The three tiles differ and have shapes that fit: rows(C) = rows(A), row bytes(C) = row bytes(B),
/// rows(B) · 4 = row bytes(A).
#[inline(always)]
pub(crate) unsafe fn tile_multiply<const C: usize, const A: usize, const B: usize>() {
    emulate!(emulated::multiply(C, A, B));
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tdpbf16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B,
            options(nostack, nomem, preserves_flags));
    }
}

/// 32 numbers in bf16, rounded to nearest even.
///
/// # Safety
/// [`usable`] has returned true in this process.
#[inline(always)]
pub(crate) unsafe fn to_bf16(low: __m512, high: __m512) -> __m512i {
    emulate!({
        // SAFETY: these types are 64 plain bytes.
        let values = unsafe { core::mem::transmute::<[__m512; 2], [f32; 32]>([low, high]) };
        // SAFETY: as above.
        unsafe { core::mem::transmute::<[u16; 32], __m512i>(values.map(emulated::rounded)) }
    });
    // SAFETY: the caller's promise; both types are 64 plain bytes.
    unsafe { core::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Tiles of some rows, k pairs and columns: A, B and C before, and C after.
    fn product(a: &[bf16], b: &[bf16], c: &mut [f32], (rows, pairs, columns): (usize, usize, usize)) {
        let config =
            TileConfig::EMPTY.tile(0, rows, columns * 4).tile(1, rows, pairs * 4).tile(2, pairs, columns * 4);
        assert!(usable());
        // SAFETY: AMX is usable; the buffers hold the tiles.
        unsafe {
            let _tiles = Tiles::configure(&config);
            tile_zero::<0>();
            tile_load::<0>(c.as_ptr().cast(), columns * 4);
            tile_load::<1>(a.as_ptr().cast(), pairs * 4);
            tile_load::<2>(b.as_ptr().cast(), columns * 4);
            tile_multiply::<0, 1, 2>();
            tile_store::<0>(c.as_mut_ptr().cast(), columns * 4);
        }
    }

    #[test]
    fn one_tile_product_matches_the_definition() {
        let a: Vec<bf16> = (0..16 * 32).map(|i| bf16::from_f32(((i * 7) % 13) as f32 - 6.0)).collect();
        let b: Vec<bf16> = (0..16 * 32).map(|i| bf16::from_f32(((i * 5) % 11) as f32 - 5.0)).collect();
        let mut c = vec![0f32; 256];
        product(&a, &b, &mut c, (16, 16, 16));
        for row in 0..16 {
            for column in 0..16 {
                let expected: f32 = (0..32)
                    .map(|k| {
                        let pair = (k / 2) * 32 + column * 2 + k % 2;
                        a[row * 32 + k].to_f32() * b[pair].to_f32()
                    })
                    .sum();
                assert_eq!(c[row * 16 + column], expected, "row {row}, column {column}");
            }
        }
    }

    /// What the processor computes is what the emulation computes, where there is something to compare.
    #[test]
    fn the_emulation_has_the_bits_of_the_processor() {
        if !native() {
            return;
        }
        let mut random = ChaCha8Rng::seed_from_u64(11);
        // Subnormal and infinite numbers are left out: no kernel depends on them.
        let odd = [0.0, -0.0, 1e-15, -1e-15, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0];
        let mut value = |is_odd: bool| match is_odd && random.random_range(0..20) == 0 {
            true => odd[random.random_range(0..odd.len())],
            false => random.random_range(-2.0f32..2.0) * 2f32.powi(random.random_range(-30..30)),
        };
        for round in 0..200 {
            let shape @ (rows, pairs, columns) = (1 + round % 16, 1 + round * 7 % 16, 1 + round * 5 % 16);
            let is_odd = round % 2 == 1;
            let mut halves =
                |count: usize| -> Vec<bf16> { (0..count).map(|_| bf16::from_f32(value(is_odd))).collect() };
            let (a, b) = (halves(rows * pairs * 2), halves(pairs * columns * 2));
            let before: Vec<f32> = (0..rows * columns).map(|_| value(is_odd)).collect();
            let mut found = before.clone();
            product(&a, &b, &mut found, shape);

            let config = TileConfig::EMPTY.tile(0, rows, columns * 4).tile(1, rows, pairs * 4).tile(
                2,
                pairs,
                columns * 4,
            );
            emulated::configure(&config);
            let mut expected = vec![0f32; before.len()];
            // SAFETY: the buffers hold the tiles.
            unsafe {
                emulated::load(0, before.as_ptr().cast(), columns * 4);
                emulated::load(1, a.as_ptr().cast(), pairs * 4);
                emulated::load(2, b.as_ptr().cast(), columns * 4);
                emulated::multiply(0, 1, 2);
                emulated::store(0, expected.as_mut_ptr().cast(), columns * 4);
            }
            let bits = |all: &[f32]| -> Vec<Option<u32>> {
                all.iter().map(|x| (!x.is_nan()).then(|| x.to_bits())).collect()
            };
            assert_eq!(bits(&found), bits(&expected), "round {round}, {shape:?}");

            let values: [f32; 32] = std::array::from_fn(|_| value(is_odd));
            // SAFETY: the processor has AVX-512 BF16; the types are 64 plain bytes.
            let rounded: [u16; 32] = unsafe {
                let [low, high] = std::mem::transmute::<[f32; 32], [__m512; 2]>(values);
                std::mem::transmute(to_bf16(low, high))
            };
            assert_eq!(rounded, values.map(emulated::rounded));
        }
    }
}
