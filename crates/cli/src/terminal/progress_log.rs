//! Progress as a line of text, for logs that are read later.

use gradus_core::count::{grouped, percent_of};
use indicatif::HumanBytes;

/// How far work is.
pub(super) struct Position {
    /// Units done.
    pub(super) done: u64,
    /// All units; 0 where that is unknown.
    pub(super) total: u64,
    /// Whether a unit is a byte.
    pub(super) in_bytes: bool,
    /// Units per second.
    pub(super) rate: f64,
}

impl Position {
    /// `12,345/5,000,000 (0.2 %), 411/s, 3 h 22 min left, MESSAGE`.
    pub(super) fn line(&self, message: &str) -> String {
        let Self { done, total, rate, .. } = *self;
        let mut parts = match total {
            0 => vec![self.amount(done as f64)],
            _ => {
                let share = percent_of(done as usize, total as usize);
                vec![format!("{}/{} ({share})", self.amount(done as f64), self.amount(total as f64))]
            }
        };
        parts.push(format!("{}/s", self.amount(rate)));
        if total > done && rate > 0.0 {
            parts.push(format!("{} left", duration((total - done) as f64 / rate)));
        }
        if !message.is_empty() {
            parts.push(message.to_owned());
        }
        parts.join(", ")
    }

    fn amount(&self, number: f64) -> String {
        if self.in_bytes { HumanBytes(number as u64).to_string() } else { rate(number) }
    }
}

/// `411`, and below ten `0.5`.
pub(crate) fn rate(number: f64) -> String {
    match number < 10.0 && number.fract() != 0.0 {
        true => format!("{number:.1}"),
        false => grouped(number.round() as u64),
    }
}

/// `3 h 22 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        0.0..90.0 => format!("{seconds:.0} s"),
        90.0..5400.0 => format!("{minutes} min"),
        _ => format!("{} h {} min", grouped(minutes / 60), minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_how_fast_and_how_long_it_takes() {
        let tasks = Position { done: 12_345, total: 5_000_000, in_bytes: false, rate: 411.2 };
        assert_eq!(tasks.line("7 tokens"), "12,345/5,000,000 (0.2 %), 411/s, 3 h 22 min left, 7 tokens");
        let slow = Position { done: 3, total: 40, rate: 0.5, ..tasks };
        assert_eq!(slow.line(""), "3/40 (7.5 %), 0.5/s, 74 s left");
        let unknown = Position { done: 7, total: 0, rate: 0.0, ..tasks };
        assert_eq!(unknown.line(""), "7, 0/s");
        let bytes = Position { done: 3 << 20, total: 4 << 20, in_bytes: true, rate: 1_048_576.0 };
        assert_eq!(bytes.line("9 records"), "3.00 MiB/4.00 MiB (75.0 %), 1.00 MiB/s, 1 s left, 9 records");
    }
}
