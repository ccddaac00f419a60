//! A Parquet file whose page headers are looked at before the pages are unpacked.
//!
//! A header says how large its page is when unpacked, and that much memory is reserved at once: a header of a few bytes
//! may say two gigabytes. Before a page is read its header is asked for ([`super::limited`]), so that the crate wants a
//! reader twice for each page: where its header begins, and where that ends.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gradus_core::limits::Limit;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use super::limited::Exceeded;

/// A file whose pages are within limits.
pub(super) struct LimitedPageSizes {
    file: File,
    exceeded: Exceeded,
    /// False while the file's own description is read, where there are no pages yet.
    pub(super) has_pages: Arc<AtomicBool>,
    /// Where headers end that were looked at and whose pages were not read yet.
    pages: Mutex<HashSet<u64>>,
}

impl LimitedPageSizes {
    pub(super) fn new(file: File, exceeded: Exceeded) -> Self {
        Self { file, exceeded, has_pages: Arc::default(), pages: Mutex::default() }
    }

    fn check(&self, start: u64) -> Result<()> {
        if !self.has_pages.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.remove(&start) {
            return Ok(());
        }
        let mut reader = self.file.get_read(start)?;
        let refused = || ParquetError::General("a page has no header that can be read".to_owned());
        if unpacked_size(&mut reader).ok_or_else(refused)? > Limit::RecordBytes.value() as i64 {
            let message = format!("a row or page has {}", Limit::RecordBytes.exceeded());
            // An earlier one was told already.
            let _ = self.exceeded.set(message.clone());
            return Err(ParquetError::General(message));
        }
        pages.insert(reader.stream_position()?);
        Ok(())
    }
}

impl Length for LimitedPageSizes {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for LimitedPageSizes {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.check(start)?;
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.file.get_bytes(start, length)
    }
}

/// The fields of a page header that hold the page's type and the size of the unpacked page.
const TYPE: i64 = 1;
const UNPACKED_SIZE: i64 = 2;
/// The types of pages that are read: data, dictionary, data of the second version. After others the crate goes on as if
/// they were empty.
const TYPES: [i64; 3] = [0, 2, 3];
/// How deep structures of a page header are nested at most; real ones twice.
const MAX_DEPTH: u32 = 8;

/// The size that a page header states, the largest if it states several. None where there is no such header.
fn unpacked_size(header: &mut impl Read) -> Option<i64> {
    let (mut field, mut largest) = (0, None);
    while let Some((kind, delta)) = field_header(header)? {
        field = if delta == 0 { zigzag(header)? } else { field + delta };
        match (field, kind) {
            (TYPE, I16 | I32 | I64) => TYPES.contains(&zigzag(header)?).then_some(())?,
            (UNPACKED_SIZE, I16 | I32 | I64) => largest = largest.max(Some(zigzag(header)?)),
            _ => skip(header, kind, MAX_DEPTH)?,
        }
    }
    largest
}

// The types of Thrift's compact protocol.
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// The type of the next field and how far its number is from the last one's; none at the end of a structure.
fn field_header(input: &mut impl Read) -> Option<Option<(u8, i64)>> {
    let byte = byte(input)?;
    Some((byte != 0).then_some((byte & 0x0f, i64::from(byte >> 4))))
}

fn skip(input: &mut impl Read, kind: u8, depth: u32) -> Option<()> {
    match kind {
        // Truth values are in their type.
        1 | 2 => Some(()),
        BYTE => byte(input).map(drop),
        I16 | I32 | I64 => varint(input).map(drop),
        DOUBLE => pass(input, 8),
        BINARY => {
            let length = varint(input)?;
            pass(input, length)
        }
        LIST | SET => {
            let head = byte(input)?;
            let length = if head >> 4 == 15 { varint(input)? } else { u64::from(head >> 4) };
            let depth = depth.checked_sub(1)?;
            // Truth values of a list have a byte each.
            let kind = if matches!(head & 0x0f, 1 | 2) { BYTE } else { head & 0x0f };
            (0..length).try_for_each(|_| skip(input, kind, depth))
        }
        STRUCT => {
            let depth = depth.checked_sub(1)?;
            while let Some((kind, delta)) = field_header(input)? {
                if delta == 0 {
                    varint(input)?;
                }
                skip(input, kind, depth)?;
            }
            Some(())
        }
        _ => None,
    }
}

fn byte(input: &mut impl Read) -> Option<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte).ok()?;
    Some(byte[0])
}

fn pass(input: &mut impl Read, length: u64) -> Option<()> {
    let passed = std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink()).ok()?;
    (passed == length).then_some(())
}

fn varint(input: &mut impl Read) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = byte(input)?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

fn zigzag(input: &mut impl Read) -> Option<i64> {
    let value = varint(input)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// The header of a data page of 29 bytes, 38 packed, with statistics; then the page.
    const HEADER: &[u8] =
        b"\x15\x00\x15\x3a\x15\x4c\x2c\x15\x06\x15\x00\x1c\x18\x01a\x18\x01b\x00\x00\x00page";

    #[test]
    fn sizes_that_headers_state() {
        assert_eq!(unpacked_size(&mut &HEADER[..]), Some(29));
        // Said twice, the second time with the field's number in full.
        assert_eq!(
            unpacked_size(&mut &b"\x15\x00\x15\x3a\x05\x04\xfe\xff\xff\xff\x0f\x00"[..]),
            Some(2_147_483_647)
        );
        // The last one is the header of an index page.
        for damaged in
            [&HEADER[..12], b"", b"\x15", b"PAR1", &[0x1c; 100], &[0x19; 100], b"\x15\x02\x15\x3a\x00"]
        {
            assert_eq!(unpacked_size(&mut &damaged[..]), None);
        }
    }

    #[test]
    fn a_page_that_says_two_gigabytes_is_refused_before_it_is_unpacked() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"\x15\x00\x15\xfe\xff\xff\xff\x0f\x15\x4c\x00page").unwrap();
        let limited = LimitedPageSizes::new(file, Exceeded::default());
        limited.has_pages.store(true, Ordering::Relaxed);
        let refused = limited.get_read(0).unwrap_err().to_string();
        assert!(refused.contains("a row or page has more than"), "{refused}");
        assert!(limited.exceeded.get().is_some());
    }

    #[test]
    fn a_page_follows_its_header_and_is_read_once() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(HEADER).unwrap();
        let limited = LimitedPageSizes::new(file, Exceeded::default());
        limited.has_pages.store(true, Ordering::Relaxed);
        let page = HEADER.len() as u64 - 4;
        assert!(limited.get_read(page).is_err());
        limited.get_read(0).unwrap();
        let mut bytes = String::new();
        limited.get_read(page).unwrap().read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "page");
        assert!(limited.get_read(page).is_err());
    }
}
