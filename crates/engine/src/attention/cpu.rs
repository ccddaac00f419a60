//! Attention on the CPU, by our kernel, which takes segments as they are.

use candle_core::Tensor;
use gradus_kernels::attention::{Attention, Segment};

use super::{Attend, Attended, Inputs, PlanRequest};
use crate::Result;
use crate::ops::{compute, with_slices};

/// The segments of a batch.
struct Segments(Vec<Segment>);

#[allow(clippy::unnecessary_wraps, reason = "GPUs make tensors")]
pub(super) fn plan(request: &PlanRequest<'_>) -> Result<Box<dyn Attend>> {
    Ok(Box::new(Segments(request.segments.to_vec())))
}

impl Attend for Segments {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended> {
        let attention = kernel(inputs);
        let Inputs { q, k, v, heads, .. } = *inputs;
        let width = heads.query * heads.dim;
        let out = compute([q, k, v], (q.elem_count() / width, width), |[q, k, v], out| {
            attention.attend(q, k, v, &self.0, out);
        });
        out.map(Attended::from)
    }

    fn backward(
        &self,
        inputs: &Inputs<'_>,
        attended: &Attended,
        dout: &Tensor,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let attention = kernel(inputs);
        let Inputs { q, k, v, .. } = *inputs;
        let dout = dout.contiguous()?;
        let (dq, dk, dv) = with_slices([q, k, v, &attended.out, &dout], |[q, k, v, out, dout]| {
            let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
            attention.backward(q, k, v, out, dout, &self.0, &mut dq, &mut dk, &mut dv);
            (dq, dk, dv)
        })?;
        let back = |values, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device());
        Ok((back(dq, q)?, back(dk, k)?, back(dv, v)?))
    }
}

fn kernel(inputs: &Inputs<'_>) -> Attention {
    let Inputs { heads, mask, precision, .. } = *inputs;
    let scale = 1.0 / (heads.dim as f32).sqrt();
    Attention { heads: heads.query, kv_heads: heads.key, head_dim: heads.dim, scale, mask, precision }
}
