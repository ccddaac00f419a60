//! A Parquet file whose pages are looked at before rows are made of them.
//!
//! Equal levels and equal values are stored as the length of their run, so that a page of a hundred bytes may stand for a
//! row with a billion elements. How long rows are is in the repetition levels, where 0 begins a row. They are counted
//! here, page by page, and a text of the dictionary is taken for as long as the longest one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gradus_core::limits::Limit;
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;

use super::lengths;
use super::page_header::LimitedPageSizes;

/// Which limit was exceeded, and how to raise it.
pub(super) type Exceeded = Arc<OnceLock<String>>;

/// A Parquet file within limits.
pub(super) struct LimitedFile {
    pub(super) reader: SerializedFileReader<LimitedPageSizes>,
    pub(super) exceeded: Exceeded,
}

impl FileReader for LimitedFile {
    fn metadata(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    fn get_row_group(&self, index: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        let group = self.reader.get_row_group(index)?;
        Ok(Box::new(LimitedGroup { group, values: Arc::default(), exceeded: self.exceeded.clone() }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct LimitedGroup<'a> {
    group: Box<dyn RowGroupReader + 'a>,
    /// Values of the longest row of each column, in all.
    values: Arc<AtomicU64>,
    exceeded: Exceeded,
}

impl RowGroupReader for LimitedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.group.metadata()
    }

    fn num_columns(&self) -> usize {
        self.group.num_columns()
    }

    fn get_column_page_reader(&self, index: usize) -> Result<Box<dyn PageReader>> {
        let column = self.metadata().column(index).column_descr();
        Ok(Box::new(LimitedPages {
            pages: self.group.get_column_page_reader(index)?,
            level_bits: bits(column.max_rep_level()),
            definition_bits: bits(column.max_def_level()),
            is_text: column.physical_type() == PhysicalType::BYTE_ARRAY,
            value_bytes: least_bytes(column.physical_type(), column.type_length()),
            row: 0,
            longest_row: 0,
            longest_text: 0,
            values: self.values.clone(),
            exceeded: self.exceeded.clone(),
        }))
    }

    fn get_column_bloom_filter(&self, index: usize) -> Option<&Sbbf> {
        self.group.get_column_bloom_filter(index)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of one column.
struct LimitedPages {
    pages: Box<dyn PageReader>,
    /// Bits of a repetition level; 0 where a row has one value.
    level_bits: u32,
    /// Bits of a definition level; 0 where no value is missing.
    definition_bits: u32,
    is_text: bool,
    /// Bytes that a value of the dictionary takes at least.
    value_bytes: u64,
    /// Values of the current row so far, which may go on in the next page.
    row: u64,
    longest_row: u64,
    /// Bytes of the longest text of the dictionary.
    longest_text: u64,
    values: Arc<AtomicU64>,
    exceeded: Exceeded,
}

impl LimitedPages {
    fn checked(&mut self, page: Option<Page>) -> Result<Option<Page>> {
        if let Some(limit) = page.as_ref().and_then(|page| self.exceeded_by(page)) {
            let what = if limit == Limit::RecordBytes { "a row or page" } else { "a row" };
            let message = format!("{what} has {}", limit.exceeded());
            // An earlier one was told already.
            let _ = self.exceeded.set(message.clone());
            return Err(ParquetError::General(message));
        }
        // Memory for as many values as the header says is taken before the first one is read.
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = &page
            && u64::from(*num_values) > buf.len() as u64 / self.value_bytes
        {
            return Err(ParquetError::General(
                "a dictionary says that it has more values than fit into it".to_owned(),
            ));
        }
        if let Some(page) = &page {
            self.check_lengths(page)?;
        }
        Ok(page)
    }

    /// A page has no more texts than values, and their lengths, of four bytes each, are within limits, too.
    fn check_lengths(&self, page: &Page) -> Result<()> {
        let (buf, encoding, count, start) = match page {
            Page::DictionaryPage { .. } => return Ok(()),
            Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
                let repetition = levels_end(buf, 0, *rep_level_encoding, self.level_bits, *num_values);
                let levels =
                    levels_end(buf, repetition, *def_level_encoding, self.definition_bits, *num_values);
                (buf, *encoding, *num_values, levels)
            }
            Page::DataPageV2 {
                buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => (buf, *encoding, *num_values, *def_levels_byte_len as usize + *rep_levels_byte_len as usize),
        };
        let most = u64::from(count).min(Limit::RecordBytes.value() / 4);
        let values = buf.get(start..).unwrap_or_default();
        match lengths::claimed(values, encoding, most) {
            Some(claimed) if claimed <= most => Ok(()),
            _ => Err(ParquetError::General("a page says that it has more texts than values".to_owned())),
        }
    }

    fn exceeded_by(&mut self, page: &Page) -> Option<Limit> {
        if page.buffer().len() as u64 > Limit::RecordBytes.value() {
            return Some(Limit::RecordBytes);
        }
        let (levels, values) = match page {
            Page::DictionaryPage { buf, .. } => {
                self.longest_text = if self.is_text { longest_text(buf) } else { 0 };
                return None;
            }
            Page::DataPage { buf, num_values, rep_level_encoding: Encoding::RLE, .. } => {
                let length = buf.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
                (buf.get(4..).map_or(&[][..], |rest| &rest[..length.min(rest.len())]), *num_values)
            }
            Page::DataPageV2 { buf, num_values, rep_levels_byte_len: length, .. } => {
                (&buf[..buf.len().min(*length as usize)], *num_values)
            }
            // Levels that are not runs take as many bits as there are.
            Page::DataPage { .. } => return None,
        };
        let before = self.longest_row;
        match self.level_bits {
            0 => self.longest_row = 1,
            bits => for_each_run(levels, bits, values.into(), |level, length| self.add(level, length)),
        }
        let added = self.longest_row - before;
        if self.values.fetch_add(added, Ordering::Relaxed) + added > Limit::RecordValues.value() {
            return Some(Limit::RecordValues);
        }
        let bytes = self.longest_row.saturating_mul(self.longest_text);
        (bytes > Limit::RecordBytes.value()).then_some(Limit::RecordBytes)
    }

    fn add(&mut self, level: u64, length: u64) {
        self.row = if level == 0 { 1 } else { self.row.saturating_add(length) };
        self.longest_row = self.longest_row.max(self.row);
    }
}

impl PageReader for LimitedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        // So that its header is looked at before it is unpacked.
        self.pages.peek_next_page()?;
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        self.checked(page)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for LimitedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Bits of the levels up to `most`.
fn bits(most: i16) -> u32 {
    (most as u16).checked_ilog2().map_or(0, |log| log + 1)
}

/// Where the levels that begin at `start` end, in a page of the first version.
fn levels_end(page: &[u8], start: usize, encoding: Encoding, bits: u32, count: u32) -> usize {
    let length = match page.get(start..).and_then(<[u8]>::first_chunk) {
        _ if bits == 0 => 0,
        Some(length) if encoding == Encoding::RLE => 4 + u32::from_le_bytes(*length) as usize,
        _ => (u64::from(count) * u64::from(bits)).div_ceil(8) as usize,
    };
    start + length
}

/// Bytes of a dictionary's value at least: a text has its length before it.
fn least_bytes(kind: PhysicalType, length: i32) -> u64 {
    match kind {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT | PhysicalType::BYTE_ARRAY => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::INT96 => 12,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => length.max(1) as u64,
    }
}

/// The longest of texts that stand one after another, each behind its length.
fn longest_text(mut texts: &[u8]) -> u64 {
    let mut longest = 0;
    while let Some((length, rest)) = texts.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        longest = longest.max(length.min(rest.len()));
        texts = rest.get(length..).unwrap_or_default();
    }
    longest as u64
}

/// The runs of `count` levels: Parquet's hybrid of runs of one level and levels that are packed into bits.
fn for_each_run(mut levels: &[u8], bits: u32, mut count: u64, mut each: impl FnMut(u64, u64)) {
    while count > 0 {
        let Some(header) = varint(&mut levels) else { return };
        if header & 1 == 0 {
            let (value, rest) = levels.split_at(levels.len().min(bits.div_ceil(8) as usize));
            let level = value.iter().rev().fold(0, |level, byte| level << 8 | u64::from(*byte));
            let length = (header >> 1).min(count);
            each(level, length);
            (levels, count) = (rest, count - length);
            continue;
        }
        let bytes = usize::try_from((header >> 1).saturating_mul(bits.into())).unwrap_or(usize::MAX);
        let (packed, rest) = levels.split_at(levels.len().min(bytes));
        let length = (packed.len() as u64 * 8 / u64::from(bits)).min(count);
        for index in 0..length as usize {
            let bit_at = |bit: usize| u64::from(packed[bit / 8] >> (bit % 8) & 1);
            let first = index * bits as usize;
            each((0..bits as usize).fold(0, |level, bit| level | bit_at(first + bit) << bit), 1);
        }
        (levels, count) = (rest, count - length);
    }
}

pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_levels_are_counted() {
        // A run of 300 ones, eight packed levels 0 1 1 0 1 1 1 1, and a run of zeros.
        let levels = [0xd8, 0x04, 1, 0b11, 0b1111_0110, 0x06, 0];
        let mut found = Vec::new();
        for_each_run(&levels, 1, 310, |level, length| match found.last_mut() {
            Some((last, sum)) if *last == level => *sum += length,
            _ => found.push((level, length)),
        });
        assert_eq!(found, [(1, 300), (0, 1), (1, 2), (0, 1), (1, 4), (0, 2)]);
        for_each_run(&[0xff; 20], 3, u64::MAX, |_, _| {});
    }

    #[test]
    fn the_longest_text_of_a_dictionary() {
        assert_eq!(longest_text(b"\x02\0\0\0ab\x03\0\0\0abc\0\0\0\0"), 3);
        assert_eq!(longest_text(b"\xff\0\0\0ab"), 2);
        assert_eq!(longest_text(b""), 0);
    }
}
