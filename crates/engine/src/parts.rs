//! The parts of a model, for those who train them.

pub use crate::attention::{Attended, Heads, Plan};
pub use crate::decoder::{Decoder, Layer, Pass};
pub use crate::head::Head;
pub use crate::linear::{Linear, Lora};

pub use crate::weights::Weight;
