//! The model card: `README.md` of a run, in the form that model hubs show.
//!
//! It says what was trained on what and with which result, and how to use it, from the run's own record and metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gradus_engine::models::TrainedModel;

use super::folder::RunRecord;
use super::metrics::MetricsLine;
use super::recipe::{Objective, Recipe};
use crate::heads::HeadKind;
use crate::trainable::Tuning;

/// What a card is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelCard<'a> {
    /// The trained model's name: that of the run folder, say.
    pub(crate) name: &'a str,
    /// What was done.
    pub(crate) recipe: &'a Recipe,
    /// How it was started.
    pub(crate) record: &'a RunRecord,
    /// All metrics.
    pub(crate) lines: &'a [MetricsLine],
    /// Counts to report, in order: examples read, skipped as too long and the like.
    pub(crate) counts: &'a [(&'a str, u64)],
    /// Step of the checkpoint that was kept.
    pub(crate) step: u64,
}

/// Writes the card.
pub(crate) fn write(card: &ModelCard) -> String {
    let ModelCard { name, recipe, record, .. } = card;
    let mut text = String::new();
    let out = &mut text;
    front_matter(out, recipe);
    put(out, &format!("# {name}\n\n{} Trained with Gradus {}.\n", purpose(recipe), record.gradus));
    put(out, "## Use\n");
    usage(out, recipe);
    put(out, "## Data\n\n| for | file | bytes | BLAKE3 |\n|---|---|---:|---|");
    for input in &record.inputs {
        let (role, path, bytes) = (&input.role, cell(&input.path.display().to_string()), input.bytes);
        put(out, &format!("| {role} | `{path}` | {bytes} | `{}` |", input.blake3));
    }
    if !card.counts.is_empty() {
        put(out, "\n| counted | |\n|---|---:|");
        for (what, count) in card.counts {
            put(out, &format!("| {what} | {count} |"));
        }
    }
    put(out, &format!("\n## Result\n\nWeights are those after step {}.\n", card.step));
    results(out, card);
    put(
        out,
        &format!(
            "## Recipe\n\nBegun {} with seed {}.\n\n```toml\n{}```",
            record.started,
            record.seed,
            recipe.to_toml()
        ),
    );
    text
}

fn put(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("text can be written to text");
}

fn front_matter(out: &mut String, recipe: &Recipe) {
    let library = match recipe.tuning {
        Tuning::Lora(_) => "peft",
        Tuning::Full => "transformers",
    };
    // JSON texts are YAML texts.
    let base = serde_json::Value::from(checkpoint(recipe));
    put(out, &format!("---\nbase_model: {base}\nlibrary_name: {library}"));
    put(out, &format!("tags: [gradus, {}]\n---\n", recipe.objective.name()));
}

/// The base as transformers knows it.
fn checkpoint(recipe: &Recipe) -> String {
    TrainedModel::new(recipe.objective.name(), &recipe.model.base).base_for_peft().to_owned()
}

fn purpose(recipe: &Recipe) -> String {
    let what = match &recipe.objective {
        Objective::Sft(_) => "to answer as the training answers do (SFT)",
        Objective::Prm(_) => "to tell whether each step of a solution is right (a process reward model)",
        Objective::Orm(_) => "to tell whether a solution is right (an outcome reward model)",
        Objective::Orpo(_) => "to prefer better solutions (ORPO)",
        Objective::Grpo(_) => "to critique solutions (GRPO)",
    };
    let base = &recipe.model.base;
    match recipe.tuning {
        Tuning::Lora(_) => format!("A LoRA adapter for `{base}` {what}."),
        Tuning::Full => format!("`{base}` with all weights trained {what}."),
    }
}

fn usage(out: &mut String, recipe: &Recipe) {
    let model = match recipe.tuning {
        Tuning::Lora(_) => "--model adapter",
        Tuning::Full => "--model model",
    };
    let reward_model = recipe.objective.reward_model();
    let command = match reward_model {
        Some(_) => format!("gradus score solutions.jsonl {model}"),
        None => format!("gradus generate 'A question.' {model}"),
    };
    put(out, &format!("```sh\n{command}\n```\n"));
    let head = reward_model.map_or(HeadKind::Tokens, |(_, head)| head);
    let class = match head {
        HeadKind::Tokens => "AutoModelForCausalLM",
        HeadKind::Classes | HeadKind::Value => "AutoModelForTokenClassification",
    };
    let labels = match head {
        HeadKind::Tokens => "",
        HeadKind::Classes => ", num_labels=2",
        HeadKind::Value => ", num_labels=1",
    };
    let python = match recipe.tuning {
        Tuning::Lora(_) => format!(
            "from peft import PeftModel\nfrom transformers import {class}\n\n\
             base = {class}.from_pretrained(\"{}\"{labels})\n\
             model = PeftModel.from_pretrained(base, \"adapter\")",
            checkpoint(recipe)
        ),
        Tuning::Full => {
            format!("from transformers import {class}\n\nmodel = {class}.from_pretrained(\"model\"{labels})")
        }
    };
    put(out, &format!("```python\n{python}\n```\n"));
}

/// The metrics of every split at the last step at or before the one that was kept.
fn results(out: &mut String, card: &ModelCard) {
    let mut last: BTreeMap<&str, &MetricsLine> = BTreeMap::new();
    for line in card.lines.iter().filter(|line| line.step <= card.step) {
        last.insert(&line.split, line);
    }
    if last.is_empty() {
        return put(out, "No metrics were logged.\n");
    }
    put(out, "| split | step | metric | value |\n|---|---:|---|---:|");
    for (split, line) in last {
        for (name, value) in &line.values {
            put(out, &format!("| {split} | {} | {} | {} |", line.step, cell(name), number(*value)));
        }
    }
    put(out, "");
}

/// Four significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let whole = if size < 1.0 { 0 } else { size.log10() as usize + 1 };
    format!("{value:.*}", 4_usize.saturating_sub(whole))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::run::inputs::RunInput;

    fn card(sets: &[&str]) -> String {
        let text = "objective = 'prm'\nseed = 7\nmodel.base = 'smollm2-135m'\ndata.train = ['train.jsonl']\n\
                    optimizer.learning_rate = 1e-4\nsteps.total = 30";
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let recipe = Recipe::parse(text, "recipe.toml", &sets).unwrap();
        let record = RunRecord {
            schema: 1,
            gradus: "0.1.0".to_owned(),
            seed: 7,
            started: "2026-03-01T12:00:00Z".to_owned(),
            command: Vec::new(),
            platform: "linux x86_64".to_owned(),
            cpu: "avx2".to_owned(),
            inputs: vec![RunInput {
                role: "train".to_owned(),
                path: PathBuf::from("data/a|b.jsonl"),
                found: PathBuf::from("/data/a|b.jsonl"),
                bytes: 1234,
                blake3: "af13".to_owned(),
            }],
            resumed: Vec::new(),
        };
        let lines = [
            MetricsLine::now(
                20,
                "train",
                [("loss", 0.43219), ("learning_rate", 3.3e-5), ("tokens_per_second", 1234.5)],
            ),
            MetricsLine::now(20, "eval", [("loss", 0.5), ("first_error_f1", 0.912_34)]),
            MetricsLine::now(30, "train", [("loss", 0.4)]),
        ];
        let counts = [("training examples", 512), ("skipped, too long", 3)];
        write(&ModelCard {
            name: "my-prm",
            recipe: &recipe,
            record: &record,
            lines: &lines,
            counts: &counts,
            step: 20,
        })
    }

    #[test]
    fn of_a_lora_prm() {
        insta::assert_snapshot!(card(&[]));
    }

    #[test]
    fn of_a_whole_value_model() {
        let text = card(&["full={}", "prm.head=value"]);
        let (head, _) = text.split_once("## Data").unwrap();
        insta::assert_snapshot!(head);
    }

    #[test]
    fn numbers() {
        let shown = [0.0, 1.0, 0.5, 12.345_67, 1234.56, 99_999.5, 1e7, 1e-5, -0.25, f64::NAN].map(number);
        assert_eq!(
            shown,
            ["0.0000", "1.000", "0.5000", "12.35", "1235", "100000", "1.000e7", "1.000e-5", "-0.2500", "NaN"]
        );
    }
}
