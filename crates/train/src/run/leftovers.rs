//! What killed processes leave unfinished in a run folder. The next one that holds the run's lock removes it.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::error::io;

/// How names of unfinished files and folders began in runs of version 0.1.
const OLD_PREFIX: &str = ".unfinished-";

/// True for the name of an unfinished file or folder.
pub(super) fn is_leftover(name: &str) -> bool {
    name.starts_with(OLD_PREFIX) || gradus_durable::is_unfinished(Path::new(name))
}

/// Removes unfinished files and folders, and returns their number.
pub(super) fn remove(folder: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let entry = entry.map_err(io(folder))?;
        if !is_leftover(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.map_err(io(&path))?;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".unfinished-abc/deep")).unwrap();
        fs::write(root.path().join(".unfinished-file"), "x").unwrap();
        fs::write(root.path().join(".gradus-unfinished-x1"), "x").unwrap();
        gradus_durable::replace_file(&root.path().join("kept"), b"y").unwrap();
        assert_eq!(remove(root.path()).unwrap(), 3);
        assert_eq!(fs::read(root.path().join("kept")).unwrap(), b"y");
    }
}
