//! Pages of texts whose lengths stand before them, delta-encoded.
//!
//! Memory for as many lengths as such a page claims is taken before the first one is read, and equal lengths take no bytes:
//! a page of ten bytes may claim billions.

use parquet::basic::Encoding;

use super::limited::varint;

/// How many lengths a page claims, of which at most `most` are passed over. 0 where its encoding has none, and nothing where
/// the page is damaged.
pub(super) fn claimed(values: &[u8], encoding: Encoding, most: u64) -> Option<u64> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => Some(Lengths::begin(&mut &*values)?.count),
        // What each text shares with the one before it; then how long the rest is.
        Encoding::DELTA_BYTE_ARRAY => {
            let mut rest = values;
            let first = Lengths::begin(&mut rest)?;
            if first.count > most {
                return Some(first.count);
            }
            first.pass(&mut rest)?;
            Some(first.count.max(Lengths::begin(&mut rest)?.count))
        }
        _ => Some(0),
    }
}

/// What stands before the lengths of a page.
struct Lengths {
    count: u64,
    /// A block has parts of equal length, each with its own number of bits.
    parts: usize,
    values_in_part: u64,
}

impl Lengths {
    fn begin(bytes: &mut &[u8]) -> Option<Self> {
        let (block, parts, count, _first) = (varint(bytes)?, varint(bytes)?, varint(bytes)?, varint(bytes)?);
        let values_in_part = block.checked_div(parts).filter(|values| *values > 0)?;
        Some(Self { count, parts: usize::try_from(parts).ok()?, values_in_part })
    }

    /// Goes to where they end. The first one stood before.
    fn pass(&self, bytes: &mut &[u8]) -> Option<()> {
        let mut left = self.count.saturating_sub(1);
        while left > 0 {
            varint(bytes)?;
            let (bits, mut rest) = bytes.split_at_checked(self.parts)?;
            for bits in bits {
                if left > 0 {
                    let length = u64::from(*bits).checked_mul(self.values_in_part)? / 8;
                    rest = rest.get(usize::try_from(length).ok()?..)?;
                }
                left = left.saturating_sub(self.values_in_part);
            }
            *bytes = rest;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 128 lengths a block in four parts, three lengths, the first of them; the block with what is added at least, and the bits.
    const THREE: &[u8] = b"\x80\x01\x04\x03\x02\x00\x00\x00\x00\x00";
    const BILLIONS: &[u8] = b"\x80\x01\x04\x80\x80\x80\x80\x20\x02";

    #[test]
    fn what_pages_claim() {
        let of = |parts: &[&[u8]], encoding| claimed(&parts.concat(), encoding, 1000);
        assert_eq!(of(&[THREE], Encoding::DELTA_LENGTH_BYTE_ARRAY), Some(3));
        assert_eq!(of(&[BILLIONS], Encoding::DELTA_LENGTH_BYTE_ARRAY), Some(1 << 33));
        assert_eq!(of(&[THREE, THREE], Encoding::DELTA_BYTE_ARRAY), Some(3));
        assert_eq!(of(&[THREE, BILLIONS], Encoding::DELTA_BYTE_ARRAY), Some(1 << 33));
        assert_eq!(of(&[BILLIONS, THREE], Encoding::DELTA_BYTE_ARRAY), Some(1 << 33));
        assert_eq!(of(&[THREE], Encoding::DELTA_BYTE_ARRAY), None);
        assert_eq!(of(&[b"\x00\x01\x03\x02"], Encoding::DELTA_BYTE_ARRAY), None);
        assert_eq!(of(&[BILLIONS], Encoding::PLAIN), Some(0));
    }
}
