//! The rows of a Parquet file as JSON objects.
//!
//! - A missing value is an explicit null, and so is a float that JSON cannot write (NaN, infinity).
//! - A 32-bit float becomes the shortest decimal that names it: 0.1, not 0.10000000149011612.
//! - Bytes become hexadecimal digits, dates `2020-01-31`, timestamps `2020-01-31T12:00:00.000Z`, decimals text.
//!
//! Left out: Parquet's record interface does not know nanoseconds (they stay whole numbers), local time (it is read as
//! UTC) and intervals (refused).

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::file::reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::{Number, Value};

use crate::{Error, Result, SourceLocation};

/// The rows of a Parquet file as JSON objects.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    path: Arc<Path>,
    row: u64,
    /// A row could not be read: asked again, it would fail again.
    broken: bool,
}

impl ParquetRows {
    pub(crate) fn open(file: File, path: Arc<Path>) -> Result<Self> {
        let rows = without_panic(|| {
            let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
            Ok(RowIter::from_file_into(Box::new(reader)))
        });
        let rows = rows.map_err(|reason| damaged(path.clone(), 1, &reason))?;
        Ok(Self { rows, path, row: 0, broken: false })
    }
}

impl Iterator for ParquetRows {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let rows = &mut self.rows;
        let next = without_panic(|| match rows.next() {
            None => Ok(None),
            Some(row) => row.map(|row| Some(object(&row))).map_err(|error| error.to_string()),
        });
        self.row += 1;
        match next {
            Ok(row) => row.map(|row| Ok((self.row, row))),
            Err(reason) => {
                self.broken = true;
                Some(Err(damaged(self.path.clone(), self.row, &reason)))
            }
        }
    }
}

/// Some damage makes the crate panic. What it was working on must not be used again.
fn without_panic<T>(work: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("its parts contradict each other".to_owned()))
}

fn damaged(path: Arc<Path>, line: u64, reason: &str) -> Error {
    let reason = reason.trim_start_matches("Parquet argument error: ").trim_start_matches("Parquet error: ");
    let message = format!("the Parquet file is damaged or truncated, get it again ({reason})");
    Error::Broken { place: SourceLocation { path, line }, message }
}

fn object(row: &Row) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), json(field))).collect())
}

fn json(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Float16(value) => float(f64::from(value.to_f32())),
        Field::Float(value) => float(value.to_string().parse().unwrap_or(f64::NAN)),
        Field::Double(value) => float(*value),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => {
            bytes.data().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
        // Written as '2020-01-31 12:00:00.000 +00:00'.
        Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
            field.to_string().replacen(" +00:00", "Z", 1).replacen(' ', "T", 1).into()
        }
        Field::Date(_) | Field::TimeMillis(_) | Field::TimeMicros(_) | Field::Decimal(_) => {
            field.to_string().into()
        }
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(json).collect(),
        Field::MapInternal(map) => {
            Value::Object(map.entries().iter().map(|(key, value)| (key_of(key), json(value))).collect())
        }
    }
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn key_of(key: &Field) -> String {
    match key {
        Field::Str(text) => text.clone(),
        other => json(other).to_string(),
    }
}
