//! Training teaches: SmolLM2-135M on the synthetic world, on a CPU, from fixed seeds.
//!
//! Minutes each, so they are run by `make test-train` alone. They need `gradus models pull smollm2-135m`.

#![expect(clippy::print_stderr, reason = "long tests show how far they are, and say when they are skipped")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_core::contracts::{ScoreRequest, ScoreSteps};
use gradus_core::{Mark, Record};
use gradus_engine::profile::Profile;
use gradus_engine::{Device, Engine, LoadOptions, Model, Precision, ServiceOptions, models};
use gradus_synth::{ErrorKind, Family, Style, SynthConfig};
use gradus_train::run::Recipe;
use gradus_train::{MetricValues, StepProgress, TrainingObserver, TrainingStart};

const BASE: &str = "smollm2-135m";
/// The right steps' label and the wrong ones', where labels are soft.
const SOFT: (f64, f64) = (0.9, 0.15);

/// Writes down evaluations.
struct Notes {
    begun: Instant,
    evaluations: Vec<MetricValues>,
}

impl TrainingObserver for Notes {
    fn on_start(&mut self, _: &TrainingStart) {}

    fn on_step(&mut self, progress: &StepProgress) {
        if progress.step.is_multiple_of(10) {
            self.show(progress.step, &progress.metrics);
        }
    }

    fn on_evaluation(&mut self, step: u64, numbers: &MetricValues) {
        self.show(step, numbers);
        self.evaluations.push(numbers.clone());
    }

    fn on_checkpoint(&mut self, _: u64, _: bool) {}
}

impl Notes {
    fn show(&self, step: u64, numbers: &MetricValues) {
        let numbers: Vec<String> = numbers.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        eprintln!("{:4.0} s  step {step}: {}", self.begun.elapsed().as_secs_f64(), numbers.join(", "));
    }
}

/// A folder with data and runs; none where the model is not there.
struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Option<Self> {
        if let Err(error) = models::resolve(BASE) {
            eprintln!("skipped: {error}");
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, records: &[Record]) {
        let lines: Vec<String> =
            records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
        std::fs::write(self.path(name), lines.concat()).unwrap();
    }

    /// Trains on `train.jsonl` and returns the evaluations; the result is in `NAME/adapter`.
    fn train(&self, name: &str, objective: &str, settings: &str) -> Vec<MetricValues> {
        let folder = self.0.path().display();
        let text = format!(
            r#"
objective = "{objective}"
model = {{ base = "{BASE}", precision = "bf16" }}
lora = {{ rank = 16, alpha = 32, dropout = 0.0, targets = ["all-linear"] }}
batch = {{ tokens = 2048, examples = 16 }}
data = {{ train = ["{folder}/train.jsonl"], eval = ["{folder}/eval.jsonl"], max_tokens = 512 }}
optimizer = {{ learning_rate = 1e-3, schedule = "constant" }}
steps = {{ total = 1, checkpoint_every = 1000 }}
"#
        );
        let sets: Vec<String> = settings.split_whitespace().map(str::to_owned).collect();
        let path = self.path("recipe.toml");
        std::fs::write(&path, text).unwrap();
        let recipe = Recipe::read(&path, &sets).unwrap();
        let mut notes = Notes { begun: Instant::now(), evaluations: Vec::new() };
        eprintln!("{name}");
        gradus_train::train(&recipe, &self.path(name), Vec::new(), &mut notes).unwrap();
        notes.evaluations
    }
}

fn number(numbers: &MetricValues, wanted: &str) -> f64 {
    numbers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).unwrap_or(0.0)
}

/// Easy problems of one family.
fn world(family: Family, problems: usize, solutions: usize, wrong: f64, seed: u64) -> Vec<Record> {
    let config = SynthConfig {
        seed,
        problems,
        solutions_per_problem: solutions,
        wrong_share: wrong,
        families: vec![family],
        styles: vec![Style::Equations],
        errors: vec![ErrorKind::MisreadGiven, ErrorKind::WrongOperand],
        difficulty: (1, 1),
        propagate: 0.7,
    };
    gradus_synth::generate(&config).collect()
}

/// Gives every label a value.
fn soften(records: &mut [Record]) {
    let solutions = records.iter_mut().flat_map(|record| &mut record.solutions);
    let labels = solutions.flat_map(|solution| &mut solution.annotations);
    for label in labels.flat_map(|annotation| annotation.labels.iter_mut().flatten()) {
        label.value = Some(if label.mark == Mark::Incorrect { SOFT.1 } else { SOFT.0 });
    }
}

/// The mean scores of right and of wrong steps, by the engine with the adapter.
fn mean_scores(records: &[Record], adapter: &Path) -> (f64, f64) {
    let options = LoadOptions {
        device: Device::Cpu,
        precision: Some(Precision::Bf16),
        dequantize: None,
        adapter: Some(adapter.to_owned()),
    };
    let model = Model::load(&models::resolve(BASE).unwrap(), &options).unwrap();
    let profile = Profile::find("brief").unwrap();
    let engine = Engine::start(model, Some(profile), ServiceOptions::default()).unwrap();
    let solutions =
        || records.iter().flat_map(|record| record.solutions.iter().map(move |solution| (record, solution)));
    let requests =
        solutions().map(|(record, solution)| ScoreRequest::of(&record.problem, solution)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let scores = runtime.block_on(engine.score_steps(requests)).unwrap();
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for ((_, solution), scores) in solutions().zip(scores) {
        let scores = scores.unwrap().scores;
        for (step, label) in solution.annotations[0].training_targets(None) {
            if label.mark == Mark::Incorrect { wrong.push(scores[step]) } else { right.push(scores[step]) }
        }
    }
    let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
    (mean(&right), mean(&wrong))
}

/// What both reward models have in common.
const PRM: &str =
    "prm.profile=brief batch.examples=8 steps.total=100 steps.eval_every=25 steps.checkpoint_every=25";

#[test]
#[ignore = "minutes: make test-train"]
fn a_reward_model_finds_first_errors() {
    let Some(place) = Workshop::new() else { return };
    place.write("train.jsonl", &world(Family::Geometry, 480, 2, 0.5, 1));
    let held_out = world(Family::Geometry, 30, 2, 0.5, 2);
    place.write("eval.jsonl", &held_out);
    let found = place.train("hard", "prm", &format!("{PRM} steps.best={{metric=\"f1\",is=\"highest\"}}"));
    let f1 = found.iter().map(|numbers| number(numbers, "f1")).fold(0.0, f64::max);
    let (right, wrong) = mean_scores(&held_out, &place.path("hard/adapter"));
    eprintln!("first-error F1 {f1:.3}; right steps get {right:.3}, wrong steps {wrong:.3}");
    assert!(f1 >= 0.90, "first-error F1 is {f1:.3}");
}

/// Predictions approach the labels' values, not right and wrong.
#[test]
#[ignore = "minutes: make test-train"]
fn soft_labels_stay_soft() {
    let Some(place) = Workshop::new() else { return };
    let (mut train, mut held_out) =
        (world(Family::Geometry, 480, 2, 0.5, 1), world(Family::Geometry, 30, 2, 0.5, 2));
    soften(&mut train);
    soften(&mut held_out);
    place.write("train.jsonl", &train);
    place.write("eval.jsonl", &held_out);
    place.train("soft", "prm", &format!("{PRM} steps.total=140 prm.loss=squared_error"));
    let (right, wrong) = mean_scores(&held_out, &place.path("soft/adapter"));
    eprintln!("right steps get {right:.3}, wrong steps {wrong:.3}");
    assert!((right - SOFT.0).abs() < 0.08, "right steps get {right:.3}, their labels say {}", SOFT.0);
    assert!((wrong - SOFT.1).abs() < 0.1, "wrong steps get {wrong:.3}, their labels say {}", SOFT.1);
}

#[test]
#[ignore = "minutes: make test-train"]
fn supervised_training_raises_exact_match() {
    let Some(place) = Workshop::new() else { return };
    place.write("train.jsonl", &world(Family::Expression, 400, 1, 0.0, 1));
    place.write("eval.jsonl", &world(Family::Expression, 32, 1, 0.0, 2));
    let quiz = "sft.answer_problems=32 sft.answer_tokens=64";
    let before = place.train("base", "sft", &format!("optimizer.learning_rate=1e-12 {quiz}"));
    let after = place.train("sft", "sft", &format!("optimizer.learning_rate=5e-4 steps.total=24 {quiz}"));
    let [before, after] = [&before, &after].map(|numbers| number(numbers.last().unwrap(), "exact_match"));
    assert!(after >= before + 0.2, "exact match {before:.3} before, {after:.3} after");
}

#[test]
#[ignore = "minutes: make test-train"]
fn preferences_raise_the_odds_of_what_is_chosen() {
    let Some(place) = Workshop::new() else { return };
    place.write("train.jsonl", &world(Family::Expression, 500, 2, 0.5, 1));
    place.write("eval.jsonl", &world(Family::Expression, 48, 2, 0.5, 2));
    let settings = "orpo.lambda=0.5 orpo.answer_problems=32 orpo.answer_tokens=64";
    let before = place.train("base", "orpo", &format!("optimizer.learning_rate=1e-12 {settings}"));
    let after =
        place.train("orpo", "orpo", &format!("optimizer.learning_rate=5e-4 steps.total=16 {settings}"));
    let (before, after) = (before.last().unwrap(), after.last().unwrap());
    for rises in ["chosen_log_odds", "preference_accuracy"] {
        let (before, after) = (number(before, rises), number(after, rises));
        assert!(after > before, "{rises}: {before:.3} before, {after:.3} after");
    }
    let [before, after] = [before, after].map(|numbers| number(numbers, "exact_match"));
    assert!(after >= before, "exact match {before:.3} before, {after:.3} after");
}
