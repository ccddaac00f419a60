//! The head of a GGUF file, versions 2 and 3: its metadata and the shapes of its tensors, for `show`.
//!
//! ```text
//! "GGUF" | version u32 | tensors u64 | entries u64
//! entry:  key string | type u32 | value          string: length u64, bytes    array: type u32, count u64, values
//! tensor: name string | dimensions u32 | u64 … | type u32 | offset u64
//! ```
//!
//! Arrays are measured, not kept. Every length is compared with what is left of the file before it is believed, so a
//! damaged file costs neither memory nor time. Weights are not touched; files of big-endian machines are not read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::{Error, Result};

/// A value of the metadata, as far as it is of use here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Text(String),
    /// An array with so many elements.
    Array(u64),
    Other,
}

/// What stands before the weights.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) entries: BTreeMap<String, Value>,
    /// Numbers in all tensors, by the type they are stored as.
    pub(super) parameters: BTreeMap<&'static str, u64>,
}

/// A string longer than this is no name and no chat template.
const LONGEST: u64 = 16 << 20;

struct Reader<'a> {
    path: &'a Path,
    file: BufReader<File>,
    left: u64,
}

/// Reads the head of a GGUF file.
pub(super) fn read(path: &Path) -> Result<Head> {
    let io = |error| Error::io(path, error);
    let file = File::open(path).map_err(io)?;
    let left = file.metadata().map_err(io)?.len();
    let mut reader = Reader { path, file: BufReader::new(file), left };
    if reader.bytes::<4>()? != *b"GGUF" {
        return Err(reader.broken("it does not begin with GGUF"));
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(reader.broken(&format!("version {version} is not read, only 2 and 3 are")));
    }
    let (tensors, entries) = (reader.u64()?, reader.u64()?);
    // The shortest tensor takes 24 bytes, the shortest entry 13.
    reader.expect(tensors, 24)?;
    reader.expect(entries, 13)?;
    let mut head = Head::default();
    for _ in 0..entries {
        let key = reader.text()?;
        let kind = reader.u32()?;
        let value = reader.value(kind, 0)?;
        head.entries.insert(key, value);
    }
    for _ in 0..tensors {
        let name = reader.length()?;
        reader.skip(name)?;
        let dimensions = reader.u32()?;
        let mut count = 1_u64;
        for _ in 0..dimensions {
            count = count.saturating_mul(reader.u64()?);
        }
        let kind = type_name(reader.u32()?);
        reader.skip(8)?;
        let sum = head.parameters.entry(kind).or_default();
        *sum = sum.saturating_add(count);
    }
    Ok(head)
}

impl Reader<'_> {
    fn broken(&self, message: &str) -> Error {
        Error::model(self.path, format!("not a GGUF file that can be read: {message}"))
    }

    /// Refuses a count of things that cannot fit into the rest of the file.
    fn expect(&self, count: u64, least: u64) -> Result<()> {
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.left => Ok(()),
            _ => Err(self.broken(&format!("it announces {count} items and ends after {} bytes", self.left))),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.expect(N as u64, 1)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|error| Error::io(self.path, error))?;
        self.left -= N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.expect(bytes, 1)?;
        let far = i64::try_from(bytes).map_err(|_| self.broken("a length is absurd"))?;
        // `seek_relative` keeps what is buffered.
        match self.file.seek_relative(far) {
            Ok(()) => self.left -= bytes,
            Err(error) => return Err(Error::io(self.path, error)),
        }
        Ok(())
    }

    fn length(&mut self) -> Result<u64> {
        let length = self.u64()?;
        self.expect(length, 1)?;
        Ok(length)
    }

    fn text(&mut self) -> Result<String> {
        let length = self.length()?;
        if length > LONGEST {
            return Err(self.broken(&format!("a string of {length} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes).map_err(|error| Error::io(self.path, error))?;
        self.left -= length;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value> {
        Ok(match kind {
            0 | 1 => Value::Number(u64::from(self.bytes::<1>()?[0])),
            2 | 3 => Value::Number(u64::from(u16::from_le_bytes(self.bytes()?))),
            4 | 5 => Value::Number(u64::from(self.u32()?)),
            10 | 11 => Value::Number(self.u64()?),
            8 => Value::Text(self.text()?),
            9 if depth < 4 => {
                let inner = self.u32()?;
                let count = self.u64()?;
                match (size_of(inner), inner) {
                    (Some(size), _) => {
                        self.expect(count, size)?;
                        self.skip(count * size)?;
                    }
                    (None, 8) => {
                        self.expect(count, 8)?;
                        for _ in 0..count {
                            let length = self.length()?;
                            self.skip(length)?;
                        }
                    }
                    (None, _) => {
                        self.expect(count, 12)?;
                        for _ in 0..count {
                            self.value(inner, depth + 1)?;
                        }
                    }
                }
                Value::Array(count)
            }
            other => match size_of(other) {
                Some(size) => {
                    self.skip(size)?;
                    Value::Other
                }
                None => return Err(self.broken(&format!("a value of the unknown type {other}"))),
            },
        })
    }
}

/// Bytes of a number.
fn size_of(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// ggml's names for how numbers are stored.
fn type_name(kind: u32) -> &'static str {
    const NAMES: [&str; 40] = [
        "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
        "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",
        "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "", "", "", "MXFP4",
    ];
    NAMES.get(kind as usize).copied().filter(|name| !name.is_empty()).unwrap_or("unknown")
}

impl Head {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.entries.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        match self.entries.get(key)? {
            Value::Number(number) | Value::Array(number) => Some(*number),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    /// A file with four entries and one tensor.
    pub(crate) fn tiny() -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(4_u64.to_le_bytes());
        text(&mut bytes, "general.architecture");
        bytes.extend(8_u32.to_le_bytes());
        text(&mut bytes, "llama");
        text(&mut bytes, "llama.block_count");
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(30_u32.to_le_bytes());
        text(&mut bytes, "tokenizer.ggml.tokens");
        bytes.extend(9_u32.to_le_bytes());
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(2_u64.to_le_bytes());
        text(&mut bytes, "a");
        text(&mut bytes, "bc");
        text(&mut bytes, "llama.rope.freq_base");
        bytes.extend(6_u32.to_le_bytes());
        bytes.extend(1.0_f32.to_le_bytes());
        text(&mut bytes, "token_embd.weight");
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(32_u64.to_le_bytes());
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> Result<Head> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read(file.path())
    }

    #[test]
    fn the_head_is_read() {
        let head = read_bytes(&tiny()).unwrap();
        assert_eq!(head.text("general.architecture"), Some("llama"));
        assert_eq!(head.number("llama.block_count"), Some(30));
        assert_eq!(head.number("tokenizer.ggml.tokens"), Some(2));
        assert_eq!(head.entries["llama.rope.freq_base"], Value::Other);
        assert_eq!(head.parameters.into_iter().collect::<Vec<_>>(), [("Q4_1", 64)]);
    }

    /// Every cut and every changed byte ends in an answer, soon and without much memory.
    #[test]
    fn damage_is_survived() {
        let whole = tiny();
        for length in 0..whole.len() {
            assert!(read_bytes(&whole[..length]).is_err(), "cut to {length}");
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] = 0xFF;
            let _ = read_bytes(&bytes);
        }
    }
}
