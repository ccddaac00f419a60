//! Attention on NVIDIA GPUs, by the kernels of `crate::cuda`: padded groups of segments, or single rows over a cache.

use candle_core::Tensor;

use super::{Attend, Inputs, PlanRequest};
use crate::Result;
use crate::cuda::{Groups, Rows};

pub(super) fn plan(request: &PlanRequest<'_>) -> Result<Box<dyn Attend>> {
    let PlanRequest { segments, masks, dtype, device, .. } = *request;
    if let Some(heads) = request.cached
        && let Some(rows) = Rows::new(segments, masks, heads, dtype, device)?
    {
        return Ok(Box::new(rows));
    }
    Ok(Box::new(Groups::new(segments, masks, device)?))
}

impl Attend for Groups {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Tensor> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Groups::attend(self, [q, k, v], heads, mask)
    }

    fn backward(&self, inputs: &Inputs<'_>, _: &Tensor, dout: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Groups::backward(self, [q, k, v], dout, heads, mask)
    }
}

impl Attend for Rows {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Tensor> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Rows::attend(self, [q, k, v], heads, mask)
    }

    fn backward(&self, _: &Inputs<'_>, _: &Tensor, _: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        unreachable!("only passes over a cache are planned so")
    }
}
