//! Limits on what is taken from files and servers, so that a few kilobytes cannot fill the memory.
//!
//! Each limit is an environment variable with a default that ordinary data does not reach. A number may end in `K`, `M`,
//! `G` or `T`, which are powers of 1,024. Whoever reaches a limit is told which one, and the variable that raises it.

use std::sync::OnceLock;

use crate::count::grouped;

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of one record, one row of a table, or one JSON file.
    RecordBytes,
    /// JSON values of one record, one answer of a server, or one JSON file: each number, text, list and object is one.
    RecordValues,
    /// Bytes of one answer of a server.
    AnswerBytes,
    /// How many times its size a compressed file may expand to, past its first [`FREE_EXPANSION`] bytes.
    Expansion,
    /// Bytes that a compressed file may expand to.
    ExpandedBytes,
}

/// Bytes that every compressed file may expand to, whatever its size: a short file of zeros is no attack.
pub const FREE_EXPANSION: u64 = 64 << 20;

impl Limit {
    /// All limits.
    pub const ALL: [Self; 5] =
        [Self::RecordBytes, Self::RecordValues, Self::AnswerBytes, Self::Expansion, Self::ExpandedBytes];

    /// The environment variable that sets it.
    pub fn variable(self) -> &'static str {
        match self {
            Self::RecordBytes => "GRADUS_MAX_RECORD_BYTES",
            Self::RecordValues => "GRADUS_MAX_RECORD_VALUES",
            Self::AnswerBytes => "GRADUS_MAX_ANSWER_BYTES",
            Self::Expansion => "GRADUS_MAX_EXPANSION",
            Self::ExpandedBytes => "GRADUS_MAX_EXPANDED_BYTES",
        }
    }

    /// Its value where the variable is not set.
    pub fn default_value(self) -> u64 {
        match self {
            Self::RecordBytes => 512 << 20,
            Self::RecordValues => 10_000_000,
            Self::AnswerBytes => 256 << 20,
            Self::Expansion => 500,
            Self::ExpandedBytes => 256 << 30,
        }
    }

    /// Its value. The environment is read once.
    pub fn value(self) -> u64 {
        static VALUES: OnceLock<[u64; 5]> = OnceLock::new();
        let set = |limit: Self| limit.set_by_user().unwrap_or_default().unwrap_or(limit.default_value());
        VALUES.get_or_init(|| Self::ALL.map(set))[self as usize]
    }

    /// What is said of something beyond the limit: what it is more than, and how to raise the limit.
    ///
    /// ```
    /// use gradus_core::limits::Limit;
    /// let words = format!("the record has {}", Limit::RecordValues.exceeded());
    /// assert!(words.ends_with("more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES to raise the limit"));
    /// ```
    pub fn exceeded(self) -> String {
        let value = self.value();
        let most = match self {
            Self::RecordValues => format!("{} JSON values", grouped(value)),
            Self::Expansion => format!("{} times its size", grouped(value)),
            Self::RecordBytes | Self::AnswerBytes | Self::ExpandedBytes => bytes(value),
        };
        format!("more than {most}: set {} to raise the limit", self.variable())
    }

    fn set_by_user(self) -> Result<Option<u64>, String> {
        let Some(text) = std::env::var_os(self.variable()).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.to_str().and_then(parse_bytes);
        number.map(Some).ok_or_else(|| {
            let (variable, text) = (self.variable(), text.to_string_lossy());
            format!("{variable} is `{text}`: expected a whole number of at least 1, such as 1000000 or 512M")
        })
    }
}

/// Says which variable has a value that is none.
pub fn check_environment() -> Result<(), String> {
    Limit::ALL.into_iter().try_for_each(|limit| limit.set_by_user().map(drop))
}

/// A whole number of at least 1, perhaps with a unit: `512`, `512M`, `512MiB`, `512 MB`. Units are powers of 1,024.
///
/// ```
/// use gradus_core::limits::parse_bytes;
/// assert_eq!((parse_bytes("2GB"), parse_bytes("1.5G")), (Some(2 << 30), None));
/// ```
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
    let (digits, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let number: u64 = digits.replace('_', "").parse().ok()?;
    // One more than a limit must be a number, too.
    number.checked_mul(1 << shift).filter(|number| (1..=i64::MAX as u64).contains(number))
}

/// A number of bytes in the largest unit that divides it.
fn bytes(number: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.into_iter().find(|(shift, _)| number >> shift > 0 && number.trailing_zeros() >= *shift);
    match fits {
        Some((shift, unit)) => format!("{} {unit}", grouped(number >> shift)),
        None => format!("{} bytes", grouped(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_units() {
        for (text, expected) in [
            ("1", Some(1)),
            ("10_000_000", Some(10_000_000)),
            (" 512M ", Some(512 << 20)),
            ("512 MiB", Some(512 << 20)),
            ("2gb", Some(2 << 30)),
            ("7B", Some(7)),
            ("0", None),
            ("", None),
            ("-1", None),
            ("1.5G", None),
            ("many", None),
            ("99999999999T", None),
            ("18446744073709551615", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_are_shown_in_units() {
        let shown = [512 << 20, 256 << 30, 1000, 1 << 40].map(bytes);
        assert_eq!(shown, ["512 MiB", "256 GiB", "1,000 bytes", "1 TiB"]);
    }

    #[test]
    fn limits_are_in_order() {
        for (place, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, place);
        }
    }
}
