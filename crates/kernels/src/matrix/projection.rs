//! A layer's projections, with what is done to their results at once.

use super::scratch::Scratch;
#[cfg(target_arch = "x86_64")]
use super::tiles::{self, Sum};
use super::{Activations, Matrix};
#[cfg(target_arch = "x86_64")]
use crate::cpu::Level;
use crate::rows;

/// y = x · Wᵀ + (x · Aᵀ) · Bᵀ + bias, where the last two are there.
///
/// ```
/// use gradus_kernels::{Activations, Matrix, Precision, Projection};
/// let weights = Matrix::from_f32(1, 2, &[1.0, 2.0], Precision::F32);
/// let projection = Projection { weights: &weights, bias: Some(vec![0.5]), adapter: None };
/// let mut y = [10.0];
/// projection.add_to(&Activations::new(&[3.0, 4.0]), &mut y);
/// assert_eq!(y, [21.5]);
/// ```
pub struct Projection<'a> {
    /// W.
    pub weights: &'a Matrix,
    /// One value for each output.
    pub bias: Option<Vec<f32>>,
    /// A and B of a low-rank adapter.
    pub adapter: Option<(&'a Matrix, &'a Matrix)>,
}

impl Projection<'_> {
    /// Writes the projection to `y`.
    ///
    /// # Panics
    /// As [`Matrix::multiply`]; so for the others.
    pub fn apply(&self, x: &Activations<'_>, y: &mut [f32]) {
        self.apply_with(x, self.low(x).as_ref(), y);
    }

    /// [`Projection::apply`], given x · Aᵀ.
    fn apply_with(&self, x: &Activations<'_>, low: Option<&Activations<'_>>, y: &mut [f32]) {
        self.weights.multiply_shared(x, y);
        if let (Some((_, b)), Some(low)) = (self.adapter, low) {
            b.add_multiply_shared(low, y);
        }
        if let Some(bias) = &self.bias {
            rows::add_bias(y, bias);
        }
    }

    /// Adds the projection to `y`, with the bits of [`Projection::apply`] and an addition.
    pub fn add_to(&self, x: &Activations<'_>, y: &mut [f32]) {
        let low = self.low(x);
        #[cfg(target_arch = "x86_64")]
        if let Some(sum) = Sum::of(self, x, low.as_ref()) {
            return tiles::add_to(&sum, y);
        }
        let mut room = Scratch::with_bytes(y.len() * 4);
        let added = room.numbers(y.len());
        self.apply_with(x, low.as_ref(), added);
        rows::add(y, added);
    }

    /// silu(gate) · up, value by value, for the projection `next` and no other.
    pub fn gated(gate: &Self, up: &Self, x: &Activations<'_>, next: &Self) -> Activations<'static> {
        let outputs = gate.weights.rows();
        let count = x.count() / gate.weights.columns() * outputs;
        let lows = [gate.low(x), up.low(x)];
        #[cfg(target_arch = "x86_64")]
        if let Some(split) = Projection::rounding(&[next], count / outputs.max(1)) {
            let sums = (Sum::of(gate, x, lows[0].as_ref()), Sum::of(up, x, lows[1].as_ref()));
            if let (Some(gate), Some(up)) = sums {
                return Activations::rounded(tiles::gated([gate, up], split), count, split);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = next;
        let (mut values, mut room) = (vec![0.0; count], Scratch::with_bytes(count * 4));
        gate.apply_with(x, lows[0].as_ref(), &mut values);
        let factors = room.numbers(count);
        up.apply_with(x, lows[1].as_ref(), factors);
        rows::silu_mul_in_place(&mut values, factors);
        Activations::from_vec(values)
    }

    /// gelu(projection), value by value, for the projection `next` and no other.
    pub fn gelu(&self, x: &Activations<'_>, next: &Self) -> Activations<'static> {
        let outputs = self.weights.rows();
        let count = x.count() / self.weights.columns() * outputs;
        let low = self.low(x);
        #[cfg(target_arch = "x86_64")]
        if let Some(split) = Projection::rounding(&[next], count / outputs.max(1))
            && let Some(sum) = Sum::of(self, x, low.as_ref())
        {
            return Activations::rounded(tiles::gelu(&sum, split), count, split);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = next;
        let mut values = vec![0.0; count];
        self.apply_with(x, low.as_ref(), &mut values);
        rows::gelu(&mut values);
        Activations::from_vec(values)
    }

    /// x · Aᵀ.
    fn low(&self, x: &Activations<'_>) -> Option<Activations<'static>> {
        let (a, _) = self.adapter?;
        let mut low = vec![0.0; x.count() / a.columns() * a.rows()];
        a.multiply_shared(x, &mut low);
        Some(Activations::from_vec(low))
    }

    /// Whether so many rows for these projections may be kept rounded only, and then whether they have to be split.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn rounding(projections: &[&Projection<'_>], rows: usize) -> Option<bool> {
        let matrices = || {
            projections.iter().flat_map(|projection| {
                std::iter::once(projection.weights).chain(projection.adapter.map(|(a, _)| a))
            })
        };
        let is_rounded = !projections.is_empty()
            && rows > tiles::FEW_ROWS
            && matrices().all(|matrix| matrix.level == Level::Amx);
        is_rounded.then(|| matrices().any(tiles::splits))
    }
}
