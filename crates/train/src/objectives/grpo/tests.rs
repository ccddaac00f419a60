//! The policy that is trained is the one that samples: softmax(logits / temperature), in value and in gradient.

use std::path::Path;

use candle_core::{Device, Tensor};
use gradus_engine::batch::{Batch, Forest};
use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Precision};

use super::group::{Critique, Group};
use super::*;
use crate::critic::TruthSource;
use crate::example::{Example, pack};
use crate::parameters::Gradients;
use crate::trainable::{TrainableOptions, Tuning};

const PROMPT: [u32; 5] = [11, 7, 42, 3, 19];
const CRITIQUES: [&[u32]; 2] = [&[5, 23, 8, 61], &[5, 30, 2]];

fn trainable() -> TrainableModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models/qwen2");
    let options = LoadOptions {
        device: gradus_engine::Device::Cpu,
        precision: Some(Precision::F32),
        dequantize: Some(true),
        adapter: None,
    };
    let model = Model::load(&ModelPath::Folder(folder), &options).unwrap();
    let options = TrainableOptions {
        tuning: Tuning::Full,
        precision: Precision::F32,
        quantized: false,
        activation_bytes: 1 << 30,
        seed: 1,
    };
    TrainableModel::new(model, options).unwrap()
}

fn rollouts(temperature: f64) -> Rollouts {
    let about = CriticExample {
        critic: 1,
        problem_id: "p".into(),
        problem: "p".into(),
        solution_id: "s".into(),
        generator: None,
        steps: vec!["a".into()],
        truth: None,
        perplexity: None,
        source: TruthSource::Labels,
    };
    let critique = |tokens: &[u32]| {
        let parsed = critic::parse("", 1);
        let reward = critic::reward(&parsed, None, &about.steps);
        Critique { tokens: tokens.to_vec(), parsed, reward, advantage: 0.0 }
    };
    let critiques = CRITIQUES.into_iter().map(critique).collect();
    let group = Group { about: &about, prompt: PROMPT.to_vec(), critiques, flat: false };
    Rollouts::new(&[group], &GrpoConfig { temperature, ..GrpoConfig::default() }, 512)
}

/// Each critique alone, without the code under test: log softmax of logits / temperature.
fn direct(trainable: &TrainableModel, temperature: f64) -> Vec<Vec<f64>> {
    let alone = |critique: &[u32]| {
        let mut batch = Batch::default();
        batch.add(&Forest::sequence([&PROMPT, critique].concat()));
        let hidden = trainable.hidden(&batch).unwrap();
        let logits = trainable.model.decoder().unwrap().logits(&hidden, None).unwrap();
        let logits: Vec<Vec<f32>> = logits.to_vec2().unwrap();
        let logprob = |(offset, token): (usize, &u32)| {
            let row: Vec<f64> = logits[PROMPT.len() - 1 + offset]
                .iter()
                .map(|logit| f64::from(*logit) / temperature)
                .collect();
            row[*token as usize] - row.iter().map(|logit| logit.exp()).sum::<f64>().ln()
        };
        critique.iter().enumerate().map(logprob).collect()
    };
    CRITIQUES.into_iter().map(alone).collect()
}

#[test]
fn log_probabilities_are_at_the_sampling_temperature() {
    let trainable = trainable();
    for temperature in [1.0, 2.0, 0.5] {
        let found = rollouts(temperature).logprobs(&trainable).unwrap();
        let wanted = direct(&trainable, temperature);
        for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
            assert!((f64::from(*found) - wanted).abs() < 1e-4, "at {temperature}: {found}, not {wanted}");
        }
    }
}

/// Finite differences of Σ c · log p along the largest gradient of each parameter.
#[test]
fn gradients_are_at_the_sampling_temperature() {
    let (mut trainable, rollouts) = (trainable(), rollouts(2.0));
    let weights = [[0.7_f32, -1.1, 0.4, 1.3].as_slice(), &[0.9, -0.6, 1.2]];
    let examples: Vec<&Example<u32>> = rollouts.examples.iter().collect();
    let pass = &pack(&examples, 512)[0];
    let mut gradients = Gradients::new(&trainable.parameters);
    rollouts.backward_pass(&mut trainable, pass, &weights.concat(), 0, &mut gradients).unwrap();
    let ids: Vec<_> = trainable.parameters.ids().collect();
    for (index, id) in ids.into_iter().enumerate() {
        let numbers: Vec<f32> = gradients.get(id).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let largest = numbers.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        let (at, gradient) = largest.unwrap();
        if gradient.abs() < 0.02 {
            continue;
        }
        let mut moved = |by: f32| -> f64 {
            let mut values: Vec<Tensor> = trainable.parameters.iter().map(|p| p.value.clone()).collect();
            let one: Vec<f32> = (0..numbers.len()).map(|entry| if entry == at { by } else { 0.0 }).collect();
            let one = Tensor::from_vec(one, values[index].shape(), &Device::Cpu).unwrap();
            values[index] = (&values[index] + one).unwrap();
            let before = trainable.replace_values(&values).unwrap();
            let logprobs = direct(&trainable, 2.0).concat();
            trainable.replace_values(&before).unwrap();
            logprobs.iter().zip(weights.concat()).map(|(value, weight)| value * f64::from(weight)).sum()
        };
        let difference = (moved(2e-3) - moved(-2e-3)) / 4e-3;
        let off = (difference - f64::from(*gradient)).abs() / f64::from(gradient.abs());
        assert!(off < 0.05, "parameter {index}: finite difference {difference}, gradient {gradient}");
    }
}
