//! `config.json`: a recipe's settings as numbers that a script reads, and recipes that no script here can follow.

use gradus_engine::models::{self, ModelPath, TrainedModel};
use serde_json::{Value, json};

use crate::run::order::Order;
use crate::run::{Objective, Recipe};
use crate::trainable::Tuning;
use crate::{Error, Result, trained};

/// Version of `config.json`.
const SCHEMA: u32 = 1;

/// Refuses what the exported script cannot do.
pub(super) fn refuse(recipe: &Recipe) -> Result<()> {
    let message = match (&recipe.objective, &recipe.steps.best) {
        (Objective::Sft(_) | Objective::Orpo(_), Some(best)) if best.metric == "exact_match" => {
            "`best` in [steps] names the metric `exact_match`, which the exported script does not evaluate: name \
             another metric, such as `loss`"
        }
        (Objective::Prm(prm), _) if prm.pair_weight > 0.0 => {
            "`pair_weight` in [prm] is not exported: --set prm.pair_weight=0, or train with `gradus train`"
        }
        (Objective::Grpo(_), Some(best)) if best.metric != "reward" => {
            "`best` in [steps] names a metric that TRL does not evaluate: name `reward`"
        }
        (Objective::Grpo(grpo), _) if grpo.class_level && grpo.kl > 0.0 => {
            "`class_level` in [grpo] goes with `kl = 0` only in TRL, whose KL term has no classes: --set grpo.kl=0 or \
             --set grpo.class_level=false"
        }
        _ => return Ok(()),
    };
    Err(Error::Recipe { location: "export".to_owned(), message: message.to_owned() })
}

/// What `train.py` reads.
pub(super) fn config(recipe: &Recipe, order: &Order, loss: &Value) -> Result<Value> {
    let (optimizer, steps) = (&recipe.optimizer, &recipe.steps);
    let described = TrainedModel::new(recipe.objective.name(), &recipe.model.base);
    let (folder, gguf) = match models::resolve(&recipe.model.base)? {
        ModelPath::Folder(path) => (path, None),
        ModelPath::Gguf(path) => {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (path.parent().map(ToOwned::to_owned).unwrap_or_default(), name)
        }
    };
    let folder = std::fs::canonicalize(&folder).map_err(crate::error::io(&folder))?;
    let stored = match &recipe.tuning {
        Tuning::Lora(lora) => serde_json::to_value(lora.stored).expect("a type's name is JSON"),
        Tuning::Full => "f32".into(),
    };
    Ok(json!({
        "export": "torch",
        "schema": SCHEMA,
        "gradus": env!("CARGO_PKG_VERSION"),
        "objective": recipe.objective.name(),
        "seed": recipe.seed,
        "model": {
            "base": described.base,
            "hub": described.hub,
            "folder": folder,
            "gguf_file": gguf,
            "head": recipe.objective.reward_model().map(|(_, head)| head),
            "result": trained::folder_name(recipe),
            "stored": stored,
        },
        "loss": loss,
        "optimizer": {
            "learning_rate": optimizer.learning_rate,
            "schedule": optimizer.schedule,
            "warmup_steps": optimizer.warmup_steps(order.steps()),
            "beta1": optimizer.beta1,
            "beta2": optimizer.beta2,
            "epsilon": optimizer.epsilon,
            "weight_decay": optimizer.weight_decay,
            "clip": optimizer.clip,
        },
        "batch": { "examples": recipe.batch.examples, "tokens": recipe.batch.tokens },
        "steps": {
            "total": order.steps(),
            "eval_every": steps.eval_every,
            "checkpoint_every": steps.checkpoint_every,
            "keep": steps.keep,
            "best": steps.best,
        },
    }))
}
