//! What training results in: an adapter's folder, or a model's, with what it is beside it.

use std::path::Path;

use gradus_engine::models::TrainedModel;

use crate::run::recipe::Recipe;
use crate::trainable::{TrainableModel, Tuning};
use crate::{Result, adapter, full_model};

/// Name of the result's folder.
pub(crate) fn folder_name(recipe: &Recipe) -> &'static str {
    match &recipe.tuning {
        Tuning::Lora(_) => "adapter",
        Tuning::Full => "model",
    }
}

/// Writes the adapter, or the model when all weights are trained, into `folder`, which must exist: the weights as they
/// are now, the base's name, and a reward model's profile and head.
pub(crate) fn save(folder: &Path, trainable: &TrainableModel, recipe: &Recipe) -> Result<()> {
    let mut trained = TrainedModel::new(recipe.objective.name(), &recipe.model.base);
    if let Some((profile, head)) = recipe.objective.reward_model() {
        (trained.profile, trained.head) = (Some(profile.to_owned()), Some(head));
    }
    match &recipe.tuning {
        Tuning::Lora(lora) => adapter::save(folder, trainable, lora, trained.base_for_peft())?,
        Tuning::Full => full_model::save(folder, trainable, &recipe.model.base)?,
    }
    Ok(trained.write(folder)?)
}
