//! [`Precision`] in files: `#[serde(with = "gradus_engine::precision")]` on an optional field.
//!
//! Kernels know no serde, so its names are read and written here.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Precision;

/// Writes the name.
pub fn serialize<S: Serializer>(precision: &Option<Precision>, serializer: S) -> Result<S::Ok, S::Error> {
    precision.map(Precision::name).serialize(serializer)
}

/// Reads a name.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Precision>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let known = || D::Error::unknown_variant(&name, &["f32", "bf16x3", "bf16"]);
    name.parse().map(Some).map_err(|_| known())
}
