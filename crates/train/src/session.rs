//! One training run from its recipe to its result: what every objective's loop leans on.
//!
//! A loop asks for a batch, adds up gradients, hands them in, evaluates and saves when told to:
//!
//! ```text
//! while let Some(chosen) = session.next_batch() {
//!     …                                             forward, loss, backward
//!     session.update(gradients, numbers)?;
//!     if session.should_evaluate() { session.record_evaluation(…)?; }
//!     session.save_if_due()?;
//! }
//! ```

use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{Device, Tensor};
use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model, Precision, models};
use rand::Rng as _;
use serde_json::json;

use crate::data::LeftOut;
use crate::example::Packed;
use crate::objectives;
use crate::parameters::{AdamW, Gradients};
use crate::run::card::{self, Card};
use crate::run::order::{self, Order};
use crate::run::recipe::{self, Objective, Recipe, Tuning};
use crate::run::schedule::learning_rate;
use crate::run::{Checkpoint, Input, Line, Run, Setting, Tensors, folder, metrics, tensorboard};
use crate::trainee::{Method, Trainee, TraineeOptions};
use crate::{Error, Result, adapter, whole};

/// Examples, and what could not be one.
pub(crate) type Examples<T> = (Vec<T>, LeftOut);

/// Named numbers about a step or an evaluation.
pub type Numbers = Vec<(&'static str, f64)>;

/// Bytes for what layers compute on the way, before they are computed twice instead.
const ACTIVATIONS_ON_CPU: usize = 4 << 30;
const ACTIVATIONS_ON_GPU: usize = 16 << 30;

/// What a run starts with.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    /// Examples to train on.
    pub examples: usize,
    /// Examples to evaluate on.
    pub held_out: usize,
    /// What could not be used, by reason.
    pub left_out: LeftOut,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Steps of the whole run.
    pub steps: u64,
    /// Steps that an earlier process did.
    pub done: u64,
    /// What people should know about a resumed run.
    pub warnings: Vec<String>,
}

/// One step as it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Steps done, of how many.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Epochs of the data so far.
    pub epoch: f64,
    /// What was measured.
    pub numbers: Numbers,
}

/// Somebody who watches a run, and may end it early.
pub trait Watch {
    /// The data is read and the model is ready.
    fn begins(&mut self, beginning: &Beginning);
    /// A step ended.
    fn steps(&mut self, progress: &Progress);
    /// The model was evaluated after a step.
    fn evaluates(&mut self, step: u64, numbers: &Numbers);
    /// A checkpoint is safe; whether it is the best so far.
    fn saves(&mut self, step: u64, best: bool);
    /// Whether the run should stop after the step in hand; it can be resumed.
    fn wants_to_stop(&self) -> bool {
        false
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// Steps done.
    pub step: u64,
    /// Whether all were.
    pub complete: bool,
    /// The adapter's or model's folder, when the run is complete.
    pub result: Option<PathBuf>,
    /// The step whose parameters the result has.
    pub best: u64,
}

/// A run in progress.
pub struct Session<'a> {
    /// What is done.
    pub recipe: Recipe,
    /// What is trained.
    pub trainee: Trainee,
    folder: PathBuf,
    command: Vec<String>,
    /// Made when the model is loaded and the data is read: what cannot be trained leaves no folder behind.
    run: Option<Run>,
    order: Option<Order>,
    checkpoint: Option<Checkpoint>,
    warnings: Vec<String>,
    /// Counts for the model card.
    counts: Vec<(String, u64)>,
    step: u64,
    saved: u64,
    tokens: usize,
    since: Instant,
    watch: &'a mut dyn Watch,
}

/// Runs a recipe in `folder`, or goes on where an earlier process stopped.
pub fn train(recipe: &Recipe, folder: &Path, command: Vec<String>, watch: &mut dyn Watch) -> Result<Ending> {
    let (run, checkpoint, warnings) = if folder::exists(folder) {
        let resumed = Run::resume(folder)?;
        resumed.run.follows(recipe)?;
        (Some(resumed.run), resumed.checkpoint, resumed.warnings)
    } else {
        (None, None, Vec::new())
    };
    let trainee = trainee(recipe)?;
    let mut session = Session {
        recipe: recipe.clone(),
        trainee,
        folder: folder.to_owned(),
        command,
        run,
        order: None,
        checkpoint,
        warnings,
        counts: Vec::new(),
        step: 0,
        saved: 0,
        tokens: 0,
        since: Instant::now(),
        watch,
    };
    match &recipe.objective {
        Objective::Sft(settings) => objectives::sft::train(&mut session, settings)?,
        Objective::Prm(settings) => objectives::prm::train(&mut session, settings)?,
        Objective::Orm(settings) => objectives::orm::train(&mut session, settings)?,
        Objective::Orpo(settings) => objectives::orpo::train(&mut session, settings)?,
        Objective::Grpo(settings) => objectives::grpo::train(&mut session, settings)?,
    }
    session.end()
}

/// Loads the base model and prepares it for training.
fn trainee(recipe: &Recipe) -> Result<Trainee> {
    let device: gradus_engine::Device = recipe.model.device.parse().map_err(Error::Model)?;
    let precision = match recipe.model.precision {
        Some(recipe::Precision::F32) => Precision::F32,
        Some(recipe::Precision::Bf16) => Precision::Bf16,
        Some(recipe::Precision::Bf16x3) | None => Precision::Bf16x3,
    };
    let on_cpu = device == gradus_engine::Device::Cpu;
    let options = LoadOptions {
        device,
        // On a GPU activations are bf16 unless f32 is asked for.
        precision: if on_cpu { Some(precision) } else { recipe.model.precision.map(|_| precision) },
        dequantize: Some(!recipe.model.quantised),
        adapter: None,
    };
    let path = models::resolve(&recipe.model.base)?;
    if recipe.model.quantised && matches!(path, ModelPath::Folder(_)) {
        let message = "`quantised = true` in [model] has no effect: the base is not a GGUF file";
        return Err(Error::Model(message.to_owned()));
    }
    let model = Model::load(&path, &options)?;
    let method = match &recipe.tuning {
        Tuning::Lora(lora) => Method::Lora(lora.clone()),
        Tuning::Full(_) => Method::Whole,
    };
    let options = TraineeOptions {
        method,
        precision,
        quantised: recipe.model.quantised,
        activation_bytes: if on_cpu { ACTIVATIONS_ON_CPU } else { ACTIVATIONS_ON_GPU },
        seed: recipe.seed,
    };
    Trainee::new(model, options)
}

impl Session<'_> {
    /// The data is read: sets the order of examples, and takes an earlier process's checkpoint over.
    pub(crate) fn begin<T>(&mut self, train: &Examples<T>, held_out: &Examples<T>) -> Result<()> {
        let sets = [("train on", train), ("evaluate on", held_out)];
        for (purpose, (found, left_out)) in &sets[..if self.recipe.data.eval.is_empty() { 1 } else { 2 }] {
            if found.is_empty() {
                let reasons: Vec<String> =
                    left_out.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
                let message = format!("no example is left to {purpose}: {}", reasons.join(", "));
                return Err(Error::Data(message));
            }
        }
        let mut left_out = train.1.clone();
        left_out.join(&held_out.1);
        let (examples, held_out) = (train.0.len(), held_out.0.len());
        if let Some(folder) = &self.recipe.model.adapter {
            adapter::restore(folder, &mut self.trainee)?;
        }
        if self.run.is_none() {
            let setting = Setting {
                inputs: Input::of(&self.recipe)?,
                command: std::mem::take(&mut self.command),
                cpu: format!("{:?}", gradus_kernels::cpu::Level::current()),
            };
            self.run = Some(Run::create(&self.folder, &self.recipe, setting)?);
        }
        let order = Order::new(&self.recipe, examples);
        let steps = order.steps();
        self.order = Some(order);
        // Only the distance from the starting policy needs it.
        if matches!(&self.recipe.objective, Objective::Grpo(settings) if settings.kl > 0.0) {
            self.trainee.mark_start()?;
        }
        if let Some(checkpoint) = self.checkpoint.take() {
            self.restore(&checkpoint)?;
        }
        self.counts = vec![
            ("examples trained on".to_owned(), examples as u64),
            ("examples held out".to_owned(), held_out as u64),
        ];
        self.counts.extend(left_out.iter().map(|(reason, count)| (format!("left out: {reason}"), count)));
        self.watch.begins(&Beginning {
            examples,
            held_out,
            left_out,
            parameters: self.trainee.parameters.count(),
            steps,
            done: self.step,
            warnings: std::mem::take(&mut self.warnings),
        });
        self.since = Instant::now();
        Ok(())
    }

    fn run(&mut self) -> &mut Run {
        self.run.as_mut().expect("an objective begins its session before it trains")
    }

    fn order(&mut self) -> &mut Order {
        self.order.as_mut().expect("an objective begins its session before it trains")
    }

    /// Numbers of the examples of the next step; none when the run is over or should stop.
    pub(crate) fn next_batch(&mut self) -> Option<Vec<usize>> {
        if self.watch.wants_to_stop() {
            return None;
        }
        let step = self.step;
        Some(self.order().batch(step)).filter(|batch| !batch.is_empty())
    }

    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// What dropout drops in a pass of this step: the same again when the step is repeated.
    pub(crate) fn dropout_seed(&self, pass: usize) -> u64 {
        order::stream(self.recipe.seed, &format!("dropout {pass}"), self.step).next_u64()
    }

    /// Counts tokens that went through the model.
    pub(crate) fn count_tokens(&mut self, tokens: usize) {
        self.tokens += tokens;
    }

    /// Stops at a value that is no number: names the example it comes from, and saves what was learnt before it.
    pub(crate) fn check_finite<T, V: Copy + Into<f64>>(
        &mut self,
        pass: &Packed<'_, T>,
        values: &[V],
    ) -> Result<()> {
        let Some(at) = values.iter().position(|value| !(*value).into().is_finite()) else { return Ok(()) };
        let id = pass.owner(at).map_or("", |example| &example.id).to_owned();
        let message = "its prediction is not a number: is the learning rate too high, or the base damaged?";
        self.give_up(&id, message)
    }

    fn give_up(&mut self, id: &str, message: &str) -> Result<()> {
        self.save()?;
        Err(Error::Data(format!(
            "step {}, example `{id}`: {message} The run up to step {} is saved in {}",
            self.step + 1,
            self.step,
            self.folder.display()
        )))
    }

    /// Changes the weights by a step's gradients, and logs what was measured.
    pub(crate) fn update(&mut self, mut gradients: Gradients, mut numbers: Numbers) -> Result<()> {
        let optimiser = self.recipe.optimiser.clone();
        let norm = gradients.clip(optimiser.clip)?;
        if !norm.is_finite() {
            return self
                .give_up("all of this step", "the gradient is not a number: is the learning rate too high?");
        }
        let steps = self.order().steps();
        let rate = learning_rate(&optimiser, self.step, steps);
        self.step += 1;
        let changes = self.step as usize * self.changes_per_step();
        self.trainee.update(&gradients, rate, changes, &adam(&optimiser))?;
        let seconds = self.since.elapsed().as_secs_f64();
        let speed = self.tokens as f64 / seconds.max(1e-9);
        (self.tokens, self.since) = (0, Instant::now());
        numbers.extend([("learning_rate", rate), ("gradient_norm", norm), ("tokens_per_second", speed)]);
        numbers.extend(memory_gib().map(|gib| ("memory_gib", gib)));
        let line = Line::now(self.step, "train", numbers.iter().copied());
        self.run().log(&line)?;
        let epoch = self.order.as_ref().map_or(0.0, |order| order.epoch(self.step));
        self.watch.steps(&Progress { step: self.step, steps, epoch, numbers });
        Ok(())
    }

    /// Changes the weights within a step that has several changes; only the last one is counted and logged.
    pub(crate) fn update_within(&mut self, mut gradients: Gradients, change: usize) -> Result<()> {
        let optimiser = self.recipe.optimiser.clone();
        gradients.clip(optimiser.clip)?;
        let rate = learning_rate(&optimiser, self.step, self.order().steps());
        let changes = self.changes_per_step();
        self.trainee.update(&gradients, rate, self.step as usize * changes + change + 1, &adam(&optimiser))
    }

    /// Changes of weights in each step.
    fn changes_per_step(&self) -> usize {
        match &self.recipe.objective {
            Objective::Grpo(settings) => settings.inner_epochs,
            _ => 1,
        }
    }

    /// Whether the model is to be evaluated now.
    pub(crate) fn should_evaluate(&mut self) -> bool {
        let last = self.step == self.order().steps();
        self.recipe.steps.eval_every.is_some_and(|every| last || self.step.is_multiple_of(every))
    }

    /// Logs an evaluation.
    pub(crate) fn record_evaluation(&mut self, numbers: &Numbers) -> Result<()> {
        if let Some(best) = &self.recipe.steps.best
            && !numbers.iter().any(|(name, _)| *name == best.metric)
        {
            let known: Vec<&str> = numbers.iter().map(|(name, _)| *name).collect();
            return Err(Error::Data(format!(
                "`best` in [steps] goes by `{}`, and an evaluation has {}",
                best.metric,
                known.join(", ")
            )));
        }
        let line = Line::now(self.step, folder::EVAL, numbers.iter().copied());
        self.run().log(&line)?;
        self.watch.evaluates(self.step, numbers);
        // An evaluation does not count as time of the next step.
        self.since = Instant::now();
        Ok(())
    }

    /// Saves a checkpoint if the recipe wants one after this step.
    pub(crate) fn save_if_due(&mut self) -> Result<()> {
        let last = self.step == self.order().steps();
        if last || self.step.is_multiple_of(self.recipe.steps.checkpoint_every) {
            self.save()?;
            self.since = Instant::now();
        }
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let mut tensors = Tensors::new();
        for parameter in self.trainee.parameters.iter() {
            let (mean, square) = &parameter.moments;
            for (kind, tensor) in [("value", &parameter.value), ("mean", mean), ("square", square)] {
                let numbers = tensor.flatten_all()?.to_vec1()?;
                tensors.insert(format!("{kind}.{}", parameter.name), (tensor.dims().to_vec(), numbers));
            }
        }
        let checkpoint = Checkpoint { step: self.step, tensors, state: json!({}) };
        let saved = self.run().save(&checkpoint)?;
        self.saved = self.step;
        self.watch.saves(self.step, saved.best);
        Ok(())
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        for parameter in self.trainee.parameters.iter_mut() {
            let (device, name) = (parameter.value.device().clone(), parameter.name.clone());
            let take = |kind: &str| -> Result<Tensor> {
                let stored = checkpoint.tensors.get(&format!("{kind}.{name}"));
                let (shape, numbers) = stored.ok_or_else(|| {
                    Error::Data(format!("the checkpoint has no `{name}`: it belongs to another recipe"))
                })?;
                Ok(Tensor::from_slice(numbers, shape.as_slice(), &Device::Cpu)?.to_device(&device)?)
            };
            (parameter.value, parameter.moments) = (take("value")?, (take("mean")?, take("square")?));
        }
        (self.step, self.saved) = (checkpoint.step, checkpoint.step);
        self.trainee.refresh()
    }

    /// Writes the result when the run is complete; otherwise makes sure that it can go on.
    fn end(mut self) -> Result<Ending> {
        let complete = self.step == self.order().steps();
        if self.saved != self.step {
            self.save()?;
        }
        if !complete {
            return Ok(Ending { step: self.step, complete, result: None, best: self.step });
        }
        let last = self.step;
        if let Some(best) = self.run().load_best()?.filter(|best| best.step != last) {
            self.restore(&best)?;
        }
        let best = self.step;
        let run = self.run.as_ref().expect("a run that ends has begun");
        let result = match &self.recipe.tuning {
            Tuning::Lora(lora) => run.write_folder("adapter", |folder| {
                adapter::save(folder, &self.trainee, lora, &self.recipe.model.base)
            })?,
            Tuning::Full(_) => run.write_folder("model", |folder| {
                whole::save(folder, &self.trainee, &self.recipe.model.base)
            })?,
        };
        let lines = metrics::read(&self.folder.join("metrics.jsonl"))?;
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let counts: Vec<(&str, u64)> =
            self.counts.iter().map(|(what, count)| (what.as_str(), *count)).collect();
        let card = card::write(&Card {
            name: &name,
            recipe: &self.recipe,
            about: run.about(),
            lines: &lines,
            counts: &counts,
            step: best,
        });
        run.write_file("README.md", &card)?;
        run.write_file(&tensorboard::file_name(lines.first()), tensorboard::events(&lines))?;
        Ok(Ending { step: last, complete, result: Some(result), best })
    }
}

fn adam(optimiser: &recipe::Optimiser) -> AdamW {
    AdamW {
        beta1: optimiser.beta1,
        beta2: optimiser.beta2,
        epsilon: optimiser.epsilon,
        weight_decay: optimiser.weight_decay,
    }
}

/// The most memory that this process has held, where the system tells.
fn memory_gib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / (1 << 20) as f64)
}
