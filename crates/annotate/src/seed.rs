//! Random seeds of parts of a job.

/// A seed of its own for each part of the work, so that the order in which parts are done does not matter.
pub(crate) fn seed_of(seed: u64, parts: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    // Servers read a signed number, and samples add their own numbers to it.
    u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("eight bytes")) >> 2
}
