//! Filters and methods whose result may be much larger than what they are given, charged before they run.
//!
//! They are replaced in the environment, because `map('replace', …)` finds them there.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat;

use crate::meter::{ITEM, spend, spend_value};

/// The widest indentation of JSON.
const MAX_INDENT: usize = 64;

/// Puts bounded filters and methods in the place of minijinja's.
pub(crate) fn replace(environment: &mut Environment<'static>) {
    macro_rules! bounded {
        ($($name:ident),*) => {$(
            environment.add_filter(concat!("%", stringify!($name)), filters::$name);
            environment.add_filter(stringify!($name), |state: &mut State, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                charge(stringify!($name), &args)?;
                state.apply_filter(concat!("%", stringify!($name)), &args)
            });
        )*};
    }
    bounded!(
        batch, chain, format, groupby, indent, join, lines, list, map, pprint, reject, rejectattr, replace,
        select, selectattr, slice, sort, split, sum, tojson, unique, zip
    );
    environment.set_unknown_method_callback(|state, value, method, args| {
        let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
        all.iter().try_for_each(|value| spend_value(value).map(drop))?;
        match method {
            // The separator is the object, the list its argument.
            "join" => charge("join", &all.iter().rev().cloned().collect::<Vec<_>>())?,
            "replace" | "split" | "format" => charge(method, &all)?,
            "splitlines" => charge("lines", &all)?,
            _ => {}
        }
        pycompat::unknown_method_callback(state, value, method, args)
    });
}

/// Charges what a filter is going to make of its arguments.
fn charge(filter: &str, args: &[Value]) -> Result<(), Error> {
    let Some(value) = args.first() else { return Ok(()) };
    let text = value.as_str().unwrap_or_default();
    let argument = |index: usize| args.get(index).and_then(Value::as_str);
    // A width is given in its place or by its name.
    let number = |index: usize, name: &str| {
        let given = args.get(index).filter(|value| value.is_integer());
        let named = || args.last().and_then(|kwargs| kwargs.get_attr(name).ok()).filter(Value::is_integer);
        given.cloned().or_else(named).map_or(0, |value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    let cost = match filter {
        "replace" => match (argument(1), argument(2)) {
            (Some(from), Some(to)) => text.matches(from).count().saturating_mul(to.len()),
            // Numbers are short, and other values are as long as their text.
            _ => {
                let shown: usize = args.iter().skip(1).map(|value| value.to_string().len()).sum();
                (value.to_string().len() + 1).saturating_mul(shown)
            }
        },
        "join" => {
            let items = if text.is_empty() { spend_value(value)? } else { text.len().saturating_mul(ITEM) };
            items.saturating_mul(argument(1).map_or(0, str::len) + 1)
        }
        "indent" => {
            let width = if args.len() > 1 { number(1, "width") } else { 4 };
            (text.matches('\n').count() + 1).saturating_mul(width)
        }
        "tojson" => {
            let width = number(1, "indent");
            if width > MAX_INDENT {
                let message = "the template's limit of 64 spaces of indentation in tojson is exceeded";
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
            spend_value(value)?.saturating_mul(width).saturating_mul(32)
        }
        "pprint" => spend_value(value)?.saturating_mul(128),
        "format" => formatted(text, args)?,
        "batch" | "slice" => text.len().saturating_add(number(1, "count")).saturating_mul(ITEM),
        "split" => {
            let parts = match argument(1) {
                Some(separator) => text.matches(separator).count(),
                None => text.split_whitespace().count(),
            };
            (parts + 1).saturating_mul(ITEM)
        }
        "lines" => (text.matches('\n').count() + 1).saturating_mul(ITEM),
        // A string is iterated over letter by letter.
        _ => text.len().saturating_mul(ITEM),
    };
    spend(cost)
}

/// What a format makes at most: every placeholder may show every argument, padded to every width that is written.
fn formatted(text: &str, args: &[Value]) -> Result<usize, Error> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widths = numbers.map(|digits| digits.parse::<usize>().unwrap_or(usize::MAX));
    let widths = widths.fold(0, usize::saturating_add);
    let (mut depth, mut nested) = (0_usize, text.contains('*'));
    for letter in text.replace("{{", "").chars() {
        match letter {
            '{' => {
                nested |= depth > 0;
                depth += 1;
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let mut given = 0_usize;
    for value in args.iter().skip(1) {
        let items = spend_value(value)?.saturating_mul(ITEM);
        let is_width = nested && value.kind() == ValueKind::Number;
        let width = if is_width { usize::try_from(value.clone()).unwrap_or(usize::MAX) } else { 0 };
        given = given.saturating_add(items).saturating_add(value.as_str().map_or(0, str::len));
        given = given.saturating_add(width);
    }
    let placeholders = text.matches(['%', '{']).count();
    Ok(placeholders.saturating_mul(given).saturating_add(widths))
}
