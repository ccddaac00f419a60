//! The safetensors of a Hugging Face folder: `model.safetensors`, or the shards that its index names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::{Encoding, Stored};
use crate::models;
use crate::{Error, Result};

/// Memory-mapped files and where each tensor is in them.
pub(crate) struct Files {
    pub(super) folder: PathBuf,
    /// What comes before the embedding table's name, such as `model.`.
    prefix: String,
    tensors: BTreeMap<String, Entry>,
}

struct Entry {
    stored: Option<Stored>,
    /// The type as the file has it, for the message when we cannot use it.
    dtype: Dtype,
}

impl Files {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        models::check_files(folder)?;
        let mut tensors = BTreeMap::new();
        for file in files_of(folder)? {
            read_into(&mut tensors, &file)?;
        }
        let embedding = |name: &String| {
            let table = ["embed_tokens.weight", "embeddings.word_embeddings.weight"];
            table.iter().find_map(|ending| name.strip_suffix(ending)).map(str::to_owned)
        };
        let prefix = tensors.keys().find_map(embedding).unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), prefix, tensors })
    }

    /// A tensor by its name, with or without the backbone's prefix.
    pub(super) fn get(&self, name: &str) -> Result<Option<Stored>> {
        let prefixed = format!("{}{name}", self.prefix);
        let Some((found, entry)) =
            self.tensors.get_key_value(&prefixed).or_else(|| self.tensors.get_key_value(name))
        else {
            return Ok(None);
        };
        match &entry.stored {
            Some(stored) => Ok(Some(stored.clone())),
            None => Err(Error::model(
                &self.folder,
                format!("tensor `{found}` is stored as {:?}: expected F32, F16 or BF16", entry.dtype),
            )),
        }
    }
}

/// The files of a folder, from the index where there is one.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let index = folder.join("model.safetensors.index.json");
    if index.exists() {
        return Ok(models::shards(&index)?.into_iter().map(|name| folder.join(name)).collect());
    }
    let single = folder.join("model.safetensors");
    if single.exists() {
        return Ok(vec![single]);
    }
    Err(Error::model(
        folder,
        "no weights here: expected model.safetensors, model.safetensors.index.json with its shards, or a .gguf file",
    ))
}

/// Adds the tensors of one safetensors file.
fn read_into(tensors: &mut BTreeMap<String, Entry>, path: &Path) -> Result<()> {
    let map = Arc::new(map(path)?);
    if map.starts_with(b"version https://git-lfs") {
        return Err(Error::model(path, "a Git LFS pointer, not the file itself: fetch it with git lfs pull"));
    }
    let broken = |error| Error::model(path, format!("not a whole safetensors file: {error}"));
    let views = SafeTensors::deserialize(&map).map_err(broken)?;
    let start = map.as_ptr() as usize;
    for (name, view) in views.iter() {
        let encoding = match view.dtype() {
            Dtype::F32 => Some(Encoding::F32),
            Dtype::F16 => Some(Encoding::F16),
            Dtype::BF16 => Some(Encoding::Bf16),
            _ => None,
        };
        let offset = view.data().as_ptr() as usize - start;
        let stored = encoding.map(|encoding| Stored {
            encoding,
            shape: view.shape().to_vec(),
            file: Arc::clone(&map) as _,
            range: offset..offset + view.data().len(),
        });
        tensors.insert(name.to_owned(), Entry { stored, dtype: view.dtype() });
    }
    Ok(())
}

/// All tensors of one safetensors file, by name.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Stored>> {
    let mut tensors = BTreeMap::new();
    read_into(&mut tensors, path)?;
    let usable = |(name, entry): (String, Entry)| match entry.stored {
        Some(stored) => Ok((name, stored)),
        None => Err(Error::model(path, format!("tensor `{name}` is stored as {:?}", entry.dtype))),
    };
    tensors.into_iter().map(usable).collect()
}

fn map(path: &Path) -> Result<Mmap> {
    let file = std::fs::File::open(path).map_err(|source| Error::io(path, source))?;
    // SAFETY: the map is read-only. A file that someone shortens while it is in use faults, as for every program that
    // maps weights.
    #[allow(unsafe_code)]
    unsafe { Mmap::map(&file) }.map_err(|source| Error::io(path, source))
}
