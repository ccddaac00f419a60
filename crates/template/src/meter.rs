//! What a rendering has left to spend. It runs in one thread from beginning to end, so its meter is the thread's.

use std::cell::Cell;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Instructions of a rendering, checks included.
pub(crate) const INSTRUCTIONS: u64 = 5_000_000;
/// Bytes of values that are made or read, whatever the input.
const WORK: usize = 256 << 20;
/// Bytes of text that is written, whatever the input.
const WRITTEN: usize = 32 << 20;
/// How deep lists and dictionaries may be nested: dropping them takes the stack.
const DEPTH: usize = 32;
/// Namespaces can be chained, which no look at one of them shows.
const NAMESPACES: usize = 128;
/// What one value counts besides its text.
pub(crate) const ITEM: usize = 64;

#[derive(Clone, Copy, Default)]
struct Meter {
    work: usize,
    written: usize,
    namespaces: usize,
}

thread_local! {
    static METER: Cell<Meter> = Cell::default();
}

/// Runs `work` with a full meter, whose limits grow with the size of `input`.
pub(crate) fn within<T>(input: &Value, work: impl FnOnce() -> T) -> T {
    METER.set(Meter { work: usize::MAX, ..Meter::default() });
    // What is nested too deep is refused where the template uses it.
    let _ = spend_value(input);
    let size = usize::MAX - METER.get().work;
    METER.set(Meter {
        work: WORK.saturating_add(size.saturating_mul(64)),
        written: WRITTEN.saturating_add(size.saturating_mul(8)),
        namespaces: NAMESPACES,
    });
    let outcome = work();
    METER.take();
    outcome
}

fn exceeded(limit: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the template's limit of {limit} is exceeded"))
}

/// An error with the name of the limit where minijinja's own counter ran out.
pub(crate) fn named(error: Error) -> Error {
    if error.kind() == ErrorKind::OutOfFuel {
        exceeded(&format!("{INSTRUCTIONS} instructions"))
    } else {
        error
    }
}

fn take(field: impl FnOnce(&mut Meter) -> &mut usize, amount: usize, limit: &str) -> Result<(), Error> {
    let mut meter = METER.get();
    let left = field(&mut meter);
    *left = left.checked_sub(amount).ok_or_else(|| exceeded(limit))?;
    METER.set(meter);
    Ok(())
}

/// Charges `bytes` to the rendering that this thread is in, before they are allocated.
pub fn spend(bytes: usize) -> Result<(), Error> {
    take(|meter| &mut meter.work, bytes, "256 MiB of values")
}

/// Charges a text that is written.
pub(crate) fn write(bytes: usize) -> Result<(), Error> {
    take(|meter| &mut meter.written, bytes, "32 MiB of text")
}

/// Charges a new namespace.
pub(crate) fn namespace() -> Result<(), Error> {
    take(|meter| &mut meter.namespaces, 1, "128 namespaces")
}

/// Charges a value with all that is in it; the number of its items.
pub(crate) fn spend_value(value: &Value) -> Result<usize, Error> {
    let mut items = 0;
    spend_nested(value, 0, &mut items)?;
    Ok(items)
}

fn spend_nested(value: &Value, depth: usize, items: &mut usize) -> Result<(), Error> {
    *items += 1;
    spend(ITEM)?;
    let deeper = |inner: &Value, items: &mut usize| {
        if depth == DEPTH {
            return Err(exceeded("32 nested values"));
        }
        spend_nested(inner, depth + 1, items)
    };
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => {
            let length = value.as_str().map_or_else(|| value.as_bytes().map_or(0, <[u8]>::len), str::len);
            spend(length)
        }
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                deeper(&item, items)?;
            }
            Ok(())
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                deeper(&key, items)?;
                deeper(&value.get_item(&key)?, items)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A result: charged, and a list where it was an iterable that would be computed anew, and deeper each time.
pub(crate) fn settled(value: Value) -> Result<Value, Error> {
    spend_value(&value)?;
    if value.kind() == ValueKind::Iterable {
        return Ok(value.try_iter()?.collect::<Vec<Value>>().into());
    }
    Ok(value)
}
