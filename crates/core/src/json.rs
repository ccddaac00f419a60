//! JSON within limits: values are counted before anything is built of them.
//!
//! A number that takes two bytes in a file takes 72 as a [`serde_json::Value`], an object several hundred. The
//! scanner allocates nothing. How deep values are nested is limited by serde_json, to 128 levels.

use memchr::memchr2;
use serde::de::{DeserializeOwned, Error as _};

use crate::limits::Limit;

/// Finds where a JSON object or list ends, and counts the values in it. It does not check that it is valid.
///
/// ```
/// use gradus_core::json::JsonScanner;
/// let mut scanner = JsonScanner::default();
/// assert_eq!(scanner.scan(br#"{"a": [1, 2"#), (11, false));
/// assert_eq!(scanner.scan(br#"], "b": "}"} and more"#), (12, true));
/// assert_eq!(scanner.values(), 5);
/// ```
#[derive(Debug, Clone, Default)]
pub struct JsonScanner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    commas_and_openings: u64,
}

impl JsonScanner {
    /// Reads on, up to the bracket that closes the first one. Says how many bytes that took, and whether it is closed.
    pub fn scan(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            // Most bytes are inside strings, where only two matter.
            if self.in_string && !self.escaped {
                match memchr2(b'"', b'\\', &bytes[at..]) {
                    Some(skip) => at += skip,
                    None => return (bytes.len(), false),
                }
            }
            let byte = bytes[at];
            at += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    _ => self.in_string = false,
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b',' => self.commas_and_openings += 1,
                b'{' | b'[' => {
                    self.commas_and_openings += 1;
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (at, true);
                    }
                }
                _ => {}
            }
        }
        (at, false)
    }

    /// Values so far: a list or object of `n > 0` values has `n - 1` commas. One that is empty counts as if it had one.
    pub fn values(&self) -> u64 {
        self.commas_and_openings + 1
    }
}

/// Refuses JSON with more values than [`Limit::RecordValues`].
pub fn check_values(bytes: &[u8]) -> Result<(), String> {
    let most = Limit::RecordValues.value();
    // There are fewer values than bytes.
    if bytes.len() as u64 > most && count(bytes) > most {
        return Err(Limit::RecordValues.exceeded());
    }
    Ok(())
}

fn count(bytes: &[u8]) -> u64 {
    let (mut scanner, mut at) = (JsonScanner::default(), 0);
    while at < bytes.len() {
        at += scanner.scan(&bytes[at..]).0;
    }
    scanner.values()
}

/// As [`serde_json::from_slice`], for what others wrote: more values than [`Limit::RecordValues`] are refused.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    check_values(bytes).map_err(|limit| serde_json::Error::custom(format!("it has {limit}")))?;
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn values_of(value: &Value) -> u64 {
        1 + match value {
            Value::Array(items) => items.iter().map(values_of).sum::<u64>().max(1),
            Value::Object(map) => map.values().map(values_of).sum::<u64>().max(1),
            _ => 0,
        }
    }

    #[test]
    fn values_are_counted_wherever_the_text_is_cut() {
        let text = r#"{"a": [1, [2, "x,\"[{,"], {}], "b\\": {"c": null, "d": [[], "}"]}}"#;
        let expected = values_of(&serde_json::from_str(text).unwrap());
        assert_eq!(count(text.as_bytes()), expected);
        for cut in 0..text.len() {
            let mut scanner = JsonScanner::default();
            let (used, closed) = scanner.scan(&text.as_bytes()[..cut]);
            assert_eq!((used, closed), (cut, false));
            assert_eq!(scanner.scan(&text.as_bytes()[cut..]), (text.len() - cut, true), "cut at {cut}");
            assert_eq!(scanner.values(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn brackets_that_do_not_match_are_counted_all_the_same() {
        assert_eq!(count(b"]]]],,[["), 5);
        assert_eq!(count(b""), 1);
    }

    #[test]
    fn too_many_values_are_refused_before_they_are_built() {
        let most = Limit::RecordValues.default_value() as usize;
        let mut text = vec![b'['];
        text.extend_from_slice(&b"0,".repeat(most));
        text.extend_from_slice(b"0]");
        let refused = from_slice::<Value>(&text).unwrap_err().to_string();
        assert_eq!(
            refused,
            "it has more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES to raise the limit"
        );
        let long = format!("\"{}\"", ",".repeat(most + 10));
        assert!(from_slice::<Value>(long.as_bytes()).is_ok(), "commas inside of a text are no values");
    }
}
