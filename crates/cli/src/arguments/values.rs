//! Parsers of option values.

pub(crate) use gradus_backend::{at_least_one, cache_size, count, count_or_none};
use gradus_core::steps::Strategy;

/// Finds a thing by its name, and lists the names there are when it is unknown.
pub(crate) fn named<T: Copy>(name: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|item| name_of(*item) == name);
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|item| name_of(*item)).collect();
        format!("`{name}` is not one of {}", known.join(", "))
    })
}

/// A step-splitting strategy by its name.
pub(crate) fn strategy(name: &str) -> Result<Strategy, String> {
    named(name, &Strategy::ALL, Strategy::name)
}

/// As [`count`], for options that have their own words for 0.
pub(crate) fn count_u32(text: &str) -> Result<u32, String> {
    count_or_none(text).map(|number| number as u32)
}

/// A number that scores are compared with.
pub(crate) fn finite(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or(format!("`{text}` is not a finite number"))
}

/// A factor.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or(format!("`{text}` is not a finite number above 0"))
}

/// A sampling temperature.
pub(crate) fn temperature(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number >= 0.0);
    number.ok_or(format!("`{text}` is not a number of at least 0"))
}

/// A share of probability.
pub(crate) fn top_p(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| *number > 0.0 && *number <= 1.0);
    number.ok_or(format!("`{text}` is not a number above 0 and at most 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_numbers_are_refused() {
        assert_eq!(count("1000000"), Ok(1_000_000));
        assert_eq!(count("1000001").unwrap_err(), "at most 1,000,000");
        assert_eq!(count_or_none("0"), Ok(0));
        assert!(at_least_one("18446744073709551615").is_err());
        for text in ["18446744073709551616", "-1", "nan", ""] {
            assert!(
                count(text).is_err() && count_or_none(text).is_err() && count_u32(text).is_err(),
                "{text}"
            );
        }
        for text in ["nan", "inf", "-inf", "1e400", "x"] {
            assert!(finite(text).is_err() && temperature(text).is_err() && top_p(text).is_err(), "{text}");
        }
        assert_eq!((finite("-3"), temperature("0"), top_p("1")), (Ok(-3.0), Ok(0.0), Ok(1.0)));
        assert!(temperature("-1").is_err() && top_p("0").is_err());
    }
}
