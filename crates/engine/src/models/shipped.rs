//! The reward model that the program carries: an adapter of ten megabytes for a small base, put on disk when it is first
//! used, so that it is a model folder like any other (Python's PEFT reads it, too).

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The name of the reward model that the program carries.
pub const SHIPPED: &str = "gradus-prm";
/// The profile that it was trained with.
pub const SHIPPED_PROFILE: &str = "gradus";

const CARD: &str = "README.md";
const FILES: [(&str, &[u8]); 4] = [
    ("adapter_config.json", include_bytes!("../../../../assets/prm/adapter_config.json")),
    ("adapter_model.safetensors", include_bytes!("../../../../assets/prm/adapter_model.safetensors")),
    ("gradus.json", include_bytes!("../../../../assets/prm/gradus.json")),
    (CARD, include_bytes!("../../../../assets/prm/README.md")),
];

/// Where it lies under `home` when it has been used: other weights have another folder.
pub(super) fn folder(home: &Path) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    for (name, content) in FILES {
        if name != CARD {
            hasher.update(content);
        }
    }
    home.join("shipped").join(format!("{SHIPPED}-{}", &hasher.finalize().to_hex()[..8]))
}

/// Its bytes.
pub(super) fn size() -> u64 {
    FILES.iter().map(|(_, content)| content.len() as u64).sum()
}

/// Its folder under `home`, with everything in it. Each file appears whole, whoever else is at it; one that is missing or
/// damaged, or another card beside the same weights, is replaced.
pub(super) fn unpacked(home: &Path) -> Result<PathBuf> {
    let folder = folder(home);
    let whole = |(name, content): &(&str, &[u8])| {
        folder.join(name).metadata().is_ok_and(|file| file.len() == content.len() as u64)
    };
    if FILES.iter().all(whole) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|source| {
        Error::model(
            &folder,
            format!("cannot be made ({source}): set GRADUS_HOME to a folder that you may write"),
        )
    })?;
    for file @ (name, content) in &FILES {
        if !whole(file) {
            gradus_durable::replace_file(&folder.join(name), content)?;
        }
    }
    Ok(folder)
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

    #[test]
    fn many_at_once_do_not_break_it() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        let folder = unpacked(home.path()).unwrap();
                        FILES.iter().for_each(|(name, content)| {
                            assert_eq!(std::fs::read(folder.join(name)).unwrap(), *content);
                        });
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
        });
    }
}
