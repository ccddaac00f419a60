//! A pair of answers whose equality is known, as `generate.py` writes it.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Pair {
    pub(super) gold: String,
    pub(super) answer: String,
    pub(super) equal: bool,
    pub(super) kind: String,
    pub(super) rule: String,
}
