//! An answer as it is kept: compressed where that makes it smaller, with a checksum of its key and all that is kept of it.

use gradus_core::limits::Limit;
use zstd::bulk::Compressor;

use super::Key;

/// zstd's level: answers of models are text, and a higher one gains little.
const LEVEL: i32 = 3;

/// What is kept of an answer.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// Bytes of the answer where it is compressed, 0 where it is kept as it is.
    pub(super) length: i64,
    pub(super) checksum: [u8; 32],
}

/// Packs answers, one after another.
pub(super) struct Packer {
    compressor: Option<Compressor<'static>>,
}

impl Default for Packer {
    fn default() -> Self {
        Self { compressor: Compressor::new(LEVEL).ok() }
    }
}

impl Packer {
    pub(super) fn pack(&mut self, key: &Key, answer: Vec<u8>) -> Packed {
        let compressed = self.compressor.as_mut().and_then(|compressor| compressor.compress(&answer).ok());
        let (bytes, length) = match compressed {
            Some(compressed) if compressed.len() < answer.len() => (compressed, answer.len() as i64),
            _ => (answer, 0),
        };
        Packed { checksum: checksum(key, length, &bytes), bytes, length }
    }
}

/// The answer, if it is whole. One that is longer than an answer of a server may be counts as damaged.
pub(super) fn unpack(key: &Key, length: i64, known: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    if known != checksum(key, length, bytes) {
        return None;
    }
    match u64::try_from(length).ok().filter(|length| *length <= Limit::AnswerBytes.value())? {
        0 => Some(bytes.to_vec()),
        length => {
            let answer = zstd::bulk::decompress(bytes, length as usize).ok()?;
            (answer.len() as u64 == length).then_some(answer)
        }
    }
}

fn checksum(key: &Key, length: i64, bytes: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(key).update(&length.to_le_bytes()).update(bytes).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_and_shrink_where_they_can() {
        let mut packer = Packer::default();
        for (answer, shrinks) in
            [(vec![], false), (b"{}".to_vec(), false), (b"{\"a\": 42} ".repeat(20), true)]
        {
            let packed = packer.pack(&[1; 32], answer.clone());
            assert_eq!(packed.bytes.len() < answer.len(), shrinks);
            assert_eq!(unpack(&[1; 32], packed.length, &packed.checksum, &packed.bytes), Some(answer));
        }
    }

    #[test]
    fn damage_anywhere_is_found() {
        let answer = b"{\"answer\": 42} ".repeat(20);
        let Packed { bytes, length, checksum } = Packer::default().pack(&[1; 32], answer);
        assert_eq!(unpack(&[2; 32], length, &checksum, &bytes), None);
        assert_eq!(unpack(&[1; 32], length + 1, &checksum, &bytes), None);
        assert_eq!(unpack(&[1; 32], length, &checksum[1..], &bytes), None);
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(unpack(&[1; 32], length, &checksum, &damaged), None, "byte {place}");
            assert_eq!(unpack(&[1; 32], length, &checksum, &bytes[..place]), None, "cut at {place}");
        }
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        let bytes = zstd::bulk::compress(&[b' '; 64], LEVEL).unwrap();
        for length in [-1, 63, 65, i64::MAX] {
            assert_eq!(
                unpack(&[1; 32], length, &checksum(&[1; 32], length, &bytes), &bytes),
                None,
                "{length}"
            );
        }
    }
}
