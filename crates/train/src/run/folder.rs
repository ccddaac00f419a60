//! The run folder: all that a training run was, is and gave.
//!
//! ```text
//! recipe.toml      the recipe, everything resolved
//! run.json         versions, seed, inputs with hashes, machine, command line, when it began and was resumed
//! metrics.jsonl    one line for each step and split
//! checkpoints/     step-000123/ …, the last few and the best
//! best             the name of the best checkpoint
//! adapter/         what was trained, as PEFT has it (or model/, when all weights were)
//! README.md        the model card
//! lock             held by the process that writes here
//! ```
//!
//! A run can be killed at any instant: it goes on from its last checkpoint, and its metrics are cut back to it. The
//! order in a training loop is: change the weights, [`Run::log`], evaluate and log that, then [`Run::save`]; what is
//! logged for a step after its checkpoint was saved is lost if the process is killed in between.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gradus_core::time;
use serde::{Deserialize, Serialize};

use super::checkpoint::{self, Checkpoint};
use super::inputs::Input;
use super::metrics::{self, Line, Metrics};
use super::recipe::{Best, Better, Recipe};
use super::write;
use crate::error::io;
use crate::{Error, Result};

const SCHEMA: u32 = 1;

/// The split whose metrics decide which checkpoint is the best.
pub const EVAL: &str = "eval";

/// What a run's record says about how it was started.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// What it reads.
    pub inputs: Vec<Input>,
    /// The command line.
    pub command: Vec<String>,
    /// What the processor can do, in the kernels' words.
    pub cpu: String,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Version of this record.
    pub schema: u32,
    /// Version of Gradus that began the run.
    pub gradus: String,
    /// The recipe's seed.
    pub seed: u64,
    /// When it began.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Operating system and processor family.
    pub platform: String,
    /// What the processor can do.
    pub cpu: String,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// When it was resumed, if it was.
    pub resumed: Vec<Resumption>,
}

/// A time at which a run was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumption {
    /// When.
    pub at: String,
    /// From which step.
    pub step: u64,
    /// By which version of Gradus.
    pub gradus: String,
}

/// A run folder that this process writes.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    recipe: Recipe,
    about: About,
    metrics: Metrics,
    /// The last value of the metric that decides, and its step.
    judged: Option<(u64, f64)>,
    best: Option<(u64, f64)>,
    /// Held until the run is dropped.
    _lock: File,
}

/// A run that goes on.
#[derive(Debug)]
pub struct Resumed {
    /// The run.
    pub run: Run,
    /// Where it goes on; none if it was killed before its first checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// What people should know: damaged checkpoints, another version of Gradus.
    pub warnings: Vec<String>,
}

/// What saving a checkpoint did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is the best so far.
    pub best: bool,
    /// Steps of the checkpoints that were removed.
    pub removed: Vec<u64>,
}

impl Run {
    /// Begins a run in a new or empty folder.
    pub fn create(folder: &Path, recipe: &Recipe, setting: Setting) -> Result<Self> {
        let message = "there is a run in this folder already: resume it, or choose another folder";
        let fresh = || if exists(folder) { Err(Error::run(folder, message)) } else { Ok(()) };
        fresh()?;
        refuse_foreign(folder)?;
        let checkpoints = folder.join("checkpoints");
        fs::create_dir_all(&checkpoints).map_err(io(&checkpoints))?;
        let lock = lock(folder)?;
        // Another process may have made one meanwhile.
        fresh()?;
        write::clean(folder)?;
        let about = About {
            schema: SCHEMA,
            gradus: env!("CARGO_PKG_VERSION").to_owned(),
            seed: recipe.seed,
            started: time::now(),
            command: setting.command,
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: setting.cpu,
            inputs: setting.inputs,
            resumed: Vec::new(),
        };
        write::file(&folder.join("recipe.toml"), recipe.to_toml().as_bytes())?;
        let metrics = Metrics::open(&folder.join("metrics.jsonl"))?;
        // Last, because its presence is what makes the folder a run.
        write::file(&folder.join("run.json"), &json(&about))?;
        let (folder, recipe) = (folder.to_owned(), recipe.clone());
        Ok(Self { folder, recipe, about, metrics, judged: None, best: None, _lock: lock })
    }

    /// Goes on with a run: cleans up after a kill, checks that the inputs are what they were, finds the newest whole
    /// checkpoint and cuts the metrics back to it.
    pub fn resume(folder: &Path) -> Result<Resumed> {
        about(folder)?;
        let lock = lock(folder)?;
        let mut about = about(folder)?;
        let recipe = Recipe::read(&folder.join("recipe.toml"), &[])?;
        for input in &about.inputs {
            input.check()?;
        }
        let checkpoints = folder.join("checkpoints");
        write::clean(folder)?;
        write::clean(&checkpoints)?;
        let (checkpoint, mut warnings) = checkpoint::load_latest(&checkpoints)?;
        let step = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step);
        for damaged in checkpoint::steps(&checkpoints)?.into_iter().filter(|other| *other > step) {
            checkpoint::discard(&checkpoints, damaged)?;
        }
        let version = env!("CARGO_PKG_VERSION");
        if about.gradus != version {
            let began = &about.gradus;
            warnings.push(format!(
                "the run was begun by version {began} and goes on with {version}: numbers may differ"
            ));
        }
        let path = folder.join("metrics.jsonl");
        let lines = metrics::cut_after(&path, step)?;
        about.resumed.push(Resumption { at: time::now(), step, gradus: version.to_owned() });
        write::file(&folder.join("run.json"), &json(&about))?;
        let metrics = Metrics::open(&path)?;
        let best = recipe.steps.best.as_ref().and_then(|wanted| best_of(wanted, &lines, &checkpoints));
        let run = Self { folder: folder.to_owned(), recipe, about, metrics, judged: None, best, _lock: lock };
        run.write_best()?;
        Ok(Resumed { run, checkpoint, warnings })
    }

    /// Refuses a recipe that is not this run's, and says in what they differ.
    pub fn follows(&self, recipe: &Recipe) -> Result<()> {
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

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is done.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// How it was started.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The best checkpoint so far: its step and its metric.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.best
    }

    /// Adds a line to the metrics.
    pub fn log(&mut self, line: &Line) -> Result<()> {
        self.metrics.append(line)?;
        if let Some(wanted) = &self.recipe.steps.best
            && line.split == EVAL
            && let Some(value) = line.values.get(&wanted.metric)
        {
            self.judged = Some((line.step, *value));
        }
        Ok(())
    }

    /// Saves a checkpoint, notes whether it is the best, and removes those that are no longer kept.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<Saved> {
        let checkpoints = self.folder.join("checkpoints");
        // Metrics up to here must be on the disk before the checkpoint that cuts them off.
        self.metrics.sync()?;
        let path = checkpoint::save(&checkpoints, checkpoint)?;
        let judged = self.judged.filter(|(step, value)| *step == checkpoint.step && value.is_finite());
        let best = match (&self.recipe.steps.best, judged) {
            (Some(wanted), Some((_, value))) => self.best.is_none_or(|(_, best)| better(wanted, value, best)),
            _ => false,
        };
        if best {
            self.best = judged;
            self.write_best()?;
        }
        let removed =
            checkpoint::prune(&checkpoints, self.recipe.steps.keep, self.best.map(|(step, _)| step))?;
        Ok(Saved { path, best, removed })
    }

    /// Reads the best checkpoint, or the newest when none was judged.
    pub fn load_best(&self) -> Result<Option<Checkpoint>> {
        let checkpoints = self.folder.join("checkpoints");
        match self.best {
            Some((step, _)) => checkpoint::load(&checkpoints.join(checkpoint::name(step))).map(Some),
            None => checkpoint::load_latest(&checkpoints).map(|(newest, _)| newest),
        }
    }

    /// Writes a folder of the run, such as `adapter`, as a whole: `fill` gets an empty folder to write into.
    pub fn write_folder(&self, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        write::folder(&path, fill)?;
        Ok(path)
    }

    /// Writes a file of the run, such as `README.md`, as a whole.
    pub fn write_file(&self, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        write::file(&path, text.as_ref())?;
        Ok(path)
    }

    fn write_best(&self) -> Result<()> {
        let path = self.folder.join("best");
        match self.best {
            Some((step, _)) => write::file(&path, format!("{}\n", checkpoint::name(step)).as_bytes()),
            None if path.exists() => fs::remove_file(&path).map_err(io(&path)),
            None => Ok(()),
        }
    }
}

/// Whether a folder holds a run.
pub fn exists(folder: &Path) -> bool {
    folder.join("run.json").is_file()
}

/// Reads a run's `run.json`.
pub fn about(folder: &Path) -> Result<About> {
    let path = folder.join("run.json");
    if !path.is_file() {
        return Err(Error::run(folder, "there is no run in this folder: expected a run.json"));
    }
    let text = fs::read(&path).map_err(io(&path))?;
    let value: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| Error::run(&path, format!("cannot be read: {error}")))?;
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    if schema != Some(u64::from(SCHEMA)) {
        let found = schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(Error::run(&path, format!("its schema is {found}; this version reads {SCHEMA}")));
    }
    serde_json::from_value(value).map_err(|error| Error::run(&path, format!("cannot be read: {error}")))
}

fn json(about: &About) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(about).expect("a record has only what JSON can hold");
    bytes.push(b'\n');
    bytes
}

fn better(wanted: &Best, value: f64, than: f64) -> bool {
    match wanted.is {
        Better::Lowest => value < than,
        Better::Highest => value > than,
    }
}

/// The best of the checkpoints that are still there; of equals, the first.
fn best_of(wanted: &Best, lines: &[Line], checkpoints: &Path) -> Option<(u64, f64)> {
    let there = checkpoint::steps(checkpoints).ok()?;
    let values = lines.iter().filter(|line| line.split == EVAL && there.contains(&line.step));
    let values = values.filter_map(|line| Some((line.step, *line.values.get(&wanted.metric)?)));
    values
        .filter(|(_, value)| value.is_finite())
        .reduce(|best, next| if better(wanted, next.1, best.1) { next } else { best })
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
        if !ours.contains(&&*name) && !name.starts_with(write::UNFINISHED) {
            return Err(Error::run(
                folder,
                format!("this folder is not empty and holds no run (it has `{name}`): choose another folder"),
            ));
        }
    }
    Ok(())
}

/// Takes the run for this process. The operating system gives it back when the process ends, however it does.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
    // A program that is just being started from this one holds a copy of the lock until it has replaced itself.
    for patience in (0..20).rev() {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if patience > 0 => std::thread::sleep(Duration::from_millis(25)),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(error)) => return Err(io(&path)(error)),
        }
    }
    Err(Error::run(folder, "another process is writing this run: wait for it, or stop it"))
}

#[cfg(test)]
mod tests;
