//! What every model that could be loaded must do: answer or refuse, and never panic.

use gradus_engine::Model;
use gradus_engine::batch::{Batch, Forest};

pub fn run(model: &Model) {
    let Ok(decoder) = model.decoder() else { return };
    let mut batch = Batch::default();
    batch.add(&Forest::sequence(vec![0; 3]));
    let _ = decoder
        .hidden(&batch)
        .and_then(|hidden| decoder.logits(&hidden, None))
        .map_err(|error| error.to_string());
}
