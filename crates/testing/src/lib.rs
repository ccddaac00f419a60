//! What tests of several crates share: where the real datasets are.

use std::path::PathBuf;

/// The folder of real datasets: `GRADUS_DATA`, or `shared/data` beside the checkout. Says so when it is absent.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub fn real_data() -> Option<PathBuf> {
    let folder = std::env::var_os("GRADUS_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no real datasets at {} (set GRADUS_DATA)", folder.display());
    None
}
