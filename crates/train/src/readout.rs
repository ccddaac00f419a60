//! From hidden states to what losses are computed from (token log-probabilities, logits of a few tokens, a reward
//! head's outputs), forward and backward.

use candle_core::{DType, Tensor};
use gradus_engine::ops;
use gradus_engine::parts::Weight;

use crate::parameters::Gradients;
use crate::projection::BackwardPass;
use crate::trainable::{TrainableModel, no_output};
use crate::{Error, Result};

/// Rows whose logits over the whole vocabulary exist at once.
const LOGIT_ROWS: usize = 512;
/// Bytes of logits that are kept for the backward pass rather than recomputed.
const KEPT_LOGITS: usize = 1 << 30;

/// Log-probabilities of chosen tokens, one per row of hidden states.
pub(crate) struct TokenLogProbs {
    /// The rows' log-probabilities.
    pub(crate) values: Vec<f32>,
    targets: Vec<u32>,
    /// The logits, when they were few enough to keep.
    logits: Option<Vec<Tensor>>,
}

/// Rows of `hidden`, by number.
pub(crate) fn select(hidden: &Tensor, rows: &[usize]) -> Result<Tensor> {
    let rows: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
    Ok(hidden.index_select(&Tensor::new(rows, hidden.device())?, 0)?)
}

/// The gradient of all rows from that of the rows that [`select`] took.
pub(crate) fn scatter(like: &Tensor, rows: &[usize], d_rows: &Tensor) -> Result<Tensor> {
    let rows: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
    let rows = Tensor::new(rows, like.device())?;
    let zeros = Tensor::zeros(like.shape(), DType::F32, like.device())?;
    Ok(zeros.index_add(&rows, &d_rows.to_dtype(DType::F32)?, 0)?.to_dtype(like.dtype())?)
}

impl TrainableModel {
    /// log p(target) for each row of `hidden`, over the whole vocabulary. `keep` keeps the logits for
    /// the backward pass, where memory allows it.
    pub(crate) fn token_logprobs(
        &self,
        hidden: &Tensor,
        targets: &[u32],
        keep: bool,
    ) -> Result<TokenLogProbs> {
        let decoder = self.model.decoder()?;
        let mut values = Vec::with_capacity(targets.len());
        let mut kept = Vec::new();
        let bytes = targets.len() * decoder.config.vocabulary * hidden.dtype().size_in_bytes();
        let keep = keep && bytes <= KEPT_LOGITS;
        for (chunk, targets) in targets.chunks(LOGIT_ROWS).enumerate() {
            let rows = hidden.narrow(0, chunk * LOGIT_ROWS, targets.len())?;
            let logits = decoder.raw_logits(&rows, None)?;
            values.extend(ops::token_logprobs(&logits, targets)?);
            if keep {
                kept.push(logits);
            }
        }
        Ok(TokenLogProbs { values, targets: targets.to_vec(), logits: keep.then_some(kept) })
    }

    /// The gradient of `hidden`, given d loss / d log p of each row.
    pub(crate) fn token_logprobs_backward(
        &mut self,
        hidden: &Tensor,
        forward: TokenLogProbs,
        d_values: &[f32],
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let mut parts = Vec::new();
        let mut kept = forward.logits.map(Vec::into_iter);
        for (chunk, targets) in forward.targets.chunks(LOGIT_ROWS).enumerate() {
            let start = chunk * LOGIT_ROWS;
            let rows = hidden.narrow(0, start, targets.len())?;
            let decoder = self.model.decoder()?;
            let logits = match kept.as_mut().and_then(Iterator::next) {
                Some(logits) => logits,
                None => decoder.raw_logits(&rows, None)?,
            };
            let d_values = &d_values[start..start + targets.len()];
            let d_logits = ops::token_logprobs_backward(logits, targets, d_values)?;
            parts.push(self.output_backward(&rows, &d_logits, gradients)?);
        }
        Ok(Tensor::cat(&parts, 0)?)
    }

    /// Logits of selected tokens, row after row.
    pub(crate) fn selected_logits(&self, hidden: &Tensor, tokens: &[u32]) -> Result<Vec<f32>> {
        Ok(self.model.decoder()?.logits(hidden, Some(tokens))?.flatten_all()?.to_vec1()?)
    }

    /// The gradient of `hidden`, given that of [`TrainableModel::selected_logits`].
    pub(crate) fn selected_logits_backward(
        &self,
        hidden: &Tensor,
        tokens: &[u32],
        d_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let decoder = self.model.decoder()?;
        let output = decoder.output.as_ref().ok_or_else(no_output)?;
        let device = decoder.device();
        let d_logits = Tensor::from_slice(d_logits, (hidden.dim(0)?, tokens.len()), device)?;
        if let Some(id) = self.output_parameter() {
            let selected = ops::weight_gradient(&d_logits, &hidden.to_dtype(DType::F32)?, self.precision())?;
            let table = self.parameters.value(id).zeros_like()?;
            gradients.add(id, &table.index_add(&Tensor::new(tokens, device)?, &selected, 0)?)?;
        }
        let weights = output.weight.rows(tokens, device)?.to_dtype(DType::F32)?;
        let transposed = Weight::from_values(&weights.t()?.contiguous()?, DType::F32, self.precision())?;
        Ok(transposed.multiply(&d_logits)?.to_dtype(hidden.dtype())?)
    }

    /// The head's outputs, row after row, and how many there are per row.
    pub(crate) fn head_outputs(&self, hidden: &Tensor) -> Result<(usize, Vec<f32>)> {
        let head = self.model.any_head().ok_or_else(no_head)?;
        let outputs = head.forward(hidden)?;
        Ok((outputs.dim(1)?, outputs.flatten_all()?.to_vec1()?))
    }

    /// The gradient of `hidden`, given that of [`TrainableModel::head_outputs`].
    pub(crate) fn head_backward(
        &self,
        hidden: &Tensor,
        d_outputs: &[f32],
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let head = self.model.any_head().ok_or_else(no_head)?;
        let projections = self.head.as_ref().ok_or_else(no_head)?;
        let d_outputs = Tensor::from_slice(d_outputs, (hidden.dim(0)?, ()), hidden.device())?;
        let d_outputs = d_outputs.to_dtype(hidden.dtype())?;
        let mut pass = BackwardPass { seed: None, precision: self.precision(), gradients };
        match (&head.projections()[..], &projections[..]) {
            ([(_, last)], [projection]) => projection.backward(None, last, hidden, &d_outputs, &mut pass),
            ([(_, inner), (_, last)], [inner_projection, projection]) => {
                let raw = inner.forward(hidden)?;
                let d_active = projection.backward(None, last, &raw.relu()?, &d_outputs, &mut pass)?;
                let open = raw.gt(0f64)?.to_dtype(raw.dtype())?;
                inner_projection.backward(None, inner, hidden, &(d_active * open)?, &mut pass)
            }
            _ => Err(no_head()),
        }
    }
}

fn no_head() -> Error {
    Error::Model("this model has no reward head to train".to_owned())
}
