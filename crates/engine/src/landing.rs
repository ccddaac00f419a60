//! Where numbers of a pass arrive in this machine's memory.

use candle_core::Tensor;

use crate::Result;

/// A place that is used again for every token, which on a GPU makes the way short.
#[derive(Default)]
pub(crate) struct Landing {
    numbers: Vec<f32>,
    #[cfg(feature = "cuda")]
    pinned: crate::cuda::Pinned,
}

impl Landing {
    /// All numbers of `x`, which is f32, row after row.
    pub(crate) fn bring(&mut self, x: &Tensor) -> Result<&[f32]> {
        #[cfg(feature = "cuda")]
        if x.device().is_cuda() {
            return self.pinned.bring(x);
        }
        self.numbers = x.flatten_all()?.to_vec1()?;
        Ok(&self.numbers)
    }
}
