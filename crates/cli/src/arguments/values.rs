//! Parsers of option values.

pub(crate) use gradus_backend::at_least_one;
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
