//! The backward pass against PyTorch: every architecture option, LoRA, full fine-tuning, heads, packing and trees, QLoRA.
//!
//! Values are in `tests/reference/gradients/`, made by `make_gradients.py`. In f32 gradients agree to 1e-4 of a tensor's
//! largest entry. `GRADUS_TEST_DEVICE=cuda-f32` runs the same on a GPU, `cuda` in bf16 with looser bounds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use gradus_engine::batch::{Batch, Forest};
use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Precision};
use serde::Deserialize;

use crate::lora::LoraConfig;
use crate::losses::{self, Loss};
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::trainable::{TrainableModel, TrainableOptions, Tuning};

#[derive(Deserialize)]
struct Index {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    file: String,
    model: String,
    lora: Option<LoraSettings>,
    loss: Expected,
    #[serde(default)]
    answer_tokens: Vec<u32>,
    sequences: Vec<Sequence>,
}

#[derive(Deserialize)]
struct LoraSettings {
    r: usize,
    alpha: f64,
    rslora: bool,
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Expected {
    kind: String,
    value: f64,
}

#[derive(Deserialize)]
struct Sequence {
    ids: Vec<u32>,
    positions: Vec<usize>,
    targets: Vec<f64>,
}

/// How a case's sequences go through the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Packing {
    /// One after another, in passes of their own.
    Apart,
    /// In one pass, none seeing another.
    Together,
    /// In one pass, with shared beginnings processed once.
    Tree,
}

fn device() -> String {
    std::env::var("GRADUS_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned())
}

/// A folder of the repository; a test binary that was carried to another machine is run in the repository's root.
fn folder(path: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if here.exists() { here } else { PathBuf::from(path) }
}

fn cases(prefix: &str) -> Vec<Case> {
    let path = folder("crates/train/tests/reference/gradients.json");
    let index: Index = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases: Vec<Case> = index.cases.into_iter().filter(|case| case.name.starts_with(prefix)).collect();
    assert!(!cases.is_empty(), "no case is called {prefix}…");
    cases
}

fn trainable(case: &Case, quantized: bool, activation_bytes: usize) -> TrainableModel {
    with_dropout(case, quantized, activation_bytes, 0.0)
}

fn with_dropout(case: &Case, quantized: bool, activation_bytes: usize, dropout: f64) -> TrainableModel {
    let path = folder("crates/engine/tests/reference").join(&case.model);
    let path = if path.is_dir() { ModelPath::Folder(path) } else { ModelPath::Gguf(path) };
    let (device, precision) = match device().as_str() {
        "cpu" => (gradus_engine::Device::Cpu, Some(Precision::F32)),
        "cuda-f32" => (gradus_engine::Device::Cuda(0), Some(Precision::F32)),
        _ => (gradus_engine::Device::Cuda(0), None),
    };
    let options = LoadOptions { device, precision, dequantize: Some(!quantized), adapter: None };
    let model = Model::load(&path, &options).unwrap();
    let tuning = match &case.lora {
        None => Tuning::Full,
        Some(lora) => Tuning::Lora(LoraConfig {
            rank: lora.r,
            alpha: lora.alpha,
            dropout,
            targets: lora.targets.clone(),
            rslora: lora.rslora,
            ..LoraConfig::default()
        }),
    };
    let options =
        TrainableOptions { tuning, precision: Precision::F32, quantized, activation_bytes, seed: 1 };
    let mut trainable = TrainableModel::new(model, options).unwrap();
    if case.name.starts_with("head-") {
        let head = trainable.model.head_mut().unwrap().take().expect("the model has a head");
        trainable.train_head(head).unwrap();
    }
    trainable
}

fn tensors(case: &Case) -> HashMap<String, Tensor> {
    let path = folder("crates/train/tests/reference").join(&case.file);
    candle_core::safetensors::load(path, &Device::Cpu).unwrap()
}

/// `layers.0.self_attn.q_proj.lora_A.weight` → `layers.0.self_attn.q_proj.A`; others as they are in the file.
fn reference_name(parameter: &str) -> String {
    if let Some((module, rest)) = parameter.split_once(".lora_") {
        return format!("{module}.{}", &rest[..1]);
    }
    let outside = ["lm_head.", "score.", "v_head."].iter().any(|prefix| parameter.starts_with(prefix));
    if outside { parameter.to_owned() } else { format!("model.{parameter}") }
}

fn check(case: &Case, packing: Packing, quantized: bool, activation_bytes: usize) {
    let what = format!("{} {packing:?} quantized {quantized} kept {activation_bytes}", case.name);
    let expected = tensors(case);
    let mut trainable = trainable(case, quantized, activation_bytes);
    for parameter in trainable.parameters.iter_mut() {
        if parameter.name.contains(".lora_") {
            let start = &expected[&format!("lora.{}", reference_name(&parameter.name))];
            parameter.value = start.to_device(parameter.value.device()).unwrap();
        }
    }
    trainable.refresh().unwrap();
    let mut gradients = Gradients::new(&trainable.parameters);
    let total: usize = case.sequences.iter().map(|sequence| sequence.positions.len()).sum();
    let mut value = 0.0;
    let groups: Vec<Vec<&Sequence>> = match packing {
        Packing::Apart => case.sequences.iter().map(|sequence| vec![sequence]).collect(),
        Packing::Together | Packing::Tree => vec![case.sequences.iter().collect()],
    };
    for group in groups {
        let (mut batch, mut rows, mut targets) = (Batch::default(), Vec::new(), Vec::new());
        let mut forest = Forest::default();
        let mut places = Vec::new();
        for sequence in group {
            if packing == Packing::Tree {
                let path = forest.insert(&sequence.ids);
                places.extend(sequence.positions.iter().map(|position| path.locate(*position)));
            } else {
                let start = batch.add(&Forest::sequence(sequence.ids.clone()))[0];
                rows.extend(sequence.positions.iter().map(|position| start + position));
            }
            targets.extend(&sequence.targets);
        }
        if packing == Packing::Tree {
            let starts = batch.add(&forest);
            rows = places.into_iter().map(|(node, offset)| starts[node] + offset).collect();
        }
        let tape = trainable.forward(&batch, Some(3)).unwrap();
        let hidden = select(&tape.hidden, &rows).unwrap();
        let weight = rows.len() as f64 / total as f64;
        let (loss, d_rows) = loss(case, &mut trainable, &hidden, &targets, weight, &mut gradients);
        value += loss * weight;
        let d_hidden = scatter(&tape.hidden, &rows, &d_rows).unwrap();
        let d_embeddings = trainable.backward(tape, &d_hidden, &mut gradients).unwrap();
        if let ([_], Some(wanted)) = (&case.sequences[..], expected.get("grad.embeddings.0")) {
            close(&format!("{what}: embeddings"), &d_embeddings, wanted);
        }
    }
    let bound = if device() == "cuda" { 0.3 } else { 1e-4 };
    assert!(
        (value - case.loss.value).abs() < bound * value.abs().max(1.0),
        "{what}: loss {value}, expected {}",
        case.loss.value
    );
    let mut compared = 0;
    for (id, parameter) in trainable.parameters.ids().zip(trainable.parameters.iter()) {
        let name = reference_name(&parameter.name);
        let wanted =
            expected.get(&format!("grad.{name}")).unwrap_or_else(|| panic!("{what}: no gradient of {name}"));
        let found = gradients.get(id).unwrap_or_else(|| panic!("{what}: {name} got no gradient"));
        close(&format!("{what}: {name}"), found, wanted);
        compared += 1;
    }
    let all =
        expected.keys().filter(|name| name.starts_with("grad.") && !name.contains("embeddings.")).count();
    assert_eq!(compared, all, "{what}: gradients compared");
}

/// Entries differ by at most 1e-4 of the largest.
fn close(what: &str, found: &Tensor, wanted: &Tensor) {
    let numbers = |tensor: &Tensor| -> Vec<f32> {
        tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    };
    let (found, wanted) = (numbers(found), numbers(wanted));
    assert_eq!(found.len(), wanted.len(), "{what}");
    let scale = wanted.iter().fold(1e-6, |scale: f32, number| scale.max(number.abs()));
    // In bf16 single entries of such small models are off by much; their direction is what must hold.
    if device() == "cuda" {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let cosine = dot(&found, &wanted) / (dot(&found, &found) * dot(&wanted, &wanted)).sqrt().max(1e-30);
        assert!(cosine > 0.9, "{what}: cosine {cosine}");
        return;
    }
    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        let off = (found - wanted).abs() / scale;
        assert!(off < 1e-4, "{what}: entry {at} is {found}, expected {wanted} (largest {scale})");
    }
}

/// The mean loss of the rows, and `weight` times its gradient.
fn loss(
    case: &Case,
    trainable: &mut TrainableModel,
    hidden: &Tensor,
    targets: &[f64],
    weight: f64,
    gradients: &mut Gradients,
) -> (f64, Tensor) {
    let soft: Vec<f32> = targets.iter().map(|target| *target as f32).collect();
    let hard: Vec<usize> = targets.iter().map(|target| *target as usize).collect();
    let scaled =
        |gradient: &[f32]| -> Vec<f32> { gradient.iter().map(|d| (f64::from(*d) * weight) as f32).collect() };
    match case.loss.kind.as_str() {
        "next_token" => {
            let targets: Vec<u32> = hard.iter().map(|target| *target as u32).collect();
            let logprobs = trainable.token_logprobs(hidden, &targets, targets.len() < 20).unwrap();
            let Loss { value, gradient } =
                losses::negative_log_likelihood(&logprobs.values, &vec![1.0; targets.len()]);
            let d_rows =
                trainable.token_logprobs_backward(hidden, logprobs, &scaled(&gradient), gradients).unwrap();
            (value, d_rows)
        }
        kind if kind.starts_with("two_token_") => {
            let logits = trainable.selected_logits(hidden, &case.answer_tokens).unwrap();
            let Loss { value, gradient } = match kind {
                "two_token_cross_entropy" => losses::cross_entropy(&logits, 2, &hard),
                "two_token_squared_error" => losses::squared_error_of_probability(&logits, 2, 0, &soft),
                _ => {
                    // Two logits are as good as their difference.
                    let gaps: Vec<f32> = logits.chunks_exact(2).map(|pair| pair[0] - pair[1]).collect();
                    let Loss { value, gradient } = losses::binary_cross_entropy(&gaps, &soft);
                    Loss { value, gradient: gradient.iter().flat_map(|d| [*d, -d]).collect() }
                }
            };
            let tokens = &case.answer_tokens;
            (
                value,
                trainable.selected_logits_backward(hidden, tokens, &scaled(&gradient), gradients).unwrap(),
            )
        }
        kind => {
            let (outputs, values) = trainable.head_outputs(hidden).unwrap();
            let Loss { value, gradient } = match kind {
                "class_cross_entropy" => losses::cross_entropy(&values, outputs, &hard),
                "class_squared_error" => losses::squared_error_of_probability(&values, outputs, 1, &soft),
                "value_cross_entropy" => losses::binary_cross_entropy(&values, &soft),
                "value_squared_error" => losses::squared_error_of_sigmoid(&values, &soft),
                other => panic!("unknown loss {other}"),
            };
            (value, trainable.head_backward(hidden, &scaled(&gradient), gradients).unwrap())
        }
    }
}

const ALL: usize = usize::MAX;

#[test]
fn lora_on_every_architecture() {
    for case in cases("lora-") {
        check(&case, Packing::Apart, false, ALL);
    }
}

#[test]
fn layers_computed_again_give_the_same() {
    for case in cases("lora-").iter().take(1).chain(&cases("lora-qwen3")) {
        check(case, Packing::Apart, false, 0);
        check(case, Packing::Apart, false, 40_000);
    }
}

#[test]
fn a_quantized_base() {
    for case in cases("qlora-") {
        check(&case, Packing::Apart, true, ALL);
        check(&case, Packing::Apart, false, ALL);
    }
}

#[test]
fn whole_models() {
    for case in cases("full-") {
        check(&case, Packing::Apart, false, ALL);
    }
}

#[test]
fn heads() {
    for case in cases("head-") {
        check(&case, Packing::Apart, false, ALL);
    }
}

#[test]
fn packed_is_the_same_as_apart() {
    for case in cases("packed-") {
        check(&case, Packing::Apart, false, ALL);
        check(&case, Packing::Together, false, ALL);
        check(&case, Packing::Tree, false, ALL);
    }
}

#[test]
fn a_tree_is_the_same_as_apart() {
    for case in cases("tree-") {
        check(&case, Packing::Apart, false, ALL);
        check(&case, Packing::Together, false, ALL);
        check(&case, Packing::Tree, false, ALL);
    }
}

/// The mean loss of a case's first sequence with dropout, and its gradients.
fn dropped_loss(trainable: &mut TrainableModel, ids: &[u32]) -> (f64, Gradients) {
    let mut gradients = Gradients::new(&trainable.parameters);
    let mut batch = Batch::default();
    batch.add(&Forest::sequence(ids.to_vec()));
    let tape = trainable.forward(&batch, Some(5)).unwrap();
    let rows: Vec<usize> = (0..ids.len() - 1).collect();
    let hidden = select(&tape.hidden, &rows).unwrap();
    let logprobs = trainable.token_logprobs(&hidden, &ids[1..], true).unwrap();
    let Loss { value, gradient } = losses::negative_log_likelihood(&logprobs.values, &vec![1.0; rows.len()]);
    let d_rows = trainable.token_logprobs_backward(&hidden, logprobs, &gradient, &mut gradients).unwrap();
    let d_hidden = scatter(&tape.hidden, &rows, &d_rows).unwrap();
    trainable.backward(tape, &d_hidden, &mut gradients).unwrap();
    (value, gradients)
}

/// Finite differences of the loss along single weights, dropout included, whose masks no other program has.
#[test]
fn finite_differences() {
    if device() != "cpu" {
        return;
    }
    for case in cases("lora-qwen3").iter().chain(&cases("lora-mistral")) {
        let expected = tensors(case);
        let mut trainable = with_dropout(case, false, ALL, 0.3);
        for parameter in trainable.parameters.iter_mut() {
            parameter.value = expected[&format!("lora.{}", reference_name(&parameter.name))].clone();
        }
        trainable.refresh().unwrap();
        let ids = &case.sequences[0].ids;
        let (_, gradients) = dropped_loss(&mut trainable, ids);
        let ids_of: Vec<_> = trainable.parameters.ids().collect();
        for (index, id) in ids_of.into_iter().enumerate() {
            let numbers: Vec<f32> = gradients.get(id).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            // The largest gradient of each tensor: the one that rounding disturbs least.
            let (at, gradient) =
                numbers.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap();
            let moved = |trainable: &mut TrainableModel, by: f32| {
                let parameter = trainable.parameters.iter_mut().nth(index).unwrap();
                let before = parameter.value.clone();
                let mut values: Vec<f32> = before.flatten_all().unwrap().to_vec1().unwrap();
                values[at] += by;
                parameter.value = Tensor::from_vec(values, before.shape(), &Device::Cpu).unwrap();
                trainable.refresh().unwrap();
                let (value, _) = dropped_loss(trainable, ids);
                trainable.parameters.iter_mut().nth(index).unwrap().value = before;
                value
            };
            let difference = (moved(&mut trainable, 2e-3) - moved(&mut trainable, -2e-3)) / 4e-3;
            let off = (difference - f64::from(*gradient)).abs() / f64::from(gradient.abs()).max(0.02);
            assert!(
                off < 0.05,
                "{} parameter {index}: finite difference {difference}, gradient {gradient}",
                case.name
            );
        }
    }
}
