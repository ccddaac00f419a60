//! Sequences as columns of a safetensors file, which Python maps into memory. Values go to the file one by one.
//!
//! ```text
//! examples   i64  where the sequences of each example begin, and their number
//! sequences  i64  where the tokens of each sequence begin, and their number
//! reads      i64  where the reads of each sequence begin, and their number
//! tokens     i32  token ids
//! positions  i32  which token of its sequence each read is at
//! targets    f32  the label of each read, or i32: the token that follows it
//! steps      i64  where the examples of each optimizer step begin, and their number
//! order      i64  the examples of all steps
//! ```

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, json};

use super::sequences::Sequence;
use crate::Result;
use crate::error::io;
use crate::run::order::Order;

/// What a read's target can be.
pub(super) trait Target: Copy {
    /// Its type in a safetensors file.
    const DTYPE: &'static str;
    /// Its four bytes.
    fn bytes(self) -> [u8; 4];
}

impl Target for f32 {
    const DTYPE: &'static str = "F32";

    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
}

impl Target for u32 {
    const DTYPE: &'static str = "I32";

    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
}

/// Writes a column's values.
type WriteValues<'a> = Box<dyn FnOnce(&mut dyn Write) -> std::io::Result<()> + 'a>;

/// A column: its name, type, number of values, and what writes them.
struct Column<'a> {
    name: &'static str,
    dtype: &'static str,
    count: usize,
    write: WriteValues<'a>,
}

impl<'a> Column<'a> {
    fn new<const N: usize>(
        name: &'static str,
        dtype: &'static str,
        count: usize,
        values: impl Iterator<Item = [u8; N]> + 'a,
    ) -> Self {
        let write =
            move |file: &mut dyn Write| values.into_iter().try_for_each(|value| file.write_all(&value));
        Self { name, dtype, count, write: Box::new(write) }
    }

    /// Where each of some groups begins, and where the last one ends.
    fn starts(name: &'static str, sizes: impl ExactSizeIterator<Item = usize> + 'a) -> Self {
        let count = sizes.len() + 1;
        let mut end = 0;
        let ends = sizes.map(move |size| {
            end += size;
            end
        });
        Self::new(name, "I64", count, std::iter::once(0).chain(ends).map(long))
    }
}

/// Writes examples, and the order of the training set.
pub(super) fn write<T: Target>(
    path: &Path,
    examples: &[Vec<Sequence<T>>],
    order: Option<&Order>,
) -> Result<()> {
    let sequences: Vec<&Sequence<T>> = examples.iter().flatten().collect();
    let (tokens, reads) =
        (count(&sequences, |one| one.tokens.len()), count(&sequences, |one| one.reads.len()));
    let all_reads = || sequences.iter().flat_map(|one| &one.reads);
    let mut columns = vec![
        Column::starts("examples", examples.iter().map(Vec::len)),
        Column::starts("sequences", sequences.iter().map(|one| one.tokens.len())),
        Column::starts("reads", sequences.iter().map(|one| one.reads.len())),
        Column::new(
            "tokens",
            "I32",
            tokens,
            sequences.iter().flat_map(|one| &one.tokens).map(|id| id.to_le_bytes()),
        ),
        Column::new("positions", "I32", reads, all_reads().map(|(at, _)| (*at as u32).to_le_bytes())),
        Column::new("targets", T::DTYPE, reads, all_reads().map(|(_, target)| target.bytes())),
    ];
    columns.extend(order.into_iter().flat_map(order_columns));
    write_columns(path, columns)
}

/// Writes the order alone.
pub(super) fn write_order(path: &Path, order: &Order) -> Result<()> {
    write_columns(path, order_columns(order).into())
}

fn order_columns(order: &Order) -> [Column<'_>; 2] {
    let batches = || {
        let mut order = order.clone();
        (0..order.steps()).map(move |step| order.batch(step))
    };
    let total = batches().map(|batch| batch.len()).sum();
    let mut end = 0;
    let ends = batches().map(move |batch| {
        end += batch.len();
        end
    });
    let starts = std::iter::once(0).chain(ends).map(long);
    [
        Column::new("steps", "I64", order.steps() as usize + 1, starts),
        Column::new("order", "I64", total, batches().flatten().map(long)),
    ]
}

fn write_columns(path: &Path, columns: Vec<Column<'_>>) -> Result<()> {
    let mut header = Map::new();
    let mut end = 0;
    for Column { name, dtype, count, .. } in &columns {
        let start = end;
        end += count * if *dtype == "I64" { 8 } else { 4 };
        let entry = json!({ "dtype": dtype, "shape": [count], "data_offsets": [start, end] });
        header.insert((*name).to_owned(), entry);
    }
    let mut header = serde_json::to_string(&header).expect("a header is JSON");
    // Values of eight bytes come first, and the header ends where they may begin.
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let failed = |error| io(path)(error);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(header.as_bytes()).map_err(failed)?;
    for column in columns {
        (column.write)(&mut file).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

fn count<T>(sequences: &[&Sequence<T>], size: impl Fn(&Sequence<T>) -> usize) -> usize {
    sequences.iter().map(|one| size(one)).sum()
}

fn long(value: usize) -> [u8; 8] {
    (value as i64).to_le_bytes()
}
