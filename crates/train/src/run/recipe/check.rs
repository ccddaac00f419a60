//! MetricValues of a recipe that parse and yet make no sense.

use super::{Objective, Recipe};
use crate::run::order::TrainingLength;
use crate::schedule::Warmup;
use crate::trainable::Tuning;

/// Beyond the width of any projection a low-rank adapter is none.
const MAX_RANK: u64 = 65_536;
/// An alpha beyond this would leave nothing of the base.
const MAX_ALPHA: f64 = 1e6;
/// Examples, tokens or samples that are in memory together.
const MAX_COUNT: u64 = 1 << 32;

/// Says which value is out of range, if one is.
pub(super) fn ranges(recipe: &Recipe) -> Result<(), String> {
    let Recipe { seed, model, tuning, data, optimizer, batch, steps, objective } = recipe;
    at_most("seed", "", *seed, i64::MAX as u64)?;
    filled("base", "model", !model.base.trim().is_empty())?;
    if model.device != "cpu" && model.device != "cuda" {
        let number = model.device.strip_prefix("cuda:").and_then(|number| number.parse::<usize>().ok());
        number.ok_or_else(|| {
            format!("`device` in [model] is `{}`: expected cpu, cuda or cuda:N", model.device)
        })?;
    }
    match tuning {
        Tuning::Lora(lora) => {
            at_least_one("rank", "lora", lora.rank as u64)?;
            at_most("rank", "lora", lora.rank as u64, MAX_RANK)?;
            positive("alpha", "lora", lora.alpha)?;
            expect(lora.alpha <= MAX_ALPHA, "alpha", "lora", lora.alpha, "at most 1000000")?;
            share("dropout", "lora", lora.dropout)?;
            filled("targets", "lora", !lora.targets.is_empty())?;
        }
        Tuning::Full if model.quantized => {
            return Err("quantized weights cannot be trained: use [lora], or `quantized = false` in [model]"
                .to_owned());
        }
        Tuning::Full if model.adapter.is_some() => {
            return Err("`adapter` in [model] goes with [lora] only".to_owned());
        }
        Tuning::Full => {}
    }
    filled("train", "data", !data.train.is_empty())?;
    data.limit.map_or(Ok(()), |limit| at_least_one("limit", "data", limit as u64))?;
    at_least_one("max_tokens", "data", data.max_tokens as u64)?;
    positive("learning_rate", "optimizer", optimizer.learning_rate)?;
    match optimizer.warmup {
        Warmup::Steps(steps) => at_most("warmup", "optimizer", steps, i64::MAX as u64)?,
        Warmup::Share(part) => share("warmup", "optimizer", part)?,
    }
    not_negative("weight_decay", "optimizer", optimizer.weight_decay)?;
    share("beta1", "optimizer", optimizer.beta1)?;
    share("beta2", "optimizer", optimizer.beta2)?;
    positive("epsilon", "optimizer", optimizer.epsilon)?;
    positive("clip", "optimizer", optimizer.clip)?;
    at_least_one("examples", "batch", batch.examples as u64)?;
    at_most("examples", "batch", batch.examples as u64, MAX_COUNT)?;
    at_most("tokens", "batch", batch.tokens as u64, MAX_COUNT)?;
    if batch.tokens < data.max_tokens {
        return Err(format!(
            "`tokens` in [batch] is {} and `max_tokens` in [data] is {}: a forward pass must hold the longest sequence",
            batch.tokens, data.max_tokens
        ));
    }
    match steps.length {
        TrainingLength::Total(total) => at_least_one("total", "steps", total)?,
        TrainingLength::Epochs(epochs) => at_least_one("epochs", "steps", epochs)?,
    }
    at_least_one("checkpoint_every", "steps", steps.checkpoint_every)?;
    at_least_one("keep", "steps", steps.keep as u64)?;
    if let Some(every) = steps.eval_every {
        at_least_one("eval_every", "steps", every)?;
        if steps.best.is_some() && !steps.checkpoint_every.is_multiple_of(every) {
            return Err(format!(
                "`checkpoint_every` in [steps] is {}, no multiple of `eval_every`, which is {every}: a checkpoint is \
                 judged by the evaluation at its step (unless `result = \"last\"`)",
                steps.checkpoint_every
            ));
        }
    }
    if let Some(best) = &steps.best {
        let known = objective.evaluation_metrics();
        if !known.contains(&best.metric.as_str()) {
            return Err(format!(
                "`best` in [steps] names the metric `{}`: an evaluation of {} has {}",
                best.metric,
                objective.name(),
                known.join(", ")
            ));
        }
    }
    objective_ranges(objective)
}

fn objective_ranges(objective: &Objective) -> Result<(), String> {
    match objective {
        Objective::Sft(_) => Ok(()),
        Objective::Prm(prm) => filled("profile", "prm", !prm.profile.trim().is_empty()),
        Objective::Orm(orm) => filled("profile", "orm", !orm.profile.trim().is_empty()),
        Objective::Orpo(orpo) => {
            not_negative("lambda", "orpo", orpo.lambda)?;
            let most = orpo.max_pairs_per_problem;
            most.map_or(Ok(()), |most| at_least_one("max_pairs_per_problem", "orpo", most as u64))
        }
        Objective::Grpo(grpo) => {
            at_most("group", "grpo", grpo.group as u64, MAX_COUNT)?;
            at_most("max_new_tokens", "grpo", grpo.max_new_tokens as u64, MAX_COUNT)?;
            if grpo.group < 2 {
                return Err(format!("`group` in [grpo] is {}: expected at least 2, to compare", grpo.group));
            }
            positive("temperature", "grpo", grpo.temperature)?;
            at_least_one("max_new_tokens", "grpo", grpo.max_new_tokens as u64)?;
            share("clip_low", "grpo", grpo.clip_low)?;
            positive("clip_high", "grpo", grpo.clip_high)?;
            not_negative("kl", "grpo", grpo.kl)?;
            at_least_one("inner_epochs", "grpo", grpo.inner_epochs as u64)
        }
    }
}

fn expect(
    holds: bool,
    key: &str,
    section: &str,
    value: impl std::fmt::Display,
    wanted: &str,
) -> Result<(), String> {
    let within = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
    if holds { Ok(()) } else { Err(format!("`{key}`{within} is {value}: expected {wanted}")) }
}

fn positive(key: &str, section: &str, value: f64) -> Result<(), String> {
    expect(value.is_finite() && value > 0.0, key, section, value, "a number above 0")
}

fn not_negative(key: &str, section: &str, value: f64) -> Result<(), String> {
    expect(value.is_finite() && value >= 0.0, key, section, value, "a number of at least 0")
}

fn share(key: &str, section: &str, value: f64) -> Result<(), String> {
    expect((0.0..1.0).contains(&value), key, section, value, "a share of at least 0 and below 1")
}

fn at_least_one(key: &str, section: &str, value: u64) -> Result<(), String> {
    expect(value >= 1, key, section, value, "at least 1")
}

fn at_most(key: &str, section: &str, value: u64, most: u64) -> Result<(), String> {
    expect(value <= most, key, section, value, &format!("at most {most}"))
}

fn filled(key: &str, section: &str, filled: bool) -> Result<(), String> {
    expect(filled, key, section, "empty", "something")
}
