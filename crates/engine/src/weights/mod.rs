//! Weights on disk: a Hugging Face folder of safetensors or one GGUF file, memory-mapped, asked for by the names that
//! transformers uses.
//!
//! A [`Stored`] tensor is a view into the file. It becomes a packed matrix for the CPU, kept quantized when the file
//! is, or a candle tensor for a GPU.

mod adapter;
mod loader;
mod names;
mod safetensors;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_kernels::{BlockKind, Matrix, Precision, dequantize};
use half::{bf16, f16};

pub(crate) use adapter::Adapter;
pub(crate) use loader::Loader;
pub use loader::Weight;

use crate::gguf::{Gguf, TensorKind};
use crate::{Error, Result};

/// Storage type of a tensor's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    F32,
    F16,
    Bf16,
    Blocks(BlockKind),
}

/// A tensor in a file.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Vec<usize>,
    file: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Stored {
    fn bytes(&self) -> &[u8] {
        &(*self.file).as_ref()[self.range.clone()]
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// All numbers in f32.
    pub(crate) fn to_f32(&self) -> Vec<f32> {
        let bytes = self.bytes();
        match self.encoding {
            Encoding::F32 => words(bytes, f32::from_le_bytes),
            Encoding::F16 => words(bytes, |word| f16::from_le_bytes(word).to_f32()),
            Encoding::Bf16 => words(bytes, |word| bf16::from_le_bytes(word).to_f32()),
            Encoding::Blocks(kind) => {
                let mut values = vec![0.0; self.elements()];
                dequantize(kind, bytes, &mut values);
                values
            }
        }
    }

    /// As a weight matrix for the CPU. Quantized weights stay as they are unless `dequantized` is asked for.
    pub(crate) fn to_matrix(&self, precision: Precision, dequantized: bool) -> Result<Matrix, String> {
        let [rows, columns] = self.shape[..] else {
            return Err(format!("expected a matrix, found shape {:?}", self.shape));
        };
        let matrix = match self.encoding {
            Encoding::Bf16 => {
                Matrix::from_bf16(rows, columns, &words(self.bytes(), bf16::from_le_bytes), precision)
            }
            Encoding::F16 => {
                Matrix::from_f16(rows, columns, &words(self.bytes(), f16::from_le_bytes), precision)
            }
            Encoding::Blocks(kind) if !dequantized => {
                let (file, range) = (Arc::clone(&self.file), self.range.clone());
                return Matrix::from_blocks(rows, columns, kind, file, range, precision);
            }
            Encoding::F32 | Encoding::Blocks(_) => Matrix::from_f32(rows, columns, &self.to_f32(), precision),
        };
        Ok(matrix)
    }

    /// The same matrix with its rows in another order: row `i` is the old row `order[i]`.
    fn reordered(&self, order: &[usize]) -> Self {
        let bytes = self.bytes();
        let width = bytes.len() / order.len().max(1);
        let moved: Vec<u8> =
            order.iter().flat_map(|row| &bytes[row * width..(row + 1) * width]).copied().collect();
        let range = 0..moved.len();
        Self { file: Arc::new(moved), range, ..self.clone() }
    }
}

fn words<const N: usize, T>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|word| from(*word)).collect()
}

/// A model's weights.
pub(crate) enum Checkpoint {
    Safetensors(safetensors::Files),
    Gguf { file: Arc<Gguf>, heads: usize, kv_heads: usize },
}

impl Checkpoint {
    /// The safetensors of a model folder, in one file or in shards.
    pub(crate) fn open_folder(folder: &Path) -> Result<Self> {
        Ok(Self::Safetensors(safetensors::Files::open(folder)?))
    }

    /// A GGUF file; its heads are needed to undo the reordering of Llama's query and key rows.
    pub(crate) fn from_gguf(file: Arc<Gguf>, heads: usize, kv_heads: usize) -> Self {
        Self::Gguf { file, heads, kv_heads }
    }

    /// The file or folder, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Safetensors(files) => files.folder.clone(),
            Self::Gguf { file, .. } => file.path().to_owned(),
        }
    }

    /// A tensor by the name it has in transformers, without the backbone's prefix.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Stored>> {
        match self {
            Self::Safetensors(files) => files.get(name),
            Self::Gguf { file, heads, kv_heads } => from_gguf(file, name, *heads, *kv_heads),
        }
    }
}

/// A mapped file behind one more pointer, so that tensors of both formats are held alike.
struct Mapped(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn from_gguf(file: &Gguf, name: &str, heads: usize, kv_heads: usize) -> Result<Option<Stored>> {
    let Some(info) = file.tensors.get(&names::in_gguf(name)) else { return Ok(None) };
    let encoding = match info.kind {
        TensorKind::F32 => Encoding::F32,
        TensorKind::F16 => Encoding::F16,
        TensorKind::BF16 => Encoding::Bf16,
        TensorKind::Q4_0 => Encoding::Blocks(BlockKind::Q4_0),
        TensorKind::Q4_1 => Encoding::Blocks(BlockKind::Q4_1),
        TensorKind::Q5_0 => Encoding::Blocks(BlockKind::Q5_0),
        TensorKind::Q5_1 => Encoding::Blocks(BlockKind::Q5_1),
        TensorKind::Q8_0 => Encoding::Blocks(BlockKind::Q8_0),
        TensorKind::Q2_K => Encoding::Blocks(BlockKind::Q2K),
        TensorKind::Q3_K => Encoding::Blocks(BlockKind::Q3K),
        TensorKind::Q4_K => Encoding::Blocks(BlockKind::Q4K),
        TensorKind::Q5_K => Encoding::Blocks(BlockKind::Q5K),
        TensorKind::Q6_K => Encoding::Blocks(BlockKind::Q6K),
        other => {
            let message = format!("tensor `{name}` is stored as {other:?}, which no weights use");
            return Err(Error::model(file.path(), message));
        }
    };
    let bytes = Arc::new(Mapped(Arc::clone(file.bytes())));
    let stored = Stored { encoding, shape: info.shape.clone(), file: bytes, range: info.range.clone() };
    // llama.cpp's converter interleaves the two halves of each query and key head of the llama architecture, for its
    // own rotary convention. We use transformers' and put the rows back.
    let heads = match name {
        _ if file.find("general.architecture")? != Some("llama") => return Ok(Some(stored)),
        _ if name.contains(".q_proj.") => heads,
        _ if name.contains(".k_proj.") => kv_heads,
        _ => return Ok(Some(stored)),
    };
    // A tensor without dimensions has no rows; its shape is refused where it is asked for.
    let rows = stored.shape.first().copied().unwrap_or(0);
    if heads == 0 || !rows.is_multiple_of(2 * heads) {
        return Err(Error::model(file.path(), format!("tensor `{name}`: {rows} rows for {heads} heads")));
    }
    let half = rows / heads / 2;
    let order: Vec<usize> = (0..rows)
        .map(|row| {
            let (head, within) = (row / (2 * half), row % (2 * half));
            head * 2 * half + (within % half) * 2 + within / half
        })
        .collect();
    Ok(Some(stored.reordered(&order)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::tests::Writer;

    /// Found by fuzzing: the rows of a tensor without dimensions were counted.
    #[test]
    fn a_projection_without_dimensions_has_no_rows() {
        let mut file = Writer::default();
        file.text("general.architecture", "llama");
        file.tensor("blk.0.attn_q.weight", &[], TensorKind::F32, &[0; 4]);
        let found = from_gguf(&file.open(), "layers.0.self_attn.q_proj.weight", 2, 1).unwrap().unwrap();
        assert!(found.shape.is_empty());
    }
}
