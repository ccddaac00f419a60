//! The forward pass of one decoder layer, which keeps what the backward pass needs, and its backward pass.
//!
//! ```text
//! h = norm x      q, k, v = projections of h, normed and rotated      s = attention(q, k, v)      x₂ = x + o(s)
//! n = norm x₂     g, u = gate(n), up(n)                               y = x₂ + down(silu(g) · u)
//! ```

use candle_core::Tensor;
use gradus_engine::Precision;
use gradus_engine::ops;
use gradus_engine::parts::{Attended, Decoder, Heads, Layer, Linear, Pass};

use crate::Result;
use crate::parameters::{Gradients, ParameterId};
use crate::projection::{BackwardPass, TrainableProjection};

/// The projections of attention and of the SwiGLU MLP, in this order everywhere.
pub(crate) const MODULES: [&str; 7] = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

pub(crate) fn linears(layer: &mut Layer) -> [&mut Linear; 7] {
    let Layer { q, k, v, o, gate, up, down, .. } = layer;
    [q, k, v, o, gate, up, down]
}

/// The trainable parts of a layer.
pub(crate) struct TrainableLayer {
    pub(crate) projections: [TrainableProjection; 7],
    pub(crate) norms: Option<TrainableNorms>,
}

/// The norms' weights, when they are trained.
pub(crate) struct TrainableNorms {
    pub(crate) attention: ParameterId,
    pub(crate) mlp: ParameterId,
    pub(crate) query: Option<ParameterId>,
    pub(crate) key: Option<ParameterId>,
}

/// Activations that a layer's backward pass needs.
pub(crate) struct LayerActivations {
    /// Queries and keys before q_norm and k_norm, where the architecture has those.
    raw: Option<(Tensor, Tensor)>,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// The attention's output, before o_proj.
    attended: Attended,
    /// The residual stream between attention and MLP.
    residual: Tensor,
    /// Output of gate_proj of the SwiGLU MLP.
    gate: Tensor,
    /// Output of up_proj of the SwiGLU MLP.
    up: Tensor,
}

/// One forward or backward pass through a layer.
pub(crate) struct LayerPass<'a> {
    pub(crate) heads: Heads,
    pub(crate) eps: f32,
    pub(crate) pass: &'a Pass,
    /// Arithmetic of attention, and of weight gradients.
    pub(crate) precision: (Precision, Precision),
    /// Seed of the dropout masks; none outside training.
    pub(crate) seed: Option<u64>,
}

/// Bytes that [`LayerActivations`] takes for each row of a batch.
pub(crate) fn activation_bytes(decoder: &Decoder) -> usize {
    let config = &decoder.config;
    let (wide, narrow) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let raw = if config.qk_norm { wide + narrow } else { 0 };
    let numbers = raw + 2 * wide + 2 * narrow + config.hidden + 2 * config.intermediate;
    // The logarithms of attention's sums are f32.
    numbers * decoder.dtype.size_in_bytes() + config.heads * 4
}

impl LayerPass<'_> {
    pub(crate) fn forward(
        &self,
        layer: &Layer,
        trainable: &TrainableLayer,
        x: &Tensor,
    ) -> Result<(Tensor, LayerActivations)> {
        let [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj] = &trainable.projections;
        let Heads { query, key, dim } = self.heads;
        let rows = x.dim(0)?;
        let h = ops::rms_norm(x, &layer.attention_norm, self.eps)?;
        let q = q_proj.forward(&layer.q, &h, self.seed)?.reshape((rows, query, dim))?;
        let k = k_proj.forward(&layer.k, &h, self.seed)?.reshape((rows, key, dim))?;
        let v = v_proj.forward(&layer.v, &h, self.seed)?.reshape((rows, key, dim))?;
        let (raw, q, k) = match (&layer.q_norm, &layer.k_norm) {
            (Some(q_norm), Some(k_norm)) => {
                let normed = (ops::rms_norm(&q, q_norm, self.eps)?, ops::rms_norm(&k, k_norm, self.eps)?);
                (Some((q, k)), normed.0, normed.1)
            }
            _ => (None, q, k),
        };
        let Pass { plan, cos, sin } = self.pass;
        let (q, k) = (ops::rope(&q, cos, sin)?, ops::rope(&k, cos, sin)?);
        let attended = plan.attend(&q, &k, &v, self.heads, layer.mask, self.precision.0)?;
        let added = o_proj.forward(&layer.o, &attended.out, self.seed)?;
        let (residual, n) = ops::add_rms_norm(x, &added, &layer.mlp_norm, self.eps)?;
        let gate = gate_proj.forward(&layer.gate, &n, self.seed)?;
        let up = up_proj.forward(&layer.up, &n, self.seed)?;
        let inner = ops::silu_mul(&gate, &up)?;
        let y = (&residual + down_proj.forward(&layer.down, &inner, self.seed)?)?;
        Ok((y, LayerActivations { raw, q, k, v, attended, residual, gate, up }))
    }

    /// Accumulates the layer's gradients and returns the one with respect to its input `x`.
    pub(crate) fn backward(
        &self,
        layer: &Layer,
        trainable: &TrainableLayer,
        x: &Tensor,
        kept: LayerActivations,
        dy: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let LayerActivations { raw, q, k, v, attended, residual, gate, up } = kept;
        let [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj] = &trainable.projections;
        let mut pass = BackwardPass { seed: self.seed, precision: self.precision.1, gradients };

        let inner = ops::silu_mul(&gate, &up)?;
        let d_inner = down_proj.backward(None, &layer.down, &inner, dy, &mut pass)?;
        drop(inner);
        let (d_gate, d_up) = ops::silu_mul_backward(&gate, &up, &d_inner)?;
        drop((gate, up, d_inner));
        let n = ops::rms_norm(&residual, &layer.mlp_norm, self.eps)?;
        let dn = gate_proj.backward(None, &layer.gate, &n, &d_gate, &mut pass)?;
        let dn = up_proj.backward(Some(dn), &layer.up, &n, &d_up, &mut pass)?;
        let d_residual = ops::rms_norm_backward_onto(dy, &residual, &layer.mlp_norm, self.eps, &dn)?;

        let d_attended = o_proj.backward(None, &layer.o, &attended.out, &d_residual, &mut pass)?;
        let Pass { plan, cos, sin } = self.pass;
        let (dq, dk, dv) =
            plan.backward((&q, &k, &v), &attended, &d_attended, self.heads, layer.mask, self.precision.0)?;
        drop((q, k, v, attended, d_attended));
        let (mut dq, mut dk) = (ops::rope_backward(&dq, cos, sin)?, ops::rope_backward(&dk, cos, sin)?);
        if let (Some((q, k)), Some(q_norm), Some(k_norm)) = (&raw, &layer.q_norm, &layer.k_norm) {
            if let Some(TrainableNorms { query: Some(query), key: Some(key), .. }) = &trainable.norms {
                pass.gradients.add(*query, &ops::rms_norm_weight_gradient(q, self.eps, &dq)?)?;
                pass.gradients.add(*key, &ops::rms_norm_weight_gradient(k, self.eps, &dk)?)?;
            }
            dq = ops::rms_norm_backward(q, q_norm, self.eps, &dq)?;
            dk = ops::rms_norm_backward(k, k_norm, self.eps, &dk)?;
        }
        let flat = |x: Tensor| x.flatten_from(1);
        let (dq, dk, dv) = (flat(dq)?, flat(dk)?, flat(dv)?);
        let h = ops::rms_norm(x, &layer.attention_norm, self.eps)?;
        let dh = q_proj.backward(None, &layer.q, &h, &dq, &mut pass)?;
        let dh = k_proj.backward(Some(dh), &layer.k, &h, &dk, &mut pass)?;
        let dh = v_proj.backward(Some(dh), &layer.v, &h, &dv, &mut pass)?;
        if let Some(norms) = &trainable.norms {
            pass.gradients.add(norms.mlp, &ops::rms_norm_weight_gradient(&residual, self.eps, &dn)?)?;
            pass.gradients.add(norms.attention, &ops::rms_norm_weight_gradient(x, self.eps, &dh)?)?;
        }
        Ok(ops::rms_norm_backward_onto(&d_residual, x, &layer.attention_norm, self.eps, &dh)?)
    }
}
