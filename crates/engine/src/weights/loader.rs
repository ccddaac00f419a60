//! From stored tensors to the weights of layers, on a device, in a precision, with an adapter on top.

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use gradus_kernels::{BlockKind, Matrix, Precision};

use super::{Adapter, Checkpoint, Encoding, Stored};
use crate::linear::{Linear, Lora};
use crate::ops;
use crate::{Error, Result};

/// A weight matrix `[outputs, inputs]` where it will be used.
#[derive(Clone)]
pub enum Weight {
    /// Packed for the CPU's matrix instructions, or the file's own blocks.
    Packed(Arc<Matrix>),
    /// A tensor on a GPU.
    Dense(Tensor),
    /// The file's own blocks on a GPU.
    Quantized(Arc<QMatMul>),
}

impl Weight {
    /// How many outputs it has; none where the file's own blocks are on a GPU.
    pub(crate) fn outputs(&self) -> Option<usize> {
        match self {
            Self::Packed(matrix) => Some(matrix.rows()),
            Self::Dense(weight) => weight.dims().first().copied(),
            Self::Quantized(_) => None,
        }
    }

    /// x `[m, inputs]` → `[m, outputs]`.
    pub fn multiply(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Packed(matrix) => ops::multiply(x, matrix)?,
            Self::Dense(weight) => x.matmul(&weight.t()?)?,
            Self::Quantized(weight) => weight.forward(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype())?,
        })
    }

    /// y + x · Wᵀ; may write over y.
    pub fn add_multiply(&self, y: Tensor, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Packed(matrix) => ops::add_multiply(&y, x, matrix),
            Self::Dense(weight) => ops::add_product(y, x, weight),
            Self::Quantized(_) => Ok((y + self.multiply(x)?)?),
        }
    }

    /// Like [`Weight::multiply`] for a few of the outputs only, in f32 everywhere: what is read is how far two large numbers are
    /// apart, and bf16 would leave eighths of it.
    pub(crate) fn multiply_rows(&self, x: &Tensor, wanted: &[u32]) -> Result<Tensor> {
        if let Self::Packed(matrix) = self {
            return ops::multiply_rows(x, matrix, wanted);
        }
        let rows = self.rows(wanted, x.device())?.to_dtype(DType::F32)?;
        Ok(x.to_dtype(DType::F32)?.matmul(&rows.t()?)?)
    }

    /// A row of an embedding table on the CPU.
    pub(crate) fn row(&self, token: u32, row: &mut [f32]) {
        match self {
            Self::Packed(matrix) => matrix.row(token as usize, row),
            _ => unreachable!("rows are taken one by one on the CPU only"),
        }
    }

    /// The rows of an embedding table.
    pub fn rows(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        Ok(match self {
            Self::Packed(matrix) => {
                let width = matrix.columns();
                let mut rows = vec![0.0; tokens.len() * width];
                for (token, row) in tokens.iter().zip(rows.chunks_exact_mut(width)) {
                    matrix.row(*token as usize, row);
                }
                Tensor::from_vec(rows, (tokens.len(), width), device)?
            }
            Self::Dense(table) => table.index_select(&Tensor::new(tokens, device)?, 0)?,
            Self::Quantized(table) => table.embedding(&Tensor::new(tokens, device)?)?,
        })
    }

    /// Takes f32 numbers `[rows, columns]` to where `like` would be used, in its type.
    pub fn from_values(values: &Tensor, dtype: DType, precision: Precision) -> Result<Self> {
        if !values.device().is_cpu() {
            return Ok(Self::Dense(values.to_dtype(dtype)?));
        }
        let (rows, columns) = values.dims2()?;
        let matrix = ops::with_slices([&values.contiguous()?], |[values]| {
            Matrix::from_f32(rows, columns, values, precision)
        })?;
        Ok(Self::Packed(Arc::new(matrix)))
    }

    /// The transposed matrix, expanded when this one is quantized: dY · W is `transposed.multiply(dY)`.
    pub fn transposed(&self, dtype: DType) -> Result<Self> {
        Ok(match self {
            Self::Packed(matrix) => Self::Packed(Arc::new(matrix.transposed())),
            Self::Dense(weight) => Self::Dense(weight.t()?),
            Self::Quantized(_) => Self::Dense(self.values()?.to_dtype(dtype)?.t()?),
        })
    }

    /// Itself, or on a GPU its quantized numbers written out: products with those do not round the activations.
    pub fn expanded(&self, dtype: DType) -> Result<Self> {
        Ok(match self {
            Self::Quantized(_) => Self::Dense(self.values()?.to_dtype(dtype)?),
            other => other.clone(),
        })
    }

    /// All numbers: in f32, or in the activations' type when they lie on a GPU in it.
    pub fn values(&self) -> Result<Tensor> {
        Ok(match self {
            Self::Packed(matrix) => {
                Tensor::from_vec(matrix.values(), (matrix.rows(), matrix.columns()), &Device::Cpu)?
            }
            Self::Dense(weight) => weight.clone(),
            Self::Quantized(weight) => match &**weight {
                QMatMul::QTensor(tensor) => tensor.dequantize(&tensor.device())?,
                QMatMul::Tensor(tensor) | QMatMul::TensorF16(tensor) => tensor.clone(),
            },
        })
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        match self {
            Self::Packed(_) => Device::Cpu,
            Self::Dense(weight) => weight.device().clone(),
            Self::Quantized(weight) => match &**weight {
                QMatMul::QTensor(tensor) => tensor.device(),
                QMatMul::Tensor(tensor) | QMatMul::TensorF16(tensor) => tensor.device().clone(),
            },
        }
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> Result<(usize, usize)> {
        Ok(match self {
            Self::Packed(matrix) => (matrix.rows(), matrix.columns()),
            Self::Dense(weight) => weight.dims2()?,
            Self::Quantized(weight) => match &**weight {
                QMatMul::QTensor(tensor) => tensor.shape().dims2()?,
                QMatMul::Tensor(tensor) | QMatMul::TensorF16(tensor) => tensor.dims2()?,
            },
        })
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Packed(matrix) => matrix.bytes(),
            Self::Dense(tensor) => tensor.elem_count() * tensor.dtype().size_in_bytes(),
            Self::Quantized(matrix) => match &**matrix {
                QMatMul::QTensor(tensor) => tensor.storage_size_in_bytes(),
                QMatMul::Tensor(tensor) | QMatMul::TensorF16(tensor) => {
                    tensor.elem_count() * tensor.dtype().size_in_bytes()
                }
            },
        }
    }
}

/// Hands out a checkpoint's weights by name, checks their shapes, and puts the adapter's on top.
pub(crate) struct Loader {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) adapter: Option<Adapter>,
    pub(crate) device: Device,
    /// Arithmetic of matrix products; `None` follows each tensor's own storage.
    pub(crate) precision: Option<Precision>,
    /// Whether quantized weights are expanded when they are loaded; `None` leaves it to the device.
    pub(crate) dequantize: Option<bool>,
}

impl Loader {
    /// Whether quantized weights are expanded when they are loaded.
    fn dequantizes(&self) -> bool {
        self.dequantize.unwrap_or(!self.device.is_cpu())
    }

    /// The type of activations on this device.
    pub(crate) fn dtype(&self) -> DType {
        match (&self.device, self.precision) {
            (Device::Cpu, _) | (_, Some(Precision::F32 | Precision::Bf16x3)) => DType::F32,
            _ => DType::BF16,
        }
    }

    /// Arithmetic for weights that are stored like this: more than bf16 where the file holds more.
    fn precision_for(&self, encoding: Encoding) -> Precision {
        self.precision.unwrap_or(match encoding {
            Encoding::F32 | Encoding::F16 => Precision::Bf16x3,
            Encoding::Bf16 | Encoding::Blocks(_) => Precision::Bf16,
        })
    }

    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        Ok(self.checkpoint.get(name)?.is_some())
    }

    /// Arithmetic of products with this tensor of the checkpoint.
    fn precision_of(&self, name: &str) -> Result<Precision> {
        let stored = self.checkpoint.get(name)?;
        let encoding = stored.map_or(Encoding::F32, |stored| stored.encoding);
        Ok(self.precision_for(encoding))
    }

    /// Whether products with this tensor keep more than bf16.
    pub(crate) fn is_exact(&self, name: &str) -> Result<bool> {
        Ok(self.precision_of(name)? != Precision::Bf16)
    }

    fn stored(&mut self, name: &str, shape: &[usize]) -> Result<Stored> {
        let trained = self.adapter.as_mut().and_then(|adapter| adapter.whole(name));
        let stored = match trained {
            Some(stored) => stored,
            None => self.checkpoint.get(name)?.ok_or_else(|| {
                Error::model(
                    self.checkpoint.path(),
                    format!("tensor `{name}` is missing: the download may be incomplete"),
                )
            })?,
        };
        if stored.shape != shape {
            let message =
                format!("tensor `{name}` has shape {:?}: the configuration says {shape:?}", stored.shape);
            return Err(Error::model(self.checkpoint.path(), message));
        }
        Ok(stored)
    }

    /// A vector such as a norm's weight or a bias.
    pub(crate) fn vector(&mut self, name: &str, length: usize) -> Result<Tensor> {
        let stored = self.stored(name, &[length])?;
        Ok(Tensor::from_vec(stored.to_f32(), length, &self.device)?.to_dtype(self.dtype())?)
    }

    /// A weight matrix.
    pub(crate) fn matrix(&mut self, name: &str, outputs: usize, inputs: usize) -> Result<Weight> {
        let stored = self.stored(name, &[outputs, inputs])?;
        self.to_device(&stored)
            .map_err(|message| Error::model(self.checkpoint.path(), format!("tensor `{name}`: {message}")))
    }

    fn to_device(&self, stored: &Stored) -> Result<Weight, String> {
        if self.device.is_cpu() {
            let precision = self.precision_for(stored.encoding);
            return stored
                .to_matrix(precision, self.dequantizes())
                .map(|matrix| Weight::Packed(Arc::new(matrix)));
        }
        let on_device = || -> candle_core::Result<Weight> {
            if let (Encoding::Blocks(kind), false) = (stored.encoding, self.dequantizes()) {
                let storage = QStorage::from_data(stored.bytes().into(), &self.device, ggml(kind))?;
                let tensor = QTensor::new(storage, stored.shape.as_slice())?;
                return Ok(Weight::Quantized(Arc::new(QMatMul::from_qtensor(tensor)?)));
            }
            let shape = stored.shape.as_slice();
            // Converted before the transfer, where it must be: half the bytes go over.
            let values = match (stored.encoding, self.dtype()) {
                (Encoding::Bf16, DType::BF16) => {
                    Tensor::from_raw_buffer(stored.bytes(), DType::BF16, shape, &Device::Cpu)?
                }
                (_, dtype) => Tensor::from_vec(stored.to_f32(), shape, &Device::Cpu)?.to_dtype(dtype)?,
            };
            Ok(Weight::Dense(values.to_device(&self.device)?))
        };
        on_device().map_err(|error| error.to_string())
    }

    /// A projection `name`, with its bias if it has one and its adapter if there is one.
    pub(crate) fn linear(&mut self, name: &str, outputs: usize, inputs: usize, bias: bool) -> Result<Linear> {
        let weight = self.matrix(&format!("{name}.weight"), outputs, inputs)?;
        let bias = bias.then(|| self.vector(&format!("{name}.bias"), outputs)).transpose()?;
        let lora = match &mut self.adapter {
            Some(adapter) => adapter.take(name, outputs, inputs)?,
            None => None,
        };
        let lora = lora.map(|lora| {
            let precision = self.precision_of(&format!("{name}.weight"))?;
            let rank = lora.a.shape[0];
            let scaled: Vec<f32> =
                lora.b.to_f32().iter().map(|b| (f64::from(*b) * lora.scale) as f32).collect();
            Ok::<_, Error>(Lora {
                a: self.small(lora.a.to_f32(), (rank, inputs), precision)?,
                b: self.small(scaled, (outputs, rank), precision)?,
            })
        });
        Ok(Linear { weight, bias, lora: lora.transpose()? })
    }

    /// Number of outputs of the projection `name`, if there is one.
    pub(crate) fn outputs(&self, name: &str) -> Result<Option<usize>> {
        let name = format!("{name}.weight");
        let trained = self.adapter.as_ref().and_then(|adapter| adapter.shape(&name));
        let stored = self.checkpoint.get(&name)?.map(|stored| stored.shape);
        Ok(trained.or(stored).and_then(|shape| shape.first().copied()))
    }

    /// A projection that has a bias if the file has one.
    pub(crate) fn linear_as_stored(&mut self, name: &str, outputs: usize, inputs: usize) -> Result<Linear> {
        let bias_name = format!("{name}.bias");
        let trained = self.adapter.as_ref().is_some_and(|adapter| adapter.shape(&bias_name).is_some());
        let bias = trained || self.has(&bias_name)?;
        self.linear(name, outputs, inputs, bias)
    }

    /// An adapter's matrix: in the arithmetic of the weights it belongs to on the CPU, in the activations' type on a GPU.
    fn small(
        &self,
        values: Vec<f32>,
        (rows, columns): (usize, usize),
        precision: Precision,
    ) -> Result<Weight> {
        if self.device.is_cpu() {
            return Ok(Weight::Packed(Arc::new(Matrix::from_f32(rows, columns, &values, precision))));
        }
        Ok(Weight::Dense(Tensor::from_vec(values, (rows, columns), &self.device)?.to_dtype(self.dtype())?))
    }

    /// All weights have been taken: an adapter with tensors left over does not belong to this model.
    pub(crate) fn finish(self) -> Result<()> {
        self.adapter.map_or(Ok(()), Adapter::finish)
    }
}

fn ggml(kind: BlockKind) -> GgmlDType {
    match kind {
        BlockKind::Q4_0 => GgmlDType::Q4_0,
        BlockKind::Q4_1 => GgmlDType::Q4_1,
        BlockKind::Q5_0 => GgmlDType::Q5_0,
        BlockKind::Q5_1 => GgmlDType::Q5_1,
        BlockKind::Q8_0 => GgmlDType::Q8_0,
        BlockKind::Q2K => GgmlDType::Q2K,
        BlockKind::Q3K => GgmlDType::Q3K,
        BlockKind::Q4K => GgmlDType::Q4K,
        BlockKind::Q5K => GgmlDType::Q5K,
        BlockKind::Q6K => GgmlDType::Q6K,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In bf16, which has steps of a half there, both would be 64.
    #[test]
    fn a_few_outputs_of_bf16_weights_keep_small_differences() {
        let device = Device::Cpu;
        let bf16 = |values: &[f32], shape: (usize, usize)| {
            Tensor::from_slice(values, shape, &device).unwrap().to_dtype(DType::BF16).unwrap()
        };
        let weight = Weight::Dense(bf16(&[8.0, 0.0, 7.0, 7.0, 8.0, 0.0625], (3, 2)));
        let found = weight.multiply_rows(&bf16(&[8.0, 0.5], (1, 2)), &[0, 2]).unwrap();
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[64.0, 64.03125]]);
    }
}
