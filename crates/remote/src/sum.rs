//! sha256 of files, and the comparison with what was expected.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{Error, Events, Result};

/// Hashes a file piece by piece and says how far it is.
pub fn sha256(path: &Path, events: &mut Events<'_>) -> Result<String> {
    let io = |error| Error::local(path, error);
    let mut file = std::fs::File::open(path).map_err(io)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let read = file.read(&mut piece).map_err(io)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&piece[..read]);
        done += read as u64;
        events.at(done);
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True for 64 hexadecimal digits: what the hub calls a large file by.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Refuses a file whose sum is not the expected one.
pub fn check(path: &Path, file: &str, expected: &str, found: &str) -> Result<()> {
    if expected.eq_ignore_ascii_case(found) {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "{}: {file} is damaged or another file: its sha256 is {found}, expected {expected}",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let mut seen = Vec::new();
        let found = sha256(&path, &mut Events::new(&mut |event| seen.push(format!("{event:?}")))).unwrap();
        // FIPS 180-4, example of one block.
        assert_eq!(found, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(seen, ["At(3)"]);
        assert!(is_sha256(&found) && !is_sha256("abc"));
        assert!(check(&path, "abc", &found.to_uppercase(), &found).is_ok());
        let error = check(&path, "abc", "0000", &found).unwrap_err().to_string();
        assert!(error.ends_with(&format!("its sha256 is {found}, expected 0000")), "{error}");
    }
}
