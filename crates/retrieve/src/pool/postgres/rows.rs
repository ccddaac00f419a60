//! Vectors on their way: as pgvector sends them, and as bytes.

use std::error::Error;

use bytes::{Buf, BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// What pgvector's `vector` holds at most.
pub(super) const MAX_DIMENSION: usize = 16_000;
/// What an index over `halfvec` takes at most.
pub(super) const MAX_INDEXED: usize = 4_000;

/// A vector as it is sent: dimensions and a zero in two bytes each, then the numbers, big-endian.
#[derive(Debug, Clone)]
pub(super) struct Vector(pub(super) Vec<f32>);

impl ToSql for Vector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u16(u16::try_from(self.0.len())?);
        out.put_u16(0);
        self.0.iter().for_each(|value| out.put_f32(*value));
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "vector"
    }

    to_sql_checked!();
}

impl FromSql<'_> for Vector {
    fn from_sql(_: &Type, mut bytes: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let length = usize::from(bytes.try_get_u16()?);
        bytes.try_get_u16()?;
        let (values, rest) = bytes.as_chunks();
        if values.len() != length || !rest.is_empty() {
            return Err("a vector of another length than it says".into());
        }
        Ok(Self(values.iter().map(|four| f32::from_be_bytes(*four)).collect()))
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "vector"
    }
}

/// Numbers in little-endian bytes.
pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

/// Their bytes.
pub(super) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
