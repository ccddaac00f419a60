//! Tells a model's files from other models'.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::trained::{self, TrainedModel};
use crate::{Error, Result};

/// Files up to this size are read whole.
const WHOLE: u64 = 256 << 20;
/// Of larger ones these many blocks of this size, evenly spread.
const BLOCKS: u64 = 256;
const BLOCK: u64 = 64 << 10;
/// The files that make a model what it is.
const KINDS: [&str; 4] = ["safetensors", "gguf", "json", "txt"];

/// A hash of a model's weights, configuration and vocabulary, and of its adapter's. Names and contents count, locations do
/// not. Of files above 256 MiB only their size and 256 blocks are read, so that 15 GB cost no noticeable time.
pub fn fingerprint(model: &Path, adapter: Option<&Path>) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for (kind, root) in [("model", Some(model)), ("adapter", adapter)] {
        let Some(root) = root else { continue };
        hasher.update(kind.as_bytes());
        let mut files = Vec::new();
        collect(root, Path::new(""), &mut files)?;
        files.sort();
        for (name, path) in files {
            // A model that is one file is known by its content alone: it may lie under any name.
            if path != root {
                hasher.update(name.to_string_lossy().as_bytes());
            }
            add(&mut hasher, &path).map_err(|source| Error::io(&path, source))?;
        }
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

fn collect(path: &Path, name: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    let fail = |source| Error::io(path, source);
    if path.is_file() {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if name.as_os_str().is_empty() || KINDS.contains(&kind) {
            files.push((name.to_owned(), path.to_owned()));
        }
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // A link to a folder may lead anywhere, also back.
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) && entry.path().is_dir() {
            continue;
        }
        collect(&entry.path(), &name.join(entry.file_name()), files)?;
    }
    Ok(())
}

fn add(hasher: &mut blake3::Hasher, path: &Path) -> std::io::Result<()> {
    if path.file_name().is_some_and(|name| name == trained::FILE)
        && let Some(text) = TrainedModel::about_scores(&std::fs::read_to_string(path)?)
    {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        return Ok(());
    }
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    hasher.update(&size.to_le_bytes());
    if size <= WHOLE {
        hasher.update_reader(file)?;
        return Ok(());
    }
    for block in 0..BLOCKS {
        file.seek(SeekFrom::Start(block * (size - BLOCK) / (BLOCKS - 1)))?;
        hasher.update_reader((&mut file).take(BLOCK))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_and_the_place_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, weights: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.join("1_Pooling")).unwrap();
            std::fs::write(path.join("model.safetensors"), weights).unwrap();
            std::fs::write(path.join("1_Pooling/config.json"), "{}").unwrap();
            path
        };
        let (a, b, c) = (make("a", "weights"), make("b", "weights"), make("c", "others"));
        let of = |path: &Path, adapter: Option<&Path>| fingerprint(path, adapter).unwrap();
        std::fs::write(b.join("README.md"), "words").unwrap();
        assert_eq!(of(&a, None), of(&b, None));
        assert_ne!(of(&a, None), of(&c, None));
        assert_ne!(of(&a, None), of(&a, Some(&c)));
        std::fs::write(b.join("1_Pooling/config.json"), "{ }").unwrap();
        assert_ne!(of(&a, None), of(&b, None));
        assert!(fingerprint(&folder.path().join("none"), None).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn a_decision_rule_makes_no_other_model() {
        let folder = tempfile::tempdir().unwrap();
        TrainedModel::new("prm", "org/base").write(folder.path()).unwrap();
        let before = fingerprint(folder.path(), None).unwrap();
        TrainedModel::decide(folder.path(), gradus_core::select::DecisionRule::default()).unwrap();
        assert_eq!(fingerprint(folder.path(), None).unwrap(), before);
        TrainedModel::new("prm", "org/other").write(folder.path()).unwrap();
        assert_ne!(fingerprint(folder.path(), None).unwrap(), before);
    }

    #[test]
    fn a_large_file_is_known_by_its_blocks_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let file = File::create(&path).unwrap();
        file.set_len(WHOLE + 1).unwrap();
        let first = fingerprint(&path, None).unwrap();
        file.set_len(WHOLE + 2).unwrap();
        assert_ne!(first, fingerprint(&path, None).unwrap());
        std::os::unix::fs::FileExt::write_at(&file, b"x", WHOLE).unwrap();
        assert_ne!(first, fingerprint(&path, None).unwrap());
    }
}
