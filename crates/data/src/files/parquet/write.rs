//! Writes JSON rows as Parquet.
//!
//! The columns are inferred from the first [`INFER_ROWS`] rows; a later row with a column or type that they did not
//! have is an error, never dropped. A row group is written when [`GROUP_BYTES`] have come together.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use super::columns::{Column, Leaf, Values, parquet_fields, shred};

const INFER_ROWS: usize = 4096;
const GROUP_BYTES: usize = 64 << 20;
const FAILED_EARLIER: &str = "the Parquet writer failed earlier";

/// Collects rows and writes them as Parquet.
pub(crate) struct ParquetSink<W: Write + Send> {
    state: State<W>,
}

enum State<W: Write + Send> {
    /// Rows that the columns are inferred from.
    Inferring {
        output: W,
        /// A row with all columns that may come.
        example: Option<Value>,
        rows: Vec<Value>,
    },
    Writing(Box<Open<W>>),
    Failed,
}

struct Open<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    fields: Vec<(String, Column)>,
    leaves: Vec<Leaf>,
}

impl<W: Write + Send> ParquetSink<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { state: State::Inferring { output, example: None, rows: Vec::new() } }
    }

    /// Makes columns for all that `example` holds, also where the first rows do not.
    pub(crate) fn expect(&mut self, columns: Value) {
        if let State::Inferring { example, .. } = &mut self.state {
            *example = Some(columns);
        }
    }

    pub(crate) fn push(&mut self, row: Value) -> std::result::Result<(), String> {
        match &mut self.state {
            State::Inferring { rows, .. } => {
                rows.push(row);
                if rows.len() == INFER_ROWS { self.start() } else { Ok(()) }
            }
            State::Writing(open) => open.push(&row),
            State::Failed => Err(FAILED_EARLIER.to_owned()),
        }
    }

    pub(crate) fn finish(mut self) -> std::result::Result<W, String> {
        self.start()?;
        match self.state {
            State::Writing(open) => open.finish(),
            _ => Err(FAILED_EARLIER.to_owned()),
        }
    }

    /// Opens the file with the columns of the rows so far; an open one stays as it is.
    fn start(&mut self) -> std::result::Result<(), String> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Inferring { output, example, rows } => {
                let mut open = Open::new(output, example.iter().chain(&rows))?;
                rows.iter().try_for_each(|row| open.push(row))?;
                self.state = State::Writing(Box::new(open));
            }
            other => self.state = other,
        }
        Ok(())
    }
}

impl<W: Write + Send> Open<W> {
    fn new<'a>(output: W, rows: impl Iterator<Item = &'a Value>) -> std::result::Result<Self, String> {
        let mut rows = rows.peekable();
        let is_empty = rows.peek().is_none();
        let row = rows.try_fold(Column::Struct(Vec::new()), Column::widened);
        let row = row.map_err(|misfit| misfit.to_string())?;
        if !is_empty {
            row.check().map_err(|misfit| misfit.to_string())?;
        }
        let Column::Struct(fields) = row else { unreachable!("a struct widened by rows is a struct") };
        let schema = parquet_fields(&fields)
            .and_then(|fields| Type::group_type_builder("schema").with_fields(fields).build())
            .map_err(|error| error.to_string())?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
        let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties));
        let mut open =
            Self { writer: writer.map_err(|error| error.to_string())?, fields, leaves: Vec::new() };
        open.empty_leaves();
        Ok(open)
    }

    fn empty_leaves(&mut self) {
        self.leaves.clear();
        for (_, column) in &self.fields {
            column.leaves(&mut self.leaves);
        }
    }

    fn push(&mut self, row: &Value) -> std::result::Result<(), String> {
        shred(&self.fields, row, &mut self.leaves).map_err(|misfit| misfit.to_string())?;
        if self.leaves.iter().map(Leaf::bytes).sum::<usize>() >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::result::Result<(), String> {
        if self.leaves.iter().all(|leaf| leaf.definition.is_empty()) {
            return Ok(());
        }
        self.write_group().map_err(|error| error.to_string())?;
        self.empty_leaves();
        Ok(())
    }

    fn write_group(&mut self) -> parquet::errors::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for leaf in &self.leaves {
            let mut column = group.next_column()?.expect("the schema was made of these leaves");
            let (definition, repetition) = (Some(&leaf.definition[..]), Some(&leaf.repetition[..]));
            match (column.untyped(), &leaf.values) {
                (ColumnWriter::Int32ColumnWriter(writer), Values::Null) => {
                    writer.write_batch(&[], definition, repetition)
                }
                (ColumnWriter::BoolColumnWriter(writer), Values::Bool(values)) => {
                    writer.write_batch(values, definition, repetition)
                }
                (ColumnWriter::Int64ColumnWriter(writer), Values::Integer(values)) => {
                    writer.write_batch(values, definition, repetition)
                }
                (ColumnWriter::DoubleColumnWriter(writer), Values::Double(values)) => {
                    writer.write_batch(values, definition, repetition)
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Values::Text(values)) => {
                    writer.write_batch(values, definition, repetition)
                }
                _ => unreachable!("the schema was made of these leaves"),
            }?;
            column.close()?;
        }
        group.close().map(|_| ())
    }

    fn finish(mut self) -> std::result::Result<W, String> {
        self.flush()?;
        self.writer.into_inner().map_err(|error| error.to_string())
    }
}
