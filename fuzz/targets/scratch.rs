//! A folder in memory, where the machine has such a file system, for this process alone.

use std::path::PathBuf;

/// The folder, empty.
pub fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("gradus-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
    folder
}

/// The folder with a copy of what is in `fuzz/../PATH`.
#[allow(dead_code)]
pub fn copy_of(path: &str) -> PathBuf {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let to = folder();
    for entry in std::fs::read_dir(&from).expect("the folder to copy is there") {
        let entry = entry.expect("it can be read");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("it can be copied");
    }
    to
}
