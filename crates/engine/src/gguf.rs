//! GGUF files, versions 2 and 3, little-endian: metadata, a table of tensors, and the tensors' bytes.
//!
//! ```text
//! "GGUF" version:u32 tensors:u64 pairs:u64
//! pairs   × { key:string type:u32 value }                    string = length:u64 bytes
//! tensors × { name:string n:u32 shape:[u64; n] type:u32 offset:u64 }
//! padding to general.alignment, then the data that the offsets count from
//! ```
//!
//! The file is mapped, not read, so quantized weights are used where they lie. Every length in the file is checked
//! against the file's size before anything is allocated for it. Left out: version 1, big-endian files, the IQ and
//! TQ families of quantization, and files split into shards.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// An open GGUF file.
#[derive(Debug, Clone)]
pub struct Gguf {
    path: PathBuf,
    bytes: Arc<Mmap>,
    /// The key-value pairs; [`Gguf::get`] and [`Gguf::find`] read them as a type.
    pub(crate) metadata: BTreeMap<String, Value>,
    /// The tensors by name.
    pub(crate) tensors: BTreeMap<String, TensorInfo>,
}

/// A metadata value; integers of all widths are one kind here, and so are floats.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Any of the eight integer types.
    Int(i128),
    /// `f32` or `f64`.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// An array, which stays in the file until it is read.
    Array(Array),
}

/// Where an array lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    kind: u32,
    len: usize,
    range: Range<usize>,
}

impl Array {
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// One tensor's type, shape and range of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    /// Outermost dimension first: the reverse of the order in the file.
    pub(crate) shape: Vec<usize>,
    /// How the elements are stored.
    pub(crate) kind: TensorKind,
    /// Its bytes in the file.
    pub(crate) range: Range<usize>,
}

macro_rules! tensor_kinds {
    ($($name:ident = $id:literal, $block:literal elements in $bytes:literal bytes;)*) => {
        /// How a tensor's elements are stored, under ggml's names.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum TensorKind { $($name = $id),* }

        impl TensorKind {
            /// The kind with ggml's type number `id`.
            pub(crate) fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$name),)* _ => None }
            }

            /// Elements that are stored together.
            pub(crate) fn block_len(self) -> usize {
                match self { $(Self::$name => $block),* }
            }

            /// Bytes of one such block.
            pub(crate) fn block_bytes(self) -> usize {
                match self { $(Self::$name => $bytes),* }
            }
        }
    };
}

tensor_kinds! {
    F32 = 0, 1 elements in 4 bytes;
    F16 = 1, 1 elements in 2 bytes;
    Q4_0 = 2, 32 elements in 18 bytes;
    Q4_1 = 3, 32 elements in 20 bytes;
    Q5_0 = 6, 32 elements in 22 bytes;
    Q5_1 = 7, 32 elements in 24 bytes;
    Q8_0 = 8, 32 elements in 34 bytes;
    Q8_1 = 9, 32 elements in 36 bytes;
    Q2_K = 10, 256 elements in 84 bytes;
    Q3_K = 11, 256 elements in 110 bytes;
    Q4_K = 12, 256 elements in 144 bytes;
    Q5_K = 13, 256 elements in 176 bytes;
    Q6_K = 14, 256 elements in 210 bytes;
    Q8_K = 15, 256 elements in 292 bytes;
    I8 = 24, 1 elements in 1 bytes;
    I16 = 25, 1 elements in 2 bytes;
    I32 = 26, 1 elements in 4 bytes;
    I64 = 27, 1 elements in 8 bytes;
    F64 = 28, 1 elements in 8 bytes;
    BF16 = 30, 1 elements in 2 bytes;
}

impl Gguf {
    /// Maps the file and reads its header.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        // SAFETY: the map is read-only. A model file must not be rewritten while a process runs it; that holds for
        // every program that maps weights, and there is no portable lock that would enforce it.
        #[allow(unsafe_code)]
        let bytes = unsafe { Mmap::map(&file) }.map_err(|source| Error::io(path, source))?;
        let (metadata, tensors) = parse(&bytes).map_err(|message| Error::model(path, message))?;
        Ok(Self { path: path.to_owned(), bytes: Arc::new(bytes), metadata, tensors })
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole mapped file.
    pub(crate) fn bytes(&self) -> &Arc<Mmap> {
        &self.bytes
    }

    /// The value of `key`, which must be there.
    pub(crate) fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.find(key)?.ok_or_else(|| Error::model(&self.path, format!("the metadata have no `{key}`")))
    }

    /// The value of `key`, if there is one; one of another type is an error.
    pub(crate) fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match T::from_value(value, &self.bytes) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("`{key}` should be {}, but is {}", T::EXPECTED, value.describe());
                Err(Error::model(&self.path, message))
            }
        }
    }

    /// The tensor called `name`, which must be there.
    pub(crate) fn tensor(&self, name: &str) -> Result<&TensorInfo> {
        let missing = || Error::model(&self.path, format!("there is no tensor `{name}`"));
        self.tensors.get(name).ok_or_else(missing)
    }
}

/// A type that metadata can be read as: `&str`, `bool`, `f32`, `u32`, `u64`, `usize`, `i64`, and vectors of
/// `&str`, `f32`, `u64` and `i64`.
pub(crate) trait FromValue<'a>: Sized {
    /// The type in words.
    const EXPECTED: &'static str;
    /// The value as this type; `None` when it is of another type or out of range.
    fn from_value(value: &'a Value, file: &'a [u8]) -> Option<Self>;
}

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl FromValue<'_> for $int {
            const EXPECTED: &'static str = concat!("an integer (", stringify!($int), ")");
            fn from_value(value: &Value, _: &[u8]) -> Option<Self> {
                match value { Value::Int(int) => (*int).try_into().ok(), _ => None }
            }
        }
    )*};
}
from_int!(u32, u64, usize, i64);

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "true or false";
    fn from_value(value: &Value, _: &[u8]) -> Option<Self> {
        match value {
            Value::Bool(bool) => Some(*bool),
            _ => None,
        }
    }
}

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "a number";
    fn from_value(value: &Value, _: &[u8]) -> Option<Self> {
        match value {
            Value::Float(float) => Some(*float as f32),
            Value::Int(int) => Some(*int as f32),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "text";
    fn from_value(value: &'a Value, _: &'a [u8]) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for Vec<&'a str> {
    const EXPECTED: &'static str = "an array of texts in UTF-8";
    fn from_value(value: &'a Value, file: &'a [u8]) -> Option<Self> {
        let Value::Array(array) = value else { return None };
        if array.kind != STRING {
            return None;
        }
        let mut reader = Reader { bytes: &file[..array.range.end], at: array.range.start };
        (0..array.len).map(|_| reader.text("an array's text").ok()).collect()
    }
}

macro_rules! from_array {
    ($($element:ty: $expected:literal),*) => {$(
        impl FromValue<'_> for Vec<$element> {
            const EXPECTED: &'static str = $expected;
            fn from_value(value: &Value, file: &[u8]) -> Option<Self> {
                let Value::Array(array) = value else { return None };
                scalar_bytes(array.kind)?;
                let mut reader = Reader { bytes: &file[..array.range.end], at: array.range.start };
                let mut element = || {
                    let value = reader.value(array.kind, 0).ok()?;
                    <$element>::from_value(&value, file)
                };
                (0..array.len).map(|_| element()).collect()
            }
        }
    )*};
}
from_array!(f32: "an array of numbers", u64: "an array of counts", i64: "an array of integers");

impl Value {
    fn describe(&self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => float.to_string(),
            Self::Bool(bool) => bool.to_string(),
            Self::Text(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
            Self::Array(array) => format!("an array of {} {}", array.len, type_name(array.kind)),
        }
    }
}

/// Errors below are sentences without the path, which [`Gguf::open`] adds.
type Parsed<T> = std::result::Result<T, String>;
type Header = (BTreeMap<String, Value>, BTreeMap<String, TensorInfo>);

fn parse(bytes: &[u8]) -> Parsed<Header> {
    let mut reader = Reader { bytes, at: 0 };
    let magic = bytes.get(..4).ok_or_else(|| format!("{} bytes are too few for a GGUF file", bytes.len()))?;
    if magic != b"GGUF" {
        return Err(format!(
            "not a GGUF file: it starts with {:?}, not \"GGUF\"",
            String::from_utf8_lossy(magic)
        ));
    }
    reader.at = 4;
    match reader.u32("the version")? {
        2 | 3 => {}
        other if matches!(other.swap_bytes(), 1..=3) => {
            return Err("a big-endian GGUF file; only little-endian ones are read".into());
        }
        other => return Err(format!("GGUF version {other}; only versions 2 and 3 are read")),
    }
    let tensor_count = reader.u64("the number of tensors")?;
    let pair_count = reader.u64("the number of metadata pairs")?;

    let mut metadata = BTreeMap::new();
    for index in 0..pair_count {
        let key = reader.text(&format!("the key of metadata pair {index} of {pair_count}"))?.to_owned();
        let kind = reader.u32(&key)?;
        let value = reader.value(kind, 0).map_err(|why| format!("metadata `{key}`: {why}"))?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("the metadata have `{key}` twice"));
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Value::Int(n @ 1..=0x1_0000)) if (*n as usize).is_power_of_two() => *n as usize,
        Some(other) => return Err(format!("general.alignment is {}, not a power of two", other.describe())),
    };

    let mut infos = Vec::new();
    for index in 0..tensor_count {
        let name = reader.text(&format!("the name of tensor {index} of {tensor_count}"))?;
        infos.push((name, reader.tensor(name).map_err(|why| format!("tensor `{name}`: {why}"))?));
    }
    // The padding may be missing when there are no tensors behind it.
    let start = reader.at.next_multiple_of(alignment);
    let mut tensors = BTreeMap::new();
    for (name, (shape, kind, size, offset)) in infos {
        let range = usize::try_from(offset)
            .ok()
            .and_then(|offset| start.checked_add(offset))
            .and_then(|from| Some(from..from.checked_add(size)?))
            .filter(|range| range.end <= bytes.len())
            .ok_or_else(|| {
                let len = bytes.len();
                let range = format!("{size} bytes at {start} + {offset}, beyond the file's {len}");
                format!("cut short or corrupt: tensor `{name}` takes {range}")
            })?;
        if tensors.insert(name.to_owned(), TensorInfo { shape, kind, range }).is_some() {
            return Err(format!("there are two tensors `{name}`"));
        }
    }
    Ok((metadata, tensors))
}

const STRING: u32 = 8;
const ARRAY: u32 = 9;

fn type_name(kind: u32) -> &'static str {
    const NAMES: [&str; 13] =
        ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "array", "u64", "i64", "f64"];
    NAMES.get(kind as usize).copied().unwrap_or("of an unknown type")
}

fn scalar_bytes(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// A position in the file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: u64, what: &str) -> Parsed<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        let n = usize::try_from(n).ok().filter(|n| *n <= left).ok_or_else(|| {
            format!(
                "cut short or corrupt: {what} takes {n} bytes at offset {}, where {left} are left",
                self.at
            )
        })?;
        let taken = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Parsed<[u8; N]> {
        Ok(self.take(N as u64, what)?.try_into().expect("take gives as many bytes as asked"))
    }

    fn u32(&mut self, what: &str) -> Parsed<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Parsed<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn text(&mut self, what: &str) -> Parsed<&'a str> {
        let len = self.u64(what)?;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))
    }

    fn value(&mut self, kind: u32, depth: usize) -> Parsed<Value> {
        const WHAT: &str = "the value";
        Ok(match kind {
            0 => Value::Int(u8::from_le_bytes(self.array(WHAT)?).into()),
            1 => Value::Int(i8::from_le_bytes(self.array(WHAT)?).into()),
            2 => Value::Int(u16::from_le_bytes(self.array(WHAT)?).into()),
            3 => Value::Int(i16::from_le_bytes(self.array(WHAT)?).into()),
            4 => Value::Int(u32::from_le_bytes(self.array(WHAT)?).into()),
            5 => Value::Int(i32::from_le_bytes(self.array(WHAT)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array(WHAT)?).into()),
            7 => Value::Bool(self.array::<1>(WHAT)? != [0]),
            STRING => Value::Text(self.text(WHAT)?.to_owned()),
            ARRAY => Value::Array(self.array_value(depth)?),
            10 => Value::Int(u64::from_le_bytes(self.array(WHAT)?).into()),
            11 => Value::Int(i64::from_le_bytes(self.array(WHAT)?).into()),
            12 => Value::Float(f64::from_le_bytes(self.array(WHAT)?)),
            other => return Err(format!("unknown value type {other}")),
        })
    }

    /// Steps over an array, so that its length is known to be true.
    fn array_value(&mut self, depth: usize) -> Parsed<Array> {
        if depth > 4 {
            return Err("arrays are nested more than four deep".into());
        }
        let kind = self.u32("the array's type")?;
        let len = self.u64("the array's length")?;
        let start = self.at;
        match (kind, scalar_bytes(kind)) {
            (_, Some(size)) => {
                self.take(len.saturating_mul(size as u64), "the array")?;
            }
            (STRING, _) => {
                for _ in 0..len {
                    let len = self.u64("an array's text")?;
                    self.take(len, "an array's text")?;
                }
            }
            (ARRAY, _) => {
                for _ in 0..len {
                    self.array_value(depth + 1)?;
                }
            }
            _ => return Err(format!("an array of unknown type {kind}")),
        }
        // Every element takes at least a byte of the file, so the length fits.
        Ok(Array { kind, len: len as usize, range: start..self.at })
    }

    /// Shape, kind, size in bytes and offset of a tensor.
    fn tensor(&mut self, name: &str) -> Parsed<(Vec<usize>, TensorKind, usize, u64)> {
        let dimensions = self.u32(name)?;
        if dimensions > 8 {
            return Err(format!("{dimensions} dimensions"));
        }
        let mut shape = Vec::with_capacity(dimensions as usize);
        for _ in 0..dimensions {
            let n = self.u64(name)?;
            // With a 0 among them, the others would be bounded by nothing in the file.
            let dimension = usize::try_from(n).ok().filter(|n| *n > 0);
            shape.push(dimension.ok_or_else(|| format!("a dimension of {n}"))?);
        }
        let id = self.u32(name)?;
        let offset = self.u64(name)?;
        let kind = TensorKind::from_id(id).ok_or_else(|| unsupported(id))?;
        let row = shape.first().copied().unwrap_or(1);
        if !row.is_multiple_of(kind.block_len()) {
            return Err(format!("rows of {row} elements do not divide into {kind:?}'s blocks"));
        }
        let elements = shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
        let size = elements
            .and_then(|n| (n / kind.block_len()).checked_mul(kind.block_bytes()))
            .ok_or_else(|| format!("a shape of {shape:?}, more than fits in memory"))?;
        shape.reverse();
        Ok((shape, kind, size, offset))
    }
}

fn unsupported(id: u32) -> String {
    const OTHERS: [(u32, &str); 13] = [
        (16, "IQ2_XXS"),
        (17, "IQ2_XS"),
        (18, "IQ3_XXS"),
        (19, "IQ1_S"),
        (20, "IQ4_NL"),
        (21, "IQ3_S"),
        (22, "IQ2_S"),
        (23, "IQ4_XS"),
        (29, "IQ1_M"),
        (34, "TQ1_0"),
        (35, "TQ2_0"),
        (39, "MXFP4"),
        (40, "NVFP4"),
    ];
    match OTHERS.iter().find(|(other, _)| *other == id) {
        Some((_, name)) => {
            format!("stored as {name} (type {id}), which is not supported; take a Q4_K_M or Q8_0 file")
        }
        None => format!("unknown type {id}"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
