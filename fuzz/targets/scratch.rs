//! A folder for this process alone, in the system's folder for temporary files: `fuzz/run.sh` names one in memory, and
//! removes it.

use std::path::PathBuf;

/// The folder, empty.
pub fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gradus-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
    folder
}

/// A folder in it with a copy of what is in `PATH` of the repository: the one that we are in, or that we were built in.
#[allow(dead_code)]
pub fn copy_of(path: &str) -> PathBuf {
    let here = PathBuf::from(path);
    let from =
        if here.is_dir() { here } else { PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path) };
    let to = folder().join("copy");
    std::fs::create_dir(&to).expect("the scratch folder can be written");
    for entry in std::fs::read_dir(&from).expect("the folder to copy is there") {
        let entry = entry.expect("it can be read");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("it can be copied");
    }
    to
}
