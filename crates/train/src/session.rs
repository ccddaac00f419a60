//! A running session: what every objective's training loop uses.
//!
//! ```text
//! let mut session = Session::start(prepared, folder, &examples, observer)?;
//! while let Some(batch) = session.next_batch() {
//!     …                                             forward, loss, backward
//!     session.update(gradients, metrics)?;
//!     if session.should_evaluate() { session.record_evaluation(…)?; }
//!     session.save_if_due()?;
//! }
//! session.finish()
//! ```

use std::path::PathBuf;
use std::time::Instant;

use rand::Rng as _;

use crate::example::Packed;
use crate::observer::{MetricValues, StepProgress, TrainingEnd, TrainingObserver, TrainingStart};
use crate::parameters::Gradients;
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::run::card::{self, ModelCard};
use crate::run::checkpoint::Checkpoint;
use crate::run::folder::{ResumedRun, Run};
use crate::run::metrics::{self, MetricsLine};
use crate::run::order::{self, Order};
use crate::run::recipe::Recipe;
use crate::trainable::TrainableModel;
use crate::{Error, Result, trained};

/// A run in progress.
pub(crate) struct Session<'a> {
    /// The recipe.
    pub(crate) recipe: Recipe,
    /// The model in training.
    pub(crate) trainable: TrainableModel,
    run: Run,
    order: Order,
    /// Steps done.
    step: u64,
    /// Step of the last checkpoint that was saved or restored.
    saved: u64,
    /// Counts of examples for the model card.
    counts: Vec<(String, u64)>,
    throughput: Throughput,
    observer: &'a mut dyn TrainingObserver,
}

/// Tokens since the last step.
struct Throughput {
    tokens: usize,
    since: Instant,
}

impl Throughput {
    fn start() -> Self {
        Self { tokens: 0, since: Instant::now() }
    }

    /// Tokens per second.
    fn rate(&self) -> f64 {
        self.tokens as f64 / self.since.elapsed().as_secs_f64().max(1e-9)
    }
}

impl<'a> Session<'a> {
    /// Starts training: opens the run folder, and restores the checkpoint of an earlier process.
    pub(crate) fn start<T>(
        mut prepared: PreparedRecipe,
        folder: RunFolder,
        examples: &ExampleSets<T>,
        observer: &'a mut dyn TrainingObserver,
    ) -> Result<Self> {
        prepared.restore_adapter()?;
        let PreparedRecipe { recipe, mut trainable } = prepared;
        let ResumedRun { run, checkpoint, warnings } = folder.open(&recipe)?;
        let (count, per_step) = (examples.train.len(), recipe.batch.examples);
        let order = Order::new(recipe.seed, recipe.data.shuffle, count, per_step, recipe.steps.length);
        if recipe.objective.needs_reference_policy() {
            trainable.mark_start()?;
        }
        if let Some(checkpoint) = &checkpoint {
            checkpoint.restore(&mut trainable.parameters)?;
            trainable.refresh()?;
        }
        let done = checkpoint.map_or(0, |checkpoint| checkpoint.step);
        observer.on_start(&TrainingStart {
            examples: examples.train.len(),
            held_out: examples.held_out.len(),
            left_out: examples.left_out.clone(),
            parameters: trainable.parameters.count(),
            steps: order.steps(),
            done,
            warnings,
        });
        Ok(Self {
            recipe,
            trainable,
            run,
            order,
            step: done,
            saved: done,
            counts: examples.counts(),
            throughput: Throughput::start(),
            observer,
        })
    }

    /// Indices of the examples of the next step; none when the run is over or should stop.
    pub(crate) fn next_batch(&mut self) -> Option<Vec<usize>> {
        if self.observer.should_stop() {
            return None;
        }
        Some(self.order.batch(self.step)).filter(|batch| !batch.is_empty())
    }

    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Seed of the dropout masks of a forward pass of this step: the same when the step is repeated.
    pub(crate) fn dropout_seed(&self, pass: usize) -> u64 {
        order::stream(self.recipe.seed, &format!("dropout {pass}"), self.step).next_u64()
    }

    /// Counts tokens that went through the model.
    pub(crate) fn count_tokens(&mut self, tokens: usize) {
        self.throughput.tokens += tokens;
    }

    /// Stops at a value that is not finite: names the example it comes from, and saves a checkpoint of the steps before.
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
            self.run.folder().display()
        )))
    }

    /// One optimizer step, which ends the session's step, and its metrics.
    pub(crate) fn update(&mut self, mut gradients: Gradients, mut metrics: MetricValues) -> Result<()> {
        let optimizer = &self.recipe.optimizer;
        let norm = gradients.clip(optimizer.clip)?;
        if !norm.is_finite() {
            return self
                .give_up("all of this step", "the gradient is not a number: is the learning rate too high?");
        }
        let steps = self.order.steps();
        let rate = optimizer.learning_rate_at(self.step, steps);
        self.step += 1;
        let updates = self.step as usize * self.recipe.objective.updates_per_step();
        self.trainable.update(&gradients, rate, updates, &optimizer.adamw())?;
        let speed = self.throughput.rate();
        self.throughput = Throughput::start();
        metrics.extend([("learning_rate", rate), ("gradient_norm", norm), ("tokens_per_second", speed)]);
        metrics.extend(peak_memory_gib().map(|gib| ("memory_gib", gib)));
        self.run.log(&MetricsLine::now(self.step, "train", metrics.iter().copied()))?;
        let epoch = self.order.epoch(self.step);
        self.observer.on_step(&StepProgress { step: self.step, steps, epoch, metrics });
        Ok(())
    }

    /// Optimizer step number `update` (from 0) of a step that has several; only the last one is counted and logged.
    pub(crate) fn update_within(&mut self, mut gradients: Gradients, update: usize) -> Result<()> {
        let optimizer = &self.recipe.optimizer;
        gradients.clip(optimizer.clip)?;
        let rate = optimizer.learning_rate_at(self.step, self.order.steps());
        let before = self.step as usize * self.recipe.objective.updates_per_step();
        self.trainable.update(&gradients, rate, before + update + 1, &optimizer.adamw())
    }

    /// Whether the model is to be evaluated now.
    pub(crate) fn should_evaluate(&self) -> bool {
        self.recipe.steps.evaluates_after(self.step, self.order.steps())
    }

    /// Logs an evaluation.
    pub(crate) fn record_evaluation(&mut self, metrics: &MetricValues) -> Result<()> {
        if let Some(best) = &self.recipe.steps.best
            && !metrics.iter().any(|(name, _)| *name == best.metric)
        {
            let known: Vec<&str> = metrics.iter().map(|(name, _)| *name).collect();
            return Err(Error::Data(format!(
                "`best` in [steps] names the metric `{}`, and an evaluation has {}",
                best.metric,
                known.join(", ")
            )));
        }
        self.run.log(&MetricsLine::now(self.step, metrics::EVAL, metrics.iter().copied()))?;
        self.observer.on_evaluation(self.step, metrics);
        // An evaluation does not count as time of the next step.
        self.throughput.since = Instant::now();
        Ok(())
    }

    /// Saves a checkpoint if the recipe wants one after this step.
    pub(crate) fn save_if_due(&mut self) -> Result<()> {
        if self.recipe.steps.saves_after(self.step, self.order.steps()) {
            self.save()?;
            self.throughput.since = Instant::now();
        }
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let checkpoint = Checkpoint::of(self.step, &self.trainable.parameters)?;
        let best = self.run.save(&checkpoint)?;
        self.saved = self.step;
        self.observer.on_checkpoint(self.step, best);
        Ok(())
    }

    /// Writes the result when the run is complete; otherwise makes sure that it can be resumed.
    pub(crate) fn finish(mut self) -> Result<TrainingEnd> {
        let step = self.step;
        if self.saved != step {
            self.save()?;
        }
        if step != self.order.steps() {
            return Ok(TrainingEnd { step, complete: false, result: None, best: step });
        }
        let mut best = step;
        if let Some(checkpoint) = self.run.load_best()?.filter(|checkpoint| checkpoint.step != step) {
            checkpoint.restore(&mut self.trainable.parameters)?;
            self.trainable.refresh()?;
            best = checkpoint.step;
        }
        let result = self.write_result()?;
        self.write_card(best)?;
        Ok(TrainingEnd { step, complete: true, result: Some(result), best })
    }

    /// Writes the adapter, or the model when all weights were trained, and what it is beside it.
    fn write_result(&self) -> Result<PathBuf> {
        let name = trained::folder_name(&self.recipe);
        self.run.write_folder(name, |folder| trained::save(folder, &self.trainable, &self.recipe))
    }

    /// Writes the model card.
    fn write_card(&self, best: u64) -> Result<()> {
        let folder = self.run.folder();
        let lines = metrics::read(&folder.join("metrics.jsonl"))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let counts: Vec<(&str, u64)> =
            self.counts.iter().map(|(what, count)| (what.as_str(), *count)).collect();
        let card = card::write(&ModelCard {
            name: &name,
            recipe: &self.recipe,
            record: self.run.record(),
            lines: &lines,
            counts: &counts,
            step: best,
        });
        self.run.write_file("README.md", &card)
    }
}

/// Peak resident memory of this process, where the system tells.
fn peak_memory_gib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / (1 << 20) as f64)
}
