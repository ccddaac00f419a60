//! The rows of a Parquet file as JSON objects.
//!
//! - A missing value is an explicit null, and so is a float that JSON cannot write (NaN, infinity).
//! - A 32-bit float becomes the shortest decimal that names it: 0.1, not 0.10000000149011612.
//! - Bytes are text where they are UTF-8. Others, and those of a fixed length, such as hashes, become hexadecimal digits.
//! - Dates become `2020-01-31`, decimals text, timestamps `2020-01-31T12:00:00.000Z`, see [`timestamp`].
//!
//! Left out: intervals, which Parquet's record interface does not know, and compression with brotli and LZO. A file with
//! them is refused.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parquet::basic::{Compression, ConvertedType, Type as PhysicalType};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Number, Value};

use super::limited::{Exceeded, LimitedFile};
use super::page_header::LimitedPageSizes;
use super::timestamp;
use crate::{Error, Result, SourceLocation};
use gradus_core::Fault;

/// The rows of a Parquet file as JSON objects.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    schema: TypePtr,
    path: Arc<Path>,
    row: u64,
    /// The limit that a row went beyond.
    exceeded: Exceeded,
    /// A row could not be read: asked again, it would fail again.
    broken: bool,
}

impl ParquetRows {
    pub(crate) fn open(file: File, path: Arc<Path>) -> Result<Self> {
        let exceeded = Exceeded::default();
        let opened = without_panic(|| {
            let file = LimitedPageSizes::new(file, exceeded.clone());
            let has_pages = file.has_pages.clone();
            let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
            has_pages.store(true, Ordering::Relaxed);
            let schema = reader.metadata().file_metadata().schema_descr().root_schema_ptr();
            let refused = refusal(&schema, reader.metadata());
            let limited = LimitedFile { reader, exceeded: exceeded.clone() };
            Ok((schema, RowIter::from_file_into(Box::new(limited)), refused))
        });
        let (schema, rows, refused) = opened.map_err(|reason| damaged(path.clone(), 1, &reason))?;
        if let Some(message) = refused {
            return Err(Error::Broken { place: SourceLocation { path, line: 1 }, message });
        }
        Ok(Self { rows, schema, path, row: 0, exceeded, broken: false })
    }
}

impl Iterator for ParquetRows {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let (rows, schema) = (&mut self.rows, &self.schema);
        let next = without_panic(|| match rows.next() {
            None => Ok(None),
            Some(row) => {
                row.map(|row| Some(object(&row, Some(schema.as_ref())))).map_err(|error| error.to_string())
            }
        });
        self.row += 1;
        match next {
            Ok(row) => row.map(|row| match row {
                Ok(row) => Ok((self.row, row)),
                Err(fault) => {
                    let place = SourceLocation { path: self.path.clone(), line: self.row };
                    Err(Error::Record { place, fault })
                }
            }),
            Err(reason) => {
                self.broken = true;
                Some(Err(match self.exceeded.get() {
                    Some(limit) => {
                        let place = SourceLocation { path: self.path.clone(), line: self.row };
                        Error::Broken { place, message: limit.clone() }
                    }
                    None => damaged(self.path.clone(), self.row, &reason),
                }))
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

/// What is in a file that cannot be read.
fn refusal(schema: &Type, metadata: &ParquetMetaData) -> Option<String> {
    if let Some(column) = interval_in(schema) {
        return Some(format!(
            "column `{column}` has the Parquet type INTERVAL, which cannot be read: leave it out or store it as text"
        ));
    }
    let mut columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let codec = columns.find_map(|column| match column.compression() {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    })?;
    Some(format!("the file is compressed with {codec}, which is not read: write it with zstd or snappy"))
}

/// The path of the first column of intervals.
fn interval_in(column: &Type) -> Option<String> {
    if column.get_basic_info().converted_type() == ConvertedType::INTERVAL {
        return Some(column.name().to_owned());
    }
    let fields = if column.is_group() { column.get_fields() } else { &[] };
    fields.iter().find_map(|field| {
        let inside = interval_in(field)?;
        Some(if field.is_group() { format!("{}.{inside}", field.name()) } else { inside })
    })
}

type Read = std::result::Result<Value, Fault>;

fn object(row: &Row, group: Option<&Type>) -> Read {
    let columns = group.filter(|group| group.is_group()).map_or(&[][..], Type::get_fields);
    let fields = row.get_column_iter().enumerate();
    let pair = |(index, (name, field)): (usize, (&String, &Field))| {
        let value = json(field, columns.get(index).map(AsRef::as_ref)).map_err(|fault| fault.within(name))?;
        Ok((name.clone(), value))
    };
    Ok(Value::Object(fields.map(pair).collect::<std::result::Result<_, _>>()?))
}

/// The type of a list's items: `list.element`, or what writers of old put there.
fn item_of(list: &Type) -> Option<&Type> {
    if !list.is_group() || list.get_basic_info().converted_type() != ConvertedType::LIST {
        // A repeated field is a list of itself.
        return Some(list);
    }
    let repeated = list.get_fields().first()?;
    match repeated.is_group() {
        true if repeated.get_fields().len() == 1 && repeated.name() != "array" => {
            repeated.get_fields().first().map(AsRef::as_ref)
        }
        _ => Some(repeated.as_ref()),
    }
}

/// The types of a map's keys and values.
fn entry_of(map: &Type) -> Option<(&Type, &Type)> {
    let entry = map.is_group().then(|| map.get_fields().first()).flatten()?;
    match entry.is_group().then(|| entry.get_fields())? {
        [key, value] => Some((key.as_ref(), value.as_ref())),
        _ => None,
    }
}

/// A field of this column, where its type is known.
fn json(field: &Field, column: Option<&Type>) -> Read {
    if let Some(text) = timestamp::text(field, column) {
        return Ok(text.into());
    }
    Ok(match field {
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
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) if !column.is_some_and(has_fixed_length) => text.into(),
            _ => bytes.data().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        },
        Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_)
        | Field::Decimal(_) => field.to_string().into(),
        Field::Group(row) => object(row, column)?,
        Field::ListInternal(list) => {
            let item = column.and_then(item_of);
            list.elements().iter().map(|field| json(field, item)).collect::<std::result::Result<_, _>>()?
        }
        Field::MapInternal(map) => {
            let (key, value) = column.and_then(entry_of).unzip();
            let pair = |(name, field): &(Field, Field)| Ok((key_of(name, key)?, json(field, value)?));
            Value::Object(map.entries().iter().map(pair).collect::<std::result::Result<_, Fault>>()?)
        }
    })
}

fn has_fixed_length(column: &Type) -> bool {
    column.is_primitive() && column.get_physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn key_of(key: &Field, column: Option<&Type>) -> std::result::Result<String, Fault> {
    Ok(match json(key, column)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::Encoding;
    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::FixedLenByteArray;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    /// A file with one row in which every leaf has this value.
    fn file(schema: &str, value: i64) -> File {
        let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
        let file = tempfile::tempfile().unwrap();
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => {
                    writer.write_batch(&[value], Some(&[1]), Some(&[0])).unwrap();
                }
                ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
                    let bytes = FixedLenByteArray::from(vec![0; 12]);
                    writer.write_batch(&[bytes], Some(&[1]), Some(&[0])).unwrap();
                }
                _ => unreachable!("the tests write no other type"),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        file
    }

    fn row(schema: &str, value: i64) -> Value {
        let mut rows = ParquetRows::open(file(schema, value), Path::new("a.parquet").into()).unwrap();
        rows.next().unwrap().unwrap().1
    }

    #[test]
    fn timestamps_keep_their_unit_and_their_zone() {
        let schema = "REQUIRED INT64 nanos (TIMESTAMP(NANOS,true)); \
                      REQUIRED INT64 local_nanos (TIMESTAMP(NANOS,false)); \
                      REQUIRED INT64 micros (TIMESTAMP(MICROS,true)); \
                      REQUIRED INT64 local (TIMESTAMP(MILLIS,false)); \
                      REQUIRED INT64 plain;";
        let expected = serde_json::json!({
            "nanos": "1970-01-01T00:00:01.500000007Z",
            "local_nanos": "1970-01-01T00:00:01.500000007",
            "micros": "1970-01-01T00:25:00.000007Z",
            "local": "1970-01-18T08:40:00.007",
            "plain": 1_500_000_007,
        });
        assert_eq!(row(schema, 1_500_000_007), expected);
        let before = row("REQUIRED INT64 nanos (TIMESTAMP(NANOS,true));", -1);
        assert_eq!(before["nanos"], "1969-12-31T23:59:59.999999999Z");
        let time = row("REQUIRED INT64 time (TIME(NANOS,true));", 3_600_000_000_001);
        assert_eq!(time["time"], "01:00:00.000000001");
    }

    #[test]
    fn timestamps_inside_of_groups_and_lists() {
        let inside = row("REQUIRED GROUP a { REQUIRED INT64 t (TIMESTAMP(NANOS,false)); }", 1);
        assert_eq!(inside["a"]["t"], "1970-01-01T00:00:00.000000001");
        let list = "REQUIRED GROUP a (LIST) { REPEATED GROUP list { \
                    REQUIRED INT64 element (TIMESTAMP(NANOS,true)); } }";
        assert_eq!(row(list, 1)["a"][0], "1970-01-01T00:00:00.000000001Z");
        let repeated = row("REPEATED INT64 t (TIMESTAMP(MILLIS,false));", 1);
        assert_eq!(repeated["t"][0], "1970-01-01T00:00:00.001");
    }

    #[test]
    fn a_row_of_too_many_values_is_refused() {
        let schema = Arc::new(parse_message_type("message m { REPEATED BOOLEAN a; }").unwrap());
        let file = tempfile::tempfile().unwrap();
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::BoolColumnWriter(bools) = column.untyped() else { unreachable!() };
        let count = gradus_core::limits::Limit::RecordValues.default_value() as usize;
        bools.write_batch(&[true, false], Some(&[1, 1]), Some(&[0, 1])).unwrap();
        let mut repetition = vec![1; count + 1];
        repetition[0] = 0;
        bools.write_batch(&vec![true; count + 1], Some(&vec![1; count + 1]), Some(&repetition)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let mut rows = ParquetRows::open(file, Path::new("a.parquet").into()).unwrap();
        let said = rows.find_map(std::result::Result::err).unwrap().to_string();
        assert!(said.contains("more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES"), "{said}");
        assert!(!said.contains("damaged"), "{said}");
    }

    /// A file with a column `a` of bytes.
    fn bytes(rows: &[&[u8]]) -> File {
        let schema = Arc::new(parse_message_type("message m { REQUIRED BINARY a; }").unwrap());
        let file = tempfile::tempfile().unwrap();
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::ByteArrayColumnWriter(texts) = column.untyped() else { unreachable!() };
        let rows: Vec<_> = rows.iter().map(|row| parquet::data_type::ByteArray::from(row.to_vec())).collect();
        texts.write_batch(&rows, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        file
    }

    #[test]
    fn bytes_are_texts() {
        let file = bytes(&["2 × 3?".as_bytes(), b"\xff", b"1 + 1?"]);
        let rows = ParquetRows::open(file, Path::new("a.parquet").into()).unwrap();
        let said: Vec<String> = rows
            .map(|row| row.map_or_else(|error| error.to_string(), |(_, row)| row["a"].to_string()))
            .collect();
        assert_eq!(said, ["\"2 × 3?\"", "\"ff\"", "\"1 + 1?\""]);
        let fixed = row("REQUIRED FIXED_LEN_BYTE_ARRAY (12) hash;", 0);
        assert_eq!(fixed["hash"], "00".repeat(12));
    }

    /// Before, memory was taken for as many values as the dictionary's header says: 1 KB of file for 24 GB.
    #[test]
    fn a_dictionary_of_more_values_than_bytes_is_refused() {
        use std::io::{Read as _, Seek as _, Write as _};
        let (mut plain, mut content) = (bytes(&[b"2 + 3?", b"4 + 5?", b"6 + 7?"]), Vec::new());
        plain.rewind().unwrap();
        plain.read_to_end(&mut content).unwrap();
        // In the dictionary's header, behind its sizes: three values, plain; then 63.
        let pattern = b"\x4c\x15\x06\x15\x00";
        let at = content.windows(pattern.len()).position(|window| window == pattern).unwrap();
        content[at + 2] = 2 * 63;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let mut rows = ParquetRows::open(file, Path::new("a.parquet").into()).unwrap();
        let said = rows.find_map(std::result::Result::err).unwrap().to_string();
        let expected = "a.parquet:1: the Parquet file is damaged or truncated, get it again (a dictionary says that it has \
                        more values than fit into it)";
        assert_eq!(said, expected);
    }

    /// A file with a column `a` of lists of texts, some of which are missing, with their lengths delta-encoded.
    fn texts(encoding: Encoding, version: WriterVersion, rows: usize) -> Vec<u8> {
        use std::io::{Read as _, Seek as _};
        let list = "message m { OPTIONAL GROUP a (LIST) { REPEATED GROUP list { OPTIONAL BINARY element (UTF8); } } }";
        let schema = Arc::new(parse_message_type(list).unwrap());
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(encoding)
            .set_writer_version(version)
            .build();
        let (mut file, mut content) = (tempfile::tempfile().unwrap(), Vec::new());
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::ByteArrayColumnWriter(writer_of_texts) = column.untyped() else { unreachable!() };
        // Two texts a row, of which every seventh is missing.
        let there: Vec<bool> = (0..2 * rows).map(|index| index % 7 != 3).collect();
        let values: Vec<_> = (0..2 * rows)
            .filter(|index| there[*index])
            .map(|index| parquet::data_type::ByteArray::from(text(index).as_str()))
            .collect();
        let definition: Vec<i16> = there.iter().map(|there| 2 + i16::from(*there)).collect();
        let repetition: Vec<i16> = (0..2 * rows).map(|index| (index % 2) as i16).collect();
        writer_of_texts.write_batch(&values, Some(&definition), Some(&repetition)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        content
    }

    fn text(index: usize) -> String {
        format!("step {} {}", index / 5, "x".repeat(index * index % 41))
    }

    fn rows_of(content: &[u8]) -> Vec<Result<(u64, Value)>> {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        ParquetRows::open(file, Path::new("a.parquet").into()).unwrap().collect()
    }

    #[test]
    fn delta_encoded_texts_are_read_and_their_claims_are_not_believed() {
        for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for rows in [1, 2, 70, 700] {
                    let read = rows_of(&texts(encoding, version, rows));
                    assert_eq!(read.len(), rows, "{encoding} {version:?}");
                    for (row, found) in read.into_iter().enumerate() {
                        let text = |index: usize| (index % 7 != 3).then(|| text(index));
                        assert_eq!(
                            found.unwrap().1["a"],
                            serde_json::json!([text(2 * row), text(2 * row + 1)])
                        );
                    }
                }
                // In front of the lengths: 128 a block, four parts, and their number, two; then 126.
                let mut content = texts(encoding, version, 1);
                let at = content.windows(4).position(|window| window == b"\x80\x01\x04\x02").unwrap();
                content[at + 3] = 126;
                let said = rows_of(&content).remove(0).unwrap_err().to_string();
                assert!(said.ends_with("(a page says that it has more texts than values)"), "{said}");
            }
        }
    }

    /// The crate is built without brotli: the file says that it is compressed with it.
    #[test]
    fn brotli_is_refused_by_name() {
        use std::io::{Read as _, Seek as _, Write as _};
        let (mut plain, mut content) = (bytes(&[b"2 + 3?"]), Vec::new());
        plain.rewind().unwrap();
        plain.read_to_end(&mut content).unwrap();
        // In the footer, the column's path, the codec (0, which is none) and what the next field is.
        let pattern = b"\x01a\x15\x00\x16";
        let at = content.windows(pattern.len()).rposition(|window| window == pattern).unwrap();
        content[at + 3] = 2 * 4;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let refused = ParquetRows::open(file, Path::new("a.parquet").into()).err().unwrap();
        let expected = "a.parquet:1: the file is compressed with brotli, which is not read: write it with zstd or snappy";
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn an_interval_is_refused_by_name() {
        let schema = "REQUIRED GROUP a { REQUIRED FIXED_LEN_BYTE_ARRAY (12) took (INTERVAL); }";
        let refused = ParquetRows::open(file(schema, 0), Path::new("a.parquet").into()).err().unwrap();
        let said = refused.to_string();
        assert!(said.contains("column `a.took` has the Parquet type INTERVAL"), "{said}");
        assert!(!said.contains("damaged"), "{said}");
    }
}
