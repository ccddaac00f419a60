//! The instructions of a template with checks between them.
//!
//! A check is a call of a function whose name no template can write. `a ~ b`, with both on the stack, becomes
//!
//! ```text
//! %read  Swap  %read  Swap  StringConcat  %made
//! ```
//!
//! Jumps are moved along. `*`, slices, filters and tests are calls of such functions altogether.

use std::sync::Arc;

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Object, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::keep;
use crate::meter::{namespace, settled, spend, spend_value, write};

const READ: &str = "%read";
const MADE: &str = "%made";
const WRITTEN: &str = "%written";
const MULTIPLY: &str = "%multiply";
const SLICE: &str = "%slice";

/// A function that checks.
#[derive(Debug)]
enum Check {
    Read,
    Made,
    Written,
    Multiply,
    Slice,
    Namespace(Value),
    Filter(String),
    Test(String),
}

impl Object for Check {
    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let read_all = || args.iter().try_for_each(|value| spend_value(value).map(drop));
        match (&**self, args) {
            (Self::Read, [value]) => spend_value(value).map(|_| value.clone()),
            (Self::Made, [value]) => settled(value.clone()),
            (Self::Written, [value]) => {
                spend_value(value)?;
                // The text of a string is known; that of another value is of the size of what it was charged.
                write(value.as_str().map_or(0, str::len))?;
                Ok(value.clone())
            }
            (Self::Multiply, [left, right]) => multiply(left, right),
            (Self::Slice, [value, start, stop, step]) => slice(value, start, stop, step),
            (Self::Namespace(builtin), _) => {
                namespace()?;
                builtin.call(state, args)
            }
            (Self::Filter(name), _) => {
                read_all()?;
                state.apply_filter(name, args).map_err(|error| of(error, "filter", name)).and_then(settled)
            }
            (Self::Test(name), _) => {
                read_all()?;
                let passed = state.perform_test(name, args).map_err(|error| of(error, "test", name));
                passed.map(Value::from)
            }
            _ => Err(Error::new(ErrorKind::InvalidOperation, "a check has other arguments than expected")),
        }
    }
}

/// minijinja names an unknown filter only in the instruction that is replaced here.
fn of(error: Error, what: &str, name: &str) -> Error {
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest if error.detail().is_none() => {
            Error::new(error.kind(), format!("{what} {name} is unknown"))
        }
        _ => error,
    }
}

/// Adds the functions that every template needs.
pub(crate) fn add_checks(environment: &mut Environment<'static>) {
    let builtin = environment.globals().find(|(name, _)| *name == "namespace").map(|(_, value)| value);
    let builtin = builtin.expect("minijinja has `namespace`");
    for (name, check) in [
        (READ, Check::Read),
        (MADE, Check::Made),
        (WRITTEN, Check::Written),
        (MULTIPLY, Check::Multiply),
        (SLICE, Check::Slice),
        ("namespace", Check::Namespace(builtin)),
    ] {
        environment.add_global(name, Value::from_object(check));
    }
}

/// The same instructions with checks; those for the filters and tests that they name are added to the environment.
pub(crate) fn metered(
    plain: &Instructions<'static>,
    environment: &mut Environment<'static>,
) -> Result<Instructions<'static>, Error> {
    let mut out = Instructions::new(plain.name(), plain.source());
    let mut moved = Vec::new();
    let mut length = 0;
    for index in 0.. {
        moved.push(length);
        let Some(instruction) = plain.get(index) else { break };
        for each in with_checks(instruction, environment)? {
            length = 1 + match (plain.get_span(index), plain.get_line(index)) {
                (Some(span), _) => out.add_with_span(each, span),
                (None, Some(line)) => out.add_with_line(each, u16::try_from(line).unwrap_or(u16::MAX)),
                (None, None) => out.add(each),
            };
        }
    }
    for index in 0..length {
        if let Some(
            Instruction::Iterate(target)
            | Instruction::Jump(target)
            | Instruction::JumpIfFalse(target)
            | Instruction::JumpIfFalseOrPop(target)
            | Instruction::JumpIfTrueOrPop(target)
            | Instruction::BuildMacro(_, target, _),
        ) = out.get_mut(index)
        {
            *target = moved.get(*target as usize).copied().unwrap_or(*target);
        }
    }
    Ok(out)
}

fn with_checks(
    instruction: &Instruction<'static>,
    environment: &mut Environment<'static>,
) -> Result<Vec<Instruction<'static>>, Error> {
    use Instruction as I;
    let read = || I::CallFunction(READ, Some(1));
    let made = || I::CallFunction(MADE, Some(1));
    let itself = instruction.clone();
    Ok(match instruction {
        I::Add | I::StringConcat => vec![read(), I::Swap, read(), I::Swap, itself, made()],
        I::Eq | I::Ne | I::Gt | I::Gte | I::Lt | I::Lte | I::In | I::CompareAndPreserve(_) => {
            vec![read(), I::Swap, read(), I::Swap, itself]
        }
        I::Mul => vec![I::CallFunction(MULTIPLY, Some(2))],
        I::Slice => vec![I::CallFunction(SLICE, Some(4))],
        I::BuildList(_) | I::BuildTuple(_) | I::BuildMap(_) | I::EndCapture => vec![itself, made()],
        I::CallFunction(..) | I::CallMethod(..) | I::CallObject(_) => vec![itself, made()],
        I::GetItem | I::PushLoop(_) | I::UnpackList(_) | I::UnpackLists(1) => vec![read(), itself],
        I::UnpackLists(2) => vec![read(), I::Swap, read(), I::Swap, itself],
        I::UnpackLists(_) => {
            let message = "the template's limit of two unpacked lists in one call is exceeded";
            return Err(Error::new(ErrorKind::SyntaxError, message));
        }
        I::Emit => vec![I::CallFunction(WRITTEN, Some(1)), itself],
        I::EmitRaw(text) => {
            let charge = [I::LoadConst((*text).into()), I::CallFunction(WRITTEN, Some(1)), I::DiscardTop];
            charge.into_iter().chain([itself]).collect()
        }
        I::ApplyFilter(name, count, _) => {
            let name: String = name.split_ascii_whitespace().collect();
            let function = keep(&format!("|{name}"));
            environment.add_global(function, Value::from_object(Check::Filter(name)));
            vec![I::CallFunction(function, *count)]
        }
        I::PerformTest(name, count, _) => {
            let name: String = name.split_ascii_whitespace().collect();
            let function = keep(&format!("is {name}"));
            environment.add_global(function, Value::from_object(Check::Test(name)));
            vec![I::CallFunction(function, *count)]
        }
        _ => vec![itself],
    })
}

/// `left * right`: numbers, or a string or list that is repeated.
fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let repeatable =
        |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
    let (repeated, times) = match (repeatable(left), repeatable(right)) {
        (true, _) => (left, right),
        (_, true) => (right, left),
        _ => return product(left, right),
    };
    let times = i64::try_from(times.clone()).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, "strings and lists can only be multiplied with integers")
    })?;
    let times = usize::try_from(times).unwrap_or(0);
    let items = spend_value(repeated)?;
    if let Some(text) = repeated.as_str() {
        spend(text.len().saturating_mul(times))?;
        return Ok(text.repeat(times).into());
    }
    spend(items.saturating_mul(times).saturating_mul(crate::meter::ITEM))?;
    let list: Vec<Value> = repeated.try_iter()?.collect();
    Ok((0..times).flat_map(|_| list.iter().cloned()).collect::<Vec<Value>>().into())
}

fn product(left: &Value, right: &Value) -> Result<Value, Error> {
    let failed = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("unable to multiply: {what}"));
    if let (Ok(a), Ok(b)) = (i128::try_from(left.clone()), i128::try_from(right.clone()))
        && left.is_integer()
        && right.is_integer()
    {
        let product = a.checked_mul(b).ok_or_else(|| failed("the number is too large"))?;
        return Ok(i64::try_from(product).map_or_else(|_| product.into(), Value::from));
    }
    match (f64::try_from(left.clone()), f64::try_from(right.clone())) {
        (Ok(a), Ok(b)) => Ok((a * b).into()),
        _ => Err(failed(&format!("{} and {}", left.kind(), right.kind()))),
    }
}

/// `value[start:stop:step]` as Python has it.
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let number = |value: &Value| {
        if value.is_none() || value.is_undefined() {
            return Ok(None);
        }
        i64::try_from(value.clone()).map(Some)
    };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "cannot slice by step size of 0"));
    }
    let items = spend_value(value)?;
    let places = |length: usize| {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |given: Option<i64>, default: i64| match given {
            None => default,
            Some(place) if place < 0 => (place.saturating_add(length)).clamp(low, high),
            Some(place) => place.clamp(low, high),
        };
        let (first, last) = if step > 0 { (low, high) } else { (high, low) };
        let (mut next, end) = (place(start, first), place(stop, last));
        std::iter::from_fn(move || {
            let here = if step > 0 { next < end } else { next > end };
            let place = usize::try_from(next).ok().filter(|_| here)?;
            next = next.saturating_add(step);
            Some(place)
        })
    };
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            // A character is four bytes here.
            spend(text.len().saturating_mul(4))?;
            let letters: Vec<char> = text.chars().collect();
            Ok(places(letters.len()).map(|place| letters[place]).collect::<String>().into())
        }
        ValueKind::Seq | ValueKind::Iterable => {
            spend(items.saturating_mul(crate::meter::ITEM))?;
            let list: Vec<Value> = value.try_iter()?.collect();
            let chosen = places(list.len()).map(|place| list[place].clone());
            Ok(chosen.collect::<Vec<Value>>().into())
        }
        ValueKind::Undefined | ValueKind::None => Ok(Vec::<Value>::new().into()),
        other => {
            let message = format!("value of type {other} cannot be sliced");
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    }
}
