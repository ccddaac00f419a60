//! What USearch 2 writes, looked through before it is walked.
//!
//! USearch trusts neighbor lists: one that names a row that is not there leads a search out of the file. A checksum tells
//! damage, not malice, so a graph from elsewhere is checked entry by entry. Little-endian, without padding:
//!
//! ```text
//! u32 rows, u32 bytes of a vector, the vectors
//! 64 bytes: "usearch", 3 × u16 version, u8 metric, u8 scalar, u8 key, u8 slot, u64 present, u64 deleted, u64 dimensions, u8 multi
//! 5 × u64: rows, connectivity, connectivity of layer 0, highest layer, row where a search begins
//! rows × i16 layer
//! for each row: u64 key, i16 layer, then for layers 0..=layer: u32 neighbors, and room for as many u32 as the layer connects
//! ```

const HEAD: usize = 64;
/// USearch's names of types: keys of 64 bits, rows of 32, vectors of signed bytes.
const KINDS: [u8; 3] = [23, 14, 15];
/// Neighbors of a row at most; real graphs have 16 to 64.
const MAX_CONNECTIVITY: u64 = 1 << 16;

/// Why a graph over so many vectors cannot be walked.
pub(super) fn check(bytes: &[u8], rows: usize, dimension: usize) -> Result<(), &'static str> {
    let mut left = Left(bytes);
    if [left.u32()? as usize, left.u32()? as usize] != [rows, dimension] {
        return Err("it holds other vectors than its header says");
    }
    left.take(rows.checked_mul(dimension).ok_or(CUT)?)?;
    check_head(left.take(HEAD)?, rows, dimension)?;
    let [size, upper, lowest, highest, first] =
        [left.u64()?, left.u64()?, left.u64()?, left.u64()?, left.u64()?];
    if size != rows as u64
        || !(1..=MAX_CONNECTIVITY).contains(&upper.min(lowest))
        || upper.max(lowest) > MAX_CONNECTIVITY
    {
        return Err("its sizes make no sense");
    }
    let layers = left.take(rows.checked_mul(2).ok_or(CUT)?)?;
    let layer = |row: usize| i64::from(i16::from_le_bytes([layers[2 * row], layers[2 * row + 1]]));
    if rows == 0 {
        return left.end();
    }
    if first >= size || highest != layer(first as usize).cast_unsigned() {
        return Err("the row where a search begins makes no sense");
    }
    for row in 0..rows {
        let key = left.u64()?;
        let own = i64::from(i16::from_le_bytes(left.array()?));
        if key >= size || own != layer(row) || !(0..=highest.cast_signed()).contains(&own) {
            return Err("a row of it makes no sense");
        }
        for number in 0..=own {
            let room = if number == 0 { lowest } else { upper };
            let neighbors = u64::from(left.u32()?);
            let slots = left.take(4 * room as usize)?;
            let named = slots.chunks_exact(4).take(neighbors as usize);
            let known = |slot: &[u8]| {
                let slot = u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]) as usize;
                slot < rows && layer(slot) >= number
            };
            if neighbors > room || !named.into_iter().all(known) {
                return Err("a row of it names neighbors that are not there");
            }
        }
    }
    left.end()
}

fn check_head(head: &[u8], rows: usize, dimension: usize) -> Result<(), &'static str> {
    let mut left = Left(head);
    if left.take(7)? != b"usearch" || left.take(6)?[..2] != [2, 0] {
        return Err("USearch 2 did not write it");
    }
    left.take(1)?;
    let sound = left.array()? == KINDS
        && [left.u64()?, left.u64()?, left.u64()?] == [rows as u64, 0, dimension as u64]
        && left.array()? == [0];
    if sound { Ok(()) } else { Err("it holds other vectors than its header says") }
}

const CUT: &str = "it was cut off";

/// Bytes that have not been read.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, left) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn end(&self) -> Result<(), &'static str> {
        if self.0.is_empty() { Ok(()) } else { Err("it goes on after its end") }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DIMENSION, clustered, graph as built};
    use super::super::{Settings, empty};
    use super::check;

    const ROWS: usize = 600;

    fn graph() -> Vec<u8> {
        let graph = built(&clustered(ROWS, 5));
        let mut bytes = vec![0; graph.index.serialized_length()];
        graph.index.save_to_buffer(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_usearch_writes_is_sound_and_nothing_cut_off_is() {
        let bytes = graph();
        check(&bytes, ROWS, DIMENSION).unwrap();
        for length in [0, 7, 4000, bytes.len() - 1] {
            check(&bytes[..length], ROWS, DIMENSION).unwrap_err();
        }
        check(&[bytes.as_slice(), &[0]].concat(), ROWS, DIMENSION).unwrap_err();
        check(&bytes, ROWS - 1, DIMENSION).unwrap_err();
    }

    /// Every byte that steers a walk, set to what would lead it astray.
    #[test]
    fn no_walk_leaves_a_graph_that_passes() {
        let bytes = graph();
        let first = 8 + ROWS * DIMENSION + 64 + 40 + 2 * ROWS;
        let mut refused = 0;
        for place in (first..bytes.len()).step_by(101).chain(first - 2 * ROWS - 40..first) {
            let mut hostile = bytes.clone();
            hostile[place] ^= 0x80;
            if check(&hostile, ROWS, DIMENSION).is_err() {
                refused += 1;
                continue;
            }
            // What passes is walked: sanitizers or a crash would tell.
            let index = empty(DIMENSION, ROWS, &Settings::default()).unwrap();
            index.reserve_capacity_and_threads(0, 1).unwrap();
            // SAFETY: the bytes outlive the index and do not change.
            #[allow(unsafe_code)]
            unsafe { index.view_from_buffer(&hostile) }.unwrap();
            index.search(&[1i8; DIMENSION], 20).unwrap();
        }
        assert!(refused > 200, "{refused}");
    }
}
