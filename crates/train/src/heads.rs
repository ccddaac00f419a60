//! Reward heads in training: the checkpoint's own, or a new one.

use candle_core::Tensor;
use gradus_engine::parts::{Head, Linear, Weight};
use rand::RngExt;

use crate::run::{order, recipe};
use crate::trainee::Trainee;
use crate::{Error, Result};

/// Spread of a new head's weights, as transformers starts them.
const SPREAD: f64 = 0.02;

/// Makes the wanted head part of what is trained. A model without one gets a new one of a single layer.
pub(crate) fn prepare(trainee: &mut Trainee, wanted: recipe::Head) -> Result<()> {
    let outputs = match wanted {
        recipe::Head::Tokens => return Ok(()),
        recipe::Head::Classes => 2,
        recipe::Head::Value => 1,
    };
    let head = match (trainee.model.head_mut()?.take(), wanted) {
        (Some(head @ Head::Classes { .. }), recipe::Head::Classes)
        | (Some(head @ Head::Value { .. }), recipe::Head::Value) => head,
        (Some(other), _) => {
            let message =
                format!("the model already has a {}, and the recipe asks for another kind", other.describe());
            return Err(Error::Model(message));
        }
        (None, _) => {
            let last = fresh(trainee, outputs)?;
            match wanted {
                recipe::Head::Classes => Head::Classes { name: "score", inner: None, last },
                _ => Head::Value { name: "v_head", last },
            }
        }
    };
    trainee.train_head(head)
}

/// A layer with normally distributed weights and no bias yet.
fn fresh(trainee: &Trainee, outputs: usize) -> Result<Linear> {
    let decoder = trainee.model.decoder()?;
    let (hidden, device) = (decoder.config.hidden, decoder.device());
    let mut rng = order::stream(trainee.options().seed, "head", 0);
    // The sum of twelve uniform numbers is as good as normal here, and the same on every machine.
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let weights: Vec<f32> = (0..outputs * hidden).map(|_| (normal() * SPREAD) as f32).collect();
    let weights = Tensor::from_vec(weights, (outputs, hidden), device)?;
    let bias = Tensor::zeros(outputs, decoder.dtype, device)?;
    Ok(Linear {
        weight: Weight::from_values(&weights, decoder.dtype, trainee.options().precision)?,
        bias: Some(bias),
        lora: None,
    })
}
