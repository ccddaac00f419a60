//! Files of a model that are read whole, such as `config.json` and `tokenizer.json`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use gradus_core::json;
use gradus_core::limits::Limit;

use crate::error::{Error, Result};

/// The bytes of a file, at most [`Limit::RecordBytes`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::io(path, source);
    let most = Limit::RecordBytes.value();
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(Error::model(path, format!("the file has {}", Limit::RecordBytes.exceeded())));
    }
    Ok(bytes)
}

/// The bytes of a JSON file, of at most [`Limit::RecordValues`] values.
pub(crate) fn read_json(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    json::check_values(&bytes).map_err(|limit| Error::model(path, format!("the file has {limit}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_refused_before_it_is_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let most = Limit::RecordValues.default_value() as usize;
        std::fs::write(&path, format!("[{}0]", "0,".repeat(most))).unwrap();
        let said = crate::config::DecoderConfig::from_folder(folder.path()).unwrap_err().to_string();
        assert!(said.contains("more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES"), "{said}");
        let said = crate::text::Tokenizer::from_folder(folder.path()).unwrap_err().to_string();
        assert!(!said.contains("JSON values"), "{said}");
        std::fs::rename(&path, folder.path().join("tokenizer.json")).unwrap();
        let said = crate::text::Tokenizer::from_folder(folder.path()).unwrap_err().to_string();
        assert!(said.contains("tokenizer.json") && said.contains("GRADUS_MAX_RECORD_VALUES"), "{said}");
    }
}
