//! Dataset formats: what a reader accepts is a valid record, and written in the same format it reads as the same
//! record again.
//!
//! `GRADUS_FUZZ_FORMAT` names the format; without it the first byte of the input chooses one.

#![no_main]

mod stack;

use std::sync::LazyLock;

use gradus_core::Record;
use gradus_data::readers::Format;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde_json::{Map, Value, json};

static FORMAT: LazyLock<Option<Format>> = LazyLock::new(|| {
    let name = std::env::var("GRADUS_FUZZ_FORMAT").ok()?;
    Some(Format::from_name(&name).unwrap_or_else(|| panic!("GRADUS_FUZZ_FORMAT: there is no format {name}")))
});

/// The format of an input, and its JSON.
fn chosen(input: &[u8]) -> Option<(Format, &[u8])> {
    match *FORMAT {
        Some(format) => Some((format, input)),
        None => {
            let (first, json) = input.split_first()?;
            Some((Format::ALL[usize::from(*first) % Format::ALL.len()], json))
        }
    }
}

fuzz_target!(init: stack::watch(), |input: &[u8]| {
    let Some((format, json)) = chosen(input) else { return };
    let Ok(row) = serde_json::from_slice::<Map<String, Value>>(json) else { return };
    Format::detect(&row);
    let Ok(parsed) = format.read(row.clone()) else { return };
    let record = parsed.record;
    let name = format.name();
    record.validate().unwrap_or_else(|fault| panic!("{name}: read, but not valid: {fault}"));

    let text = serde_json::to_string(&record).expect("a record is JSON");
    let stored: Record = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
    assert_eq!(stored, record, "{name}: stored as JSON");

    if format == Format::Outputs {
        // It reads the forms of many programs and writes one.
        return;
    }
    let written = format.write(&record);
    assert_eq!(written.cut, 0, "{name}: steps were left out");
    let read_again: Vec<Record> = written.rows.iter().map(|row| read(format, row)).collect();
    assert_eq!(read_again, [record.clone()], "{name}: left out {:?}", written.dropped);
    if format == Format::Gradus {
        // Our own format has one spelling of several (an empty list may be left out), and its metadata may claim to
        // come from any format, in any shape: then other formats can write nonsense, but must not panic.
        for other in Format::ALL {
            other.write(&record);
        }
        return;
    }
    assert_eq!(written.rows, [Value::Object(row)], "{name}: not written as it was read");
    // Other formats may leave much out, but what they write they read.
    for other in Format::ALL {
        for row in other.write(&record).rows {
            read(other, &row);
        }
    }
});

fn read(format: Format, row: &Value) -> Record {
    let Value::Object(fields) = row else { panic!("{}: a row is no object: {row}", format.name()) };
    match format.read(fields.clone()) {
        Ok(parsed) => parsed.record,
        Err(fault) => panic!("written as {} but not read: {fault}: {row}", format.name()),
    }
}

// Bytes changed at random are hardly ever JSON, so two of three changes are made to the parsed record.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice(u64::from(seed) << 1 | 1);
    let tag = usize::from(FORMAT.is_none()).min(size);
    if dice.below(3) > 0
        && let Ok(mut row) = serde_json::from_slice::<Value>(&data[tag..size])
    {
        for _ in 0..=dice.below(3) {
            let donor = row.clone();
            let node = pick(&mut row, &mut dice);
            change(node, &donor, &mut dice);
        }
        let bytes = row.to_string().into_bytes();
        if tag + bytes.len() <= max_size {
            data[tag..tag + bytes.len()].copy_from_slice(&bytes);
            return tag + bytes.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});

/// A small generator of random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % limit
    }
}

/// A value somewhere inside `value`.
fn pick<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let inside = match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if inside == 0 || dice.below(4) == 0 {
        return value;
    }
    let at = dice.below(inside);
    match value {
        Value::Array(items) => pick(&mut items[at], dice),
        Value::Object(map) => pick(map.values_mut().nth(at).expect("one of its values"), dice),
        _ => unreachable!("it has something inside"),
    }
}

/// Pieces of text that one format or another gives a meaning.
const PIECES: [&str; 26] = [
    "", " ", "\n", "\n\n", "\r\n", "\t", "?", ".", ":", "Step 1: ", "Step 2", "1. ", "ки", "+", "-", "#### ",
    "A: ", "\\boxed{1}", "N/A", "correct", "wrong", "1,000", "é", "\u{feff}", "\u{0}", "gradus:",
];

/// Changes a value a little, or puts a part of `donor` in its place.
fn change(value: &mut Value, donor: &Value, dice: &mut Dice) {
    match (dice.below(4), &mut *value) {
        (0, Value::String(text)) => {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (from, piece) = (ends[dice.below(ends.len())], PIECES[dice.below(PIECES.len())]);
            text.insert_str(from, piece);
        }
        (1, Value::String(text)) => {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (a, b) = (ends[dice.below(ends.len())], ends[dice.below(ends.len())]);
            text.replace_range(a.min(b)..a.max(b), "");
        }
        (0, Value::Array(items)) if !items.is_empty() => {
            items.remove(dice.below(items.len()));
        }
        (1, Value::Array(items)) if !items.is_empty() => {
            let item = items[dice.below(items.len())].clone();
            items.insert(dice.below(items.len() + 1), item);
        }
        (0, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(dice.below(map.len())).cloned().expect("one of its keys");
            map.shift_remove(&key);
        }
        (1, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(dice.below(map.len())).cloned().expect("one of its keys");
            let (_, value) = map.shift_remove_entry(&key).expect("it is there");
            let renamed = ["id", "answer", "metadata", "label", "solution", "gradus:x", "x"];
            map.insert(renamed[dice.below(renamed.len())].to_owned(), value);
        }
        (2, _) => {
            let mut donor = donor.clone();
            *value = pick(&mut donor, dice).take();
        }
        _ => {
            let numbers = [0.0, -0.0, 0.25, 0.5, 1.0, 1.5, -1.0, 1e300];
            *value = match dice.below(12) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                3 => json!(dice.below(2) == 0),
                4 | 5 => json!(dice.below(4)),
                6 => json!(-(dice.below(3) as i64)),
                7 => json!([u64::MAX, 1 << 32, 10][dice.below(3)]),
                8 => json!(numbers[dice.below(numbers.len())]),
                _ => json!(PIECES[dice.below(PIECES.len())]),
            };
        }
    }
}
