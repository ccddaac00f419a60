//! Numbers of things in sentences.

/// A number with its noun, in the singular or the plural.
///
/// ```
/// use gradus_core::counted;
/// assert_eq!(counted(1, "label"), "1 label");
/// assert_eq!(counted(0, "problem"), "0 problems");
/// assert_eq!(counted(2, "query"), "2 queries");
/// assert_eq!(counted(3, "batch"), "3 batches");
/// ```
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 {
        return format!("1 {noun}");
    }
    let consonant_before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_before_y {
        Some(stem) => format!("{number} {stem}ies"),
        None if noun.ends_with(['s', 'x', 'z']) || noun.ends_with("ch") || noun.ends_with("sh") => {
            format!("{number} {noun}es")
        }
        None => format!("{number} {noun}s"),
    }
}
