//! Keyword arguments are the command line's options: `key_env="KEY"` is `--key-env KEY`.
//!
//! The same parser reads them, so a name, a default, a conflict between two or a wrong value is what it is there.

use clap::error::ErrorKind;
use clap::{Args, Command};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

/// A keyword argument.
pub(crate) type Keyword<'py> = (String, Bound<'py, PyAny>);

/// Reads options of the group `T`, which the class `what` is made with: those with a name of their own, and others.
pub(crate) fn options<'py, T: Args>(
    what: &'static str,
    named: impl IntoIterator<Item = (&'static str, Option<Bound<'py, PyAny>>)>,
    others: Vec<Keyword<'py>>,
) -> PyResult<T> {
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let given: Vec<Keyword<'py>> = named.chain(others).collect();
    let command = T::augment_args(Command::new(what).disable_help_flag(true));
    let known: Vec<String> =
        command.get_arguments().filter_map(|option| option.get_long()).map(in_python).collect();
    let mut line = vec![what.to_owned()];
    for (name, value) in &given {
        if !known.contains(name) {
            let known = known.join(", ");
            return Err(PyTypeError::new_err(format!("{what} has no argument `{name}`: it has {known}")));
        }
        add(&mut line, name, value)?;
    }
    let matches = command.try_get_matches_from(line).map_err(|error| refused(&error))?;
    T::from_arg_matches(&matches).map_err(|error| refused(&error))
}

/// The keyword arguments of a call that are not None.
pub(crate) fn keywords<'py>(given: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<Keyword<'py>>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let given = given.iter().filter(|(_, value)| !value.is_none());
    given.map(|(name, value)| Ok((name.extract()?, value))).collect()
}

/// An option's name as Python writes it.
fn in_python(long: &str) -> String {
    long.replace('-', "_")
}

/// Adds one option: a list repeats it, True is the bare option, False leaves it out.
fn add(line: &mut Vec<String>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let option = format!("--{}", name.replace('_', "-"));
    if let Ok(value) = value.cast::<PyBool>() {
        line.extend(value.is_true().then_some(option));
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        for value in value.try_iter()? {
            line.push(format!("{option}={}", value?.str()?));
        }
    } else {
        line.push(format!("{option}={}", value.str()?));
    }
    Ok(())
}

/// The parser's message in one line, with the names of Python.
fn refused(error: &clap::Error) -> PyErr {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    let message = words.join(" ");
    match error.kind() {
        ErrorKind::UnknownArgument => PyTypeError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}
