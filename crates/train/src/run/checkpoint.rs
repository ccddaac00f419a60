//! Checkpoints: `checkpoints/step-000123/`, from which a run resumes as if it had never stopped.
//!
//! - `tensors.safetensors`: named f32 tensors (parameters, Adam's moments), which come back bit by bit
//! - `state.json`: the step, whatever the objective wants to remember, and checksums of both files
//!
//! A checkpoint appears as a whole or not at all. One that is damaged afterwards (its checksum says so) is passed
//! over with a warning, and the one before it is used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use gradus_durable::{check_plain, read_plain};
use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::io;
use crate::parameters::Parameters;
use crate::{Error, Result};

const SCHEMA: u32 = 1;
const TENSORS: &str = "tensors.safetensors";
const STATE: &str = "state.json";

/// Tensors by name: shape and values.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// All that a run needs to resume.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    /// Optimizer steps done so far.
    pub(crate) step: u64,
    /// Parameters and the optimizer's moments.
    pub(crate) tensors: Tensors,
    /// Counters and whatever else the objective wants back.
    pub(crate) state: Value,
}

/// `state.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointState {
    schema: u32,
    step: u64,
    tensors: FileDigest,
    state: Value,
    /// Of this file, with this field empty.
    blake3: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDigest {
    bytes: u64,
    blake3: String,
}

impl Checkpoint {
    /// The parameters and AdamW's moments after `step`.
    pub(crate) fn of(step: u64, parameters: &Parameters) -> Result<Self> {
        let mut tensors = Tensors::new();
        for parameter in parameters.iter() {
            let (mean, square) = &parameter.moments;
            for (kind, tensor) in [("value", &parameter.value), ("mean", mean), ("square", square)] {
                let values = tensor.flatten_all()?.to_vec1()?;
                tensors.insert(format!("{kind}.{}", parameter.name), (tensor.dims().to_vec(), values));
            }
        }
        Ok(Self { step, tensors, state: json!({}) })
    }

    /// Puts the saved values and moments back.
    pub(crate) fn restore(&self, parameters: &mut Parameters) -> Result<()> {
        for parameter in parameters.iter_mut() {
            let (device, name) = (parameter.value.device().clone(), parameter.name.clone());
            let take = |kind: &str| -> Result<Tensor> {
                let stored = self.tensors.get(&format!("{kind}.{name}"));
                let (shape, values) = stored.ok_or_else(|| {
                    Error::Data(format!("the checkpoint has no `{name}`: it belongs to another recipe"))
                })?;
                Ok(Tensor::from_slice(values, shape.as_slice(), &Device::Cpu)?.to_device(&device)?)
            };
            (parameter.value, parameter.moments) = (take("value")?, (take("mean")?, take("square")?));
        }
        Ok(())
    }
}

impl CheckpointState {
    fn sum(&mut self) -> String {
        self.blake3.clear();
        blake3::hash(&self.bytes()).to_hex().to_string()
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a state has only what JSON can hold")
    }
}

/// The name of a step's checkpoint.
pub(crate) fn name(step: u64) -> String {
    format!("step-{step:06}")
}

/// Writes a checkpoint into the folder of checkpoints, and returns its own folder.
pub(crate) fn save(folder: &Path, checkpoint: &Checkpoint) -> Result<PathBuf> {
    let path = folder.join(name(checkpoint.step));
    gradus_durable::replace_folder(&path, |temporary| {
        let tensors = temporary.join(TENSORS);
        let views = checkpoint.tensors.iter().map(|(name, (shape, values))| (name, Floats { shape, values }));
        safetensors::serialize_to_file(views, None, &tensors)
            .map_err(|error| Error::run(&path, format!("the checkpoint cannot be written: {error}")))?;
        let mut written = CheckpointState {
            schema: SCHEMA,
            step: checkpoint.step,
            tensors: sum(&tensors)?,
            state: checkpoint.state.clone(),
            blake3: String::new(),
        };
        written.blake3 = written.sum();
        let state = temporary.join(STATE);
        Ok::<_, Error>(gradus_durable::replace_file(&state, &written.bytes())?)
    })?;
    Ok(path)
}

/// Reads one checkpoint, and refuses it if a bit of it has changed.
pub(crate) fn load(folder: &Path) -> Result<Checkpoint> {
    let damaged = |what: &str| Error::run(folder, format!("the checkpoint is damaged: {what}"));
    let bytes = read_plain(&folder.join(STATE), u64::MAX)?;
    let mut written: CheckpointState = serde_json::from_slice(&bytes)
        .map_err(|error| damaged(&format!("{STATE} cannot be read: {error}")))?;
    let claimed = written.blake3.clone();
    if written.sum() != claimed {
        return Err(damaged(&format!("{STATE} does not match its checksum")));
    }
    if written.schema != SCHEMA {
        let (found, known) = (written.schema, SCHEMA);
        return Err(Error::run(
            folder,
            format!("the checkpoint has schema {found}; this version reads {known}"),
        ));
    }
    let bytes = read_plain(&folder.join(TENSORS), u64::MAX)?;
    if bytes.len() as u64 != written.tensors.bytes
        || blake3::hash(&bytes).to_hex().as_str() != written.tensors.blake3
    {
        return Err(damaged(&format!("{TENSORS} does not match its checksum")));
    }
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| damaged(&error.to_string()))?;
    let tensors = tensors.iter().map(|(name, view)| {
        let values = view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        (name.to_owned(), (view.shape().to_vec(), values))
    });
    Ok(Checkpoint { step: written.step, tensors: tensors.collect(), state: written.state })
}

/// The newest checkpoint that can be read, and a warning about each newer one that cannot.
pub(crate) fn load_latest(folder: &Path) -> Result<(Option<Checkpoint>, Vec<String>)> {
    let mut warnings = Vec::new();
    for step in steps(folder)?.into_iter().rev() {
        match load(&folder.join(name(step))) {
            Ok(checkpoint) => return Ok((Some(checkpoint), warnings)),
            Err(error) => warnings.push(format!("{error}; the checkpoint before it is used")),
        }
    }
    Ok((None, warnings))
}

/// Steps of all checkpoints in a folder, the oldest first. No folder is no checkpoints; what has the name of one but is no
/// folder, such as a symbolic link, is refused.
pub(crate) fn steps(folder: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(folder)(error)),
    };
    let mut steps = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io(folder))?.file_name();
        let Some(entry) = entry.to_str() else { continue };
        let step = entry.strip_prefix("step-").and_then(|step| step.parse::<u64>().ok());
        if let Some(step) = step.filter(|step| name(*step) == entry) {
            check_plain(folder, &[], &[entry])?;
            steps.push(step);
        }
    }
    steps.sort_unstable();
    Ok(steps)
}

/// Removes all checkpoints but the last `keep` and the best, and returns the steps of those removed.
pub(crate) fn prune(folder: &Path, keep: usize, best: Option<u64>) -> Result<Vec<u64>> {
    let mut old = steps(folder)?;
    old.truncate(old.len().saturating_sub(keep));
    old.retain(|step| Some(*step) != best);
    for step in &old {
        discard(folder, *step)?;
    }
    Ok(old)
}

/// Removes a checkpoint; killed meanwhile, it leaves no half of one.
pub(super) fn discard(folder: &Path, step: u64) -> Result<()> {
    Ok(gradus_durable::remove_folder(&folder.join(name(step)))?)
}

fn sum(path: &Path) -> Result<FileDigest> {
    let mut hasher = blake3::Hasher::new();
    let file = fs::File::open(path).map_err(io(path))?;
    hasher.update_reader(file).map_err(io(path))?;
    Ok(FileDigest { bytes: hasher.count(), blake3: hasher.finalize().to_hex().to_string() })
}

/// MetricValues as safetensors takes them.
struct Floats<'a> {
    shape: &'a [usize],
    values: &'a [f32],
}

impl View for Floats<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        self.values.len() * 4
    }
}

#[cfg(test)]
mod tests;
