//! Attention on NVIDIA GPUs, by the kernels of `crate::cuda`: single rows over a cache, segments whose scores are never written, or
//! padded groups of segments for what those do not know.

use candle_core::Tensor;

use super::{Attend, Attended, Inputs, Plan, PlanRequest};
use crate::Result;
use crate::cuda::{Flash, Groups, Rows};

pub(super) fn plan(request: &PlanRequest<'_>) -> Result<Box<dyn Attend>> {
    let PlanRequest { segments, masks, heads, dtype, device, .. } = *request;
    if request.cached
        && let Some(rows) = Rows::new(segments, masks, heads, dtype, device)?
    {
        return Ok(Box::new(rows));
    }
    if let Some(flash) = Flash::new(segments, heads, dtype, device)? {
        return Ok(Box::new(flash));
    }
    Ok(Box::new(Groups::new(segments, masks, device)?))
}

/// The plan of rows over a cache that were listed before.
pub(crate) fn over_rows(rows: Rows) -> Plan {
    Plan(Box::new(rows))
}

impl Attend for Flash {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        let (out, sums) = Flash::attend(self, [q, k, v], heads, mask)?;
        Ok(Attended { out, sums: Some(sums) })
    }

    fn backward(
        &self,
        inputs: &Inputs<'_>,
        attended: &Attended,
        dout: &Tensor,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        let sums = attended.sums.as_ref().expect("made by `attend` of this plan");
        Flash::backward(self, [q, k, v], (&attended.out, sums), dout, heads, mask)
    }
}

impl Attend for Groups {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Groups::attend(self, [q, k, v], heads, mask).map(Attended::from)
    }

    fn backward(&self, inputs: &Inputs<'_>, _: &Attended, dout: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Groups::backward(self, [q, k, v], dout, heads, mask)
    }
}

impl Attend for Rows {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
        Rows::attend(self, [q, k, v], heads, mask).map(Attended::from)
    }

    fn backward(&self, _: &Inputs<'_>, _: &Attended, _: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        unreachable!("only passes over a cache are planned so")
    }
}
