//! Parquet in and out, through Arrow's own JSON bridge, a batch of rows at a time.
//!
//! Reading turns each row into a JSON object with explicit nulls. Writing infers the columns from the first
//! [`INFER_ROWS`] rows; a later row with a column or type that they did not have is an error, never dropped.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_json::reader::infer_json_schema_from_iterator;
use arrow_json::writer::LineDelimited;
use arrow_json::{ReaderBuilder, WriterBuilder};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use crate::error::{Error, Place, Result};

const BATCH_ROWS: usize = 1024;
const INFER_ROWS: usize = 4096;
const FAILED_EARLIER: &str = "the Parquet writer failed earlier";

/// The rows of a Parquet file as JSON objects.
pub(crate) struct ParquetRows {
    batches: ParquetRecordBatchReader,
    path: Arc<Path>,
    ready: VecDeque<Value>,
    row: u64,
    /// A batch could not be read: asked again, it would fail again.
    broken: bool,
}

impl ParquetRows {
    pub(crate) fn open(file: File, path: Arc<Path>) -> Result<Self> {
        let broken =
            |message: String| Error::Broken { place: Place { path: path.clone(), line: 1 }, message };
        let batches = without_panic(|| {
            ParquetRecordBatchReaderBuilder::try_new(file)
                .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
                .map_err(|error| error.to_string())
        })
        .map_err(|error| broken(damaged(&error)))?;
        Ok(Self { batches, path, ready: VecDeque::new(), row: 0, broken: false })
    }

    fn fill(&mut self) -> std::result::Result<bool, String> {
        let Some(batch) = self.batches.next() else { return Ok(false) };
        let batch = batch.map_err(|error| error.to_string())?;
        let mut writer =
            WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::<u8>::new());
        writer.write(&batch).and_then(|()| writer.finish()).map_err(|error| error.to_string())?;
        for line in writer.into_inner().split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.ready.push_back(serde_json::from_slice(line).map_err(|error| error.to_string())?);
        }
        Ok(true)
    }
}

impl Iterator for ParquetRows {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            if self.broken {
                return None;
            }
            match without_panic(|| self.fill()) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(message) => {
                    self.broken = true;
                    let place = Place { path: self.path.clone(), line: self.row + 1 };
                    return Some(Err(Error::Broken { place, message: damaged(&message) }));
                }
            }
        }
        self.row += 1;
        self.ready.pop_front().map(|value| Ok((self.row, value)))
    }
}

/// Some damage makes the Arrow crates panic. What they were working on must not be used again.
fn without_panic<T>(work: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("its parts contradict each other".to_owned()))
}

fn damaged(reason: &str) -> String {
    let reason = reason.trim_start_matches("Parquet argument error: ").trim_start_matches("Parquet error: ");
    format!("the Parquet file is damaged or truncated, get it again ({reason})")
}

/// Collects rows and writes them as Parquet.
pub(crate) struct ParquetSink<W: Write + Send> {
    output: Option<W>,
    writer: Option<(ArrowWriter<W>, SchemaRef)>,
    pending: Vec<Value>,
}

impl<W: Write + Send> ParquetSink<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output: Some(output), writer: None, pending: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Value) -> std::result::Result<(), String> {
        self.pending.push(row);
        let limit = if self.writer.is_none() { INFER_ROWS } else { BATCH_ROWS };
        if self.pending.len() >= limit { self.flush() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> std::result::Result<W, String> {
        self.flush()?;
        if self.writer.is_none() {
            self.start(Arc::new(Schema::empty()))?;
        }
        let (writer, _) = self.writer.ok_or(FAILED_EARLIER)?;
        writer.into_inner().map_err(|error| error.to_string())
    }

    fn start(&mut self, schema: SchemaRef) -> std::result::Result<(), String> {
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
        let output = self.output.take().ok_or(FAILED_EARLIER)?;
        let writer = ArrowWriter::try_new(output, schema.clone(), Some(properties))
            .map_err(|error| error.to_string())?;
        self.writer = Some((writer, schema));
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), String> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.writer.is_none() {
            let rows = self.pending.iter().map(|row| Ok::<_, ArrowError>(without_null_items(row)));
            let schema: SchemaRef =
                Arc::new(infer_json_schema_from_iterator(rows).map_err(|error| columns_differ(&error))?);
            self.start(schema)?;
        }
        let Some((writer, schema)) = &mut self.writer else { return Ok(()) };
        let mut decoder = ReaderBuilder::new(schema.clone())
            .with_strict_mode(true)
            .with_batch_size(self.pending.len())
            .build_decoder()
            .map_err(|error| error.to_string())?;
        decoder.serialize(&self.pending).map_err(|error| columns_differ(&error))?;
        if let Some(batch) = decoder.flush().map_err(|error| columns_differ(&error))? {
            writer.write(&batch).map_err(|error| error.to_string())?;
        }
        self.pending.clear();
        Ok(())
    }
}

/// Arrow infers the type of a list's items only when none of them is null (a step without a label is). Every column
/// is nullable anyway, so the nulls can be left out of what it looks at.
fn without_null_items(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(without_null_items).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), without_null_items(value))).collect()
        }
        other => other.clone(),
    }
}

fn columns_differ(error: &ArrowError) -> String {
    let text = error.to_string();
    let mut reason = text.trim_start_matches("Json error: ");
    let mut fields = Vec::new();
    while let Some((field, rest)) =
        reason.strip_prefix("whilst decoding field '").and_then(|rest| rest.split_once("': "))
    {
        fields.push(field);
        reason = rest;
    }
    let place = if fields.is_empty() { String::new() } else { format!("field `{}`: ", fields.join(".")) };
    format!("{place}Parquet needs the same columns and types in every row ({reason}): write JSONL instead")
}
