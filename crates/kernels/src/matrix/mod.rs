//! Weight matrices, packed once for the machine's best product: y = x · Wᵀ.
//!
//! | level                         | `Bf16`                             | `Bf16x3`                                    | `F32`          |
//! |-------------------------------|------------------------------------|---------------------------------------------|----------------|
//! | AMX                           | x and w rounded to bf16, f32 sums  | x and w as sums of two bf16, three products | as AVX-512     |
//! | AVX-512, AVX2, NEON, portable | w rounded to bf16, f32 x, f32 sums | as `F32`                                    | f32 throughout |
//!
//! Two laws hold for every matrix, and tests check them bit by bit: a row of y does not depend on the
//! other rows of x or on how many there are, and nothing depends on the number of threads. So a
//! generated text is the same in every batch. Different levels round differently.
//!
//! Quantized weights stay in the file's blocks; panels of them are decoded while they are multiplied.
//! For training there are the transpose of a matrix and [`gradient()`], the product of two activations that its weights'
//! gradient is. Not here: attention.

mod activations;
mod dot;
mod gradient;
mod parallel;
mod projection;
pub(crate) mod scratch;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tiles;
mod transpose;

use crate::blocks::{BlockKind, dequantize_at};
use crate::cpu::Level;
use half::{bf16, f16};
use rayon::prelude::*;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

pub use activations::Activations;
use dot::{Columns, FEW_COLUMNS};
pub use gradient::gradient;
pub use projection::Projection;
#[cfg(target_arch = "x86_64")]
pub(crate) use tiles::TILE_BYTES;

/// The arithmetic of a product; the module's table says what it means on each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 throughout, on AVX-512 or below.
    F32,
    /// Three bf16 products of split operands where there is AMX: about 17 significant bits, errors below 1e-5 of ‖x‖·‖w‖
    /// (measured: about 1e-6 at worst), and three times the speed of f32. The same as `F32` elsewhere.
    Bf16x3,
    /// Two to three significant digits, half the memory, about three times the speed of `Bf16x3` on AMX.
    Bf16,
}

impl Precision {
    /// All of them, the most exact first.
    pub(crate) const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16x3, Precision::Bf16];

    /// The name that command lines and recipes use.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16x3 => "bf16x3",
            Precision::Bf16 => "bf16",
        }
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|precision| precision.name() == text);
        known.ok_or_else(|| format!("`{text}` is not one of f32, bf16x3, bf16"))
    }
}

/// What becomes of the numbers that lie where a product is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Forgotten,
    /// The sums go on from them; only where weights lie as tiles, or column by column.
    Kept,
}

/// Bytes that a matrix may share with others, a memory map for one.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Weights W[rows, columns] (outputs, inputs), packed for y[m, rows] = x[m, columns] · Wᵀ.
///
/// ```
/// use gradus_kernels::{Matrix, Precision};
/// let matrix = Matrix::from_f32(2, 3, &[1., 2., 3., 4., 5., 6.], Precision::Bf16);
/// let mut y = [0f32; 4];
/// matrix.multiply(&[1., 0., 0., 0., 1., 1.], &mut y);
/// assert_eq!(y, [1., 4., 5., 11.]);
/// ```
pub struct Matrix {
    rows: usize,
    columns: usize,
    level: Level,
    storage: Storage,
}

/// How the weights lie in memory.
enum Storage {
    /// AMX panels of bf16.
    #[cfg(target_arch = "x86_64")]
    Tiles(tiles::Panels),
    /// Rows of f32, padded with zeros to [`dot::padded`] columns.
    F32(Vec<f32>),
    /// Rows of bf16, padded likewise.
    Bf16(Vec<bf16>),
    /// Where there are few columns and no tiles.
    Columns(Columns),
    /// Blocks as in the file.
    Blocks(Blocks),
}

struct Blocks {
    kind: BlockKind,
    bytes: SharedBytes,
    range: Range<usize>,
    row_bytes: usize,
    /// Only the AMX level multiplies differently for the two precisions: decoded weights are f32 elsewhere.
    precision: Precision,
    /// The same weights regrouped for whole products, where that is faster; single rows come from the file.
    #[cfg(target_arch = "x86_64")]
    interleaved: Option<tiles::Interleaved>,
    /// The same weights expanded for products with many rows, once somebody asks for it.
    #[cfg(target_arch = "x86_64")]
    expanded: OnceLock<tiles::Panels>,
}

/// AMX multiplies bf16 only: products in f32 are left to the level below it.
fn level_for(level: Level, precision: Precision) -> Level {
    if precision == Precision::F32 { level.min(Level::Avx512) } else { level }
}

impl Blocks {
    /// Regroups the weights if this level and precision have a faster product for it.
    #[cfg(target_arch = "x86_64")]
    fn interleave(&mut self, level: Level, rows: usize, columns: usize) {
        if level == Level::Amx && self.precision == Precision::Bf16 {
            self.interleaved = tiles::Interleaved::new(self.kind, (rows, columns), |row| self.row(row));
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn interleave(&mut self, _: Level, _: usize, _: usize) {}

    /// Memory beyond the file's.
    fn added_bytes(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        return self.interleaved.as_ref().map_or(0, tiles::Interleaved::bytes)
            + self.expanded.get().map_or(0, tiles::Panels::bytes);
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    }

    fn row(&self, row: usize) -> &[u8] {
        let bytes = &(*self.bytes).as_ref()[self.range.clone()];
        &bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }
}

/// To the nearest numbers that bf16 has.
fn round(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32());
}

/// Rows of a product that are added at once.
const ADDED_ROWS: usize = 128;

impl Matrix {
    /// Packs f32 weights, row after row.
    ///
    /// # Panics
    /// When there are not rows · columns weights; so for the other constructors.
    pub fn from_f32(rows: usize, columns: usize, weights: &[f32], precision: Precision) -> Matrix {
        Matrix::at_level(Level::current(), rows, columns, precision, weights, |w| *w)
    }

    /// Packs bf16 weights; both precisions keep them exactly.
    pub fn from_bf16(rows: usize, columns: usize, weights: &[bf16], precision: Precision) -> Matrix {
        Matrix::at_level(Level::current(), rows, columns, precision, weights, |w| w.to_f32())
    }

    /// Packs f16 weights; `Bf16` drops three of their eleven significant bits.
    pub fn from_f16(rows: usize, columns: usize, weights: &[f16], precision: Precision) -> Matrix {
        Matrix::at_level(Level::current(), rows, columns, precision, weights, |w| w.to_f32())
    }

    /// Packs weights of any type for a level that this machine has, [`Level::current`] or lower.
    pub(crate) fn at_level<T: Copy + Sync>(
        level: Level,
        rows: usize,
        columns: usize,
        precision: Precision,
        weights: &[T],
        to_f32: impl Fn(&T) -> f32 + Sync,
    ) -> Matrix {
        assert!(level <= Level::detected(), "this machine has no {level:?}");
        let level = level_for(level, precision);
        assert_eq!(weights.len(), rows * columns, "{rows} × {columns} weights expected");
        let fill = |row: usize, out: &mut [f32]| {
            for (out, weight) in out.iter_mut().zip(&weights[row * columns..]) {
                *out = to_f32(weight);
            }
        };
        let padded = || {
            let padded = dot::padded(columns);
            let mut all = vec![0f32; rows * padded];
            for row in 0..rows {
                fill(row, &mut all[row * padded..][..columns]);
            }
            all
        };
        let rounded = |row: usize, out: &mut [f32]| {
            fill(row, out);
            if precision == Precision::Bf16 {
                round(out);
            }
        };
        let storage = match (level, precision) {
            #[cfg(target_arch = "x86_64")]
            (Level::Amx, _) => Storage::Tiles(tiles::Panels::pack(rows, columns, precision, fill)),
            _ if columns <= FEW_COLUMNS => Storage::Columns(Columns::from_rows((rows, columns), rounded)),
            (_, Precision::F32 | Precision::Bf16x3) => Storage::F32(padded()),
            (_, Precision::Bf16) => Storage::Bf16(padded().into_iter().map(bf16::from_f32).collect()),
        };
        Matrix { rows, columns, level, storage }
    }

    /// Keeps quantized weights in the file's own blocks: `bytes[range]` is used in place.
    ///
    /// Where products in `Bf16` are faster for it (AMX; `Q4_1` and `Q8_0`), a regrouped copy of the same size is made too.
    pub fn from_blocks(
        rows: usize,
        columns: usize,
        kind: BlockKind,
        bytes: SharedBytes,
        range: Range<usize>,
        precision: Precision,
    ) -> Result<Matrix, String> {
        let level = Level::current();
        Matrix::blocks_at_level(level, (rows, columns), kind, (bytes, range), precision)
    }

    /// [`Matrix::from_blocks`] for a level that this machine has.
    pub(crate) fn blocks_at_level(
        level: Level,
        (rows, columns): (usize, usize),
        kind: BlockKind,
        (bytes, range): (SharedBytes, Range<usize>),
        precision: Precision,
    ) -> Result<Matrix, String> {
        assert!(level <= Level::detected(), "this machine has no {level:?}");
        let level = level_for(level, precision);
        let row_bytes = kind.bytes_of(columns).ok_or_else(|| {
            let length = kind.block_length();
            format!("{columns} columns are not whole {kind:?} blocks of {length} weights")
        })?;
        let available = (*bytes).as_ref().len();
        if range.start > range.end || range.end > available {
            return Err(format!(
                "bytes {}..{} lie outside of the {available} bytes given",
                range.start, range.end
            ));
        }
        let expected = rows
            .checked_mul(row_bytes)
            .ok_or_else(|| format!("{rows} rows of {row_bytes} bytes are too many"))?;
        if range.len() != expected {
            let found = range.len();
            return Err(format!(
                "{rows} × {columns} weights of kind {kind:?} take {expected} bytes, found {found}"
            ));
        }
        let mut blocks = Blocks {
            kind,
            bytes,
            range,
            row_bytes,
            precision,
            #[cfg(target_arch = "x86_64")]
            interleaved: None,
            #[cfg(target_arch = "x86_64")]
            expanded: OnceLock::new(),
        };
        blocks.interleave(level, rows, columns);
        Ok(Matrix { rows, columns, level, storage: Storage::Blocks(blocks) })
    }

    /// Expands quantized weights beside their blocks, where that makes products with many rows faster (AMX). The bits of
    /// products stay the same, and those with few rows still read the blocks.
    pub fn expand(&self) {
        #[cfg(target_arch = "x86_64")]
        if let (Level::Amx, Storage::Blocks(blocks)) = (self.level, &self.storage) {
            blocks.expanded.get_or_init(|| tiles::expanded(self, blocks));
        }
    }

    /// Bytes that [`Matrix::expand`] adds.
    pub fn expanded_bytes(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let (Level::Amx, Storage::Blocks(blocks)) = (self.level, &self.storage) {
            return tiles::expanded_bytes(self, blocks);
        }
        0
    }

    /// y[m, rows] = x[m, columns] · Wᵀ for any m, in parallel on rayon's current pool when it is worth it.
    ///
    /// Small products are fastest when the caller itself runs on a thread of that pool.
    ///
    /// # Panics
    /// When x is not whole rows, or y does not have room for exactly the product.
    pub fn multiply(&self, x: &[f32], y: &mut [f32]) {
        self.product(&Activations::for_one(x), None, Before::Forgotten, y);
    }

    /// [`Matrix::multiply`] for rows that several matrices are multiplied with.
    ///
    /// # Panics
    /// As [`Matrix::multiply`].
    pub fn multiply_shared(&self, x: &Activations<'_>, y: &mut [f32]) {
        self.product(x, None, Before::Forgotten, y);
    }

    /// y[m, rows] += x[m, columns] · Wᵀ.
    ///
    /// The product is never whole in memory. On AMX, and of few columns, the sums go on from y; elsewhere the product is
    /// made and added in pieces that a core's cache holds. As for [`Matrix::multiply`], the other rows do not change a
    /// row's bits.
    ///
    /// # Panics
    /// As [`Matrix::multiply`].
    pub fn add_multiply(&self, x: &[f32], y: &mut [f32]) {
        self.add_multiply_shared(&Activations::for_one(x), y);
    }

    /// [`Matrix::add_multiply`] for rows that several matrices are multiplied with.
    fn add_multiply_shared(&self, x: &Activations<'_>, y: &mut [f32]) {
        match &self.storage {
            #[cfg(target_arch = "x86_64")]
            Storage::Tiles(_) => self.product(x, None, Before::Kept, y),
            Storage::Columns(_) => self.product(x, None, Before::Kept, y),
            _ => self.add_in_pieces(x.values(), y),
        }
    }

    fn add_in_pieces(&self, x: &[f32], y: &mut [f32]) {
        let add = |product: &mut Vec<f32>, (x, y): (&[f32], &mut [f32])| {
            product.resize(y.len(), 0.0);
            self.multiply(x, product);
            y.iter_mut().zip(product).for_each(|(y, added)| *y += *added);
        };
        let (inputs, outputs) = (ADDED_ROWS * self.columns, ADDED_ROWS * self.rows);
        if x.len() <= inputs || y.len() <= outputs {
            return add(&mut Vec::new(), (x, y));
        }
        assert_eq!(x.len() / self.columns, y.len() / self.rows, "x and y differ in rows");
        if crate::threads::threads() == 1 {
            let mut product = Vec::new();
            return x.chunks(inputs).zip(y.chunks_mut(outputs)).for_each(|piece| add(&mut product, piece));
        }
        x.par_chunks(inputs).zip(y.par_chunks_mut(outputs)).for_each_init(Vec::new, add);
    }

    /// Only the outputs in `wanted`, in that order: y[m, wanted.len()], with the bits of [`Matrix::multiply`].
    ///
    /// # Panics
    /// As [`Matrix::multiply`], and when a wanted output does not exist.
    pub fn multiply_rows(&self, x: &[f32], wanted: &[usize], y: &mut [f32]) {
        if let Some(row) = wanted.iter().find(|row| **row >= self.rows) {
            panic!("output {row} of a matrix with {} outputs", self.rows);
        }
        self.product(&Activations::for_one(x), Some(wanted), Before::Forgotten, y);
    }

    fn product(
        &self,
        activations: &Activations<'_>,
        wanted: Option<&[usize]>,
        before: Before,
        y: &mut [f32],
    ) {
        let count = activations.count();
        let outputs = wanted.map_or(self.rows, <[usize]>::len);
        if self.columns == 0 || outputs == 0 {
            // An empty sum is zero; with no columns the rows of x cannot be counted, only those of y.
            assert!(self.columns > 0 || count == 0);
            assert!(outputs > 0 || y.is_empty());
            if before == Before::Forgotten {
                y.fill(0.0);
            }
            return;
        }
        let m = count / self.columns;
        assert_eq!(count, m * self.columns, "x is not whole rows of {} columns", self.columns);
        assert_eq!(y.len(), m * outputs, "y is not {m} rows of {outputs} outputs");
        if m == 0 {
            return;
        }
        match (&self.storage, self.level) {
            (Storage::Columns(columns), level) => {
                let x = (activations.values(), self.columns);
                columns.product(level, x, (outputs, wanted), before, y);
            }
            #[cfg(target_arch = "x86_64")]
            (_, Level::Amx) => tiles::product(self, activations, wanted, before, y),
            _ => dot::product(self, activations, wanted, y),
        }
    }

    /// One row of W as f32, as the product sees it: an embedding looked up.
    ///
    /// `Bf16` rounds to bf16, and `Bf16x3` on AMX keeps 16 to 17 of the 24 significant bits; else f32 is kept exactly. Quantized
    /// weights are decoded exactly.
    ///
    /// # Panics
    /// When the row does not exist or `out` is not one row long.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.columns);
        match &self.storage {
            #[cfg(target_arch = "x86_64")]
            Storage::Tiles(panels) => panels.row(row, out),
            Storage::F32(weights) => {
                out.copy_from_slice(&weights[row * dot::padded(self.columns)..][..self.columns]);
            }
            Storage::Bf16(weights) => {
                let weights = &weights[row * dot::padded(self.columns)..];
                for (out, weight) in out.iter_mut().zip(weights) {
                    *out = weight.to_f32();
                }
            }
            Storage::Columns(columns) => columns.row(row, out),
            Storage::Blocks(blocks) => {
                dequantize_at(self.level, blocks.kind, blocks.row(row), out);
            }
        }
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Memory that the weights take, shared bytes of a file included.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            #[cfg(target_arch = "x86_64")]
            Storage::Tiles(panels) => panels.bytes(),
            Storage::F32(weights) => size_of_val(&weights[..]),
            Storage::Bf16(weights) => size_of_val(&weights[..]),
            Storage::Columns(columns) => columns.bytes(),
            Storage::Blocks(blocks) => blocks.range.len() + blocks.added_bytes(),
        }
    }
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, columns, level) = (self.rows, self.columns, self.level);
        write!(f, "Matrix({rows} × {columns}, {level:?})")
    }
}
