//! The policy that is trained is the one that samples: softmax(logits / temperature), in value and in gradient.
//! Inner epochs move away from it, and what they clip is counted.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use gradus_engine::batch::{Batch, Forest};
use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Precision};

use super::group::{Critique, Group};
use super::*;
use crate::critic::TruthSource;
use crate::data::LeftOut;
use crate::example::{Example, pack};
use crate::observer::{StepProgress, TrainingStart};
use crate::parameters::Gradients;
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::run::Recipe;
use crate::trainable::{TrainableOptions, Tuning};

const PROMPT: [u32; 5] = [11, 7, 42, 3, 19];
const CRITIQUES: [&[u32]; 2] = [&[5, 23, 8, 61], &[5, 30, 2]];

fn base() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models/qwen2")
}

fn trainable() -> TrainableModel {
    let options = LoadOptions {
        device: gradus_engine::Device::Cpu,
        precision: Some(Precision::F32),
        dequantize: Some(true),
        adapter: None,
    };
    let model = Model::load(&ModelPath::Folder(base()), &options).unwrap();
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
    rollouts_with([0.0, 0.0], &GrpoConfig { temperature, ..GrpoConfig::default() })
}

fn rollouts_with(advantages: [f64; 2], config: &GrpoConfig) -> Rollouts {
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
    let critique = |(tokens, advantage): (&[u32], f64)| {
        let parsed = critic::parse("", 1);
        let reward = critic::reward(&parsed, None, &about.steps);
        Critique { tokens: tokens.to_vec(), parsed, reward, advantage }
    };
    let critiques = CRITIQUES.into_iter().zip(advantages).map(critique).collect();
    let group = Group { about: &about, prompt: PROMPT.to_vec(), critiques, flat: false };
    Rollouts::new(&[group], config, 512)
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

/// The metrics of the last step.
#[derive(Default)]
struct LastStep(MetricValues);

impl TrainingObserver for LastStep {
    fn on_start(&mut self, _: &TrainingStart) {}

    fn on_step(&mut self, progress: &StepProgress) {
        self.0.clone_from(&progress.metrics);
    }

    fn on_evaluation(&mut self, _: u64, _: &MetricValues) {}

    fn on_checkpoint(&mut self, _: u64, _: bool) {}
}

/// In the first inner epoch every ratio is 1: only the later ones can clip.
#[test]
fn what_inner_epochs_clip_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("train.jsonl");
    std::fs::write(&data, "").unwrap();
    let clip_share = |inner_epochs: usize| {
        let text = format!(
            "objective = 'grpo'\nfull = {{}}\nmodel = {{ base = '{}', precision = 'f32' }}\n\
             data.train = ['{}']\noptimizer = {{ learning_rate = 0.05, schedule = 'constant' }}\n\
             steps.total = 1\ngrpo = {{ inner_epochs = {inner_epochs}, kl = 0.0, max_new_tokens = 8 }}",
            base().display(),
            data.display()
        );
        let recipe = Recipe::parse(&text, "recipe", &[]).unwrap();
        let crate::run::Objective::Grpo(config) = &recipe.objective else { panic!("{text}") };
        let run = root.path().join(format!("run-{inner_epochs}"));
        let folder = RunFolder::find(&recipe, &run, Vec::new()).unwrap();
        let prepared = PreparedRecipe::new(&recipe).unwrap();
        let examples = ExampleSets { train: vec![()], held_out: Vec::new(), left_out: LeftOut::default() };
        let mut last = LastStep::default();
        let mut session = Session::start(prepared, folder, &examples, &mut last).unwrap();
        learn(&mut session, config, &rollouts_with([1.0, -1.0], config), None, Vec::new()).unwrap();
        drop(session);
        last.0.iter().find(|(name, _)| *name == "clip_share").unwrap().1
    };
    assert_eq!(clip_share(1), 0.0);
    assert!(clip_share(3) > 0.0);
}
