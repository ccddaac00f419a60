//! A recipe for a trainer elsewhere: its data, order, settings and first weights, and a script that trains with them.
//!
//! ```text
//! README.md           how to run it
//! train.py            the training loop, for transformers, PEFT and accelerate (TRL for critics)
//! requirements.txt    its packages
//! fsdp.yaml           accelerate's configuration for FSDP
//! deepspeed.yaml      accelerate's configuration for DeepSpeed; its own is deepspeed.json
//! config.json         what train.py reads: model, loss, optimizer, schedule, steps
//! recipe.toml         the resolved recipe
//! train.safetensors   sequences, reads, targets, and the examples of every step; eval.safetensors the same to evaluate on
//! start/              the result's folder as it is before the first step
//! tokenizer/          the tokenizer, for critics, whose critiques are sampled
//! ```
//!
//! Critics have `train.jsonl` and `eval.jsonl` with prompts instead of sequences, and `order.safetensors`. What another
//! trainer cannot do is refused here by the key that asks for it. Left out: masks of dropout, and `exact_match`.

mod critics;
mod folder;
mod sequences;
mod settings;
mod tensors;

use std::path::Path;

use serde_json::{Value, json};

use crate::data::{LeftOut, SolvePrompt};
use crate::objectives::{Verdict, grpo, orm, orpo, prm, sft};
use crate::prepared::{ExampleSets, PreparedRecipe};
use crate::run::order::Order;
use crate::run::{Objective, Recipe};
use crate::trainable::Tuning;
use crate::{Result, trained};
use sequences::Sequence;

/// The framework that trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportTarget {
    /// PyTorch: transformers, PEFT and accelerate; TRL for critics.
    Torch,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportSummary {
    /// Training examples.
    pub examples: usize,
    /// Evaluation examples.
    pub held_out: usize,
    /// What could not be used, by reason.
    pub left_out: LeftOut,
    /// Number of trainable parameters.
    pub parameters: usize,
    /// Steps of the run.
    pub steps: u64,
}

/// Writes the data into a folder.
type WriteData<'a> = Box<dyn FnOnce(&Path, &Order) -> Result<()> + 'a>;

/// What the objective adds to an export.
struct Part<'a> {
    /// `loss` of `config.json`.
    loss: Value,
    write: WriteData<'a>,
    examples: usize,
    held_out: usize,
    left_out: LeftOut,
}

/// Writes a recipe for another trainer into `folder`, which is new, empty, or an earlier export. The folder is there
/// whole or not at all.
pub fn export(recipe: &Recipe, target: ExportTarget, folder: &Path) -> Result<ExportSummary> {
    let ExportTarget::Torch = target;
    folder::refuse_foreign(folder)?;
    settings::refuse(recipe)?;
    let mut prepared = PreparedRecipe::untrained(recipe)?;
    let Part { loss, write, examples, held_out, left_out } = part(&mut prepared)?;
    prepared.restore_adapter()?;
    let per_step = recipe.batch.examples;
    let order = Order::new(recipe.seed, recipe.data.shuffle, examples, per_step, recipe.steps.length);
    let parameters = prepared.trainable.parameters.count();
    gradus_durable::replace_folder(folder, |folder| {
        folder::write_scripts(folder, recipe)?;
        folder::write_text(folder, "recipe.toml", &recipe.to_toml())?;
        folder::write_json(folder, "config.json", &settings::config(recipe, &order, &loss)?)?;
        write(folder, &order)?;
        write_start(&folder.join("start"), &prepared)?;
        if recipe.objective.samples() {
            let tokenizer = folder::create(folder.join("tokenizer"))?;
            prepared.trainable.model.tokenizer().save(&tokenizer)?;
        }
        Ok(ExportSummary { examples, held_out, left_out, parameters, steps: order.steps() })
    })
}

/// The objective's loss and data.
fn part<'a>(prepared: &mut PreparedRecipe) -> Result<Part<'a>> {
    let recipe = prepared.recipe.clone();
    match &recipe.objective {
        Objective::Prm(config) => {
            let (verdict, examples) = prm::prepare(prepared, config)?;
            Ok(labels(verdict, examples, true))
        }
        Objective::Orm(config) => {
            let (verdict, examples) = orm::prepare(prepared, config)?;
            Ok(labels(verdict, examples, false))
        }
        Objective::Sft(config) => {
            let examples = sft::read(prepared, config, &SolvePrompt::find(&config.prompt)?)?;
            let examples = map(examples, |example| sequences::of(&example.forest, &example.reads));
            Ok(sequences_part(json!({ "kind": "tokens" }), examples))
        }
        Objective::Orpo(config) => {
            let pairs = orpo::read(prepared, config, &SolvePrompt::find(&config.prompt)?)?;
            let pairs = map(pairs, |pair| {
                let (chosen, rejected) = pair.example.reads.split_at(pair.chosen);
                [chosen, rejected]
                    .into_iter()
                    .flat_map(|reads| sequences::of(&pair.example.forest, reads))
                    .collect()
            });
            Ok(sequences_part(json!({ "kind": "pairs", "lambda": config.lambda }), pairs))
        }
        Objective::Grpo(config) => {
            let ExampleSets { train, held_out, left_out } = grpo::read(prepared, config)?;
            Ok(Part {
                loss: critics::loss(config),
                examples: train.len(),
                held_out: held_out.len(),
                left_out,
                write: Box::new(move |folder, order| critics::write(folder, &train, &held_out, order)),
            })
        }
    }
}

/// A reward model's part; `by_step` says whether first errors are evaluated.
fn labels<'a>(
    verdict: Verdict,
    examples: ExampleSets<crate::example::Example<f32>>,
    by_step: bool,
) -> Part<'a> {
    let examples = map(examples, |example| sequences::of(&example.forest, &example.reads));
    let mut loss = serde_json::to_value(verdict.reading()).expect("a reading is JSON");
    (loss["kind"], loss["by_step"]) = ("labels".into(), by_step.into());
    sequences_part(loss, examples)
}

fn sequences_part<'a, T: tensors::Target + 'a>(
    loss: Value,
    examples: ExampleSets<Vec<Sequence<T>>>,
) -> Part<'a> {
    let ExampleSets { train, held_out, left_out } = examples;
    Part {
        loss,
        examples: train.len(),
        held_out: held_out.len(),
        left_out,
        write: Box::new(move |folder, order| {
            tensors::write(&folder.join("train.safetensors"), &train, Some(order))?;
            match held_out.is_empty() {
                true => Ok(()),
                false => tensors::write(&folder.join("eval.safetensors"), &held_out, None),
            }
        }),
    }
}

/// Turns examples into sequences, and drops each when that is done.
fn map<A, B>(examples: ExampleSets<A>, make: impl Fn(A) -> B) -> ExampleSets<B> {
    let ExampleSets { train, held_out, left_out } = examples;
    let all = |examples: Vec<A>| examples.into_iter().map(&make).collect();
    ExampleSets { train: all(train), held_out: all(held_out), left_out }
}

/// The result's folder before the first step. Values are as they are trained, whatever the result is stored in.
fn write_start(folder: &Path, prepared: &PreparedRecipe) -> Result<()> {
    let folder = folder::create(folder.to_owned())?;
    let mut recipe = prepared.recipe.clone();
    if let Tuning::Lora(lora) = &mut recipe.tuning {
        lora.stored = crate::lora::AdapterDtype::F32;
    }
    trained::save(&folder, &prepared.trainable, &recipe)
}

#[cfg(test)]
mod tests;
