//! One decoder layer forward, keeping what its backward needs, and backward.
//!
//! ```text
//! h = norm x      q, k, v = projections of h, normed and rotated      s = attention(q, k, v)      x₂ = x + o(s)
//! n = norm x₂     g, u = gate(n), up(n)                               y = x₂ + down(silu(g) · u)
//! ```

use candle_core::Tensor;
use gradus_engine::Precision;
use gradus_engine::ops;
use gradus_engine::parts::{Decoder, Heads, Layer, Linear, Pass};

use crate::Result;
use crate::parameters::{Gradients, Id};
use crate::projection::Site;

/// The seven projections of a layer, in this order everywhere.
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

/// What training knows of a layer.
pub(crate) struct LayerSites {
    pub(crate) projections: [Site; 7],
    pub(crate) norms: Option<NormSites>,
}

/// The norms' weights, when they are trained.
pub(crate) struct NormSites {
    pub(crate) attention: Id,
    pub(crate) mlp: Id,
    pub(crate) query: Option<Id>,
    pub(crate) key: Option<Id>,
}

/// What a layer's backward needs.
pub(crate) struct Kept {
    /// Queries and keys before their norms, where the architecture has those.
    raw: Option<(Tensor, Tensor)>,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor,
    middle: Tensor,
    gate: Tensor,
    up: Tensor,
}

/// How one layer is run.
pub(crate) struct Runner<'a> {
    pub(crate) heads: Heads,
    pub(crate) eps: f32,
    pub(crate) pass: &'a Pass,
    /// Arithmetic of attention, and of weight gradients.
    pub(crate) precision: (Precision, Precision),
    /// What dropout drops; none outside training.
    pub(crate) seed: Option<u64>,
}

/// Bytes that [`Kept`] takes for each row of a batch.
pub(crate) fn kept_bytes(decoder: &Decoder) -> usize {
    let config = &decoder.config;
    let (wide, narrow) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let raw = if config.qk_norm { wide + narrow } else { 0 };
    let numbers = raw + 2 * wide + 2 * narrow + config.hidden + 2 * config.intermediate;
    numbers * decoder.dtype.size_in_bytes()
}

impl Runner<'_> {
    pub(crate) fn forward(&self, layer: &Layer, sites: &LayerSites, x: &Tensor) -> Result<(Tensor, Kept)> {
        let [q_site, k_site, v_site, o_site, gate_site, up_site, down_site] = &sites.projections;
        let Heads { query, key, dim } = self.heads;
        let rows = x.dim(0)?;
        let h = ops::rms_norm(x, &layer.attention_norm, self.eps)?;
        let q = q_site.forward(&layer.q, &h, self.seed)?.reshape((rows, query, dim))?;
        let k = k_site.forward(&layer.k, &h, self.seed)?.reshape((rows, key, dim))?;
        let v = v_site.forward(&layer.v, &h, self.seed)?.reshape((rows, key, dim))?;
        let (raw, q, k) = match (&layer.q_norm, &layer.k_norm) {
            (Some(q_norm), Some(k_norm)) => {
                let normed = (ops::rms_norm(&q, q_norm, self.eps)?, ops::rms_norm(&k, k_norm, self.eps)?);
                (Some((q, k)), normed.0, normed.1)
            }
            _ => (None, q, k),
        };
        let Pass { plan, cos, sin } = self.pass;
        let (q, k) = (ops::rope(&q, cos, sin)?, ops::rope(&k, cos, sin)?);
        let seen = plan.attend(&q, &k, &v, self.heads, layer.mask, self.precision.0)?;
        let added = o_site.forward(&layer.o, &seen, self.seed)?;
        let (middle, n) = ops::add_rms_norm(x, &added, &layer.mlp_norm, self.eps)?;
        let gate = gate_site.forward(&layer.gate, &n, self.seed)?;
        let up = up_site.forward(&layer.up, &n, self.seed)?;
        let inner = ops::silu_mul(&gate, &up)?;
        let y = (&middle + down_site.forward(&layer.down, &inner, self.seed)?)?;
        Ok((y, Kept { raw, q, k, v, seen, middle, gate, up }))
    }

    /// Adds the layer's gradients and returns the one with respect to its input `x`.
    pub(crate) fn backward(
        &self,
        layer: &Layer,
        sites: &LayerSites,
        x: &Tensor,
        kept: Kept,
        dy: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let Kept { raw, q, k, v, seen, middle, gate, up } = kept;
        let [q_site, k_site, v_site, o_site, gate_site, up_site, down_site] = &sites.projections;
        let (seed, precision) = (self.seed, self.precision.1);

        let inner = ops::silu_mul(&gate, &up)?;
        let d_inner = down_site.backward(&layer.down, &inner, dy, seed, gradients, precision)?;
        drop(inner);
        let (d_gate, d_up) = ops::silu_mul_backward(&gate, &up, &d_inner)?;
        drop((gate, up, d_inner));
        let n = ops::rms_norm(&middle, &layer.mlp_norm, self.eps)?;
        let dn = gate_site.backward(&layer.gate, &n, &d_gate, seed, gradients, precision)?;
        let dn = up_site.backward_onto(Some(dn), &layer.up, &n, &d_up, seed, gradients, precision)?;
        let d_middle = ops::rms_norm_backward_onto(dy, &middle, &layer.mlp_norm, self.eps, &dn)?;

        let d_seen = o_site.backward(&layer.o, &seen, &d_middle, seed, gradients, precision)?;
        let Pass { plan, cos, sin } = self.pass;
        let (dq, dk, dv) =
            plan.backward((&q, &k, &v), &seen, &d_seen, self.heads, layer.mask, self.precision.0)?;
        drop((q, k, v, seen, d_seen));
        let (mut dq, mut dk) = (ops::rope_backward(&dq, cos, sin)?, ops::rope_backward(&dk, cos, sin)?);
        if let (Some((q, k)), Some(q_norm), Some(k_norm)) = (&raw, &layer.q_norm, &layer.k_norm) {
            if let Some(NormSites { query: Some(query), key: Some(key), .. }) = &sites.norms {
                gradients.add(*query, &ops::rms_norm_weight_gradient(q, self.eps, &dq)?)?;
                gradients.add(*key, &ops::rms_norm_weight_gradient(k, self.eps, &dk)?)?;
            }
            dq = ops::rms_norm_backward(q, q_norm, self.eps, &dq)?;
            dk = ops::rms_norm_backward(k, k_norm, self.eps, &dk)?;
        }
        let flat = |x: Tensor| x.flatten_from(1);
        let (dq, dk, dv) = (flat(dq)?, flat(dk)?, flat(dv)?);
        let h = ops::rms_norm(x, &layer.attention_norm, self.eps)?;
        let dh = q_site.backward(&layer.q, &h, &dq, seed, gradients, precision)?;
        let dh = k_site.backward_onto(Some(dh), &layer.k, &h, &dk, seed, gradients, precision)?;
        let dh = v_site.backward_onto(Some(dh), &layer.v, &h, &dv, seed, gradients, precision)?;
        if let Some(norms) = &sites.norms {
            gradients.add(norms.mlp, &ops::rms_norm_weight_gradient(&middle, self.eps, &dn)?)?;
            gradients.add(norms.attention, &ops::rms_norm_weight_gradient(x, self.eps, &dh)?)?;
        }
        Ok(ops::rms_norm_backward_onto(&d_middle, x, &layer.attention_norm, self.eps, &dh)?)
    }
}
