//! The reward model that the program carries: an adapter of ten megabytes for a small base, put on disk when it is first
//! used, so that it is a model folder like any other (Python's PEFT reads it, too).

use std::path::{Path, PathBuf};

use super::Store;
use crate::{Error, Result};

/// The name of the reward model that the program carries.
pub const SHIPPED: &str = "gradus-prm";

const FILES: [(&str, &[u8]); 3] = [
    ("adapter_config.json", include_bytes!("../../../../assets/prm/adapter_config.json")),
    ("adapter_model.safetensors", include_bytes!("../../../../assets/prm/adapter_model.safetensors")),
    ("README.md", include_bytes!("../../../../assets/prm/README.md")),
];

/// The reward model that the program carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipped {
    /// The short name of the model that it was trained on.
    pub base: &'static str,
    /// The profile that it was trained with.
    pub profile: &'static str,
    /// Its folder.
    pub adapter: PathBuf,
}

/// The reward model that the program carries, in the [`Store`] of the environment.
pub fn shipped() -> Result<Shipped> {
    let adapter = unpacked(&Store::from_env()?.home)?;
    Ok(Shipped { base: "smollm2-135m", profile: "gradus", adapter })
}

/// Its folder under `home`; another version of the program has another one. It appears whole or not at all.
pub(super) fn unpacked(home: &Path) -> Result<PathBuf> {
    let mut hasher = blake3::Hasher::new();
    for (_, content) in FILES {
        hasher.update(content);
    }
    let parent = home.join("shipped");
    let folder = parent.join(format!("{SHIPPED}-{}", &hasher.finalize().to_hex()[..8]));
    let whole = |(name, content): &(&str, &[u8])| {
        folder.join(name).metadata().is_ok_and(|file| file.len() == content.len() as u64)
    };
    if FILES.iter().all(whole) {
        return Ok(folder);
    }
    let fail = |source| Error::io(&folder, source);
    std::fs::create_dir_all(&parent).map_err(fail)?;
    let unfinished = tempfile::tempdir_in(&parent).map_err(fail)?;
    for (name, content) in FILES {
        std::fs::write(unfinished.path().join(name), content).map_err(fail)?;
    }
    // What is there is damaged. Another process may put the folder in place first: then it is there all the same.
    let _ = std::fs::remove_dir_all(&folder);
    match std::fs::rename(unfinished.path(), &folder) {
        Err(source) if !FILES.iter().all(whole) => Err(fail(source)),
        _ => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_on_disk_once_and_mended() {
        let home = tempfile::tempdir().unwrap();
        let folder = unpacked(home.path()).unwrap();
        let weights = folder.join("adapter_model.safetensors");
        let written = weights.metadata().unwrap().modified().unwrap();
        assert_eq!(unpacked(home.path()).unwrap(), folder);
        assert_eq!(weights.metadata().unwrap().modified().unwrap(), written);
        std::fs::write(&weights, "cut off").unwrap();
        assert_eq!(unpacked(home.path()).unwrap(), folder);
        assert!(weights.metadata().unwrap().len() > 1 << 20);
        let left: Vec<_> = std::fs::read_dir(home.path().join("shipped")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
