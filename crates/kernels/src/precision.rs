//! How exactly products are computed.

/// The number format of the factors in a product. Sums are always kept in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Factors stay f32.
    F32,
    /// Factors may be rounded to bfloat16 where the processor multiplies those faster.
    Bf16,
}
