//! Stable ids: content hashes for sources that have none.
//!
//! The hash is BLAKE3 over length-prefixed parts, so `["ab", "c"]` and `["a", "bc"]` differ; 16 hex digits keep
//! the chance of a collision below 1e-6 for five million records.

/// A content hash of `parts`, such as `p-6f1ed002ab559585`.
///
/// ```
/// let id = gradus_core::id::hashed("p", ["What is 1 + 1?"]);
/// assert_eq!(id, gradus_core::id::hashed("p", ["What is 1 + 1?"]));
/// assert!(id.starts_with("p-"));
/// ```
pub fn hashed<'a>(prefix: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{prefix}-{}", &hasher.finalize().to_hex()[..16])
}

/// The id of a problem that its source left nameless.
pub fn problem(text: &str) -> String {
    hashed("p", [text])
}

/// The id of a sample: its problem, who made it, which one it is, and a hash of seed and text. Samples of several
/// models or seeds therefore never share an id, and the same run again has the same ids.
///
/// ```
/// use gradus_core::id::sample;
/// let first = sample("p1", "qwen2.5-7b", 0, 7, "2 + 3 = 5");
/// assert!(first.starts_with("p1/qwen2.5-7b/0-"));
/// assert_ne!(first, sample("p1", "qwen2.5-7b", 0, 8, "2 + 3 = 5"));
/// ```
pub fn sample(problem_id: &str, generator: &str, index: usize, seed: u64, text: &str) -> String {
    let hash = hashed("", [seed.to_string().as_str(), text]);
    format!("{problem_id}/{generator}/{index}{}", &hash[..9])
}

/// The id of a solution that its source left nameless.
pub fn solution(problem_id: &str, generator: Option<&str>, steps: &[String]) -> String {
    hashed("s", [problem_id, generator.unwrap_or("")].into_iter().chain(steps.iter().map(String::as_str)))
}
