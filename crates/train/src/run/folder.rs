//! The run folder: recipe, record, metrics, checkpoints and result of a training run.
//!
//! ```text
//! recipe.toml      the resolved recipe
//! run.json         versions, seed, inputs with hashes, machine, command line, when it began and was resumed
//! metrics.jsonl    one line for each step and split
//! events.out.…     the same for TensorBoard, which shows it while the run trains
//! checkpoints/     step-000123/ …, the last few and the best
//! best             the name of the best checkpoint
//! adapter/         the result in PEFT's layout (or model/, after full fine-tuning)
//! README.md        the model card
//! lock             held by the process that writes here
//! ```
//!
//! A run can be killed at any instant: it resumes from its last checkpoint, and its metrics are cut back to it. The
//! order in a training loop is: optimizer step, [`Run::log`], evaluate and log that, then [`Run::save`]; what is
//! logged for a step after its checkpoint was saved is lost if the process is killed in between.
//!
//! A run may come from elsewhere. Its files are read, written and removed under these names only, and a symbolic link
//! among them is refused: what it leads to is not the run's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use gradus_core::time;
use gradus_durable::{check_plain, lock_file, replace_folder, replace_plain_file};
use serde::{Deserialize, Serialize};

use super::checkpoint::{self, Checkpoint};
use super::inputs::RunInput;
use super::leftovers;
use super::metrics::{self, Metrics, MetricsLine};
use super::recipe::Recipe;
use super::tensorboard::EventFile;
use crate::error::io;
use crate::{Error, Result};

const SCHEMA: u32 = 1;
const FILES: [&str; 6] = ["recipe.toml", "run.json", "metrics.jsonl", "best", "README.md", "lock"];
const FOLDERS: [&str; 3] = ["checkpoints", "adapter", "model"];

/// How a run was started, for its record.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunContext {
    /// The run's inputs.
    pub(crate) inputs: Vec<RunInput>,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// Instruction set of the CPU, as the kernels name it.
    pub(crate) cpu: String,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRecord {
    /// Schema version of this record.
    pub(crate) schema: u32,
    /// Version of Gradus that started the run.
    pub(crate) gradus: String,
    /// The recipe's seed.
    pub(crate) seed: u64,
    /// When the run was started.
    pub(crate) started: String,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// Operating system and processor family.
    pub(crate) platform: String,
    /// Instruction set of the CPU.
    pub(crate) cpu: String,
    /// The run's inputs.
    pub(crate) inputs: Vec<RunInput>,
    /// Every time the run was resumed.
    pub(crate) resumed: Vec<Resumption>,
}

/// A time at which a run was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resumption {
    /// When it was resumed.
    pub(crate) at: String,
    /// The step it was resumed from.
    pub(crate) step: u64,
    /// Version of Gradus that resumed it.
    pub(crate) gradus: String,
}

/// A run folder that this process writes.
#[derive(Debug)]
pub(crate) struct Run {
    folder: PathBuf,
    recipe: Recipe,
    record: RunRecord,
    metrics: Metrics,
    events: EventFile,
    /// Step and value of the last evaluation of the metric that decides.
    judged: Option<(u64, f64)>,
    /// Step and value of the best checkpoint.
    best: Option<(u64, f64)>,
    /// Held until the run is dropped.
    _lock: File,
}

/// A run that is resumed.
#[derive(Debug)]
pub(crate) struct ResumedRun {
    /// The run.
    pub(crate) run: Run,
    /// The checkpoint to resume from; none if the run was killed before its first one.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Warnings: damaged checkpoints, another version of Gradus.
    pub(crate) warnings: Vec<String>,
}

impl Run {
    /// Starts a run in a new or empty folder.
    pub(crate) fn create(folder: &Path, recipe: &Recipe, context: RunContext) -> Result<Self> {
        let message = "there is a run in this folder already: resume it, or choose another folder";
        let fresh = || if exists(folder) { Err(Error::run(folder, message)) } else { Ok(()) };
        if exists(folder) {
            // A run that another process is writing cannot be resumed, which is what the message would advise.
            lock(folder)?;
        }
        fresh()?;
        refuse_foreign(folder)?;
        check_plain(folder, &FILES, &FOLDERS)?;
        let checkpoints = folder.join("checkpoints");
        fs::create_dir_all(&checkpoints).map_err(io(&checkpoints))?;
        let lock = lock(folder)?;
        // Another process may have made one meanwhile.
        fresh()?;
        leftovers::remove(folder)?;
        let record = RunRecord {
            schema: SCHEMA,
            gradus: env!("CARGO_PKG_VERSION").to_owned(),
            seed: recipe.seed,
            started: time::now(),
            command: context.command,
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: context.cpu,
            inputs: context.inputs,
            resumed: Vec::new(),
        };
        replace_plain_file(&folder.join("recipe.toml"), recipe.to_toml().as_bytes())?;
        let metrics = Metrics::open(&folder.join("metrics.jsonl"))?;
        let events = EventFile::begin(folder, &[])?;
        // Last, because its presence is what makes the folder a run.
        replace_plain_file(&folder.join("run.json"), &json(&record))?;
        let (folder, recipe) = (folder.to_owned(), recipe.clone());
        Ok(Self { folder, recipe, record, metrics, events, judged: None, best: None, _lock: lock })
    }

    /// Resumes a run: cleans up after a kill, checks that the inputs are what they were, finds the newest whole
    /// checkpoint and cuts the metrics back to it.
    pub(crate) fn resume(folder: &Path) -> Result<ResumedRun> {
        check_plain(folder, &FILES, &FOLDERS)?;
        read_record(folder)?;
        let lock = lock(folder)?;
        let mut record = read_record(folder)?;
        let recipe = Recipe::read(&folder.join("recipe.toml"), &[])?;
        for input in &record.inputs {
            input.check()?;
        }
        let checkpoints = folder.join("checkpoints");
        leftovers::remove(folder)?;
        leftovers::remove(&checkpoints)?;
        let (checkpoint, mut warnings) = checkpoint::load_latest(&checkpoints)?;
        let step = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step);
        for damaged in checkpoint::steps(&checkpoints)?.into_iter().filter(|other| *other > step) {
            checkpoint::discard(&checkpoints, damaged)?;
        }
        let version = env!("CARGO_PKG_VERSION");
        if record.gradus != version {
            let began = &record.gradus;
            warnings.push(format!(
                "the run was started by version {began} and is resumed by {version}: numbers may differ"
            ));
        }
        let path = folder.join("metrics.jsonl");
        let lines = metrics::cut_after(&path, step)?;
        record.resumed.push(Resumption { at: time::now(), step, gradus: version.to_owned() });
        replace_plain_file(&folder.join("run.json"), &json(&record))?;
        let metrics = Metrics::open(&path)?;
        let events = EventFile::begin(folder, &lines)?;
        let steps = checkpoint::steps(&checkpoints)?;
        let best = recipe.steps.best.as_ref().and_then(|metric| metric.best_of(&lines, &steps));
        let run = Self {
            folder: folder.to_owned(),
            recipe,
            record,
            metrics,
            events,
            judged: None,
            best,
            _lock: lock,
        };
        run.write_best()?;
        Ok(ResumedRun { run, checkpoint, warnings })
    }

    /// Refuses a recipe that is not this run's, and says in what they differ.
    pub(crate) fn follows(&self, recipe: &Recipe) -> Result<()> {
        let different = self.recipe.differences(recipe);
        let Some((key, mine, theirs)) = different.first() else { return Ok(()) };
        let shown = |value: &str| if value.is_empty() { "absent".to_owned() } else { value.to_owned() };
        let more = match different.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let (mine, theirs) = (shown(mine), shown(theirs));
        Err(Error::run(
            &self.folder,
            format!(
                "`{key}` is {mine} in this run and {theirs} in the recipe{more}: resume with the run's recipe, or choose another folder"
            ),
        ))
    }

    /// Path of the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The run's record.
    pub(crate) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Adds a line to the metrics.
    pub(crate) fn log(&mut self, line: &MetricsLine) -> Result<()> {
        self.metrics.append(line)?;
        self.events.append(line)?;
        if let Some(value) = self.recipe.steps.best.as_ref().and_then(|metric| metric.value(line)) {
            self.judged = Some((line.step, value));
        }
        Ok(())
    }

    /// Saves a checkpoint, and removes those that are no longer kept; returns whether it is the best so far.
    pub(crate) fn save(&mut self, checkpoint: &Checkpoint) -> Result<bool> {
        let checkpoints = self.folder.join("checkpoints");
        // Metrics up to here must be on the disk before the checkpoint that cuts them off.
        self.metrics.sync()?;
        checkpoint::save(&checkpoints, checkpoint)?;
        let judged = self.judged.filter(|(step, value)| *step == checkpoint.step && value.is_finite());
        let best = match (&self.recipe.steps.best, judged) {
            (Some(metric), Some((_, value))) => self.best.is_none_or(|(_, best)| metric.prefers(value, best)),
            _ => false,
        };
        if best {
            self.best = judged;
            self.write_best()?;
        }
        checkpoint::prune(&checkpoints, self.recipe.steps.keep, self.best.map(|(step, _)| step))?;
        Ok(best)
    }

    /// Reads the best checkpoint, or the newest when none was judged.
    pub(crate) fn load_best(&self) -> Result<Option<Checkpoint>> {
        let checkpoints = self.folder.join("checkpoints");
        match self.best {
            Some((step, _)) => checkpoint::load(&checkpoints.join(checkpoint::name(step))).map(Some),
            None => checkpoint::load_latest(&checkpoints).map(|(newest, _)| newest),
        }
    }

    /// Writes a folder of the run, such as `adapter`, as a whole: `fill` gets an empty folder to write into.
    pub(crate) fn write_folder(&self, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        replace_folder(&path, fill)?;
        Ok(path)
    }

    /// Writes a file of the run, such as `README.md`, as a whole.
    pub(crate) fn write_file(&self, name: &str, text: impl AsRef<[u8]>) -> Result<()> {
        Ok(replace_plain_file(&self.folder.join(name), text.as_ref())?)
    }

    fn write_best(&self) -> Result<()> {
        let path = self.folder.join("best");
        match self.best {
            Some((step, _)) => {
                Ok(replace_plain_file(&path, format!("{}\n", checkpoint::name(step)).as_bytes())?)
            }
            None if path.exists() => fs::remove_file(&path).map_err(io(&path)),
            None => Ok(()),
        }
    }
}

/// Whether a folder holds a run.
pub(crate) fn exists(folder: &Path) -> bool {
    folder.join("run.json").is_file()
}

/// Reads a run's `run.json`.
fn read_record(folder: &Path) -> Result<RunRecord> {
    let path = folder.join("run.json");
    if !path.is_file() {
        return Err(Error::run(folder, "there is no run in this folder: expected a run.json"));
    }
    let text = fs::read(&path).map_err(io(&path))?;
    let value: serde_json::Value = gradus_core::json::from_slice(&text)
        .map_err(|error| Error::run(&path, format!("cannot be read: {error}")))?;
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    if schema != Some(u64::from(SCHEMA)) {
        let found = schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(Error::run(&path, format!("its schema is {found}; this version reads {SCHEMA}")));
    }
    serde_json::from_value(value).map_err(|error| Error::run(&path, format!("cannot be read: {error}")))
}

fn json(record: &RunRecord) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(record).expect("a record has only what JSON can hold");
    bytes.push(b'\n');
    bytes
}

/// Refuses a folder with anything in it but what a run leaves that was killed while it was made.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(folder)(error)),
    };
    for entry in entries {
        let name = entry.map_err(io(folder))?.file_name();
        let name = name.to_string_lossy();
        let ours = ["lock", "recipe.toml", "metrics.jsonl", "checkpoints"];
        if !ours.contains(&&*name) && !leftovers::is_leftover(&name) {
            return Err(Error::run(
                folder,
                format!("this folder is not empty and holds no run (it has `{name}`): choose another folder"),
            ));
        }
    }
    Ok(())
}

/// Locks the run for this process. The operating system releases the lock when the process ends, however it does.
fn lock(folder: &Path) -> Result<File> {
    lock_file(&folder.join("lock")).map_err(|error| match error.is_in_use() {
        true => Error::run(folder, "another process is writing this run: wait for it, or stop it"),
        false => error.into(),
    })
}

#[cfg(test)]
mod tests;
