//! A file that is replaced in one step: readers see the old content or the new one, never a part.

use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file in one step: it is there as a whole or as it was.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("part");
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(Error::io(path))
}
