//! Numbers of an answer: as JSON with no more digits than they have, or as their bytes in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::error::ApiError;

/// A vector, or rows of a matrix.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Numbers {
    Vector(Vec<f32>),
    Rows(Vec<Vec<f32>>),
    Base64(String),
}

impl Numbers {
    /// As `encoding_format` says.
    pub(crate) fn encoded(self, as_base64: bool) -> Self {
        let bytes = |values: &mut dyn Iterator<Item = &f32>| {
            Self::Base64(STANDARD.encode(values.flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()))
        };
        match self {
            Self::Vector(values) if as_base64 => bytes(&mut values.iter()),
            Self::Rows(rows) if as_base64 => bytes(&mut rows.iter().flatten()),
            plain => plain,
        }
    }
}

/// Whether `encoding_format` asks for base64.
pub(crate) fn wants_base64(format: Option<&str>) -> Result<bool, ApiError> {
    match format {
        None | Some("float") => Ok(false),
        Some("base64") => Ok(true),
        Some(other) => {
            Err(ApiError::invalid(format!("`encoding_format` is `{other}`: expected float or base64")))
        }
    }
}
