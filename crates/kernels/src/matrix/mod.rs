//! x
/// Bytes of a full AMX tile.
pub(crate) const TILE_BYTES: usize = 1024;
