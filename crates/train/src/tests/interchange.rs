//! Adapters exchanged with Hugging Face PEFT, both ways.
//!
//! `tests/reference/peft-saved/` has adapters that PEFT itself saved, made by `peft_roundtrip.py`. Where `GRADUS_PEFT_PYTHON`
//! names a Python that has torch, transformers and peft, PEFT also loads what is saved here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use candle_core::{Device, Tensor};
use gradus_engine::batch::{Batch, Forest};
use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Precision};
use serde::Deserialize;
use serde_json::Value;

use crate::adapter;
use crate::lora::LoraConfig;
use crate::losses::{self, Loss};
use crate::optimizer::AdamW;
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::trainable::{TrainableModel, TrainableOptions, Tuning};

const NAMES: [&str; 5] = ["llama", "qwen2", "qwen2-token-classification", "qwen2-prm", "skywork"];

/// MetricValues may differ by this much.
const BOUND: f64 = 1e-4;

#[derive(Deserialize)]
struct Expected {
    loss: String,
    sequence: Sequence,
    optimizer: PeftOptimizer,
    steps: Vec<Step>,
    loss_after: f64,
    positions: Vec<usize>,
    entries: Option<Vec<usize>>,
    logits: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Sequence {
    ids: Vec<u32>,
    positions: Vec<usize>,
    targets: Vec<f64>,
}

#[derive(Deserialize)]
struct PeftOptimizer {
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    clip: f64,
}

#[derive(Deserialize)]
struct Step {
    loss: f64,
    norm: f64,
}

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference")
}

fn saved(name: &str) -> PathBuf {
    reference().join("peft-saved").join(name)
}

fn expected(name: &str) -> Expected {
    serde_json::from_slice(&std::fs::read(saved(name).join("expected.json")).unwrap()).unwrap()
}

fn base(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models").join(name)
}

fn load(name: &str, adapter: Option<PathBuf>) -> Model {
    let options = LoadOptions {
        device: gradus_engine::Device::Cpu,
        precision: Some(Precision::F32),
        dequantize: None,
        adapter,
    };
    Model::load(&ModelPath::Folder(base(name)), &options).unwrap()
}

/// The recipe's part that PEFT's configuration stands for.
fn lora(folder: &Path) -> LoraConfig {
    let config = config(folder);
    let targets = config["target_modules"].as_array().unwrap();
    LoraConfig {
        rank: config["r"].as_u64().unwrap() as usize,
        alpha: config["lora_alpha"].as_f64().unwrap(),
        dropout: 0.0,
        targets: targets.iter().map(|target| target.as_str().unwrap().to_owned()).collect(),
        ..LoraConfig::default()
    }
}

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json")).unwrap()).unwrap()
}

fn tensors(folder: &Path) -> BTreeMap<String, Tensor> {
    let path = folder.join("adapter_model.safetensors");
    candle_core::safetensors::load(path, &Device::Cpu).unwrap().into_iter().collect()
}

/// A model in training that starts where PEFT started.
fn trainable(name: &str) -> TrainableModel {
    let start = saved(name).join("start");
    let options = TrainableOptions {
        tuning: Tuning::Lora(lora(&start)),
        precision: Precision::F32,
        quantized: false,
        activation_bytes: usize::MAX,
        seed: 1,
    };
    let mut trainable = TrainableModel::new(load(name, None), options).unwrap();
    if let Some(head) = trainable.model.head_mut().unwrap().take() {
        trainable.train_head(head).unwrap();
    }
    adapter::restore(&start, &mut trainable).unwrap();
    trainable
}

fn batch(ids: &[u32]) -> Batch {
    let mut batch = Batch::default();
    batch.add(&Forest::sequence(ids.to_vec()));
    batch
}

/// `[position][entry]`: the vocabulary's logits, or a head's outputs.
fn outputs(model: &Model, ids: &[u32]) -> Vec<Vec<f32>> {
    let decoder = model.decoder().unwrap();
    let hidden = decoder.hidden(&batch(ids)).unwrap();
    let outputs = match model.any_head() {
        Some(head) => head.forward(&hidden).unwrap(),
        None => decoder.logits(&hidden, None).unwrap(),
    };
    outputs.to_vec2().unwrap()
}

#[track_caller]
fn close(what: &str, found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let bound = BOUND * f64::from(wanted.abs()).max(1.0);
        assert!(
            f64::from((found - wanted).abs()) < bound,
            "{what}: entry {at} is {found}, expected {wanted}"
        );
    }
}

fn as_expected(what: &str, model: &Model, expected: &Expected) {
    let found = outputs(model, &expected.sequence.ids);
    for (position, wanted) in expected.positions.iter().zip(&expected.logits) {
        let row = &found[*position];
        let all = || (0..row.len()).collect();
        let entries: Vec<usize> = expected.entries.clone().unwrap_or_else(all);
        let row: Vec<f32> = entries.iter().map(|entry| row[*entry]).collect();
        close(&format!("{what} at {position}"), &row, wanted);
    }
}

/// The loss, and its gradients where they are wanted.
fn loss(trainable: &mut TrainableModel, expected: &Expected, gradients: &mut Gradients) -> f64 {
    let Sequence { ids, positions, targets } = &expected.sequence;
    let tape = trainable.forward(&batch(ids), None).unwrap();
    let hidden = select(&tape.hidden, positions).unwrap();
    let (value, d_rows) = if expected.loss == "next_token" {
        let tokens: Vec<u32> = targets.iter().map(|target| *target as u32).collect();
        let logprobs = trainable.token_logprobs(&hidden, &tokens, true).unwrap();
        let Loss { value, gradient } =
            losses::negative_log_likelihood(&logprobs.values, &vec![1.0; tokens.len()]);
        (value, trainable.token_logprobs_backward(&hidden, logprobs, &gradient, gradients).unwrap())
    } else {
        let (outputs, values) = trainable.head_outputs(&hidden).unwrap();
        let Loss { value, gradient } = match expected.loss.as_str() {
            "class_cross_entropy" => {
                let classes: Vec<usize> = targets.iter().map(|target| *target as usize).collect();
                losses::cross_entropy(&values, outputs, &classes)
            }
            "value_squared_error" => {
                let soft: Vec<f32> = targets.iter().map(|target| *target as f32).collect();
                losses::squared_error_of_sigmoid(&values, &soft)
            }
            other => panic!("unknown loss {other}"),
        };
        (value, trainable.head_backward(&hidden, &gradient, gradients).unwrap())
    };
    let d_hidden = scatter(&tape.hidden, positions, &d_rows).unwrap();
    trainable.backward(tape, &d_hidden, gradients).unwrap();
    value
}

/// Repeats PEFT's training steps, checking each.
fn replay(name: &str, trainable: &mut TrainableModel, expected: &Expected) {
    let PeftOptimizer { lr, beta1, beta2, eps, weight_decay, clip } = expected.optimizer;
    let adam = AdamW { beta1, beta2, epsilon: eps, weight_decay };
    let near = |what: &str, found: f64, wanted: f64| {
        assert!(
            (found - wanted).abs() < BOUND * wanted.max(1.0),
            "{name}: {what} {found}, expected {wanted}"
        );
    };
    for (number, step) in expected.steps.iter().enumerate() {
        let mut gradients = Gradients::new(&trainable.parameters);
        let value = loss(trainable, expected, &mut gradients);
        near("loss", value, step.loss);
        near("norm", gradients.clip(clip).unwrap(), step.norm);
        trainable.update(&gradients, lr, number + 1, &adam).unwrap();
    }
    let mut gradients = Gradients::new(&trainable.parameters);
    near("loss after", loss(trainable, expected, &mut gradients), expected.loss_after);
}

#[test]
fn adapters_that_peft_saved_are_loaded() {
    for name in NAMES {
        let expected = expected(name);
        let model = load(name, Some(saved(name)));
        as_expected(name, &model, &expected);
        // The adapter is what makes the difference.
        let (with, without) =
            (outputs(&model, &expected.sequence.ids), outputs(&load(name, None), &expected.sequence.ids));
        let change = with.iter().flatten().zip(without.iter().flatten()).map(|(a, b)| (a - b).abs());
        assert!(change.fold(0.0, f32::max) > 0.05, "{name}: the adapter changes nothing");
    }
}

#[test]
fn two_steps_of_training_are_those_of_peft() {
    for name in NAMES {
        let expected = expected(name);
        let mut trainable = trainable(name);
        replay(name, &mut trainable, &expected);
        as_expected(name, &trainable.model, &expected);
        let folder = tempfile::tempdir().unwrap();
        adapter::save(folder.path(), &trainable, &lora(&saved(name)), name).unwrap();
        let (found, wanted) = (tensors(folder.path()), tensors(&saved(name)));
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{name}");
        let PeftOptimizer { lr, weight_decay, .. } = expected.optimizer;
        for (tensor, wanted) in &wanted {
            // PyTorch's AdamW shrinks vectors as well; ours leaves biases alone.
            let shrunk = if wanted.dims().len() == 1 { 1.0 - lr * weight_decay } else { 1.0 };
            let grown = (wanted / shrunk.powi(expected.steps.len() as i32)).unwrap();
            let numbers = |x: &Tensor| x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            close(&format!("{name}: {tensor}"), &numbers(&found[tensor]), &numbers(&grown));
        }
    }
}

/// Trains a little and saves: `peft-saved/NAME`, as we write it.
fn ours(name: &str, folder: &Path) -> (TrainableModel, Expected) {
    let expected = expected(name);
    let mut trainable = trainable(name);
    replay(name, &mut trainable, &expected);
    adapter::save(folder, &trainable, &lora(&saved(name)), &base(name).display().to_string()).unwrap();
    (trainable, expected)
}

#[test]
fn what_is_saved_here_has_the_layout_of_peft() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let (trainable, expected) = ours(name, folder.path());
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files: BTreeSet<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, ["adapter_config.json", "adapter_model.safetensors"].map(Into::into).into());
        // PEFT fills in what is not there, and warns of keys that it does not know.
        let (found, wanted) = (config(folder.path()), config(&saved(name)));
        for (key, value) in found.as_object().unwrap() {
            let peft = wanted.get(key).unwrap_or_else(|| panic!("{name}: PEFT has no key `{key}`"));
            match key.as_str() {
                // PEFT's order is that of a set, and it adds names that a head may have.
                "target_modules" | "modules_to_save" => {
                    let names = |value: &Value| -> BTreeSet<String> {
                        let names = value.as_array().into_iter().flatten();
                        names.map(|name| name.as_str().unwrap().to_owned()).collect()
                    };
                    assert!(names(value).is_subset(&names(peft)), "{name}: {key} {value}, in PEFT {peft}");
                }
                "base_model_name_or_path" => {}
                _ if value.is_number() => assert_eq!(value.as_f64(), peft.as_f64(), "{name}: {key}"),
                _ => assert_eq!(value, peft, "{name}: {key}"),
            }
        }
        let shapes = |folder: &Path| -> BTreeMap<String, Vec<usize>> {
            tensors(folder).into_iter().map(|(name, tensor)| (name, tensor.dims().to_vec())).collect()
        };
        assert_eq!(shapes(folder.path()), shapes(&saved(name)), "{name}");
        let model = load(name, Some(folder.path().to_owned()));
        let ids = &expected.sequence.ids;
        let (loaded, trained) = (outputs(&model, ids), outputs(&trainable.model, ids));
        close(name, &loaded.concat(), &trained.concat());
    }
}

/// Needs `GRADUS_PEFT_PYTHON`.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn what_is_saved_here_is_loaded_by_peft() {
    let Some(python) = std::env::var_os("GRADUS_PEFT_PYTHON") else {
        eprintln!("skipped: GRADUS_PEFT_PYTHON names no Python with peft");
        return;
    };
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let (trainable, expected) = ours(name, folder.path());
        let ids: Vec<String> = expected.sequence.ids.iter().map(u32::to_string).collect();
        let done = Command::new(&python)
            .arg("peft_roundtrip.py")
            .current_dir(reference())
            .args(["logits", "--ids", &ids.join(",")])
            .arg("--model")
            .arg(base(name))
            .arg("--adapter")
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8(done.stdout).unwrap();
        let said: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let wanted: Vec<Vec<f32>> = serde_json::from_value(said["logits"].clone()).unwrap();
        close(
            &format!("{name} in PEFT"),
            &outputs(&trainable.model, &expected.sequence.ids).concat(),
            &wanted.concat(),
        );
        assert!(said["greatest_change"].as_f64().unwrap() > 0.05, "{name}: {said}");
    }
}
