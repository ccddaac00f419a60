//! Reward heads in training: the checkpoint's own, or a newly initialized one.

use candle_core::Tensor;
pub(crate) use gradus_engine::HeadKind;
use gradus_engine::parts::{Head, Linear, Weight};
use rand::RngExt;

use crate::run::order;
use crate::trainable::TrainableModel;
use crate::{Error, Result};

/// Standard deviation of a new head's weights (`initializer_range` of transformers).
const INITIAL_STD: f64 = 0.02;

/// Makes the wanted head part of what is trained. A model without one gets a new one of a single layer.
pub(crate) fn prepare(trainable: &mut TrainableModel, wanted: HeadKind) -> Result<()> {
    let outputs = match wanted {
        HeadKind::Tokens => return Ok(()),
        HeadKind::Classes => 2,
        HeadKind::Value => 1,
    };
    let head = match (trainable.model.head_mut()?.take(), wanted) {
        (Some(head @ Head::Classes { .. }), HeadKind::Classes)
        | (Some(head @ Head::Value { .. }), HeadKind::Value) => head,
        (Some(other), _) => {
            let message =
                format!("the model already has a {}, and the recipe asks for another kind", other.describe());
            return Err(Error::Model(message));
        }
        (None, _) => {
            let last = fresh(trainable, outputs)?;
            match wanted {
                HeadKind::Classes => Head::Classes { name: "score", inner: None, last },
                _ => Head::Value { name: "v_head", last },
            }
        }
    };
    trainable.train_head(head)
}

/// A layer with normally distributed weights and a zero bias.
fn fresh(trainable: &TrainableModel, outputs: usize) -> Result<Linear> {
    let decoder = trainable.model.decoder()?;
    let (hidden, device) = (decoder.config.hidden, decoder.device());
    let mut rng = order::stream(trainable.options().seed, "head", 0);
    // The sum of twelve uniform numbers is as good as normal here, and the same on every machine.
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let weights: Vec<f32> = (0..outputs * hidden).map(|_| (normal() * INITIAL_STD) as f32).collect();
    let weights = Tensor::from_vec(weights, (outputs, hidden), device)?;
    let bias = Tensor::zeros(outputs, decoder.dtype, device)?;
    Ok(Linear {
        weight: Weight::from_values(&weights, decoder.dtype, trainable.options().precision)?,
        bias: Some(bias),
        lora: None,
    })
}
