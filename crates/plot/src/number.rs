//! Numbers with intervals, and how they are written.

/// How a chart's numbers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// Any number: `0.25`, `1200`, `2e-5`.
    #[default]
    Number,
    /// A number with three decimals, so that columns of them line up: `0.071`.
    Decimal,
    /// A whole number: `1,234`.
    Count,
    /// A share from 0 to 1, in per cent: `71.3 %`.
    Share,
    /// Points from 0 to 100: `71.3`.
    Score,
}

impl Unit {
    /// As short as beside an axis.
    pub(crate) fn tick(self, value: f64) -> String {
        match self {
            Unit::Number | Unit::Decimal => digits(value, 3),
            Unit::Count if value.abs() >= 1e4 => abbreviated(value, 2),
            Unit::Count => grouped(value),
            Unit::Share => format!("{}\u{202f}%", digits(value * 100.0, 3)),
            Unit::Score => digits(value, 3),
        }
    }

    /// As in a table or beside a mark.
    pub(crate) fn short(self, value: f64) -> String {
        match self {
            Unit::Number => digits(value, 3),
            Unit::Decimal => fixed(value, 3),
            Unit::Count => grouped(value),
            Unit::Share => format!("{}\u{202f}%", fixed(value * 100.0, 1)),
            Unit::Score => fixed(value, 1),
        }
    }

    /// With all digits that mean something, as under the pointer.
    pub(crate) fn exact(self, value: f64) -> String {
        match self {
            Unit::Number | Unit::Decimal => digits(value, 6),
            Unit::Count => grouped(value),
            Unit::Share => format!("{}\u{202f}%", fixed(value * 100.0, 2)),
            Unit::Score => fixed(value, 2),
        }
    }

    /// An interval, its unit written once: `69.8–72.9 %`.
    pub(crate) fn interval(self, (low, high): (f64, f64), write: fn(Unit, f64) -> String) -> String {
        let bare = if self == Unit::Share { write(Unit::Score, low * 100.0) } else { write(self, low) };
        let dash = if low < 0.0 || high < 0.0 { " to " } else { "–" };
        format!("{bare}{dash}{}", write(self, high))
    }

    /// What values of this unit cannot leave.
    pub(crate) fn bounds(self) -> (f64, f64) {
        match self {
            Unit::Number | Unit::Decimal => (f64::NEG_INFINITY, f64::INFINITY),
            Unit::Count => (0.0, f64::INFINITY),
            Unit::Share => (0.0, 1.0),
            Unit::Score => (0.0, 100.0),
        }
    }
}

/// A value, and an interval around it where one is known.
///
/// ```
/// use gradus_plot::Estimate;
///
/// assert_eq!(Estimate::exactly(0.5).interval, None);
/// assert_eq!(Estimate::between(0.5, 0.4, 0.6).interval, Some((0.4, 0.6)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value. One that is not finite counts as missing.
    pub value: f64,
    /// Low and high end of its interval.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// A value without an interval.
    pub fn exactly(value: f64) -> Self {
        Estimate { value, interval: None }
    }

    /// A value and its interval.
    pub fn between(value: f64, low: f64, high: f64) -> Self {
        Estimate { value, interval: Some((low, high)) }
    }

    /// Itself when the value can be drawn; an interval that cannot be drawn is taken off.
    pub(crate) fn drawable(self) -> Option<Self> {
        let finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
        self.value
            .is_finite()
            .then(|| Estimate { value: self.value, interval: self.interval.filter(|ends| finite(ends)) })
    }

    /// The value and the ends of the interval.
    pub(crate) fn all(self) -> impl Iterator<Item = f64> {
        std::iter::once(self.value).chain(self.interval.into_iter().flat_map(|(low, high)| [low, high]))
    }

    /// `71.34 (69.80–72.91)`.
    pub(crate) fn exact(self, unit: Unit) -> String {
        let value = unit.exact(self.value);
        self.interval.map_or(value.clone(), |ends| format!("{value} ({})", unit.interval(ends, Unit::exact)))
    }
}

/// What of these can be drawn, in place.
pub(crate) fn drawable(value: Option<Estimate>) -> Option<Estimate> {
    value.and_then(Estimate::drawable)
}

/// How many of these have no value, and how many have a value but an interval that is not finite, as sentences.
pub(crate) fn gaps(values: impl Iterator<Item = Option<Estimate>>) -> Vec<String> {
    let (mut missing, mut loose) = (0, 0);
    for value in values {
        match drawable(value) {
            None => missing += 1,
            Some(drawn) => {
                loose += usize::from(drawn.interval.is_none() && value.is_some_and(|v| v.interval.is_some()));
            }
        }
    }
    missing_note(missing)
        .into_iter()
        .chain((loose > 0).then(|| {
            let (intervals, are) =
                (counted(loose, "interval is", "intervals are"), if loose == 1 { "is" } else { "are" });
            format!("{intervals} not finite and {are} not drawn.")
        }))
        .collect()
}

/// The sentence about missing values, where there are any.
pub(crate) fn missing_note(missing: usize) -> Option<String> {
    match missing {
        0 => None,
        1 => Some("1 value is missing: a gap.".to_owned()),
        _ => Some(format!("{missing} values are missing: gaps.")),
    }
}

/// A count with its noun and verb in the singular or the plural: `1 point has`, `3 points have`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn fixed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    // What rounds to zero has no sign.
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    }
}

/// A number with so many significant digits at most, with an exponent where it is very small or large.
fn digits(value: f64, significant: usize) -> String {
    let size = value.abs();
    // Sums of steps miss 0 by a little.
    if size < 1e-12 {
        return "0".to_owned();
    }
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (1e-3..1e6).contains(&size) {
        let places = (significant as i32 - 1 - size.log10().floor() as i32).max(0) as usize;
        return trimmed(&format!("{value:.places$}"));
    }
    let text = format!("{value:.0$e}", significant - 1);
    text.split_once('e').map_or(text.clone(), |(digits, power)| format!("{}e{power}", trimmed(digits)))
}

/// `1,234,567`.
fn grouped(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let sign = if value < 0.0 && text != "0" { "-" } else { "" };
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}")
}

/// `12k`, `1.5M`.
pub(crate) fn abbreviated(value: f64, significant: usize) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", digits(value / 1e6, significant)),
        size if size >= 1e3 => format!("{}k", digits(value / 1e3, significant)),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_beside_an_axis() {
        let shown =
            [0.0, 1e-17, 0.25, 1200.0, 2.1e-5 - 0.1e-5, -1.25e6, 10.0, 100.0].map(|v| Unit::Number.tick(v));
        assert_eq!(shown, ["0", "0", "0.25", "1200", "2e-5", "-1.25e6", "10", "100"]);
        assert_eq!(
            [0.0, 0.25, 1.0].map(|v| Unit::Share.tick(v)),
            ["0\u{202f}%", "25\u{202f}%", "100\u{202f}%"]
        );
        assert_eq!(
            [999.0, 9999.0, 12_000.0, 2.5e6].map(|v| Unit::Count.tick(v)),
            ["999", "9,999", "12k", "2.5M"]
        );
    }

    #[test]
    fn numbers_as_under_the_pointer() {
        assert_eq!(Unit::Score.exact(71.344), "71.34");
        assert_eq!(Unit::Score.short(-0.04), "0.0");
        assert_eq!(Unit::Count.exact(1_234_567.0), "1,234,567");
        assert_eq!(Unit::Number.exact(0.123_456_7), "0.123457");
        assert_eq!(Unit::Number.exact(123.456), "123.456");
        assert_eq!(
            Estimate::between(0.713, 0.698, 0.729).exact(Unit::Share),
            "71.30\u{202f}% (69.80–72.90\u{202f}%)"
        );
        assert_eq!(Estimate::between(-1.0, -2.0, 0.5).exact(Unit::Number), "-1 (-2 to 0.5)");
    }

    #[test]
    fn what_is_missing_is_counted() {
        let values = [
            None,
            Some(Estimate::exactly(f64::NAN)),
            Some(Estimate::between(1.0, f64::NEG_INFINITY, 2.0)),
            Some(Estimate::exactly(1.0)),
        ];
        let notes = gaps(values.into_iter());
        assert_eq!(notes, ["2 values are missing: gaps.", "1 interval is not finite and is not drawn."]);
    }
}
